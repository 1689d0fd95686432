"""Which part of the vector goes from whom to whom, chunk by chunk."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import Collective
from .layouts import OperationLayout

__all__ = ["Chunks"]


class Chunks(wiring.Component):
    """Which part of the vector a wave is of, and so who is read and who is written.

    Chunk i is of the i-th source (`Collective.GATHER`) or destination (`Collective.SCATTER`), by
    rank; the last one's is all that is left. A chunk that begins past the end is no wave.

    Members
    -------
    take, launch : an operation begins
    operation, remaining : the one under way; its bytes that no wave has yet
    issue, size : a wave of it begins, of so many bytes
    wave_bytes : of the next wave: never beyond its chunk
    ends_operation : it is the operation's last
    sources, destinations : ranks of the next wave

    Timing
    ------
    The next chunk begins a cycle behind the last wave of the one before: no cycle is lost.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        operation = OperationLayout(config)
        bytes_left = operation["length"].shape
        ranks = config.ranks
        super().__init__(
            {
                "take": In(1),
                "launch": In(operation),
                "operation": In(operation),
                "remaining": In(bytes_left),
                "issue": In(1),
                "size": In(range(config.wave_bytes + 1)),
                "wave_bytes": Out(range(config.wave_bytes + 1)),
                "ends_operation": Out(1),
                "sources": Out(ranks),
                "destinations": Out(ranks),
            }
        )

    def elaborate(self, platform):
        m = Module()
        operation = self.operation
        gathers = operation.collective == Collective.GATHER
        scatters = operation.collective == Collective.SCATTER
        waiting = Signal(self._config.ranks)  # owners of this chunk and of those behind it
        owner = Signal(self._config.ranks)
        left = Signal.like(self.remaining)  # bytes of this chunk
        within = Signal.like(self.remaining)  # bytes up to its end, or to the vector's
        last_owner = Signal()
        ends_chunk = Signal()
        full = within > self._config.wave_bytes
        m.d.comb += [
            owner.eq(waiting & (~waiting + 1)[: len(waiting)]),  # the lowest bit that is set
            last_owner.eq(((gathers | scatters) == 0) | (waiting == owner)),
            within.eq(Mux(last_owner | (self.remaining <= left), self.remaining, left)),
            self.wave_bytes.eq(Mux(full, self._config.wave_bytes, within)),
            self.ends_operation.eq(self.remaining == self.wave_bytes),
            ends_chunk.eq(left == self.size),
            self.sources.eq(Mux(gathers, owner, operation.sources)),
            self.destinations.eq(Mux(scatters, owner, operation.destinations)),
        ]
        with m.If(self.take):
            begun = self.launch
            gathers_next = begun.collective == Collective.GATHER
            m.d.sync += [
                waiting.eq(Mux(gathers_next, begun.sources, begun.destinations)),
                left.eq(begun.chunk),
            ]
        with m.Elif(self.issue):
            m.d.sync += left.eq(left - self.size)
            with m.If(ends_chunk & ~last_owner):
                m.d.sync += [left.eq(operation.chunk), waiting.eq(waiting & ~owner)]
        return m
