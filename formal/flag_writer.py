"""`FlagWriter`: each rank's flag once an operation, after its last acknowledgement."""

from __future__ import annotations

from amaranth import Cat, Const, Signal

from hdl.accelerator.flag_writer import FlagWriter
from hdl.accelerator.layouts import FLAG_TAG, operation_slots

from .proof import Fault, Proof
from .sizes import SMALL, describe
from .specification import Specification

__all__ = ["PROOFS"]


class FlagWriterContract(Specification):
    """A flag writer against the operations that are over."""

    def __init__(self, config):
        super().__init__(FlagWriter(config))
        self._config = config

    def specify(self, m):
        flags, ranks = self.component, self._config.ranks
        most = operation_slots(self._config)
        over = Signal(range(most + 2))  # operations that are over, whose flags are not all sent
        m.d.sync += over.eq(over + flags.over - flags.retire)
        # At most one waits a slot.
        self.assume("slots_are_few", ~flags.over | (over < most))
        self._follow(m, over)
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
            self._send(rank, port, over, heads_sent[rank], payloads_sent[rank], head_taken)
        payloads_now = payloads_sent | Cat(
            port.payload.valid & port.payload.ready for port in flags.o
        )
        self.always(
            "retires_when_all_flags_are_sent",
            payloads_now.all() & heads_sent.all() & (over != 0),
            "An operation's slot is given back only when every port has taken its flag.",
            when=flags.retire,
        )
        looked_up = self.inside.signal("looked_up")
        self.lemma("begun", self.inside.signal("begun") == heads_sent)
        self.lemma("sent", self.inside.signal("sent") == payloads_sent)
        self.lemma("looks_up_what_is_over", ~looked_up | (over != 0))
        self.lemma("sends_what_was_looked_up", looked_up | (heads_sent == 0))
        self.lemma("payloads_are_behind_heads", (payloads_sent & ~heads_sent) == 0)
        self.lemma("over_is_bounded", over <= operation_slots(self._config))
        self.lemma("over_waits", self.inside.signal("waiting.level") == over)

    def _send(self, rank, port, over, head_sent, payload_sent, head_taken):
        flags = self.component
        word = port.payload.payload.data[:32]
        self.always(
            f"no_flag_before_the_end_at_port_{rank}",
            (over != 0) & ~head_sent,
            "A flag is offered only for an operation that is over, which is after the last "
            "acknowledgement of its last wave, and once.",
            when=port.head.valid,
        )
        self.always(
            f"no_flag_word_before_the_end_at_port_{rank}",
            (over != 0) & ~payload_sent & (word == flags.epoch),
            "A flag's word is offered only for an operation that is over, and once, with the "
            "operation's epoch.",
            when=port.payload.valid & port.payload.ready,
        )
        self.always(
            f"flag_goes_to_its_address_at_port_{rank}",
            (port.head.payload.header.address == flags.flags[rank])
            & (port.head.payload.header.tag == (Const(FLAG_TAG, 16) | flags.slot))
            & (self.past(flags.slot, name=f"slot_{rank}") == flags.slot)
            & self.past(over != 0, name=f"over_{rank}"),
            "A flag is offered one cycle after its operation's addresses are asked for, so those "
            "at hand are its own.",
            when=port.head.valid,
        )
        self.always(
            f"flag_head_waits_at_port_{rank}",
            port.head.valid,
            "A flag's head that was not taken is offered again.",
            when=self.offer_waits(port.head, f"head_{rank}"),
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
    )
]
