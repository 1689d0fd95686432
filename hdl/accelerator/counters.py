"""Figures of a run, counted where they happen."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig

__all__ = ["Counters"]

COUNT_BITS = 32
SUM_BITS = 48


class Counters(wiring.Component):
    """Counts cycles and waves since ``clear``.

    Members
    -------
    clear : all to zero
    now : cycles since reset
    request : a read request was accepted at some port; response : a data write was answered
    reading, writing : waves in either phase
    barrier, entries, data, write_room, request_credits : conditions whose cycles are counted, the
        last three by rank or port
    first_request, last_response, *_max, *_sum, stall_* : the results

    Timing
    ------
    An event shows in its result within two cycles; time stamps name the cycle of the event.
    """

    def __init__(self, config: SwitchConfig):
        self._ranks = config.ranks
        reading, writing = range(config.waves + 1), range(config.contexts * config.write_waves + 1)
        ranks = config.ranks
        super().__init__(
            {
                "clear": In(1),
                "now": In(COUNT_BITS),
                "request": In(1),
                "response": In(1),
                "reading": In(reading),
                "writing": In(writing),
                "barrier": In(1),
                "entries": In(1),
                "data": In(ranks),
                "write_room": In(ranks),
                "request_credits": In(ranks),
                "first_request": Out(COUNT_BITS),
                "last_response": Out(COUNT_BITS),
                "reading_max": Out(reading),
                "reading_sum": Out(SUM_BITS),
                "writing_max": Out(writing),
                "writing_sum": Out(SUM_BITS),
                "stall_barrier": Out(COUNT_BITS),
                "stall_entries": Out(COUNT_BITS),
            }
            | {
                f"stall_{what}_{rank}": Out(COUNT_BITS)
                for what in ("data", "write_room", "request_credits")
                for rank in range(ranks)
            }
        )

    def elaborate(self, platform):
        m = Module()
        # Events are registered first, so that noting them adds nothing to their paths.
        started = Signal()  # a request was seen since clear
        requested, responded, before = Signal(), Signal(), Signal.like(self.now)
        m.d.sync += [
            requested.eq(self.request & ~self.clear),
            responded.eq(self.response & ~self.clear),
            before.eq(self.now),
        ]
        with m.If(requested & ~started):
            m.d.sync += [started.eq(1), self.first_request.eq(before)]
        with m.If(responded):
            m.d.sync += self.last_response.eq(before)
        for what in ("reading", "writing"):
            value = getattr(self, what)
            largest, total = getattr(self, f"{what}_max"), getattr(self, f"{what}_sum")
            m.d.sync += [largest.eq(Mux(value > largest, value, largest)), total.eq(total + value)]
        self._stall(m, self.barrier, self.stall_barrier)
        self._stall(m, self.entries, self.stall_entries)
        for what in ("data", "write_room", "request_credits"):
            for rank in range(self._ranks):
                self._stall(m, getattr(self, what)[rank], getattr(self, f"stall_{what}_{rank}"))
        with m.If(self.clear):
            m.d.sync += started.eq(0)
            for name, member in self.signature.members.items():
                if member.flow is Out:
                    m.d.sync += getattr(self, name).eq(0)
        return m

    def _stall(self, m, condition, count):
        seen = Signal(name=f"{count.name}_seen")
        m.d.sync += seen.eq(condition & ~self.clear)
        with m.If(seen):
            m.d.sync += count.eq(count + 1)
