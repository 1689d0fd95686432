"""Reads complete waves out of the tables, in lockstep and in order, into the reducer."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import SwitchConfig
from ..interfaces import Format, Operation, Response
from ..stream import delayed
from .layouts import (
    CODE_BYTES,
    ELEMENT_BYTES,
    WaveLayout,
    block_flits,
    entry_bits,
    operation_slots,
    slot_bits,
    write_slot_bits,
    write_tag_bits,
)
from .scales import scales_of
from .wave_table import read_delay

__all__ = ["PacketStart", "ReadOut"]


class PacketStart(wiring.Signature):
    """A packet of results begins: what every port's write-back must know of it.

    ``flits`` and ``size`` (bytes) are the packet's; ``opens`` says that it is its operation's
    first, so that addresses start anew. ``write_slot`` is the write-phase slot that it counts in,
    with its context (see `write_tag_bits`).

    ``ranks`` : those that it goes to, where that may be some.

    Where quantized operations are built: ``quantized`` says that it has codes; ``begins`` and
    ``ends`` that it is its wave's first or last; ``scale_size`` is bytes of the wave's scales, 0 of
    sums.
    """

    def __init__(self, config: SwitchConfig):
        members = {
            "valid": Out(1),
            "flits": Out(range(config.payload_flits + 1)),
            "size": Out(range(config.payload_bytes + 1)),
            "opens": Out(1),
            "write_slot": Out(write_tag_bits(config)),
        }
        if config.subsets:
            members["ranks"] = Out(config.ranks)
        if config.quantizes:
            members |= {
                "quantized": Out(1),
                "begins": Out(1),
                "ends": Out(1),
                "scale_size": Out(range(config.scale_chunk_bytes + 1)),
            }
        super().__init__(members)


class ReadOut(wiring.Component):
    """Streams each wave through the reducer once every rank's data is there.

    Members
    -------
    waves : waves in order of issue
    ready, response : by rank, of the entry that ``entry`` names
    taken : that entry's wave is taken
    read_enable, read_entry, read_flit : to every wave table
    scale_packets : packets of scales that will follow those of the wave's codes, where quantized
        operations are built
    operands_valid, keep, format : to the reducer, beside the tables' data (`read_delay` cycles
        behind ``read_enable``); ``keep`` has a bit a 16-bit lane, and where quantized operations
        are built a bit a byte
    sources, destinations : likewise, where an operation may have some of the ranks only
    reduction : likewise, where an instruction may ask for more than sums
    ends_wave, ends_blocks : likewise, where quantized operations are built: the flit is the wave's
        last; its block or blocks are
    slot_free, write_slot : the next write-phase slot
    room : by port, its write-back takes another packet
    settled : ``room`` knows of all packets that have started; with register slices
    asks, turn : a packet could start; it may (see `ReadOutTurns`)
    holds : a packet is under way, or one must follow at once
    quantized, reads_codes : the packet is of codes; a flit of them is read
    start : a packet begins (`PacketStart`)
    destinations_of : operation slot whose destination addresses are wanted; those of the cycle
        before are at hand
    open, close : a write-phase slot is opened (for the operation slot ``operation``) or closed; a
        wave that writes nothing does both at once
    failed : by operation slot: it has an error, so its waves are dropped
    flush : waves are taken without what they lack, where contexts outlive failures; all their
        operations have failed
    idle : no wave is at hand
    read_error, read_error_rank, read_error_response : a wave has one
    release : the wave's entry is free
    waits_data : by rank, the oldest wave lacks its data
    waits_room : by port, the oldest wave is there and the port has no room

    Timing
    ------
    One flit a cycle without a bubble between packets or waves. The first flit is read one cycle
    after ``ready`` is seen.

    With register slices ``ready`` and ``response`` are of the cycle before, and a wave is taken
    once its entry was asked for in that. ``room`` may know a start three cycles later, so a packet
    that needs its room starts no sooner behind another one. That costs cycles behind packets and
    waves of one or two flits only.

    Stalls
    ------
    A packet starts when every port has room for the whole of it and, for a wave's first, a
    write-phase slot is free; once started it runs to its end. An operation's first wave that
    follows right behind another operation starts one cycle later, since its destinations are looked
    up then.

    Where quantized operations are built, that holds for a run of packets (`SwitchConfig.run_bytes`)
    in place of each, since a block's flits come in consecutive cycles; and sums, which take less
    time than codes, wait behind codes until they leave the reducer later than those. With
    multipliers that are shared, a flit of codes is read every second cycle, and its operands stand
    for two.

    Errors
    ------
    A wave with an error in any rank's data is not written; nor is a later one of its operation.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        ranks = config.ranks
        members = {
            "waves": In(stream.Signature(WaveLayout(config))),
            "ready": In(ranks),
            "response": In(Response).array(ranks),
            "entry": Out(entry_bits(config)),
            "taken": Out(1),
            "read_enable": Out(1),
            "read_entry": Out(entry_bits(config)),
            "read_flit": Out(range(config.wave_flits)),
            "operands_valid": Out(1),
            "keep": Out(config.flit_bytes if config.quantizes else config.lanes),
            "format": Out(Format),
            "slot_free": In(1),
            "write_slot": In(write_slot_bits(config)),
            "room": In(ranks),
            "asks": Out(1),
            "turn": In(1),
            "holds": Out(1),
            "quantized": Out(1),
            "reads_codes": Out(1),
            "start": Out(PacketStart(config)),
            "destinations_of": Out(slot_bits(config)),
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
            "idle": Out(1),
            "waits_data": Out(ranks),
            "waits_room": Out(ranks),
        }
        if config.recovers:
            members["flush"] = In(1)
        if config.sliced:
            members["settled"] = In(1)
        if config.subsets:
            members |= {"sources": Out(config.ranks), "destinations": Out(config.ranks)}
        if config.chooses_operation:
            members["reduction"] = Out(Operation)
        if config.quantizes:
            members |= {
                "scale_packets": Out(range(config.scale_packets + 1)),
                "ends_wave": Out(1),
                "ends_blocks": Out(1),
            }
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        self._wave = Signal(WaveLayout(self._config))  # the one that is read out
        self._valid = Signal()
        self._begun = Signal()  # its first packet has started
        self._responses = [
            Signal(Response, name=f"response_{rank}") for rank in range(self._config.ranks)
        ]
        self._bad = Signal()  # its data has an error
        self._quantized = self.quantized
        self._second = Signal()  # a flit of codes that takes two cycles is in its second
        if self._config.quantizes:
            m.d.comb += self._quantized.eq(self._wave.format == Format.INQ8)
        take = self._take(m)
        self._find_errors(m)
        looked_up = self._look_up(m)
        dropped, may_start = self._open(m, looked_up)
        read, ends_wave = self._read(m, take, may_start)
        wave = self._wave
        m.d.comb += [
            self.idle.eq(~self._valid & ~self.waves.valid),
            self.close.eq(dropped | ends_wave),
            self.close_last.eq(wave.last),
            self.release.eq(self.close & (wave.size != 0)),
        ]
        self._keep(m, read, ends_wave)
        return m

    def _take(self, m):
        """Take the oldest wave once its data is complete and the one before it ends."""
        wave = self.waves.payload
        complete = Signal()
        take = Signal()
        asked = self.waves.valid  # a wave is there whose data ``ready`` speaks of
        if self._config.sliced:
            asked = Signal()
            m.d.sync += asked.eq(self.waves.valid & ~self.waves.ready)
        m.d.comb += [
            self.entry.eq(wave.entry),
            complete.eq(asked & ((wave.size == 0) | ~self._lacking().any() | self._flushed)),
            take.eq(~self._valid | self.close),
            self.waves.ready.eq(take & complete),
            self.taken.eq(self.waves.ready & (wave.size != 0)),
        ]
        with m.If(take):
            m.d.sync += [self._valid.eq(complete), self._begun.eq(0), self._wave.eq(wave)]
            m.d.sync += [kept.eq(r) for kept, r in zip(self._responses, self.response, strict=True)]
        with m.Elif(self.start.valid):
            m.d.sync += self._begun.eq(1)
        waits = Signal()
        m.d.comb += [
            waits.eq(asked & (wave.size != 0) & ~self._valid),
            self.waits_data.eq(Mux(waits, self._lacking(), 0)),
        ]
        return take

    @property
    def _flushed(self):
        return self.flush if self._config.recovers else 0

    def _lacking(self):
        """Ranks whose data the oldest wave waits for."""
        return ~self.ready & self.waves.payload.sources if self._config.subsets else ~self.ready

    def _full(self):
        """Ports without room that the wave needs."""
        return ~self.room & self._wave.destinations if self._config.subsets else ~self.room

    def _find_errors(self, m):
        """The first rank, by number, whose data has an error."""
        bad = Signal(self._config.ranks)
        sources = self._wave.sources if self._config.subsets else Const(-1, len(bad))
        m.d.comb += [
            bad.eq(Cat(r.as_value() > Response.EXOKAY.value for r in self._responses) & sources),
            self._bad.eq(bad.any() & (self._wave.size != 0)),
        ]
        for rank in reversed(range(self._config.ranks)):
            with m.If(bad[rank]):
                m.d.comb += [
                    self.read_error_rank.eq(rank),
                    self.read_error_response.eq(self._responses[rank]),
                ]

    def _look_up(self, m):
        """Ask for the addresses of the wave's operation; says that those at hand are they.

        Of a wave that waits for its data they are there when it is taken, of one right behind
        another operation's a cycle later.
        """
        asked = Signal(slot_bits(self._config))
        m.d.comb += self.destinations_of.eq(
            Mux(self._valid, self._wave.slot, self.waves.payload.slot)
        )
        m.d.sync += asked.eq(self.destinations_of)
        return asked == self._wave.slot

    def _open(self, m, looked_up):
        """A write-phase slot for each wave: it is dropped there, or its packets may start."""
        wave = self._wave
        drop, dropped, may_start = Signal(), Signal(), Signal()
        opens = self._valid & ~self._begun & self.slot_free
        m.d.comb += [
            drop.eq((wave.size == 0) | self._bad | self.failed.bit_select(wave.slot, 1)),
            dropped.eq(opens & drop),
            may_start.eq(self._begun | (opens & ~drop & (looked_up | ~wave.first))),
            self.operation.eq(wave.slot),
            self.open.eq(dropped | (self.start.valid & ~self._begun)),
            self.written.eq(~dropped),
            self.read_error.eq(dropped & self._bad),
        ]
        return dropped, may_start

    def _read(self, m, take, may_start):
        """Read a flit a cycle; start packets as there is room."""
        config = self._config
        flit = Signal(range(config.wave_flits))
        in_packet = Signal()
        in_last = Signal()  # the packet under way is the wave's last
        in_this = Signal(range(config.payload_flits + 1))  # its flits that are left
        start = self.start.valid
        last = self._cut(m, take)
        wanted, read, ends_packet, ends_wave = Signal(), Signal(), Signal(), Signal()
        in_run = self._in_run(m, start, ends_wave)
        m.d.comb += [
            wanted.eq(may_start & ~in_packet & ~self._second),
            self.asks.eq(wanted & (self._has_room() | in_run)),
            self.holds.eq(in_packet | self._second | in_run),
            self.reads_codes.eq(read & self._quantized),
            start.eq(self.asks & self.turn),
            read.eq(start | (in_packet & ~self._second)),
            ends_packet.eq(
                Mux(in_packet, (in_this == 1) & ~self._second, start & (self.start.flits == 1))
            ),
            ends_wave.eq(ends_packet & Mux(in_packet, in_last, last)),
            self.read_enable.eq(read),
            self.read_entry.eq(self._wave.entry),
            self.read_flit.eq(flit),
            self.waits_room.eq(Mux(wanted, self._full(), 0)),
            self.start.opens.eq(self._wave.first & ~self._begun),
            self.start.write_slot.eq(self.write_slot),
        ]
        with m.If(read):
            m.d.sync += [
                flit.eq(flit + 1),
                in_packet.eq(~ends_packet),
                in_this.eq(Mux(in_packet, in_this, self.start.flits) - 1),
            ]
        with m.If(start):
            m.d.sync += in_last.eq(last)
        with m.If(take):
            m.d.sync += flit.eq(0)
        if config.quantizes:
            self._start_scales(m, last)
            self._flit = flit
        if config.inq_reducer == "shared":
            m.d.sync += self._second.eq(read & self._quantized)
        return read, ends_wave

    def _has_room(self):
        """Every port has room, and what they say knows of all packets that have started."""
        settled = self.settled if self._config.sliced else 1
        return ~self._full().any() & settled

    def _in_run(self, m, start, ends_wave):
        """The packet is not its run's first: there is room, and it must follow at once."""
        packets = self._config.run_bytes // self._config.payload_bytes
        if packets == 1:
            return Const(0)
        behind = Signal(range(packets))  # packets of the run that are left
        with m.If(start):
            m.d.sync += behind.eq(Mux(behind == 0, packets, behind) - 1)
        with m.If(ends_wave):
            m.d.sync += behind.eq(0)
        return behind != 0

    def _start_scales(self, m, last):
        wave = self._wave
        scale_size = scales_of(m, self._config, wave.format, wave.size)
        m.d.comb += [
            self.start.quantized.eq(self._quantized),
            self.start.begins.eq(~self._begun),
            self.start.ends.eq(last),
            self.start.scale_size.eq(scale_size),
        ]
        # A wave that is dropped opens its slot too, and writes none.
        with m.If(self.start.valid):
            m.d.comb += self.scale_packets.eq(
                sum(
                    scale_size > packet * self._config.payload_bytes
                    for packet in range(self._config.scale_packets)
                )
            )

    def _cut(self, m, take):
        """The next packet's size, in registers, worked out as the one before starts.

        Gives whether it is the wave's last.
        """
        rest = Signal(range(self._config.wave_bytes + 1))  # bytes behind the next packet
        last = Signal()
        wave_size = self.waves.payload.size
        if self._config.sliced:
            # A wave's first packet is cut while the wave is asked for: when it is taken is known
            # late in a cycle.
            first = self._cut_off(m, wave_size, rest.shape(), "first_")
            first = [delayed(m, value, f"first_{index}") for index, value in enumerate(first)]
            packet = [
                Mux(take, *values)
                for values in zip(first, self._cut_off(m, rest, rest.shape()), strict=True)
            ]
        else:
            packet = self._cut_off(m, Mux(take, wave_size, rest), rest.shape())
        with m.If(take | self.start.valid):
            m.d.sync += [
                register.eq(value)
                for register, value in zip(
                    (self.start.size, self.start.flits, rest, last), packet, strict=True
                )
            ]
        return last

    def _cut_off(self, m, bytes_left, shape, prefix=""):
        """The packet that `bytes_left` begin with: size, flits, bytes left behind it, none left."""
        config = self._config
        before = Signal(shape, name=f"{prefix}before")  # bytes from it on
        size = Signal.like(self.start.size, name=f"{prefix}size")
        is_last = Signal(name=f"{prefix}is_last")
        m.d.comb += [
            before.eq(bytes_left),
            is_last.eq(before <= config.payload_bytes),
            size.eq(Mux(is_last, before, config.payload_bytes)),
        ]
        flits = ((size + (config.flit_bytes - 1)) >> config.flit_address_bits)[
            : len(self.start.flits)
        ]
        return size, flits, (before - size)[: len(before)], is_last

    def _keep(self, m, read, ends_wave):
        """Lanes inside the message, beside the tables' data; only a wave's last flit lacks some."""
        config = self._config
        tail = self._wave.size[: config.flit_address_bits]  # bytes in a last flit that is not full
        step = CODE_BYTES if config.quantizes else ELEMENT_BYTES
        keep = Cat(
            ~ends_wave | (tail == 0) | (tail > byte) for byte in range(0, config.flit_bytes, step)
        )
        beside = [("keep", keep), ("format", self._wave.format)]
        if config.subsets:
            m.d.comb += self.start.ranks.eq(self._wave.destinations)
            beside += [(name, getattr(self._wave, name)) for name in ("sources", "destinations")]
        if config.chooses_operation:
            beside.append(("reduction", self._wave.operation))
        if config.quantizes:
            beside += [("ends_wave", ends_wave), ("ends_blocks", self._ends_blocks(m, ends_wave))]
        self._put(m, "operands_valid", read | self._second)
        for name, value in beside:
            # Of a flit that takes two cycles, in both.
            self._put(m, name, value, ~self._second)

    def _put(self, m, name, value, enable=1):
        """An output beside the tables' data, of a value beside ``read_enable`` while `enable`."""
        output = getattr(self, name)
        for stage in range(1, read_delay(self._config)):
            later = Signal.like(output, name=f"{name}_{stage}")
            with m.If(enable):
                m.d.sync += later.eq(value)
            value, enable = later, 1
        m.d.sync += output.eq(value)

    def _ends_blocks(self, m, ends_wave):
        """The flit's block is the wave's last."""
        config = self._config
        if block_flits(config) == 1:
            return ends_wave
        block = self._flit >> exact_log2(block_flits(config))
        last_block = (self._wave.size - 1) >> exact_log2(config.block)
        return block == last_block[: len(block)]
