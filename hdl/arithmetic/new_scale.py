# amaranth: UnusedElaboratable=no
# It makes its normalization at once, since its delay depends on it.
"""The scale of a block of sums: its largest magnitude by 127, rounded up."""

from amaranth import Const, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .delay_line import delayed
from .normalize import Normalize
from .pipeline import register
from .scale_formats import SCALE_FORMATS

__all__ = ["NewScale"]

#: 127 = 2^7 - 1, so n / 127 is n's upper part, plus the sum of both parts by 127.
SEVENTH = 7


class NewScale(wiring.Component):
    """Finds the smallest scale with ``127 * scale >= largest``; takes a block each cycle.

    127 times a scale has at most `ScaleFormat.dividend_bits` significant bits. So it is at least
    the largest magnitude if and only if it is at least that rounded *up* to so many bits, and no
    more of it need be divided. Where the dividend's last place would lie below that of a subnormal
    scale, it is the latter, by the headroom of the normalization.

    The division is exact, in two steps: n = 128 a + b is 127 a + (a + b), and so again for a + b.

    Of E8M0 the quotient is a power of two: above the leading bit's by one place where the largest
    magnitude passes 127 of its 128ths.

    Parameters
    ----------
    ranks : number of operands of the sums
    scale_format : ``fp16``, ``bf16`` or ``e8m0``
    e8m0_floor : E8M0 by the rule of the OCP MX specification: never that place more, so that codes
        saturate

    Ports
    -----
    largest : magnitude, in units
    reference : of the block (see `ScaleFormat`)
    bad : a rank's scale was NaN, infinite or negative: the new one is NaN
    scale : bits of the new scale, after `delay` cycles; the largest finite one on overflow
    overflow : no finite scale is large enough
    """

    def __init__(self, ranks: int, scale_format: str, e8m0_floor: bool = False):
        self._layout = layout = SCALE_FORMATS[scale_format]
        self._width = width = layout.magnitude_bits(ranks)
        self._floor = e8m0_floor
        # Places from the top of the sum to the dividend's last bit, where the scale is smallest.
        smallest = layout.smallest_exponent + layout.guard_bits
        self._places = width - layout.dividend_bits - smallest
        fixed, headroom_bits = None, layout.exponent_bits + 1
        if layout.fixed_reference is not None:
            fixed = self._places + layout.fixed_reference
        self._normalize = Normalize(width, headroom_bits, fixed, kept=layout.dividend_bits)
        super().__init__(
            {
                "largest": In(unsigned(width)),
                "reference": In(layout.exponent_bits),
                "bad": In(1),
                "scale": Out(layout.bits),
                "overflow": Out(1),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from a largest magnitude to its scale: normalize, divide, pack."""
        return self._normalize.delay + (0 if self._layout.fraction_bits == 0 else 3) + 1

    def elaborate(self, platform):
        m = Module()
        m.submodules.normalize = normalize = self._normalize
        m.d.comb += [
            normalize.valid.eq(1),
            normalize.sum.eq(self.largest),
            normalize.headroom.eq(self.reference + self._places),
        ]
        bad = delayed(m, self.bad, self.delay - 1, name="bad")
        zero = ~(normalize.normalized.any() | normalize.sticky)
        if self._layout.fraction_bits == 0:
            up = normalize.normalized.all() & normalize.sticky & (not self._floor)
            bits = normalize.room + up
        else:
            field, significand = self._divided(m)
            zero = delayed(m, zero, 3, name="zero")
            bits = self._packed(field, significand)
        self._put(m, bits, bad, zero)
        return m

    def _divided(self, m):
        """Three registers: ceil(dividend / 127), and the exponent field less the hidden bit."""
        normalize = self._normalize
        room = delayed(m, normalize.room, 3, name="room")
        # Rounded up to the dividend's bits, then to a whole quotient.
        raised = normalize.normalized + (126 + normalize.sticky)
        raised = register(m, raised, valid=1, name="raised")
        above, parts = raised[SEVENTH:], raised[:SEVENTH] + raised[SEVENTH:]
        above = register(m, above, valid=1, name="above")
        parts = register(m, parts, valid=1, name="parts")
        rest = Signal(SEVENTH + 1)
        m.d.comb += rest.eq(parts[:SEVENTH] + parts[SEVENTH:])
        quotient = above + parts[SEVENTH:] + (rest >= 127)
        return room, register(m, quotient[: self._layout.significand_bits + 1], valid=1, name="q")

    def _packed(self, field, quotient):
        """A quotient of a bit too many loses one, upwards, and the exponent is one more."""
        long = quotient[-1]
        half = quotient[1:] + quotient[0]
        return (field << self._layout.fraction_bits) + Mux(
            long, half + Const(1 << self._layout.fraction_bits), quotient
        )

    def _put(self, m, bits, bad, zero):
        layout = self._layout
        too_large = bits > layout.largest
        with m.If(bad):
            m.d.sync += [self.scale.eq(layout.nan), self.overflow.eq(0)]
        with m.Elif(zero):
            m.d.sync += [self.scale.eq(0), self.overflow.eq(0)]
        with m.Else():
            m.d.sync += [
                self.scale.eq(Mux(too_large, layout.largest, bits)),
                self.overflow.eq(too_large),
            ]
