"""`ReadOut`: only complete waves, whole packets with room for them, every entry released once."""

from __future__ import annotations

from amaranth import Cat, Const, Mux, Signal

from hdl.accelerator.read_out import ReadOut
from hdl.accelerator.wave_table import READ_DELAY
from hdl.interfaces import Response

from .proof import Fault, Proof
from .sizes import SMALL, TENANTS, describe
from .specification import Specification

__all__ = ["PROOFS"]


class ReadOutContract(Specification):
    """Read-out against the wave that it took.

    Where some ranks may be read and written, the others' data and room are as one likes.
    """

    def __init__(self, config):
        self._config = config
        super().__init__(ReadOut(config))

    def specify(self, m):
        read_out, config = self.component, self._config
        waves = read_out.waves
        self.assume("waves_are_offered", self.offers(waves, "waves"))
        self.assume("waves_are_small", ~waves.valid | (waves.payload.size <= config.wave_bytes))
        comes = waves.valid & waves.ready
        has_data = waves.payload.size != 0
        bad = Cat(r.as_value() > Response.EXOKAY.value for r in read_out.response)
        everyone = Const(-1, config.ranks)
        sources = waves.payload.sources if config.subsets else everyone
        bad = (bad & sources).any()
        complete = ((sources & ~read_out.ready) == 0) | (waves.payload.size == 0)
        # The wave at hand: taken and not closed.
        held, begun = Signal(), Signal(name="begun_model")
        wave = Signal.like(waves.payload, name="wave_at_hand")
        is_bad, lacks = Signal(), Signal()
        left = Signal(range(config.wave_bytes + 1), name="bytes_not_started")
        flits = Signal(range(config.payload_flits + 1), name="flits_to_read")
        flit = Signal(range(config.wave_flits + 1), name="flits_read")
        start = read_out.start
        with m.If(read_out.close):
            m.d.sync += held.eq(0)
        with m.If(comes):
            m.d.sync += [
                held.eq(1),
                wave.eq(waves.payload),
                is_bad.eq(bad & has_data),
                lacks.eq(~complete),
                begun.eq(0),
                left.eq(waves.payload.size),
                flit.eq(0),
            ]
        with m.Else():
            with m.If(start.valid):
                m.d.sync += [begun.eq(1), left.eq(left - start.size)]
            m.d.sync += flit.eq(flit + read_out.read_enable)
        m.d.sync += flits.eq(
            Mux(start.valid, start.flits - 1, Mux(read_out.read_enable, flits - 1, flits))
        )
        destinations = wave.destinations if config.subsets else everyone
        flush = read_out.flush if config.recovers else Const(0)
        if config.recovers:
            self._flush(read_out, comes, held, begun, wave, lacks)
        if config.subsets:
            self._choose(read_out, held, wave, flits)
        self._take(read_out, comes, complete | flush, has_data, held)
        self._read(read_out, held, wave, flits, flit, left)
        full = destinations & ~read_out.room
        self._start(read_out, held, begun, wave, is_bad, left, flits, full)
        self._close(read_out, held, begun, wave, left, flits, is_bad)
        self._know(m, held, begun, wave, is_bad, left, flits, flit)

    def _flush(self, read_out, comes, held, begun, wave, lacks):
        """What is flushed has failed, and stays so until it is over."""
        offered = read_out.waves.payload
        failed, fails = (read_out.failed.bit_select(each.slot, 1) for each in (wave, offered))
        flush = read_out.flush
        self.assume("flushes_what_has_failed", ~flush | ~read_out.waves.valid | fails)
        stays = held & ~read_out.close & failed
        self.assume(
            "failed_stays", ~self.past((comes & fails) | stays, name="failed_wave") | failed
        )
        self.always(
            "writes_no_wave_that_lacks_data",
            ~lacks,
            "A packet starts of no wave that was taken without what it lacked.",
            when=read_out.start.valid,
            trace=held & lacks & read_out.close,
        )
        self.always(
            "takes_what_is_flushed",
            comes,
            "While a context is flushed its next wave is taken as soon as none is at hand, "
            "whatever it lacks.",
            when=flush & read_out.waves.valid & ~held,
        )
        self.lemma("lacking_has_failed", ~(held & lacks) | (failed & ~begun))

    def _choose(self, read_out, held, wave, flits):
        """Some of the ranks, and one context's turn."""
        start = read_out.start
        self.always(
            "starts_in_its_turn",
            read_out.turn & read_out.asks,
            "A packet starts only in its context's turn, which it asks for.",
            when=start.valid,
        )
        self.always(
            "uses_its_turn",
            start.valid,
            "A context that asks and has its turn starts a packet.",
            when=read_out.turn & read_out.asks,
        )
        self.always(
            "holds_while_a_packet_is_under_way",
            read_out.holds == (flits != 0),
            "A context holds the way through the reducer from behind a packet's start to its last "
            "flit, and no longer.",
            trace=read_out.holds,
        )
        self.always(
            "packets_go_to_the_ranks_of_the_wave",
            start.ranks == wave.destinations,
            "A packet goes to the ranks that its wave names.",
            when=start.valid,
            trace=start.valid & (wave.destinations == 1) & ~read_out.room.all(),
        )
        sources, destinations = wave.sources, wave.destinations
        for cycle in range(READ_DELAY):
            sources = self.past(sources, name=f"sources_{cycle}")
            destinations = self.past(destinations, name=f"destinations_{cycle}")
        self.always(
            "ranks_go_beside_the_operands",
            (read_out.sources == sources) & (read_out.destinations == destinations),
            "Beside operands are the ranks that their wave reads and writes.",
            when=read_out.operands_valid,
            trace=read_out.operands_valid & (sources == 2),
        )

    def _take(self, read_out, comes, complete, has_data, held):
        self.always(
            "reads_only_complete_waves",
            complete & (read_out.entry == read_out.waves.payload.entry),
            "A wave with data is taken only when its entry is ready at every rank that it reads, "
            "or it is flushed.",
            when=comes & has_data,
        )
        self.always(
            "takes_each_entry_once",
            read_out.taken == (comes & has_data),
            "An entry is marked as taken in the cycle in which its wave is, and in no other.",
            trace=read_out.taken,
        )
        self.always(
            "one_wave_at_a_time",
            ~held | read_out.close,
            "The next wave is taken when the one before ends, or later.",
            when=comes,
            trace=comes & held,
        )

    def _read(self, read_out, held, wave, flits, flit, left):
        first = read_out.start.valid
        self.always(
            "never_stops_within_a_packet",
            read_out.read_enable,
            "Forward progress, rule 3: a packet that has started is read to its end, a flit a "
            "cycle.",
            when=flits != 0,
            trace=flits == self._config.payload_flits - 1,
        )
        self.always(
            "reads_the_wave_it_took",
            held & (read_out.read_entry == wave.entry) & (read_out.read_flit == flit),
            "What is read is the entry that was taken, flit by flit from the first.",
            when=read_out.read_enable,
            trace=read_out.read_enable & (flit == self._config.wave_flits - 1),
        )
        self.always(
            "reads_what_it_starts",
            first | (flits != 0),
            "No flit is read but those of packets that were started.",
            when=read_out.read_enable,
        )
        delayed = read_out.read_enable
        for cycle in range(READ_DELAY):
            delayed = self.past(delayed, name=f"read_{cycle}")
        self.always(
            "operands_follow_the_read",
            read_out.operands_valid == delayed,
            "Operands are declared valid when the tables' data is there, and only then.",
            trace=read_out.operands_valid,
        )

    def _start(self, read_out, held, begun, wave, is_bad, left, flits, full):
        start, config = read_out.start, self._config
        self.always(
            "starts_only_with_room_everywhere",
            ~full.any() & (flits == 0),
            "Forward progress, rule 3: a packet starts only when every port that it goes to has "
            "room for the whole of it, and the one before has been read.",
            when=start.valid,
            trace=start.valid & begun,
        )
        failed = read_out.failed.bit_select(wave.slot, 1)
        self.always(
            "writes_no_wave_with_an_error",
            held & ~is_bad & (begun | (~failed & read_out.slot_free)),
            "A packet starts only of a wave whose data had no error, at any rank, whose operation "
            "has not failed before, and for which a write-phase slot is free.",
            when=start.valid,
        )
        last = left <= config.payload_bytes
        self.always(
            "packets_cover_the_wave",
            (start.size == Mux(last, left, config.payload_bytes))
            & (start.flits == (start.size + config.flit_bytes - 1) >> config.flit_address_bits)
            & (start.opens == (wave.first & ~begun)),
            "A wave's packets are full but for the last, and cover its bytes once; the first of "
            "an operation is marked.",
            when=start.valid,
            trace=start.valid & last & begun & (left < config.flit_bytes),
        )

    def _close(self, read_out, held, begun, wave, left, flits, is_bad):
        start = read_out.start
        flits_left = Mux(start.valid, start.flits - 1, flits - read_out.read_enable)
        bytes_left = left - Mux(start.valid, start.size, 0)
        dropped = ~begun & ~start.valid
        self.always(
            "closes_each_wave_once",
            held & (dropped | ((flits_left == 0) & (bytes_left == 0))),
            "A wave ends when the last flit of its last packet is read, or when it is dropped "
            "before its first.",
            when=read_out.close,
        )
        self.always(
            "releases_each_entry_once",
            read_out.release == (read_out.close & (wave.size != 0)),
            "An entry is released when its wave ends, once, and not without.",
            trace=read_out.release,
        )
        self.always(
            "opens_each_wave_once",
            held & ~begun & read_out.slot_free & (read_out.operation == wave.slot),
            "A write-phase slot is opened with a wave's first packet, or as it is dropped: once, "
            "and only when one is free.",
            when=read_out.open,
        )
        self.always(
            "what_closes_was_opened",
            begun | read_out.open,
            "A wave that ends was opened, before or in this cycle.",
            when=read_out.close,
            trace=read_out.close & read_out.open & ~read_out.written,
        )
        self.always(
            "reports_read_errors",
            read_out.read_error == (read_out.open & is_bad & ~read_out.written),
            "A wave with an error in its data is reported as it is dropped.",
            trace=read_out.read_error,
        )

    def _know(self, m, held, begun, wave, is_bad, left, flits, flit):
        read_out, inside, config = self.component, self.inside, self._config
        in_packet, in_this = inside.signal("in_packet"), inside.signal("in_this")
        taken = inside.signal("_wave")
        self.lemma("valid", inside.signal("_valid") == held)
        self.lemma("wave", ~held | (taken == wave.as_value()))
        self.lemma("begun", ~held | (inside.signal("_begun") == begun))
        self.lemma("bad", ~held | (inside.signal("_bad") == is_bad))
        self.lemma("in_packet", in_packet == (flits != 0))
        self.lemma("in_this", ~in_packet | (in_this == flits))
        self.lemma("packet_is_of_a_wave", ~in_packet | (held & begun))
        self.lemma("flit", ~held | (inside.signal("flit") == flit[: len(inside.signal("flit"))]))
        shift = config.flit_address_bits
        all_flits = (wave.size + config.flit_bytes - 1) >> shift
        left_flits = (left + config.flit_bytes - 1) >> shift
        self.lemma("flits_add_up", ~held | (flit + flits + left_flits == all_flits))
        self.lemma("left_is_bounded", left <= config.wave_bytes)
        self.lemma("wave_is_bounded", ~held | (wave.size <= config.wave_bytes))
        size = read_out.start.size
        # Amaranth names only the last of signals that one statement makes; here `last` is first.
        rest, last = inside.signal("rest"), inside.signal("last")
        payload = config.payload_bytes
        self.lemma("size", ~held | (size == Mux(left <= payload, left, payload)))
        self.lemma("flits_of_size", read_out.start.flits == (size + config.flit_bytes - 1) >> shift)
        self.lemma("rest", ~held | (rest == left - size))
        self.lemma("last", ~held | (last == (left <= payload)))
        in_last = inside.signal("in_last")
        self.lemma("in_last", ~in_packet | (in_last == (left == 0)))
        whole = (left == wave.size) | ((wave.size - left) % config.payload_bytes == 0)
        self.lemma("whole_packets", ~held | (left == 0) | whole)
        self.lemma("before_the_first", ~held | begun | ((left == wave.size) & (flit == 0)))
        self.lemma("begun_is_good", ~(held & begun) | (~is_bad & (left < wave.size)))
        self.lemma("goes_on", ~(held & begun) | in_packet | (left != 0))


PROOFS = [
    Proof(
        name="read-out",
        component="ReadOut",
        size=describe(SMALL),
        specify=lambda: ReadOutContract(SMALL),
        depth=READ_DELAY + 1,
        faults=(
            Fault("takes a wave that lacks a rank's data", "complete", lambda complete: Const(1)),
            Fault("starts all the time", "start__valid", lambda valid: Const(1)),
            Fault("releases an empty wave", "release", lambda release: release | 1),
            Fault("writes a wave with an error", "_bad", lambda bad: bad & 0),
            Fault("a packet stops", "read_enable", lambda enable: enable & 0),
        ),
    ),
    Proof(
        name="read-out-of-contexts",
        component="ReadOut",
        size=describe(TENANTS),
        specify=lambda: ReadOutContract(TENANTS),
        depth=READ_DELAY + 1,
        faults=(
            Fault("takes a wave that lacks a rank's data", "complete", lambda complete: Const(1)),
            Fault("starts out of turn", "start__valid", lambda valid: Const(1)),
            Fault("rank 1 is written in any case", "start__ranks", lambda ranks: ranks | 2),
            Fault("lets go of the way too early", "holds", lambda holds: holds & 0),
            Fault("rank 0 is read in any case", "sources", lambda sources: sources | 1),
        ),
    ),
]
