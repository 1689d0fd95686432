"""The largest exponent among one lane's operands."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import BF16
from .pipeline import reduce_pairs, tree_delay

__all__ = ["LargestExponent"]


class LargestExponent(wiring.Component):
    """Finds the largest exponent of one lane.

    Parameters
    ----------
    ranks : number of operands

    Ports
    -----
    valid : exponents are there in this cycle
    exponents : biased
    largest : the largest; after `delay` cycles
    """

    def __init__(self, ranks: int):
        self._ranks = ranks
        super().__init__(
            {
                "valid": In(1),
                "exponents": In(unsigned(BF16.exponent_bits)).array(ranks),
                "largest": Out(BF16.exponent_bits),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from exponents to the largest exponent."""
        return tree_delay(self._ranks)

    def elaborate(self, platform):
        m = Module()
        leaves = [(exponent,) for exponent in self.exponents]

        def larger(left, right, name):
            result = Signal(BF16.exponent_bits, name=name)
            m.d.comb += result.eq(Mux(left[0] > right[0], left[0], right[0]))
            return (result,)

        (largest,) = reduce_pairs(m, leaves, larger, valid=self.valid)
        m.d.comb += self.largest.eq(largest)
        return m
