"""Lets packets pass, or swallows them."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import PacketSource
from ..stream import Queue
from .outstanding import outstanding_limit
from .packet_merge import HEADS_AHEAD

__all__ = ["PacketDrop"]


class PacketDrop(wiring.Component):
    """Between a source of packets and who sends them: while told so, it takes them itself.

    Members
    -------
    i : the source
    o : what passes
    drop : heads are taken here, and their payload with them as it comes
    left : a head has been taken, here or there
    coming : packets that begin at the source
    empty : all that began have left, dropped ones to their last flit

    Timing
    ------
    Heads pass in the same cycle, and so does payload, from the cycle behind its head's on. What is
    dropped goes at a flit a cycle.

    Ordering
    --------
    A packet whose head was taken at ``o`` goes there to its end, whatever ``drop`` says.
    """

    def __init__(self, config: SwitchConfig):
        source = PacketSource(config)
        most = 1 + config.scale_packets
        self._most = outstanding_limit(config)
        super().__init__(
            {
                "i": In(source),
                "o": Out(source),
                "drop": In(1),
                "left": Out(1),
                "coming": In(range(most + 1)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        i, o = self.i, self.o
        flits = i.head.payload.flits
        m.submodules.fates = fates = Queue(
            data.StructLayout({"flits": flits.shape(), "dropped": unsigned(1)}), depth=HEADS_AHEAD
        )
        m.d.comb += [
            o.head.payload.eq(i.head.payload),
            o.head.valid.eq(i.head.valid & fates.i.ready & ~self.drop),
            i.head.ready.eq(fates.i.ready & (self.drop | o.head.ready)),
            self.left.eq(i.head.valid & i.head.ready),
            fates.i.valid.eq(self.left & (flits != 0)),
            fates.i.payload.flits.eq(flits),
            fates.i.payload.dropped.eq(self.drop),
        ]
        under_way = Signal(range(self._most + 1))
        m.d.sync += under_way.eq(under_way + self.coming - self.left)
        m.d.comb += self.empty.eq((under_way == 0) & (fates.level == 0))
        fate = fates.o.payload
        passed = Signal.like(fate.flits)
        last = passed == fate.flits - 1
        moves = i.payload.valid & i.payload.ready
        m.d.comb += [
            o.payload.payload.eq(i.payload.payload),
            o.payload.valid.eq(i.payload.valid & fates.o.valid & ~fate.dropped),
            i.payload.ready.eq(fates.o.valid & (fate.dropped | o.payload.ready)),
            fates.o.ready.eq(moves & last),
        ]
        with m.If(moves):
            m.d.sync += passed.eq(Mux(last, 0, passed + 1))
        return m
