"""Delays: short ones as registers, long ones as a memory that is written round and round."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.stream import BLOCK_RAM_BITS

__all__ = ["DelayLine", "delayed"]

#: A memory needs a word to be written, one to be read, and its output register.
SHORTEST_MEMORY = 3
#: Bits, at most, of one memory: 8 block RAMs of a 7-series device side by side. Python's simulator
#: nests an expression as deep as a memory is wide.
WIDEST_MEMORY = 576


def delayed(m, value, cycles, *, name):
    """`value` of `cycles` ago. Registers without enable or reset, which synthesis may make SRLs."""
    for step in range(1, cycles + 1):
        later = Signal(value.shape(), name=f"{name}_{step}", reset_less=True)
        m.d.sync += later.eq(value)
        value = later
    return value


class DelayLine(wiring.Component):
    """Holds words for a fixed number of cycles, whatever they are: validity travels beside.

    Parameters
    ----------
    width : bits of a word
    cycles : from input to output, 0 or more

    Ports
    -----
    i, o : a word in, and the one of `cycles` ago
    """

    def __init__(self, width: int, cycles: int):
        if cycles < 0:
            raise ValueError(f"cycles: must be 0 or more, not {cycles!r}")
        self._width = width
        self._cycles = cycles
        super().__init__({"i": In(width), "o": Out(width)})

    @property
    def delay(self) -> int:
        """Cycles from input to output."""
        return self._cycles

    def elaborate(self, platform):
        m = Module()
        if self._cycles < SHORTEST_MEMORY:
            m.d.comb += self.o.eq(delayed(m, self.i, self._cycles, name="word"))
            return m
        here, following = Signal(range(self._cycles)), Signal(range(self._cycles))
        m.d.comb += following.eq(Mux(here == self._cycles - 1, 0, here + 1))
        m.d.sync += here.eq(following)
        for start in range(0, self._width, WIDEST_MEMORY):
            part = slice(start, min(start + WIDEST_MEMORY, self._width))
            memory = self._memory(part.stop - part.start)
            m.submodules[f"memory_{start}"] = memory
            # Where a word is written, the one of `cycles` ago was read the cycle before.
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += [
                write.en.eq(1),
                write.addr.eq(here),
                write.data.eq(self.i[part]),
                read.addr.eq(following),
                self.o[part].eq(read.data),
            ]
        return m

    def _memory(self, width):
        style = "block" if self._cycles * self._width >= BLOCK_RAM_BITS else "distributed"
        return Memory(shape=width, depth=self._cycles, init=[], attrs={"ram_style": style})
