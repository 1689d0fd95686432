"""One direction of a link: a delay line whose length is set at run time."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import LinkSignature

__all__ = ["Link"]


class Link(wiring.Component):
    """Carries a flit and returned credits each cycle, `latency` cycles later, in order.

    Members
    -------
    i : the sending end
    o : the receiving end
    latency : cycles from ``i`` to ``o``, 2..`link_latency_max`; what is under way in the cycle in
        which it changes is lost, what is sent from that cycle on arrives

    The line is a memory written and read every cycle, `latency` apart: one block RAM word a flit
    in flight, however long the link is. It still holds what it has delivered, so after a change to
    a longer latency, and after a reset, nothing comes out until the latency has passed.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        super().__init__(
            {
                "i": In(LinkSignature(config)),
                "o": Out(LinkSignature(config)),
                "latency": In(range(config.link_latency_max + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self._config.link_latency_max
        width = 1 + len(self.i.flit.as_value()) + len(self.i.credit)
        m.submodules.line = line = Memory(shape=width, depth=depth, init=[])
        write = line.write_port()
        read = line.read_port()
        sent = [self.i.valid, self.i.credit, self.i.flit.as_value()]
        valid = Signal()
        credit = Signal.like(self.o.credit)
        received = [valid, credit, self.o.flit.as_value()]

        position = Signal(range(depth))
        m.d.sync += position.eq(position + 1)
        m.d.comb += [
            write.addr.eq(position),
            write.en.eq(1),
            read.addr.eq(position - self.latency + 1),
        ]
        offset = 0
        for source, sink in zip(sent, received, strict=True):
            stop = offset + len(source)
            m.d.comb += [write.data[offset:stop].eq(source), sink.eq(read.data[offset:stop])]
            offset = stop

        before = Signal.like(self.latency)
        # Cycles until what was sent after the change arrives. Not 0 at first: a reset leaves the
        # line as it is, and is noticed as a change a cycle later.
        closed = Signal.like(self.latency, init=1)
        m.d.sync += before.eq(self.latency)
        with m.If(self.latency != before):
            m.d.sync += closed.eq(self.latency - 1)
        with m.Elif(closed != 0):
            m.d.sync += closed.eq(closed - 1)
        with m.If(closed == 0):
            m.d.comb += [self.o.valid.eq(valid), self.o.credit.eq(credit)]
        return m
