"""Packets of several sources through one."""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import PacketSource
from ..stream import Queue
from ..transport.arbiter import RoundRobin

__all__ = ["HEADS_AHEAD", "PacketMerge"]

#: Heads that may be taken before the payload of the packet in front of them has left.
HEADS_AHEAD = 2


class PacketMerge(wiring.Component):
    """Packets one after the other, whole, in turn.

    Parameters
    ----------
    count
        Sources.

    Members
    -------
    i : sources
    o : all of their packets; payload in the order of the heads that were taken
    taken : by source, its head is taken

    Timing
    ------
    A head passes in the same cycle. Its payload may follow from the next cycle on, as a transmitter
    asks for it.

    Ordering and stalls
    -------------------
    Whose head is offered is decided anew each cycle until one is taken, so a source may withdraw
    its head, and one that waits for nobody stops no other. A source that keeps asking waits for at
    most one packet of each other one.
    """

    def __init__(self, config: SwitchConfig, *, count: int):
        self._count = count
        source = PacketSource(config)
        super().__init__(
            {"i": In(source).array(count), "o": Out(source), "taken": Out(count)},
        )

    def elaborate(self, platform):
        m = Module()
        flits = self.o.head.payload.flits
        m.submodules.order = order = Queue(
            data.StructLayout({"source": unsigned(len(self.taken)), "flits": flits.shape()}),
            depth=HEADS_AHEAD,
        )
        m.submodules.round_robin = robin = RoundRobin(self._count)
        grant, head = robin.grant, self.o.head
        m.d.comb += [
            robin.requests.eq(Cat(i.head.valid for i in self.i)),
            head.valid.eq(robin.requests.any() & order.i.ready),
            self.taken.eq(Mux(head.valid & head.ready, grant, 0)),
            robin.used.eq(self.taken),
            order.i.valid.eq((head.valid & head.ready) & (flits != 0)),
            order.i.payload.source.eq(grant),
            order.i.payload.flits.eq(flits),
        ]
        for index, i in enumerate(self.i):
            with m.If(grant[index]):
                m.d.comb += head.payload.eq(i.head.payload)
            m.d.comb += i.head.ready.eq(grant[index] & head.ready & order.i.ready)
        self._forward(m, order.o)
        return m

    def _forward(self, m, order):
        """Payload of the oldest packet whose head was taken."""
        passed = Signal.like(order.payload.flits)
        o = self.o.payload
        for index, i in enumerate(self.i):
            here = order.valid & order.payload.source[index]
            with m.If(here):
                m.d.comb += [o.valid.eq(i.payload.valid), o.payload.eq(i.payload.payload)]
            m.d.comb += i.payload.ready.eq(here & o.ready)
        last = passed == order.payload.flits - 1
        m.d.comb += order.ready.eq(o.valid & o.ready & last)
        with m.If(o.valid & o.ready):
            m.d.sync += passed.eq(Mux(last, 0, passed + 1))
