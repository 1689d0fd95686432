"""What the quantizer needs to know of a block's new scale."""

from amaranth import Cat, Const, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .pipeline import register
from .reciprocal import RECIPROCAL_BITS, reciprocal
from .scale_formats import SCALE_FORMATS

__all__ = ["PLACES_BITS", "BlockScale"]

#: A sum is shifted down by up to 50 places.
PLACES_BITS = 6


class BlockScale(wiring.Component):
    """Takes a block's scale apart: significand, place and reciprocal; two registers.

    The significand has its top bit set, a subnormal's too, whose place is then as much lower. A
    zero scale counts as some other: all sums of its block are 0. Results stay until the next
    block's.

    Parameters
    ----------
    scale_format : ``fp16``, ``bf16`` or ``e8m0``

    Ports
    -----
    valid : a block's scale is there in this cycle
    scale : its bits
    reference : of its block (see `ScaleFormat`)
    places : of the scale's last place above the lowest one there can be, in units
    negated : the significand, negative
    reciprocal : see there
    """

    delay = 2

    def __init__(self, scale_format: str):
        self._layout = layout = SCALE_FORMATS[scale_format]
        super().__init__(
            {
                "valid": In(1),
                "scale": In(layout.bits),
                "reference": In(layout.exponent_bits),
                "places": Out(PLACES_BITS),
                "negated": Out(signed(layout.significand_bits + 1)),
                "reciprocal": Out(RECIPROCAL_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        layout = self._layout
        later = Signal()
        m.d.sync += later.eq(self.valid)

        field = self.scale[layout.fraction_bits :][: layout.exponent_bits]
        significand, lowered = Const(1, 1), 0
        if layout.fraction_bits:
            significand, lowered = self._normalized(m, field.any())
            field = field | ~field.any()
        places = Signal(PLACES_BITS)
        m.d.comb += places.eq(
            field - lowered + layout.guard_bits - layout.lowest_place - self.reference
        )
        places = register(m, places, valid=self.valid, name="first_places")
        places = register(m, places, valid=later, name="second_places")
        significand = register(m, significand, valid=self.valid, name="first_significand")
        negated = register(m, -significand, valid=later, name="second_negated")
        m.d.comb += [self.places.eq(places), self.negated.eq(negated)]
        if layout.fraction_bits:
            entry = register(m, reciprocal(significand), valid=later, name="entry")
            m.d.comb += self.reciprocal.eq(entry)
        return m

    def _normalized(self, m, hidden):
        """The significand with its leading bit on top, and by how much it was shifted."""
        bits = self._layout.significand_bits
        given = Cat(self.scale[: self._layout.fraction_bits], hidden)
        lowered = Signal(range(bits))
        for place in range(bits):  # the last one that is set decides
            with m.If(given[place]):
                m.d.comb += lowered.eq(bits - 1 - place)
        shifted = Signal(bits)
        m.d.comb += shifted.eq(given << lowered)
        return Cat(shifted[:-1], 1), lowered
