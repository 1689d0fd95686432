"""Starts operations and cuts them into waves, never more than there are entries for."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from .chunks import Chunks
from .layouts import OperationLayout, WaveLayout, context_bits, entry_bits, operation_slots
from .scales import scales_of

__all__ = ["GENERATION_BITS", "Reservation", "WaveController", "WaveIssue"]

#: Uses of a wave table entry that tags tell apart.
GENERATION_BITS = 4


class Reservation(wiring.Signature):
    """An entry is taken in every rank's wave table.

    ``absent`` has a bit for each packet of a full wave that this one does not have, those of its
    scales behind those of its data. ``ranks`` : those that it is taken at, where that may be some.
    ``context`` : whose it is, where there are several.
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "valid": Out(1),
                "entry": Out(entry_bits(config)),
                "generation": Out(GENERATION_BITS),
                "absent": Out(config.packets_per_wave + config.scale_packets),
            }
            | ({"ranks": Out(config.ranks)} if config.subsets else {})
            | ({"context": Out(context_bits(config))} if config.contexts > 1 else {})
        )


class WaveIssue(wiring.Signature):
    """A wave to request, the same at every port but for the addresses.

    ``scale_address`` and ``scale_size`` (bytes, 0 for a wave without scales) are there where
    quantized operations are built; ``ranks``: those that are asked, where that may be some.
    """

    def __init__(self, config: SwitchConfig):
        members = {
            "valid": Out(1),
            "address": Out(config.operand_address_bits).array(config.ranks),
            "size": Out(config.wave_bytes.bit_length()),
            "entry": Out(entry_bits(config)),
            "generation": Out(GENERATION_BITS),
        }
        if config.quantizes:
            members |= {
                "scale_address": Out(config.operand_address_bits).array(config.ranks),
                "scale_size": Out(config.scale_chunk_bytes.bit_length()),
            }
        if config.subsets:
            members["ranks"] = Out(config.ranks)
        super().__init__(members)


class WaveController(wiring.Component):
    """Takes an operation whose barrier is complete and issues its waves as entries are free.

    Members
    -------
    launch, sources : the next operation
    scale_sources : its scales, where quantized operations are built
    complete, take : the barrier of the current epoch
    launched, launched_slot : an operation starts
    failed : by operation slot: it has an error; no more waves, but one that ends it
    reserve : the wave tables' entry, taken in the cycle of the issue
    issue : the request issuers' wave; ``issue_ready`` says that all can take one
    waves : the wave, for read-out, in order
    release : read-out is done with the oldest entry
    reading : entries taken
    wants : a wave wants an entry and has one; where there are several contexts, others may, too
    sources_of : ranks that it will be asked of, where that may be some
    hold, base, share : see `EntryShares`, where there are several contexts
    halt, force : no operation is taken; the next one is taken whoever has arrived; likewise
    busy : an operation is being cut into waves
    waits_barrier, waits_entry : an operation waits for its barrier, a wave for an entry

    Timing
    ------
    A wave a cycle; two cycles from ``complete`` to an operation's first wave, one between
    operations. An entry released in one cycle is used in the next.

    Stalls
    ------
    Waits for the barrier, for an entry, for the issuers' queues (which wait for credits only), for
    the read-out order (as deep as there are entries). An entry is taken before any request of its
    wave goes out, so read data always has its place.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        members = {
            "launch": In(stream.Signature(OperationLayout(config))),
            "sources": In(config.operand_address_bits).array(config.ranks),
            "complete": In(1),
            "take": Out(1),
            "failed": In(operation_slots(config)),
            "reserve": Out(Reservation(config)),
            "issue": Out(WaveIssue(config)),
            "issue_ready": In(1),
            "waves": Out(stream.Signature(WaveLayout(config))),
            "release": In(1),
            "reading": Out(range(config.waves + 1)),
            "wants": Out(1),
            "busy": Out(1),
            "waits_barrier": Out(1),
            "waits_entry": Out(1),
        }
        if config.quantizes:
            members["scale_sources"] = In(config.operand_address_bits).array(config.ranks)
        if config.subsets:
            members["sources_of"] = Out(config.ranks)
        if config.contexts > 1:
            members |= {
                "hold": In(1),
                "base": In(range(config.waves)),
                "share": In(range(config.waves + 1)),
                "halt": In(1),
                "force": In(1),
            }
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self._config
        operation = Signal(OperationLayout(config))
        remaining = Signal.like(self.launch.payload.length)
        active = Signal()
        first = Signal()
        complete = self.complete
        if config.contexts > 1:
            complete = (complete & ~self.halt) | self.force
        m.d.comb += [
            self.busy.eq(active),
            self.take.eq(self.launch.valid & ~active & complete),
            self.launch.ready.eq(~active & complete),
            self.waits_barrier.eq(self.launch.valid & ~active & ~self.complete),
        ]
        with m.If(self.take):
            m.d.sync += [
                operation.eq(self.launch.payload),
                remaining.eq(self.launch.payload.length),
                active.eq(1),
                first.eq(1),
            ]

        failed = Signal()
        m.d.comb += failed.eq(self.failed.bit_select(operation.slot, 1))
        full_wave = remaining > config.wave_bytes
        bytes_of_wave = Mux(full_wave, config.wave_bytes, remaining)
        ends_operation = ~full_wave
        issue = Signal()  # a wave, empty or not
        size = Signal(range(config.wave_bytes + 1))
        if config.chunks:
            m.submodules.chunks = chunks = Chunks(config)
            m.d.comb += [
                chunks.take.eq(self.take),
                chunks.launch.eq(self.launch.payload),
                chunks.operation.eq(operation),
                chunks.remaining.eq(remaining),
                chunks.issue.eq(issue),
                chunks.size.eq(size),
            ]
            bytes_of_wave, ends_operation = chunks.wave_bytes, chunks.ends_operation
        empty = Signal()
        last = Signal()
        m.d.comb += [
            size.eq(Mux(failed, 0, bytes_of_wave)),
            empty.eq(size == 0),
            last.eq(failed | ends_operation),
        ]
        entry, generation, has_entry = self._entries(m, active & ~empty)
        m.d.comb += [
            self.wants.eq(active & ~empty & has_entry),
            self.waves.valid.eq(active & (empty | (has_entry & self.issue_ready))),
            issue.eq(self.waves.valid & self.waves.ready),
            self.waves.payload.slot.eq(operation.slot),
            self.waves.payload.format.eq(operation.format),
            self.waves.payload.entry.eq(entry),
            self.waves.payload.size.eq(size),
            self.waves.payload.first.eq(first),
            self.waves.payload.last.eq(last),
            self.issue.valid.eq(issue & ~empty),
            self.issue.size.eq(size),
            self.issue.entry.eq(entry),
            self.issue.generation.eq(generation),
            self.reserve.valid.eq(issue & ~empty),
            self.reserve.entry.eq(entry),
            self.reserve.generation.eq(generation),
        ]
        if config.chooses_operation:
            m.d.comb += self.waves.payload.operation.eq(operation.operation)
        if config.subsets:
            ranks = chunks if config.chunks else operation
            m.d.comb += [
                self.waves.payload.sources.eq(ranks.sources),
                self.waves.payload.destinations.eq(ranks.destinations),
                self.issue.ranks.eq(ranks.sources),
                self.reserve.ranks.eq(ranks.sources),
                self.sources_of.eq(ranks.sources),
            ]
        absent = self._absent(size, config.packets_per_wave)
        if config.quantizes:
            scale_size = scales_of(m, config, operation.format, size)
            absent = Cat(absent, self._absent(scale_size, config.scale_packets))
            m.d.comb += self.issue.scale_size.eq(scale_size)
        m.d.comb += self.reserve.absent.eq(absent)
        with m.If(issue):
            m.d.sync += [first.eq(0), remaining.eq(remaining - size), active.eq(~last)]
        # Waves in front of a chunk's end may be short; those with scales never are.
        step = size if config.chunks else config.wave_bytes
        self._addresses(m, issue, self.issue.address, self.sources, step)
        if config.quantizes:
            self._addresses(
                m, issue, self.issue.scale_address, self.scale_sources, config.scale_chunk_bytes
            )
        return m

    def _absent(self, size, packets):
        """The packets of a full wave that one of `size` bytes does not have."""
        return Cat(size <= packet * self._config.payload_bytes for packet in range(packets))

    def _entries(self, m, wanted):
        """Entries are a ring, taken and released in order of the waves."""
        config = self._config
        entry = Signal(entry_bits(config))
        generation = Signal(GENERATION_BITS)
        has_entry = Signal()
        several = config.contexts > 1
        free = self.reading != config.waves
        base, share = 0, config.waves
        if several:
            base, share = self.base, self.share
            free = (self.reading != share) & ~self.hold
        m.d.comb += [has_entry.eq(free), self.waits_entry.eq(wanted & ~has_entry)]
        m.d.sync += self.reading.eq(self.reading + self.reserve.valid - self.release)
        with m.If(self.reserve.valid):
            wraps = entry == base + share - 1
            m.d.sync += [entry.eq(Mux(wraps, base, entry + 1)), generation.eq(generation + wraps)]
        if several:
            # Its first entry of a new share, but not one that it still uses of the old.
            with m.If(self.hold & (self.reading == 0)):
                m.d.sync += entry.eq(base)
        return entry, generation, has_entry

    def _addresses(self, m, issue, addresses, starts, step):
        """Each rank's address of the next wave."""
        for address, start in zip(addresses, starts, strict=True):
            with m.If(self.take):
                m.d.sync += address.eq(start)
            with m.Elif(issue):
                m.d.sync += address.eq(address + step)
