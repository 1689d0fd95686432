"""`Barrier`: opens exactly when every member has arrived for that epoch."""

from __future__ import annotations

from amaranth import Const, Signal

from hdl.accelerator.barrier import EPOCH_BITS, Barrier

from .proof import Fault, Proof
from .sizes import THREE_OF_TENANTS, TINY, describe
from .specification import Specification

__all__ = ["PROOFS"]


class BarrierContract(Specification):
    """A barrier against the arrivals for one epoch, whichever it is.

    Where some ranks may be members, they are any in each cycle: also none, and others than before.
    """

    def __init__(self, config):
        super().__init__(Barrier(config))
        self._ranks = config.ranks
        self._subsets = config.subsets

    def specify(self, m):
        barrier = self.component
        epoch = self.any_constant(EPOCH_BITS, "epoch")
        current = barrier.epoch == epoch
        # A sum is a bit wider than its terms, but epochs wrap.
        coming = (barrier.epoch + 1)[:EPOCH_BITS] == epoch
        # Nothing is assumed of `take`: an operation may be launched to fail, whoever has arrived.
        members = barrier.members if self._subsets else Const(-1, self._ranks)

        came = Signal(self._ranks)  # who arrived for it and was not refused
        for rank in range(self._ranks):
            arrives = barrier.arrive[rank] & (barrier.epochs[rank] == epoch)
            with m.If(arrives & ~barrier.refused[rank]):
                m.d.sync += came[rank].eq(1)
            self.always(
                f"refuses_a_second_arrival_of_rank_{rank}",
                barrier.refused[rank] == (came[rank] | ~members[rank]),
                "An arrival for the current or the next epoch is refused if it is the rank's "
                "second one for it, or the rank is no member, and only then.",
                when=arrives & (current | coming),
                trace=arrives & coming & came[rank],
            )
            self.always(
                f"refuses_other_epochs_of_rank_{rank}",
                barrier.refused[rank],
                "An arrival for any other epoch is refused.",
                when=arrives & ~current & ~coming,
            )
            self._refuse_strangers(rank, members[rank])
        with m.If(barrier.take & current):
            m.d.sync += came.eq(0)
        if self._subsets:
            self._choose(barrier, came, members, current, coming)

        self.always(
            "opens_exactly_when_all_arrived",
            barrier.complete == (((members & ~came) == 0) & (members != 0)),
            "While an epoch is current, the barrier is complete if every member has arrived for "
            "it, in this epoch or in the one before, and only then; without members it never is.",
            when=current,
            trace=current & barrier.complete & (epoch == 3),
        )
        self.always(
            "epoch_counts_operations",
            barrier.epoch
            == (
                self.past(barrier.epoch, name="epoch", init=1)
                + self.past(barrier.take, name="take")
            )[:EPOCH_BITS],
            "The epoch goes up by one as an operation starts, and at no other time.",
            trace=self.past(barrier.take, name="taken"),
        )
        self.lemma("current_bits", ~current | (barrier.arrived == came))
        early = barrier.early if self._subsets else self.inside.signal("early")
        self.lemma("early_bits", ~coming | (early == came))
        self.lemma("no_other_bits", current | coming | (came == 0))

    def _refuse_strangers(self, rank, member):
        """An arrival of a rank that is no member; without subsets there is none."""
        if not self._subsets:
            return
        barrier = self.component
        self.always(
            f"refuses_rank_{rank}_where_it_is_no_member",
            barrier.refused[rank],
            "An arrival of a rank that is no member is refused, whatever epoch it names.",
            when=barrier.arrive[rank] & ~member,
        )

    def _choose(self, barrier, came, members, current, coming):
        """What is said of some members, and of who came early."""
        self.always(
            "opens_for_some_of_the_ranks",
            barrier.complete,
            "Who is no member is not waited for.",
            when=current & (members != 0) & (members == came),
            trace=current & barrier.complete & ~members.all() & (barrier.epoch == 2),
        )
        self.always(
            "tells_who_came_early",
            barrier.early == came,
            "`early` are those who have arrived for the next epoch and were not refused.",
            when=coming,
            trace=coming & came.any(),
        )


PROOFS = [
    Proof(
        name="barrier",
        component="Barrier",
        size=describe(TINY),
        specify=lambda: BarrierContract(TINY),
        solver="z3",
        fault_depth=6,
        faults=(
            Fault("early arrivals are lost", "early", lambda early: early & 0),
            Fault("rank 0 need not arrive", "arrived", lambda arrived: arrived | 1),
            Fault("nothing is refused", "refused", lambda refused: refused & 0),
            Fault("the epoch stays", "next_epoch", lambda epoch: epoch - 1),
        ),
    ),
    Proof(
        name="barrier-of-members",
        component="Barrier",
        size=describe(THREE_OF_TENANTS),
        specify=lambda: BarrierContract(THREE_OF_TENANTS),
        solver="z3",
        fault_depth=6,
        faults=(
            Fault("the highest member is ignored", "arrived", lambda arrived: arrived | 4),
            Fault("who is no member is let in", "refused", lambda refused: refused & 0),
            Fault("opens without members", "complete", lambda complete: complete | 1),
            Fault("early arrivals are lost", "early", lambda early: early & 0),
        ),
    ),
]
