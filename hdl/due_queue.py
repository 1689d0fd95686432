"""A queue that offers a transfer when its time has come."""

from amaranth import Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .stream import Queue

__all__ = ["DueQueue"]

#: Shape of a time to wait: the longest latency of an emulated memory with the largest jitter, and
#: one below 0, which is no wait either.
WAIT = signed(17)


class DueQueue(wiring.Component):
    """First-in first-out queue of stream transfers, none of which is offered before its time.

    Parameters
    ----------
    shape
        Shape of what is kept.
    depth
        At least 2; the queue holds one transfer more.
    time_bits
        Width of the time. What may lie between a transfer's time and the cycle in which it becomes
        the oldest must be shorter than half of its range, forwards and backwards.

    Members
    -------
    i : ``item``, and ``wait``, in cycles
    o : the item
    now : the time: one more in each cycle
    waits : there is an oldest one, be it due or not

    Timing
    ------
    One transfer a cycle in and out. One that was taken in cycle t is offered from cycle
    t + ``wait`` on, no sooner than t + 1, and behind those before it. Once offered it stays until
    it is taken. ``i.ready`` depends on the fill level alone.

    ``o`` comes out of registers, ``o.valid`` too: each cycle it is found out what will be due in
    the next one, of the oldest and of the one behind it, and only the choice between the two waits
    for ``o.ready``. So the comparison of times, a carry chain behind a memory, is on nobody's path.
    """

    def __init__(self, shape, *, depth: int, time_bits: int):
        if depth < 2:
            raise ValueError(f"depth must be at least 2, not {depth!r}")
        self._shape = shape
        self._depth = depth
        self._kept = data.StructLayout({"item": shape, "due": unsigned(time_bits)})
        timed = data.StructLayout({"item": shape, "wait": WAIT})
        super().__init__(
            {
                "i": In(stream.Signature(timed)),
                "o": Out(stream.Signature(shape)),
                "now": In(time_bits),
                "waits": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # The oldest is in a register, the others in the queue.
        m.submodules.behind = behind = Queue(self._kept, depth=self._depth - 1)
        oldest = Signal(self._kept)
        advance, empty = Signal(), Signal()
        m.d.comb += [
            advance.eq(~self.waits | (self.o.valid & self.o.ready)),
            empty.eq(~behind.o.valid),
            self.i.ready.eq(behind.i.ready),
            behind.i.valid.eq(self.i.valid & ~(advance & empty)),
            behind.i.payload.item.eq(self.i.payload.item),
            # A cycle early, since what is compared in one cycle is seen in the next.
            behind.i.payload.due.eq(self.now + self.i.payload.wait - 1),
            behind.o.ready.eq(advance),
            self.o.payload.eq(oldest.item),
        ]
        with m.If(advance):
            m.d.sync += [
                self.waits.eq(behind.o.valid | (self.i.valid & self.i.ready)),
                oldest.eq(Mux(empty, behind.i.payload, behind.o.payload)),
                self.o.valid.eq(
                    Mux(
                        empty,
                        self.i.valid & self.i.ready & (self.i.payload.wait <= 1),
                        self._reached(behind.o.payload.due),
                    )
                ),
            ]
        with m.Elif(self._reached(oldest.due)):
            m.d.sync += self.o.valid.eq(1)
        return m

    def _reached(self, due):
        """Whether a time is there, as time wraps round."""
        return ~(self.now - due)[len(self.now) - 1]
