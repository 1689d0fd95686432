"""Stream parts that everything else is made of."""

from amaranth import Module, Mux, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["Queue", "Slice", "delayed"]

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
        At least 1; the queue holds one transfer more.

    Members
    -------
    i, o : the ends
    level : transfers that it holds

    Timing
    ------
    One transfer a cycle in and out. A transfer is offered at the output one cycle after it was
    taken at the input. ``i.ready`` depends on the fill level alone, never on ``o.ready``, so a
    queue also cuts the ready path.

    Small queues are LUT RAM, read at the output without a register. Large ones are block RAM, read
    two cycles ahead into an output register; a word that finds the memory empty goes around it.
    Neither reads the address that is being written, so no read port must be transparent.
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
        m.d.comb += self.i.ready.eq(self.level != self._depth + 1)
        if self._depth * Shape.cast(self._shape).width >= BLOCK_RAM_BITS:
            self._block_ram(m)
        else:
            self._lut_ram(m)
        return m

    def _lut_ram(self, m):
        write, read = self._memory(m, self._depth + 1, style="distributed", read_domain="comb")
        put = self.i.valid & self.i.ready
        taken = self.o.valid & self.o.ready
        m.d.comb += [write.en.eq(put), self.o.valid.eq(self.level != 0)]
        m.d.comb += self.o.payload.eq(read.data)
        m.d.sync += self.level.eq(self.level + put - taken)
        self._advance(m, write.addr, put, self._depth + 1)
        self._advance(m, read.addr, taken, self._depth + 1)

    def _block_ram(self, m):
        write, read = self._memory(m, self._depth, style="block", read_domain="sync")
        stored = Signal(range(self._depth + 1))
        # The word behind the one offered: in the memory's output, or in a register of its own if it
        # came when the memory was empty, since a way through the memory takes too long then.
        fetched, passed = Signal(), Signal()
        passed_word = Signal(self._shape)
        second = fetched | passed
        put = self.i.valid & self.i.ready
        advance = ~self.o.valid | self.o.ready
        second_free = ~second | advance
        empty = stored == 0
        offer = put & advance & ~second & empty
        bypass = put & ~offer & second_free & empty
        store = put & ~offer & ~bypass
        fetch = ~empty & second_free
        m.d.comb += [
            self.level.eq(stored + second + self.o.valid),
            write.en.eq(store),
            read.en.eq(fetch),
        ]
        m.d.sync += stored.eq(stored + store - fetch)
        with m.If(second_free):
            m.d.sync += [
                fetched.eq(fetch),
                passed.eq(bypass),
                passed_word.eq(self.i.payload),
            ]
        with m.If(advance):
            m.d.sync += [
                self.o.valid.eq(second | offer),
                self.o.payload.eq(
                    Mux(fetched, read.data, Mux(passed, passed_word, self.i.payload))
                ),
            ]
        self._advance(m, write.addr, store, self._depth)
        self._advance(m, read.addr, fetch, self._depth)

    def _memory(self, m, words, *, style, read_domain):
        m.submodules.memory = memory = Memory(
            shape=self._shape, depth=words, init=[], attrs={"ram_style": style}
        )
        write = memory.write_port()
        m.d.comb += write.data.eq(self.i.payload)
        return write, memory.read_port(domain=read_domain)

    @staticmethod
    def _advance(m, address, step, words):
        """Count an address up, around the end of the memory."""
        wraps = words & (words - 1) != 0
        following = Mux(address == words - 1, 0, address + 1) if wraps else address + 1
        with m.If(step):
            m.d.sync += address.eq(following)


class Slice(wiring.Component):
    """A register in both directions of a stream: neither ``valid`` nor ``ready`` passes through.

    Parameters
    ----------
    shape
        Shape of the payload.

    Members
    -------
    i, o : the ends

    Timing
    ------
    One transfer a cycle; one is offered at the output one cycle after it was taken at the input.
    ``i.ready`` is a register. The slice holds two transfers: the one that comes while ``o`` stops
    is kept beside the one that waits there.
    """

    def __init__(self, shape):
        self._shape = shape
        super().__init__(
            {"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))},
        )

    def elaborate(self, platform):
        m = Module()
        full = Signal()
        kept = Signal(self._shape, reset_less=True)
        offered = Signal(self._shape, reset_less=True)
        advance = Signal()
        m.d.comb += [
            advance.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(~full),
            self.o.payload.eq(offered),
        ]
        with m.If(~full):
            m.d.sync += kept.eq(self.i.payload)
        with m.If(advance):
            m.d.sync += [
                self.o.valid.eq(full | self.i.valid),
                offered.eq(Mux(full, kept, self.i.payload)),
                full.eq(0),
            ]
        with m.Elif(self.i.valid):
            m.d.sync += full.eq(1)
        return m


def delayed(m, value, name: str, *, when: bool = True):
    """`value` one cycle later, in a register called `name`; or itself unless `when`."""
    if not when:
        return value
    later = Signal.like(value, name=name)
    m.d.sync += later.eq(value)
    return later
