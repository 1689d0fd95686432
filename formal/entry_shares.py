"""`EntryShares`: no entry is in two contexts' shares, and none changes hands while it is in use."""

from __future__ import annotations

from unittest import mock

from amaranth import Array, Cat, Const, Signal

from hdl.accelerator import entry_shares
from hdl.accelerator.entry_shares import SETTLING, EntryShares

from .proof import Fault, Proof
from .sizes import THREE_CONTEXTS, describe
from .specification import Specification

__all__ = ["PROOFS"]

#: Cycles in which contexts give their entries back: few enough for a trace to come to their end.
PATIENCE = 4


class EntrySharesContract(Specification):
    """Shares of two contexts, whichever they are, while contexts are enabled as one likes."""

    def __init__(self, config):
        self._config = config
        with mock.patch.object(entry_shares, "PATIENCE", PATIENCE):
            super().__init__(EntryShares(config))

    def specify(self, m):
        shares, contexts, waves = self.component, self._config.contexts, self._config.waves
        uses = Signal(contexts)
        m.d.comb += uses.eq(Cat(reading != 0 for reading in shares.reading))
        # `WaveController` takes nothing while it is held.
        free = self.past(shares.hold & ~uses, name="held_without_entries")
        self.assume("held_ones_take_none", (free & uses) == 0)
        one, other = (self.any_constant(range(contexts), name) for name in ("one", "other"))
        self.assume("two_contexts", (one < contexts) & (other < contexts) & (one != other))
        base, share = Array(shares.base)[one], Array(shares.share)[one]
        first, count = Array(shares.base)[other], Array(shares.share)[other]
        empty = (share == 0) | (count == 0)
        self.always(
            "shares_do_not_overlap",
            empty | (base + share <= first) | (first + count <= base),
            "No entry lies in the shares of two contexts.",
            trace=~empty & (base > first),
        )
        self.always(
            "shares_are_entries",
            base + share <= waves,
            "A share's entries are of those that there are.",
            trace=share == waves,
        )
        total = sum(shares.share)
        self.always(
            "shares_are_no_more_than_there_is",
            total <= waves,
            "All shares together are no more than all entries.",
            trace=total == waves,
        )
        enabled = shares.enabled.bit_select(one, 1)
        settled = Signal()
        m.d.comb += settled.eq(shares.hold == 0)
        even = Array([Const(0)] + [Const(waves // many) for many in range(1, contexts + 1)])
        self.always(
            "each_enabled_context_has_an_even_share",
            (share == even[sum(shares.enabled)]) & (share != 0),
            "While no context is held, each one that is enabled has as many entries as any other, "
            "and at least one.",
            when=settled & enabled,
            trace=settled & enabled & shares.enabled.all(),
        )
        self.always(
            "others_have_none",
            share == 0,
            "While no context is held, one that is not enabled has no entries.",
            when=settled & ~enabled,
        )
        self._change(base, share, uses)
        self._hold(m, uses)

    def _change(self, base, share, uses):
        shares = self.component
        changed = (self.past(base, name="base") != base) | (self.past(share, name="share") != share)
        held = self.past(shares.hold.all(), name="all_held") & shares.hold.all()
        used = self.past(uses.any(), name="used") | uses.any()
        self.always(
            "shares_change_while_all_are_held_and_none_is_used",
            held & ~used,
            "A share changes only in a cycle in which, and before which, every context is held and "
            "no entry is taken.",
            when=changed,
        )
        divided = self.inside.signal("divided")
        inner = self.inside.signal("settled")
        divided_before = self.past(divided, name="divided")
        same = self.past(shares.enabled == divided, name="same")
        # A register's look at what is a cycle ago.
        self.lemma("settled", inner[0] == same)
        self.lemma("settled_before", ~inner[1] | self.past(same, name="was_same"))
        many = sum(divided_before)
        even = Array(
            [Const(0)]
            + [
                Const(self._config.waves // number)
                for number in range(1, self._config.contexts + 1)
            ]
        )[many]
        for context in range(self._config.contexts):
            mine = divided_before[context]
            below = sum(divided_before[index] for index in range(context))
            self.lemma(f"share_{context}", shares.share[context] == (even & mine.replicate(8)))
            place = (even * below)[:8] & mine.replicate(8)
            self.lemma(f"base_{context}", shares.base[context] == place)
        changes = divided != divided_before
        self.lemma("changes_with_nothing_used", ~changes | ~uses.any())
        self.lemma("changes_while_held", ~changes | self.past(shares.hold.all(), name="held_then"))

    def _hold(self, m, uses):
        """How long all are held, and who is held longer."""
        shares = self.component
        stays = self.past(shares.enabled, name="enabled") == shares.enabled
        streak = Signal(range(PATIENCE + 16))
        with m.If(~shares.hold.all() | ~stays | uses.all()):
            m.d.sync += streak.eq(0)
        with m.Else():
            m.d.sync += streak.eq(streak + 1)
        self.always(
            "a_change_takes_a_bounded_time_from_who_has_nothing",
            streak <= PATIENCE + SETTLING + 1,
            "Unless contexts are enabled or disabled anew, a context that has no entries is held "
            "at a time for no more than `PATIENCE` cycles and three more.",
            trace=streak >= PATIENCE,
        )
        stuck, cycles = self.inside.signal("stuck"), self.inside.signal("cycles")
        divided, settled = self.inside.signal("divided"), self.inside.signal("settled")
        same = shares.enabled == divided
        self.lemma("cycles_are_few", cycles < PATIENCE)
        self.lemma("all_are_stuck", ~stuck.all() | (streak == 0))
        self.lemma("waits", ~stays | same | stuck.any() | (streak <= cycles + 1))
        settles = streak <= PATIENCE + 1 + settled[0]
        self.lemma("settles", ~stays | ~same | settled.all() | stuck.any() | settles)
        self.always(
            "who_is_held_alone_has_entries",
            shares.hold == self.past(shares.hold & uses, name="held_users"),
            "When only some are held, they are those that have not given their entries back.",
            when=(shares.hold != 0)
            & ~shares.hold.all()
            & self.past(shares.hold.any() & ~shares.hold.all(), name="some_held"),
        )


PROOFS = [
    Proof(
        name="entry-shares",
        component="EntryShares",
        size=f"{describe(THREE_CONTEXTS)}, patience of {PATIENCE} cycles",
        specify=lambda: EntrySharesContract(THREE_CONTEXTS),
        depth=4,
        faults=(
            Fault("shares are cut from the lowest entry on", "base__1", lambda base: base & 0),
            Fault("an entry that is taken changes hands", "divided", lambda divided: divided | 1),
            Fault("nobody is held", "hold", lambda hold: hold & 0),
            Fault("all are held for ever", "stuck", lambda stuck: stuck & 0),
        ),
    )
]
