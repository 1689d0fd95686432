"""One direction of a link: a delay line whose length is set at run time."""

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import LinkSignature, LinkState

__all__ = ["Link"]


class Link(wiring.Component):
    """Carries a flit and returned credits each cycle, `latency` cycles later, in order.

    Members
    -------
    i : the sending end
    o : the receiving end
    latency : cycles from ``i`` to ``o``, 2..`link_latency_max`; what is under way in the cycle in
        which it changes is lost, what is sent from that cycle on arrives
    up : the line carries what is sent; where contexts outlive failures

    The line is a memory written and read every cycle, `latency` apart: one block RAM word a flit
    in flight, however long the link is. It still holds what it has delivered, so after a change to
    a longer latency, and after a reset, nothing comes out until the latency has passed.

    While it is not ``up`` all that is sent is lost, and so is all that is under way; what is sent
    from the cycle on in which it is up again arrives. Until then, and also behind a change of the
    latency, the receiving end hears SILENT.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        super().__init__(
            {
                "i": In(LinkSignature(config)),
                "o": Out(LinkSignature(config)),
                "latency": In(range(config.link_latency_max + 1)),
            }
            | ({"up": In(1, init=1)} if config.recovers else {})
        )

    def elaborate(self, platform):
        m = Module()
        depth = self._config.link_latency_max
        recovers = self._config.recovers
        width = 1 + len(self.i.flit.as_value()) + len(self.i.credit)
        width += len(self.i.state.as_value()) if recovers else 0
        m.submodules.line = line = Memory(shape=width, depth=depth, init=[])
        write = line.write_port()
        read = line.read_port()
        sent = [self.i.valid, self.i.credit, self.i.flit.as_value()]
        valid = Signal()
        credit = Signal.like(self.o.credit)
        received = [valid, credit, self.o.flit.as_value()]
        if recovers:
            state = Signal(LinkState)
            sent.append(self.i.state.as_value())
            received.append(state.as_value())

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
        changes = self.latency != before
        with m.If(changes):
            m.d.sync += closed.eq(self.latency - 1)
        with m.Elif(closed != 0):
            m.d.sync += closed.eq(closed - 1)
        opens = closed == 0
        if recovers:
            opens = opens & self.up
            self._break(m, changes, closed, opens, state)
        with m.If(opens):
            m.d.comb += [self.o.valid.eq(valid), self.o.credit.eq(credit)]
        return m

    def _break(self, m, changes, closed, opens, state):
        """Lose what is under way, and let the receiving end hear that."""
        begins = Signal(init=1)  # the latency that is noticed first is no change
        broken = Signal()
        m.d.sync += begins.eq(0)
        with m.If(~self.up):
            m.d.sync += [closed.eq(self.latency), broken.eq(1)]
        with m.Elif(changes & ~begins):
            m.d.sync += broken.eq(1)
        with m.Elif(opens):
            m.d.sync += broken.eq(0)
        silent = ~self.up | (broken & ~opens)
        with m.If(opens):
            m.d.comb += self.o.state.eq(state)
        with m.Elif(silent):
            m.d.comb += self.o.state.eq(LinkState.SILENT)
