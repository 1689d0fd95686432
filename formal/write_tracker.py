"""`WriteTracker`: a wave leaves its write phase only when every write of it is acknowledged.

Where contexts recover, it may be flushed instead.
"""

from __future__ import annotations

from amaranth import Array, Cat, Const, Mux, Signal

from hdl.accelerator.write_tracker import WriteTracker
from hdl.interfaces import Response

from .proof import Fault, Proof
from .sizes import SMALL, TENANTS, TINY, describe
from .specification import Specification

__all__ = ["PROOFS"]


class WriteTrackerContract(Specification):
    """A tracker against one wave, whichever it is, that is followed from open to retire."""

    def __init__(self, config):
        super().__init__(WriteTracker(config))
        self._config = config

    def specify(self, m):
        tracker, slots = self.component, self._config.write_waves
        under_way = Signal()  # a wave is open and not closed
        sent = Signal(range(self._config.packets_per_wave + 1))  # packets of it
        with m.If(tracker.close):
            m.d.sync += [under_way.eq(0), sent.eq(0)]
        with m.Else():
            m.d.sync += [under_way.eq(under_way | tracker.open), sent.eq(sent + tracker.packet)]
        self._assume_read_out(under_way, sent)

        opened = Signal(range(slots + 2))  # and not retired
        m.d.sync += opened.eq(opened + tracker.open - tracker.retire)
        self.always(
            "writing_waves_are_counted",
            tracker.writing == opened,
            "`writing` is the number of waves that were opened and have not retired.",
            trace=opened == slots,
        )
        self.always(
            "writing_waves_never_exceed_their_bound",
            opened <= slots,
            "Never more than `write_waves` waves are in their write phase.",
            trace=opened == slots,
        )
        self.always(
            "a_free_slot_is_said_to_be",
            tracker.slot_free == (opened != slots),
            "`slot_free` says whether another wave may open.",
            trace=~tracker.slot_free,
        )
        self._follow(m, under_way)
        self._lemmas(under_way, sent)

    def _assume_read_out(self, under_way, sent):
        """What `ReadOut` keeps to; its own proof has these as properties."""
        tracker = self.component
        self.assume("opens_with_a_slot", ~tracker.open | (tracker.slot_free & ~under_way))
        self.assume("packets_are_a_waves", ~tracker.packet | under_way | tracker.open)
        self.assume(
            "packets_of_a_wave",
            ~tracker.packet | (sent < self._config.packets_per_wave),
        )
        self.assume("closes_what_is_open", ~tracker.close | under_way | tracker.open)

    def _follow(self, m, under_way):
        tracker = self.component
        following, closed = Signal(), Signal()
        slot = Signal.like(tracker.write_slot, name="followed_slot")
        operation = Signal.like(tracker.operation, name="followed_operation")
        last, written = Signal(name="followed_last"), Signal(name="followed_written")
        ahead = Signal.like(tracker.writing, name="waves_ahead")
        begins = tracker.open & ~following & self.any_value(1, "chosen")
        ends = Signal()
        m.d.comb += ends.eq(following & tracker.retire & (ahead == 0))
        open_wave = (following & ~closed) | begins
        with m.If(begins):
            m.d.sync += [
                following.eq(1),
                slot.eq(tracker.write_slot),
                operation.eq(tracker.operation),
                ahead.eq(tracker.writing - tracker.retire),
                closed.eq(0),
            ]
        with m.Elif(ends):
            m.d.sync += following.eq(0)
        with m.Elif(following & tracker.retire):
            m.d.sync += ahead.eq(ahead - 1)
        with m.If(open_wave & tracker.close):
            m.d.sync += [
                closed.eq(1),
                last.eq(tracker.close_last),
                written.eq(tracker.written),
            ]
        owed = []
        for port in range(self._config.ranks):
            unanswered = Signal(
                range(self._config.packets_per_wave + 1), name=f"unanswered_at_{port}"
            )
            answered = tracker.acknowledge[port] & following
            answered &= tracker.acknowledged_slot[port] == slot
            counts = answered & (unanswered != 0)
            packet = open_wave & tracker.packet
            if self._config.subsets:
                packet &= tracker.ranks[port]
            m.d.sync += unanswered.eq(Mux(begins, 0, unanswered) + packet - counts)
            owed.append(unanswered != 0)
            error = tracker.response[port].as_value() > Response.EXOKAY.value
            self.always(
                f"answers_nobody_waits_for_are_stray_at_port_{port}",
                tracker.stray[port] == (unanswered == 0),
                "An acknowledgement is stray if its wave owes none at that port, and only then.",
                when=answered,
                trace=answered & (unanswered == 0),
            )
            self.always(
                f"errors_go_to_their_operation_at_port_{port}",
                (tracker.write_error[port] == error) & (tracker.error_operation[port] == operation),
                "An acknowledgement with an error names the operation of its wave.",
                when=counts,
                trace=counts & error,
            )
            counts_inside = Array(self._counts(port))
            self.lemma(f"followed_{port}", ~following | (unanswered == counts_inside[slot]))
        flush = tracker.flush if self._config.recovers else Const(0)
        self.always(
            "retires_only_when_all_acknowledged",
            closed & (~Cat(owed).any() | flush),
            "A wave retires only when it was closed and no write of it is unanswered, at any port, "
            "or it is flushed.",
            when=ends,
        )
        is_next = following & closed & (ahead == 0)
        self.always(
            "retires_once_all_acknowledged",
            tracker.retire,
            "The oldest wave retires as soon as it is closed and no write of it is unanswered, and "
            "when it is flushed.",
            when=is_next & (~Cat(owed).any() | flush),
        )
        if self._config.recovers:
            self.always(
                "tells_whose_answers_are_late",
                tracker.late == Cat(owed),
                "`late` are the ports that owe an answer to the oldest wave, once it is closed.",
                when=is_next,
                trace=is_next & (Cat(owed) == 2),
            )
        self.always(
            "retires_as_what_it_was",
            (tracker.retire_operation == operation)
            & (tracker.retire_last == last)
            & (tracker.retire_written == written),
            "A wave retires with its own operation, and as what it was closed as.",
            when=ends,
            trace=ends & (operation == 3) & last,
        )
        # Waves retire in the order in which they opened.
        place = self._distance(slot)
        self.lemma("followed_place", ~following | (ahead == place))
        self.lemma("followed_is_writing", ~following | (ahead < tracker.writing))
        in_front = ~closed & (ahead + 1 == tracker.writing) & under_way
        behind = closed & (ahead + under_way < tracker.writing)
        self.lemma("followed_is_closed_or_newest", ~following | in_front | behind)
        for name, value in (("last", last), ("written", written)):
            bits = self.inside.signal(name)
            self.lemma(
                f"followed_{name}", ~(following & closed) | (bits.bit_select(slot, 1) == value)
            )
        operations = Array(
            self.inside.signal(f"operation_{s}") for s in range(self._config.write_waves)
        )
        self.lemma("followed_operation", ~following | (operations[slot] == operation))

    def _counts(self, port):
        """The tracker's counters of unanswered packets, by slot."""
        return [
            self.inside.signal(f"unanswered_{port}_{slot}")
            for slot in range(self._config.write_waves)
        ]

    def _distance(self, slot):
        """Places of a slot behind the oldest."""
        oldest = self.inside.signal("oldest")
        return (slot - oldest)[: len(oldest)]

    def _lemmas(self, under_way, sent):
        tracker = self.component
        closed = self.inside.signal("closed")
        most = self._config.packets_per_wave
        bits = len(tracker.write_slot)
        waiting = Signal.like(tracker.writing, name="waiting")
        self.helper.d.comb += waiting.eq(tracker.writing - under_way)
        self.lemma("open_wave_is_writing", ~under_way | (tracker.writing != 0))
        self.lemma("newest_is_behind_closed", self._distance(tracker.write_slot) == waiting[:bits])
        self.lemma("sent_is_bounded", sent <= most)
        self.lemma("sent_is_of_an_open_wave", under_way | (sent == 0))
        for slot in range(self._config.write_waves):
            place = self._distance(Const(slot, bits))
            self.lemma(f"closed_{slot}", closed[slot] == (place < waiting))
            for port in range(self._config.ranks):
                count = self._counts(port)[slot]
                bound = Mux(under_way & (tracker.write_slot == slot), sent, most)
                self.lemma(f"count_{port}_{slot}", count <= bound)
                self.lemma(f"free_{port}_{slot}", (place < tracker.writing) | (count == 0))


PROOFS = [
    Proof(
        name=f"write-tracker-{name}",
        component="WriteTracker",
        size=describe(config),
        specify=lambda config=config: WriteTrackerContract(config),
        quick=name != "tiny",
        faults=faults,
    )
    for name, config, faults in (
        (
            "small",
            SMALL,
            (
                Fault("port 1 is not waited for", "nothing_owed_1", lambda free: Const(1)),
                Fault("a slot is always free", "slot_free", lambda free: Const(1)),
                Fault("waves share a slot", "write_slot", lambda slot: slot & 0),
            ),
        ),
        ("tiny", TINY, ()),
        (
            "of-contexts",
            TENANTS,
            (
                Fault("port 1 is not waited for", "nothing_owed_1", lambda free: Const(1)),
                Fault("answers are waited for behind a flush", "gone", lambda gone: gone & 0),
                Fault("port 1 is never late", "late", lambda late: late & 1),
            ),
        ),
    )
]
