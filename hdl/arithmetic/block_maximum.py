"""The largest magnitude among the sums of a block."""

from amaranth import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .pipeline import register, tree_levels

__all__ = ["BlockMaximum"]


class BlockMaximum(wiring.Component):
    """Finds the largest magnitude over the lanes, and over the flits from `first` to `last`.

    No sum is negated: a negative one is inverted, and counts one more than that. Ordered by
    inverted sum and then sign, the largest has the largest magnitude, whichever of two equals it
    is; only that one is put right.

    Parameters
    ----------
    lanes : sums in a flit
    width : bits of a sum in two's complement

    Ports
    -----
    valid : a flit of sums is there in this cycle
    first, last : it begins, or ends, a block; blocks may follow one another without a gap
    sums : in two's complement
    done : `largest` is of the block whose last flit was there `delay` cycles ago
    largest : the largest magnitude
    """

    def __init__(self, lanes: int, width: int):
        self._lanes = lanes
        self._width = width
        super().__init__(
            {
                "valid": In(1),
                "first": In(1),
                "last": In(1),
                "sums": In(signed(width)).array(lanes),
                "done": Out(1),
                "largest": Out(unsigned(width - 1)),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from a block's last flit to its maximum: a level, the flits, the sign."""
        return tree_levels(self._lanes) + 2

    def elaborate(self, platform):
        m = Module()
        valid, first, last = self.valid, self.first, self.last
        keys = [
            Cat(total[-1], total[:-1] ^ total[-1].replicate(len(total) - 1)) for total in self.sums
        ]
        for level in range(1, tree_levels(self._lanes) + 1):
            pairs = [keys[k : k + 2] for k in range(0, len(keys), 2)]
            keys = [
                register(m, _larger(*pair), valid=valid, name=f"level{level}_{k}")
                for k, pair in enumerate(pairs)
            ]
            valid, first, last = self._later(m, f"level{level}", valid, first, last)

        running = Signal(self._width)
        with m.If(valid):
            m.d.sync += running.eq(Mux(first, keys[0], _larger(running, keys[0])))
        ends = Signal()
        m.d.sync += ends.eq(valid & last)
        m.d.sync += self.done.eq(ends)
        with m.If(ends):
            m.d.sync += self.largest.eq(running[1:] + running[0])
        return m

    def _later(self, m, name, *flags):
        later = []
        for k, flag in enumerate(flags):
            signal = Signal(name=f"{name}_flag_{k}")
            m.d.sync += signal.eq(flag)
            later.append(signal)
        return later


def _larger(left, right=None):
    return left if right is None else Mux(left > right, left, right)
