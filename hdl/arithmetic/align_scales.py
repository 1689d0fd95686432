# amaranth: UnusedElaboratable=no
# It makes its search at once, since its delay depends on it; who asks only for that uses none.
"""From the scales of one block to integers that its codes are multiplied with."""

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .delay_line import delayed
from .largest import LargestExponent
from .scale_formats import SCALE_FORMATS

__all__ = ["PLACE_BITS", "AlignScales", "aligned_shape", "is_bad"]

#: Of an E8M0 scale in its window: the place of its one bit, and whether it has one.
PLACE_BITS = 5


def aligned_shape(scale_format: str):
    """Shape of an aligned scale: an integer; of E8M0 its one bit's place, and below that a 1."""
    layout = SCALE_FORMATS[scale_format]
    return unsigned(1 + PLACE_BITS if layout.fraction_bits == 0 else layout.window_bits)


def is_bad(scale, layout):
    """The scale is NaN, infinite or negative; -0 is 0."""
    if layout.fraction_bits == 0:
        return scale.all()
    return scale[layout.fraction_bits : -1].all() | (scale[-1] & scale[:-1].any())


class AlignScales(wiring.Component):
    """Shifts the ranks' scales of one block to their places in the window.

    Once a block and rank, where shifting products would take a shifter in every lane. What of a
    scale lies below the window is cut off, toward zero; of fp16 nothing does.

    Results come in the order of the ranks, one a cycle: as `DotProduct` takes them.

    Parameters
    ----------
    ranks : number of scales
    scale_format : ``fp16``, ``bf16`` or ``e8m0``
    registered : results are registers; else the user has one behind them

    Ports
    -----
    scales : the scales' bits
    sources : ranks that take part; the others count as nothing at all
    aligned : rank r's is of the scales `delay` + r cycles ago
    reference : the largest exponent, after `delay` cycles; a constant for fp16
    bad : a scale is NaN, infinite or negative (-0 is 0), after `delay` cycles
    """

    def __init__(self, ranks: int, scale_format: str, *, registered: bool = True):
        self._ranks = ranks
        self._register = int(registered)
        self._layout = layout = SCALE_FORMATS[scale_format]
        self._search = LargestExponent(ranks) if layout.fixed_reference is None else None
        super().__init__(
            {
                "scales": In(layout.bits).array(ranks),
                "sources": In(ranks),
                "aligned": Out(aligned_shape(scale_format)).array(ranks),
                "reference": Out(layout.exponent_bits),
                "bad": Out(1),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from scales to the first rank's aligned one."""
        return self._search_delay + self._register

    @property
    def _search_delay(self) -> int:
        return self._search.delay if self._search else 0

    def elaborate(self, platform):
        m = Module()
        exponents, bad = [], []
        for rank in range(self._ranks):
            scale = Signal(self._layout.bits, name=f"scale_{rank}")
            m.d.comb += scale.eq(Mux(self.sources[rank], self.scales[rank], 0))
            exponents.append(self._exponent(m, rank, scale))
            bad.append(is_bad(scale, self._layout))
            self._put_aligned(m, rank, scale, exponents[-1])
        m.d.comb += self.bad.eq(delayed(m, Cat(bad).any(), self.delay, name="bad"))
        self._put_reference(m, exponents)
        return m

    def _exponent(self, m, rank, scale):
        layout = self._layout
        exponent = Signal(layout.exponent_bits, name=f"exponent_{rank}")
        field = scale[layout.fraction_bits :][: layout.exponent_bits]
        subnormal = ~field.any() if layout.smallest_exponent else 0
        m.d.comb += exponent.eq(field | subnormal)
        return exponent

    def _put_reference(self, m, exponents):
        if self._search is None:
            m.d.comb += self.reference.eq(self._layout.fixed_reference)
            return
        m.submodules.search = search = self._search
        m.d.comb += search.valid.eq(1)
        m.d.comb += [
            port.eq(exponent) for port, exponent in zip(search.exponents, exponents, strict=True)
        ]
        m.d.comb += self.reference.eq(delayed(m, search.largest, self._register, name="reference"))

    def _put_aligned(self, m, rank, scale, exponent):
        """Fields wait for the search and for the rank's turn; then they are shifted."""
        layout = self._layout
        wait = self._search_delay + rank
        hidden = scale[layout.fraction_bits : -1].any() if layout.fraction_bits else Const(1)
        fields = Cat(scale[: layout.fraction_bits], hidden, exponent)
        fields = delayed(m, fields, wait, name=f"fields_{rank}")
        significand = fields[: layout.significand_bits]
        exponent = fields[layout.significand_bits :]
        if self._search is None:
            value = self._fixed(significand, exponent)
        else:
            reference = delayed(m, self._search.largest, rank, name=f"reference_{rank}")
            distance = Signal(layout.exponent_bits, name=f"distance_{rank}")
            m.d.comb += distance.eq(reference - exponent)
            if layout.fraction_bits == 0:
                value = self._place(distance, rank, m)
            else:
                value = self._shifted(significand, distance)
        value = delayed(m, value, self._register, name=f"aligned_{rank}")
        m.d.comb += self.aligned[rank].eq(value)

    def _fixed(self, significand, exponent):
        # 30 - e is one less than ~e, so a shift by ~e starts one bit higher.
        raised = Cat(Const(0, self._layout.guard_bits + 1), significand)
        return (raised >> ~exponent)[: self._layout.window_bits]

    def _shifted(self, significand, distance):
        window = Cat(Const(0, self._layout.guard_bits), significand)
        bits = self._layout.guard_bits.bit_length() + 1  # a shift by 2^bits leaves nothing
        return Mux(distance[bits:].any(), 0, window >> distance[:bits])

    def _place(self, distance, rank, m):
        """The window's top place less the distance; an absent rank has no bit at all."""
        present = delayed(m, self.sources[rank], self._search_delay + rank, name=f"present_{rank}")
        inside = ~distance[PLACE_BITS:].any() & present
        return Cat(inside, ~distance[:PLACE_BITS])
