"""Sums of a flit of 32-bit integers of every rank."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import INTEGER_BITS, LANE_BITS
from .pipeline import reduce_pairs, tree_delay

__all__ = ["IntegerSum"]


class IntegerSum(wiring.Component):
    """Adds the ranks' int32: in two's complement, without overflow: sums wrap around.

    Parameters
    ----------
    ranks : number of operands
    lanes : 16-bit lanes; a number takes two, the low one first

    Ports
    -----
    valid : operands are there in this cycle
    operands : rank r's flit
    sources : ranks that take part; the others count 0
    result : the sums, after `delay` cycles
    """

    def __init__(self, ranks: int, lanes: int):
        self._ranks = ranks
        self._numbers = lanes * LANE_BITS // INTEGER_BITS
        bits = lanes * LANE_BITS
        super().__init__(
            {
                "valid": In(1),
                "operands": In(bits).array(ranks),
                "sources": In(ranks),
                "result": Out(bits),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from operands to sums."""
        return tree_delay(self._ranks)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.result.eq(Cat(self._sum(m, k) for k in range(self._numbers)))
        return m

    def _sum(self, m, number):
        leaves = []
        for rank, flit in enumerate(self.operands):
            leaf = Signal(INTEGER_BITS, name=f"operand_{number}_{rank}")
            operand = flit.word_select(number, INTEGER_BITS)
            m.d.comb += leaf.eq(Mux(self.sources[rank], operand, 0))
            leaves.append((leaf,))

        def add(left, right, name):
            total = Signal(INTEGER_BITS, name=f"{name}_{number}")
            m.d.comb += total.eq(left[0] + right[0])
            return (total,)

        return reduce_pairs(m, leaves, add, valid=self.valid, label=f"_{number}")[0]
