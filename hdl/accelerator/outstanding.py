"""What one rank still owes, context by context."""

from amaranth import Cat, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from .layouts import operation_slots

__all__ = ["Outstanding", "outstanding_limit"]


def outstanding_limit(config: SwitchConfig) -> int:
    """Most packets that a rank may owe one context, of either kind: waves and flags."""
    packets = config.packets_per_wave + config.scale_packets
    return max(config.waves, config.write_waves) * packets + 2 * operation_slots(config)


class Outstanding(wiring.Component):
    """Counts packets of read data and write responses that a rank owes, one pair a context.

    Members
    -------
    asked, asked_packets : by context, a read request leaves, and the packets that answer it
    came : by context, a packet of read data has come
    written : by context, a write leaves, flags among them
    answered : by context, a write response has come
    lost : the link was reset: nothing that was owed will come
    reads, writes : by context, what is owed
    idle : by context, nothing is

    Timing
    ------
    Counts one cycle later. An answer that nobody owes counts nothing.
    """

    def __init__(self, config: SwitchConfig):
        self._contexts = contexts = config.contexts
        packets = config.read_request_bytes // config.payload_bytes
        count = range(outstanding_limit(config) + 1)
        super().__init__(
            {name: In(contexts) for name in ("asked", "came", "written", "answered")}
            | {
                "asked_packets": In(range(packets + 1)),
                "lost": In(1),
                "reads": Out(count).array(contexts),
                "writes": Out(count).array(contexts),
                "idle": Out(contexts),
            }
        )

    def elaborate(self, platform):
        m = Module()
        for context in range(self._contexts):
            reads, writes = self.reads[context], self.writes[context]
            asked = Mux(self.asked[context], self.asked_packets, 0)
            self._count(m, reads, asked, self.came[context])
            self._count(m, writes, self.written[context], self.answered[context])
            m.d.comb += self.idle[context].eq(~Cat(reads, writes).any())
        return m

    def _count(self, m, count, more, less):
        owed = less & (count != 0)
        m.d.sync += count.eq(Mux(self.lost, 0, count + more - owed))
