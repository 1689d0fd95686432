"""Reads complete waves out of the tables, in lockstep and in order, into the reducer."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import Format, Response
from .layouts import ELEMENT_BYTES, WaveLayout, entry_bits, operation_slots, slot_bits

__all__ = ["PacketStart", "ReadOut"]


class PacketStart(wiring.Signature):
    """A packet of results begins: what every port's write-back must know of it.

    ``flits`` and ``size`` (bytes) are the packet's; ``opens`` says that it is its operation's
    first, so that addresses start anew. ``write_slot`` is the write-phase slot that it counts in.
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "valid": Out(1),
                "flits": Out(range(config.payload_flits + 1)),
                "size": Out(range(config.payload_bytes + 1)),
                "opens": Out(1),
                "write_slot": Out(max(1, (config.write_waves - 1).bit_length())),
            }
        )


class ReadOut(wiring.Component):
    """Streams each wave through the reducer once every rank's data is there.

    Members
    -------
    waves : waves in order of issue
    ready, response : by rank, of the entry that ``entry`` names
    read_enable, read_flit, entry : to every wave table
    operands_valid, keep, format : to the reducer, beside the tables' data (one cycle behind
        ``read_enable``)
    slot_free, write_slot : the next write-phase slot
    room : by port, its write-back takes a packet of ``packet_flits``
    start : a packet begins (`PacketStart`)
    open, close : a write-phase slot is opened (with the wave's operation) or closed; a wave that
        writes nothing does both at once
    failed : by operation slot: it has an error, so its waves are dropped
    read_error, read_error_rank, read_error_response : a wave has one
    release : the wave's entry is free
    waits_data : by rank, the oldest wave lacks its data
    waits_room : by port, the oldest wave is there and the port has no room

    Timing
    ------
    One flit a cycle without a bubble between packets or waves. The first flit is read in the cycle
    in which ``ready`` is seen.

    Stalls
    ------
    A packet starts when every port has room for the whole of it and, for a wave's first, a
    write-phase slot is free; once started it runs to its end. An operation's first wave starts no
    sooner than one cycle after it has become the oldest, since its destinations are looked up then.

    Errors
    ------
    A wave with an error in any rank's data is not written; nor is a later one of its operation.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        ranks = config.ranks
        super().__init__(
            {
                "waves": In(stream.Signature(WaveLayout(config))),
                "ready": In(ranks),
                "response": In(Response).array(ranks),
                "entry": Out(entry_bits(config)),
                "read_enable": Out(1),
                "read_flit": Out(range(config.wave_flits)),
                "operands_valid": Out(1),
                "keep": Out(config.lanes),
                "format": Out(Format),
                "slot_free": In(1),
                "write_slot": In(max(1, (config.write_waves - 1).bit_length())),
                "room": In(ranks),
                "packet_flits": Out(range(config.payload_flits + 1)),
                "start": Out(PacketStart(config)),
                "open": Out(1),
                "close": Out(1),
                "close_last": Out(1),
                "operation": Out(slot_bits(config)),
                "written": Out(1),
                "failed": In(operation_slots(config)),
                "read_error": Out(1),
                "read_error_rank": Out(4),
                "read_error_response": Out(Response),
                "release": Out(1),
                "waits_data": Out(ranks),
                "waits_room": Out(ranks),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        wave = self.waves.payload
        begun = Signal()  # this wave's first packet has started
        in_packet = Signal()
        present = Signal()  # the oldest wave's data is complete
        empty = Signal()
        drop = Signal()
        m.d.comb += [
            empty.eq(wave.size == 0),
            present.eq(self.waves.valid & (empty | self.ready.all())),
            self.entry.eq(wave.entry),
            self.operation.eq(wave.slot),
        ]
        error = self._errors(m, present, empty)
        m.d.comb += drop.eq(empty | error | self.failed.bit_select(wave.slot, 1))

        read, ends_wave = self._flits(m, begun, in_packet, present, drop)
        dropped = Signal()
        m.d.comb += [
            dropped.eq(present & ~begun & drop & self.slot_free),
            self.open.eq(dropped | (self.start.valid & ~begun)),
            self.close.eq(dropped | ends_wave),
            self.close_last.eq(wave.last),
            self.written.eq(~dropped),
            self.waves.ready.eq(self.close),
            self.release.eq(self.close & ~empty),
            self.read_error.eq(dropped & error),
        ]
        with m.If(self.close):
            m.d.sync += begun.eq(0)
        with m.Elif(self.start.valid):
            m.d.sync += begun.eq(1)

        # Beside the tables' data, one cycle later.
        m.d.sync += [self.operands_valid.eq(read), self.format.eq(wave.format)]
        for rank in range(config.ranks):
            m.d.comb += self.waits_data[rank].eq(
                self.waves.valid & ~empty & ~begun & ~self.ready[rank]
            )
        return m

    def _errors(self, m, present, empty):
        """The first rank, by number, whose data has an error."""
        bad = Signal(self._config.ranks)
        m.d.comb += bad.eq(
            Cat(response.as_value() > Response.EXOKAY.value for response in self.response)
        )
        for rank in reversed(range(self._config.ranks)):
            with m.If(bad[rank]):
                m.d.comb += [
                    self.read_error_rank.eq(rank),
                    self.read_error_response.eq(self.response[rank]),
                ]
        error = Signal()
        m.d.comb += error.eq(present & ~empty & bad.any())
        return error

    def _flits(self, m, begun, in_packet, present, drop):
        """Read a flit a cycle; start packets as there is room."""
        config = self._config
        wave = self.waves.payload
        done = Signal(range(config.wave_bytes + 1))  # bytes read
        left = Signal.like(done)
        flit = Signal(range(config.wave_flits + 1))
        in_this = Signal(range(config.payload_flits + 1))  # flits left of the packet under way
        size = self.start.size
        wanted = Signal()
        start = Signal()
        read = Signal()
        ends_packet = Signal()
        ends_wave = Signal()
        looked_up = Signal()  # the destinations are those of this wave's operation
        m.d.sync += looked_up.eq(self.waves.valid & ~self.waves.ready)
        slot = begun | (self.slot_free & (looked_up | ~wave.first))
        m.d.comb += [
            left.eq(wave.size - done),
            size.eq(Mux(left > config.payload_bytes, config.payload_bytes, left)),
            self.packet_flits.eq((size + (config.flit_bytes - 1)) >> config.flit_address_bits),
            wanted.eq(~in_packet & present & (begun | ~drop) & slot),
            start.eq(wanted & self.room.all()),
            read.eq(start | in_packet),
            ends_packet.eq(Mux(in_packet, in_this == 1, start & (self.packet_flits == 1))),
            ends_wave.eq(ends_packet & (left <= config.flit_bytes)),
            self.read_enable.eq(read),
            self.read_flit.eq(flit),
            self.waits_room.eq(Mux(wanted, ~self.room, 0)),
            self.start.valid.eq(start),
            self.start.flits.eq(self.packet_flits),
            self.start.opens.eq(wave.first & ~begun),
            self.start.write_slot.eq(self.write_slot),
        ]
        with m.If(read):
            m.d.sync += [
                done.eq(Mux(ends_wave, 0, done + config.flit_bytes)),
                flit.eq(Mux(ends_wave, 0, flit + 1)),
                in_packet.eq(~ends_packet),
                in_this.eq(Mux(in_packet, in_this, self.packet_flits) - 1),
            ]
        for lane in range(config.lanes):
            m.d.sync += self.keep[lane].eq(left > lane * ELEMENT_BYTES)
        return read, ends_wave
