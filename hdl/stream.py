"""Stream parts that everything else is made of."""

from amaranth import Module, Mux, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Queue"]

#: From so many bits on, a queue asks synthesis for block RAM: 2,048 bits are over 60 LUTs of LUT
#: RAM, of which small devices have fewer to spare than of block RAM.
BLOCK_RAM_BITS = 2048


class Queue(wiring.Component):
    """First-in first-out queue of stream transfers.

    Parameters
    ----------
    shape
        Shape of the payload.
    depth
        Transfers that the memory holds, at least 1; the output register holds one more.

    Timing
    ------
    One transfer a cycle in and out. A transfer is offered at the output one cycle after it was
    taken at the input. ``i.ready`` depends on the fill level alone, never on ``o.ready``, so a
    queue also cuts the ready path.

    The memory is read one cycle ahead into its own output register (block RAM or LUT RAM serve
    alike) and never at the address that is being written, so no read port must be transparent.
    """

    def __init__(self, shape, *, depth: int):
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth!r}")
        self._shape = shape
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 2)),
            }
        )

    @property
    def depth(self) -> int:
        return self._depth

    def elaborate(self, platform):
        m = Module()
        attributes = {"ram_style": "block"} if self._fills_block() else {}
        m.submodules.memory = memory = Memory(
            shape=self._shape, depth=self._depth, init=[], attrs=attributes
        )
        write = memory.write_port()
        read = memory.read_port()

        stored = Signal(range(self._depth + 1))
        passed = Signal(self._shape)
        from_memory = Signal()
        offered = Signal()

        take = Signal()
        advance = Signal()
        load = Signal()
        store = Signal()
        m.d.comb += [
            self.i.ready.eq(stored != self._depth),
            take.eq(self.i.valid & self.i.ready),
            advance.eq(~offered | self.o.ready),
            load.eq(advance & (stored != 0)),
            store.eq(take & ~(advance & (stored == 0))),
            self.o.valid.eq(offered),
            self.level.eq(stored + offered),
            write.en.eq(store),
            write.data.eq(self.i.payload),
            read.en.eq(load),
        ]
        m.d.comb += self.o.payload.eq(Mux(from_memory, read.data, passed))

        with m.If(store):
            m.d.sync += write.addr.eq(self._next(write.addr))
        with m.If(load):
            m.d.sync += read.addr.eq(self._next(read.addr))
        m.d.sync += stored.eq(stored + store - load)
        with m.If(advance):
            m.d.sync += [
                offered.eq(load | take),
                from_memory.eq(load),
                passed.eq(self.i.payload),
            ]
        return m

    def _fills_block(self) -> bool:
        """Whether a block RAM is the better place: LUT RAM would take 32 words a LUT and bit."""
        return self._depth * Shape.cast(self._shape).width >= BLOCK_RAM_BITS

    def _next(self, address):
        if self._depth & (self._depth - 1) == 0:
            return address + 1
        return Mux(address == self._depth - 1, 0, address + 1)
