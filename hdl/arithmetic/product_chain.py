"""One lane's sum of products over the ranks, as a chain of multipliers that add."""

from itertools import pairwise

from amaranth import Cat, Const, Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .pipeline import register, tree_levels

__all__ = ["PART_BITS", "ProductChain"]

#: Bits of a factor that one multiplier takes: the unsigned part of a 25-bit port (7-series). For
#: the 18-bit ports of ECP5, 17 is faster: a part that needs two multipliers adds them in its cycle.
PART_BITS = 24


class ProductChain(wiring.Component):
    """Adds ``number * factor`` over the ranks; exact.

    Each rank's product is added to the sum of those before it. A product and its addition are one
    DSP slice, whose cascade is the chain. A factor is cut in parts for the slices' ports: so N
    ranks take 2 N slices of a 7-series device, and an adder that joins the sums of both parts.

    Parameters
    ----------
    ranks : number of products
    number_bits : of a number, in two's complement
    factor_bits : of a factor
    part_bits : of a factor's parts; the lowest may be shorter

    Ports
    -----
    numbers, factors : rank r's come r cycles later than rank 0's
    keep : in the last rank's cycle: the sum counts, else it is 0
    sum : in two's complement, `delay` cycles after rank 0's number
    """

    def __init__(self, ranks: int, number_bits: int, factor_bits: int, part_bits: int = PART_BITS):
        self._ranks = ranks
        self._cuts = [0, *reversed(range(factor_bits - part_bits, 0, -part_bits)), factor_bits]
        super().__init__(
            {
                "numbers": In(signed(number_bits)).array(ranks),
                "factors": In(unsigned(factor_bits)).array(ranks),
                "keep": In(1),
                "sum": Out(signed(number_bits + factor_bits + tree_levels(ranks))),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from rank 0's number to the sum: the ranks' turns, a product, a sum, a join."""
        return self._ranks - 1 + 3

    def elaborate(self, platform):
        m = Module()
        keep = self.keep
        for step in (1, 2):
            keep = register(m, keep, valid=1, name=f"keep_{step}")
        joined = Const(0)
        for low, high in pairwise(self._cuts):
            # Of the lower parts' sum, the bits above their factors' add to this part's.
            part = self._chain(m, f"part_{low}", slice(low, high))
            joined = Cat(joined[:low], part + (joined >> low)).as_signed()
        total = Signal(self.sum.shape(), reset_less=True)
        m.d.sync += total.eq(joined)
        with m.If(~keep):
            m.d.sync += total.eq(0)
        m.d.comb += self.sum.eq(total)
        return m

    def _chain(self, m, name, part):
        """Sum of the products with a part of the factors."""
        total = None
        for rank, (number, factor) in enumerate(zip(self.numbers, self.factors, strict=True)):
            product = register(m, number * factor[part], valid=1, name=f"{name}_product_{rank}")
            width = len(product) + tree_levels(self._ranks)
            later = Signal(signed(width), name=f"{name}_{rank}", reset_less=True)
            m.d.sync += later.eq(product if total is None else total + product)
            total = later
        return total
