"""Sums of codes times aligned scales over the ranks, lane by lane."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .align_scales import aligned_shape
from .delay_line import delayed
from .pipeline import register
from .product_chain import PART_BITS, ProductChain
from .scale_formats import CODE_BITS, SCALE_FORMATS

__all__ = ["DotProduct"]


class DotProduct(wiring.Component):
    """Adds ``code * aligned scale`` over the ranks, for the lanes of one block; exact.

    The ranks' products are added in their order, one a cycle, by a `ProductChain` a lane. E8M0 has
    shifters for multipliers.

    Parameters
    ----------
    ranks : number of operands
    lanes : codes of each rank a cycle
    scale_format : ``fp16``, ``bf16`` or ``e8m0``
    part_bits : see `ProductChain`

    Ports
    -----
    codes : rank r's codes, a byte a lane, r cycles later than rank 0's
    aligned : rank r's aligned scale, r cycles later than rank 0's (see `AlignScales`)
    keep : in the last rank's cycle: a lane counts; the sum of the others is 0
    sums : in two's complement, `delay` cycles after rank 0's codes
    """

    def __init__(self, ranks: int, lanes: int, scale_format: str, part_bits: int = PART_BITS):
        self._ranks = ranks
        self._part_bits = part_bits
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
        for lane in range(self._lanes):
            codes = [ports.word_select(lane, CODE_BITS).as_signed() for ports in self.codes]
            (self._connect_shifters if shifts else self._connect_chain)(m, lane, codes)
        return m

    def _connect_chain(self, m, lane, codes):
        chain = ProductChain(self._ranks, CODE_BITS, self._layout.window_bits, self._part_bits)
        m.submodules[f"chain_{lane}"] = chain
        for rank, code in enumerate(codes):
            m.d.comb += [chain.numbers[rank].eq(code), chain.factors[rank].eq(self.aligned[rank])]
        m.d.comb += [chain.keep.eq(self.keep[lane]), self.sums[lane].eq(chain.sum)]

    def _connect_shifters(self, m, lane, codes):
        """The same cycles: a product, a sum, and one that only masks."""
        total = None
        for rank, (code, scale) in enumerate(zip(codes, self.aligned, strict=True)):
            product = Mux(scale[0], code << scale[1:], 0)
            product = register(m, product, valid=1, name=f"product_{lane}_{rank}")
            later = Signal(self.sums[lane].shape(), name=f"sum_{lane}_{rank}", reset_less=True)
            m.d.sync += later.eq(product if total is None else total + product)
            total = later
        keep = delayed(m, self.keep[lane], 2, name=f"keep_{lane}")
        masked = Signal(total.shape(), name=f"masked_{lane}", reset_less=True)
        m.d.sync += masked.eq(total)
        with m.If(~keep):
            m.d.sync += masked.eq(0)
        m.d.comb += self.sums[lane].eq(masked)
