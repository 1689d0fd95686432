"""Sums of codes times aligned scales over the ranks, lane by lane."""

from amaranth import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .align_scales import aligned_shape
from .delay_line import delayed
from .pipeline import register, tree_levels
from .scale_formats import CODE_BITS, SCALE_FORMATS

__all__ = ["DotProduct"]

#: Bits of a scale that one multiplier takes beside a code: the unsigned part of an 18-bit port.
#: What is above, up to 23 bits, fits the 25-bit port of a 7-series slice, or two of 18 bits.
LOW_BITS = 17


class DotProduct(wiring.Component):
    """Adds ``code * aligned scale`` over the ranks, for the lanes of one block; exact.

    A chain: each rank's product is added to the sum of those before it. A product and its addition
    are one DSP slice, whose cascade is the chain; so a lane of N ranks is 2 N slices of a 7-series
    device and the adder that joins the scale's two parts. E8M0 has shifters for multipliers.

    Parameters
    ----------
    ranks : number of operands
    lanes : codes of each rank a cycle
    scale_format : ``fp16``, ``bf16`` or ``e8m0``

    Ports
    -----
    codes : rank r's codes, a byte a lane, r cycles later than rank 0's
    aligned : rank r's aligned scale, r cycles later than rank 0's (see `AlignScales`)
    keep : in the last rank's cycle: a lane counts; the sum of the others is 0
    sums : in two's complement, `delay` cycles after rank 0's codes
    """

    def __init__(self, ranks: int, lanes: int, scale_format: str):
        self._ranks = ranks
        self._lanes = lanes
        self._layout = SCALE_FORMATS[scale_format]
        super().__init__(
            {
                "codes": In(lanes * CODE_BITS).array(ranks),
                "aligned": In(aligned_shape(scale_format)).array(ranks),
                "keep": In(lanes),
                "sums": Out(signed(self._layout.sum_bits(ranks))).array(lanes),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from rank 0's codes to the sums: the ranks' turns, a product, a sum, a join."""
        return self._ranks - 1 + 3

    def elaborate(self, platform):
        m = Module()
        shifts = self._layout.fraction_bits == 0
        keep = delayed(m, self.keep, 2, name="keep")
        for lane in range(self._lanes):
            codes = [ports.word_select(lane, CODE_BITS).as_signed() for ports in self.codes]
            total = (self._shifted if shifts else self._multiplied)(m, lane, codes)
            joined = Signal(self.sums[lane].shape(), name=f"joined_{lane}", reset_less=True)
            m.d.sync += joined.eq(total)
            with m.If(~keep[lane]):
                m.d.sync += joined.eq(0)
            m.d.comb += self.sums[lane].eq(joined)
        return m

    def _multiplied(self, m, lane, codes):
        parts = []
        for name, part in (("low", slice(0, LOW_BITS)), ("high", slice(LOW_BITS, None))):
            products = [code * scale[part] for code, scale in zip(codes, self.aligned, strict=True)]
            parts.append(self._chain(m, f"{name}_{lane}", products))
        low, high = parts
        return Cat(low[:LOW_BITS], high + (low >> LOW_BITS)).as_signed()

    def _shifted(self, m, lane, codes):
        products = []
        for code, scale in zip(codes, self.aligned, strict=True):
            products.append(Mux(scale[0], code << scale[1:], 0))
        return self._chain(m, f"sum_{lane}", products)

    def _chain(self, m, name, products):
        total = None
        width = max(len(product) for product in products) + tree_levels(self._ranks)
        for rank, product in enumerate(products):
            product = register(m, product, valid=1, name=f"{name}_product_{rank}")
            sum_ = Signal(signed(width), name=f"{name}_{rank}", reset_less=True)
            m.d.sync += sum_.eq(product if total is None else total + product)
            total = sum_
        return total
