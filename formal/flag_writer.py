"""`FlagWriter`: each member's flag once an operation, after its last acknowledgement."""

from __future__ import annotations

from amaranth import Cat, Const, Mux, Signal

from hdl.accelerator.address_check import FLAG_BYTES
from hdl.accelerator.flag_writer import FlagWriter
from hdl.accelerator.layouts import FLAG_TAG, operation_slots, slot_bits

from .proof import Fault, Proof
from .sizes import SMALL, THREE_OF_TENANTS, describe
from .specification import Specification

__all__ = ["PROOFS"]


class FlagWriterContract(Specification):
    """A flag writer against the operations that are over.

    Where contexts recover, ports are told to hold or to skip in any cycle, as one likes.
    """

    def __init__(self, config):
        self._context = config.contexts - 1
        super().__init__(FlagWriter(config, context=self._context))
        self._config = config

    def specify(self, m):
        flags, ranks = self.component, self._config.ranks
        most = operation_slots(self._config)
        over = Signal(range(most + 2))  # operations that are over, whose flags are not all sent
        m.d.sync += over.eq(over + flags.over - flags.retire)
        # At most one waits a slot.
        self.assume("slots_are_few", ~flags.over | (over < most))
        self._follow(m, over)
        everyone = Const(-1, ranks)
        recovers = self._config.recovers
        members = flags.members if self._config.subsets else everyone
        held, skipped = (flags.hold, flags.skip) if recovers else (Const(0, ranks),) * 2
        # A context's members change while it is idle.
        member_before = self.past(members, name="members")
        self.assume(
            "members_stay_while_flags_wait",
            ~self.past(flags.sending, name="sent_flags") | (members == member_before),
        )
        heads_sent, payloads_sent = Signal(ranks), Signal(ranks)
        for rank, port in enumerate(flags.o):
            head_taken = port.head.valid & port.head.ready
            payload_taken = port.payload.valid & port.payload.ready
            with m.If(flags.retire):
                m.d.sync += [heads_sent[rank].eq(0), payloads_sent[rank].eq(0)]
            with m.Else():
                m.d.sync += [
                    heads_sent[rank].eq(heads_sent[rank] | head_taken),
                    payloads_sent[rank].eq(payloads_sent[rank] | payload_taken),
                ]
            # A transmitter takes a packet's payload behind its head.
            self.assume(f"payload_follows_head_{rank}", ~port.payload.ready | heads_sent[rank])
            self._send(rank, port, over, heads_sent[rank], payloads_sent[rank])
            goes = members[rank] & ~held[rank] & ~skipped[rank]
            self._choose(rank, port, heads_sent[rank], payloads_sent[rank], members[rank], goes)
        payloads_now = payloads_sent | Cat(
            port.payload.valid & port.payload.ready for port in flags.o
        )
        spared = Signal(ranks)  # that get no flag of this operation, as things are
        m.d.comb += spared.eq(~members | (skipped & ~heads_sent))
        at_hand = Signal()  # an operation's addresses have been asked for
        m.d.comb += at_hand.eq(self.past(flags.sending & ~flags.retire, name="waits"))
        all_sent = ((payloads_now & heads_sent) | spared).all()
        self.always(
            "retires_when_all_flags_are_sent",
            all_sent & (over != 0) & ((heads_sent & ~payloads_now) == 0),
            "An operation's slot is given back only when every member has taken its flag, or is to "
            "get none; no flag is cut off.",
            when=flags.retire,
        )
        self.always(
            "retires_once_all_flags_are_sent",
            flags.retire,
            "An operation's slot is given back in the cycle in which nobody has to take a flag any "
            "more.",
            when=at_hand & all_sent,
            trace=at_hand & all_sent & (over > 1),
        )
        if recovers:
            self._recover(members, heads_sent, payloads_now, spared, at_hand)
        looked_up = self.inside.signal("looked_up")
        self.lemma("at_hand", looked_up == at_hand)
        self.lemma("begun", self.inside.signal("begun") == heads_sent)
        self.lemma("sent", self.inside.signal("sent") == payloads_sent)
        self.lemma("looks_up_what_is_over", ~looked_up | (over != 0))
        self.lemma("sends_what_was_looked_up", looked_up | (heads_sent == 0))
        self.lemma("payloads_are_behind_heads", (payloads_sent & ~heads_sent) == 0)
        self.lemma("over_is_bounded", over <= operation_slots(self._config))
        self.lemma("over_waits", self.inside.signal("waiting.level") == over)

    def _recover(self, members, heads_sent, payloads_now, spared, at_hand):
        """What is said of flags that are not sent."""
        flags = self.component
        missed = members & ~payloads_now
        self.always(
            "tells_who_has_missed_a_flag",
            flags.missed == missed,
            "As an operation's slot is given back, `missed` are the members who were sent no flag.",
            when=flags.retire,
            trace=flags.retire & (missed != 0) & (missed != members),
        )
        late = members & ~payloads_now & ~spared
        self.always(
            "tells_whose_flag_is_late",
            flags.late == Mux(at_hand, late, 0),
            "`late` are the members who are to get a flag and have not taken it, those who are "
            "held, too.",
            trace=at_hand & (late != 0) & (late != members) & ~flags.retire,
        )

    def _choose(self, rank, port, head_sent, payload_sent, member, goes):
        """Who gets a flag, where some may not."""
        if not self._config.subsets:
            return
        self.always(
            f"flags_only_for_members_at_port_{rank}",
            member & goes,
            "A flag is offered only to a member, and not while it is held or skipped.",
            when=port.head.valid,
        )
        self.always(
            f"no_flag_word_for_others_at_port_{rank}",
            member & (head_sent | goes),
            "A flag's word is offered only to a member, and if it has not begun, not while it is "
            "held or skipped.",
            when=port.payload.valid,
        )
        self.always(
            f"a_flag_that_has_begun_goes_on_at_port_{rank}",
            port.payload.valid,
            "A flag whose head was taken is sent to its end, held, skipped or not.",
            when=head_sent & ~payload_sent,
            trace=head_sent & ~payload_sent & ~goes,
        )

    def _send(self, rank, port, over, head_sent, payload_sent):
        flags = self.component
        word = Cat(flags.epoch, flags.code, flags.rank, Const(0, 4))
        word = Cat(word, Const(self._context, 8), Const(0, 8))
        copies = Cat([word] * (self._config.flit_bytes // FLAG_BYTES))
        tag = Const(FLAG_TAG | self._context << slot_bits(self._config), 16)
        held = (flags.hold | flags.skip)[rank] if self._config.recovers else 0
        self.always(
            f"no_flag_before_the_end_at_port_{rank}",
            (over != 0) & ~head_sent,
            "A flag is offered only for an operation that is over, which is after the last "
            "acknowledgement of its last wave, and once.",
            when=port.head.valid,
        )
        self.always(
            f"no_flag_word_before_the_end_at_port_{rank}",
            (over != 0) & ~payload_sent & (port.payload.payload.data == copies),
            "A flag's word is offered only for an operation that is over, and once, with the "
            "operation's epoch, how it ended, and the context.",
            when=port.payload.valid & port.payload.ready,
        )
        self.always(
            f"flag_goes_to_its_address_at_port_{rank}",
            (port.head.payload.header.address == flags.flags[rank])
            & (port.head.payload.header.tag == (tag | flags.slot))
            & (port.head.payload.header.context == self._context)
            & (self.past(flags.slot, name=f"slot_{rank}") == flags.slot)
            & self.past(over != 0, name=f"over_{rank}"),
            "A flag is offered one cycle after its operation's addresses are asked for, so those "
            "at hand are its own.",
            when=port.head.valid,
        )
        self.always(
            f"flag_head_waits_at_port_{rank}",
            port.head.valid,
            "A flag's head that was not taken is offered again, unless it is held or skipped now.",
            when=self.offer_waits(port.head, f"head_{rank}") & ~held,
        )

    def _follow(self, m, over):
        """One operation that is over, whichever it is."""
        flags = self.component
        following = Signal()
        slot = Signal.like(flags.slot, name="followed_slot")
        waves = Signal.like(flags.waves, name="followed_waves")
        ahead = Signal.like(over)
        begins = flags.over & ~following & self.any_value(1, "chosen")
        with m.If(begins):
            m.d.sync += [
                following.eq(1),
                slot.eq(flags.over_slot),
                waves.eq(flags.over_waves),
                ahead.eq(over - flags.retire),
            ]
        with m.Elif(flags.retire & (ahead == 0)):
            m.d.sync += following.eq(0)
        with m.Elif(flags.retire):
            m.d.sync += ahead.eq(ahead - 1)
        turn = following & (ahead == 0)
        self.always(
            "operations_end_in_order",
            (flags.slot == slot) & (flags.waves == waves) & flags.sending,
            "Operations' flags are sent in the order in which they were over, each with its own "
            "slot and number of waves.",
            when=turn,
            trace=turn & flags.retire & (self.past(ahead, name="ahead") == 0),
        )
        self.lemma("followed_waits", ~following | (ahead < over))
        queue = self.inside.memory("waiting.memory")
        words = operation_slots(self._config) + 1
        read = queue.read_address
        place = (read + ahead) - ((read + ahead >= words) * words)
        end = (read + over) - ((read + over >= words) * words)
        self.lemma("addresses", (read < words) & (queue.write_address == end[: len(read)]))
        stored = queue.at(place[: len(read)])
        self.lemma("followed_is_in_its_place", ~following | (stored == Cat(slot, waves)))


def _without_begun(skipped):
    """Members who are to be skipped, without the two masks of those whose flag has begun."""
    return skipped.operands[0].operands[0]


PROOFS = [
    Proof(
        name="flag-writer",
        component="FlagWriter",
        size=describe(SMALL),
        specify=lambda: FlagWriterContract(SMALL),
        faults=(
            Fault("offers a flag all the time", "looked_up", lambda looked_up: Const(1)),
            Fault("sends a flag again", "begun", lambda begun: begun & 0),
            Fault("does not wait for every port", "retire", lambda retire: retire | 1),
        ),
    ),
    Proof(
        name="flag-writer-of-members",
        component="FlagWriter",
        size=describe(THREE_OF_TENANTS),
        specify=lambda: FlagWriterContract(THREE_OF_TENANTS),
        faults=(
            Fault("a flag that has begun is skipped", "skipped", _without_begun),
            Fault("rank 1 gets a flag, member or not", "offered", lambda offered: offered | 2),
            Fault("rank 2 is skipped for ever", "skipped", lambda skipped: skipped | 4),
            Fault("nobody is late", "late", lambda late: late & 0),
            Fault("who missed a flag is forgotten", "missed", lambda missed: missed & 0),
            Fault("does not wait for every port", "retire", lambda retire: retire | 1),
        ),
    ),
]
