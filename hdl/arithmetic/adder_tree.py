"""Exact sum of integers that come as sign and magnitude."""

from amaranth import Cat, Const, Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .pipeline import reduce_pairs, tree_delay, tree_levels

__all__ = ["AdderTree"]


class AdderTree(wiring.Component):
    """Adds an integer from every rank; exact, so order does not matter.

    A node adds or subtracts its right operand, by whether the signs differ, and hands the left
    one's sign up: no operand is negated on its own, and each node is one carry chain.

    Parameters
    ----------
    ranks : number of operands
    width : bits of a magnitude

    Ports
    -----
    valid : operands are there in this cycle
    magnitudes, signs : the operands, rank 0 first
    sum, sign : the sum is ``sum`` if ``sign`` is 0, ``-sum`` if it is 1; after `delay` cycles
    """

    def __init__(self, ranks: int, width: int):
        self._ranks = ranks
        self._width = width
        super().__init__(
            {
                "valid": In(1),
                "magnitudes": In(unsigned(width)).array(ranks),
                "signs": In(ranks),
                "sum": Out(signed(width + tree_levels(ranks) + 1)),
                "sign": Out(1),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from operands to sum."""
        return tree_delay(self._ranks)

    def elaborate(self, platform):
        m = Module()

        def add(left, right, name):
            (a, sign), (b, sign_b) = left, right
            total = Signal(signed(max(len(a), len(b)) + (1 if a.shape().signed else 2)), name=name)
            differ = Signal(name=f"{name}_differ")
            m.d.comb += [
                differ.eq(sign ^ sign_b),
                total.eq(_add_or_subtract(a, b, differ, len(total))),
            ]
            return total, sign

        leaves = [(magnitude, self.signs[r]) for r, magnitude in enumerate(self.magnitudes)]
        total, sign = reduce_pairs(m, leaves, add, valid=self.valid)
        m.d.comb += [self.sum.eq(total), self.sign.eq(sign)]
        return m


def _add_or_subtract(a, b, subtract, width):
    """``a - b`` if `subtract` else ``a + b``: one carry chain, its carry-in below bit 0."""
    a = Cat(subtract, _extended(a, width))
    b = Cat(subtract, _extended(b, width) ^ subtract.replicate(width))
    return (a + b)[1 : width + 1].as_signed()


def _extended(value, width):
    sign = value[-1] if value.shape().signed else Const(0, 1)
    return Cat(value, sign.replicate(width - len(value)))
