"""The largest exponent among one lane's operands."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import BF16
from .pipeline import reduce_pairs, tree_delay

__all__ = ["LargestExponent"]


class LargestExponent(wiring.Component):
    """Finds the largest bf16 exponent field of one lane.

    Parameters
    ----------
    ranks : number of operands

    Ports
    -----
    valid : operands are there in this cycle
    operands : the numbers' bits; 0 where a rank takes no part
    largest : the largest field; after `delay` cycles
    """

    def __init__(self, ranks: int):
        self._ranks = ranks
        super().__init__(
            {
                "valid": In(1),
                "operands": In(16).array(ranks),
                "largest": Out(BF16.exponent_bits),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from operands to the largest exponent."""
        return tree_delay(self._ranks)

    def elaborate(self, platform):
        m = Module()
        fields = []
        for operand in self.operands:
            fields.append((operand[BF16.fraction_bits : 15],))

        def larger(left, right, name):
            result = Signal(BF16.exponent_bits, name=name)
            m.d.comb += result.eq(Mux(left[0] > right[0], left[0], right[0]))
            return (result,)

        (largest,) = reduce_pairs(m, fields, larger, valid=self.valid)
        m.d.comb += self.largest.eq(largest)
        return m
