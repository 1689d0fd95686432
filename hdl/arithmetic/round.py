"""Last shift, rounding to nearest even, and packing of a sum."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.interfaces import Format

from .formats import FLOAT_FORMATS, FP16
from .normalize import BELOW_SIGNIFICAND, NORMALIZED_BITS, leading_groups, shift_digit

__all__ = ["Round"]


class Round(wiring.Component):
    """Turns a normalized sum into a number, rounded once to nearest even; combinational.

    A negative sum comes in two's complement and is used inverted: one less than its magnitude. The
    missing one is added by the rounding, which therefore knows the sign.

    Parameters
    ----------
    formats : names of the formats built
    headroom_bits : width of the headroom

    Ports
    -----
    normalized, negative, sticky, places, limited : from `Normalize`
    headroom, all_negative, plus, minus : from `Align`
    sign : from `AdderTree`: the sum counts negative
    format : of the result
    result : its bits
    nan : the result is NaN
    overflow : finite operands, but an infinite result
    """

    delay = 0

    def __init__(self, formats: tuple[str, ...], headroom_bits: int):
        self._formats = formats
        super().__init__(
            {
                "normalized": In(NORMALIZED_BITS),
                "negative": In(1),
                "sticky": In(1),
                "places": In(4),
                "limited": In(1),
                "headroom": In(headroom_bits),
                "all_negative": In(1),
                "plus": In(1),
                "minus": In(1),
                "sign": In(1),
                "format": In(Format),
                "result": Out(16),
                "nan": Out(1),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shifted, last = self._last_shift(m)
        magnitude = Signal(NORMALIZED_BITS)
        m.d.comb += magnitude.eq(shifted ^ self.negative.replicate(NORMALIZED_BITS))
        rounded = self._rounded(m, shifted, magnitude, last)
        self._pack(m, rounded, magnitude[BELOW_SIGNIFICAND:].any())
        return m

    def _last_shift(self, m):
        """The sum in its place, still in two's complement, and the last 0 to 3 places shifted."""
        last, count = Signal(2), Signal(2)
        limit = self.headroom[:2]
        shifted = Signal(NORMALIZED_BITS)
        m.d.comb += [
            count.eq(leading_groups(self.normalized, 1, self.negative, 3)),
            last.eq(Mux(self.limited & (count > limit), limit, count)),
            shifted.eq(shift_digit(self.normalized, 1, last)),
        ]
        return shifted, last

    def _rounded(self, m, shifted, magnitude, last):
        """Exponent field and fraction after rounding; a carry runs from one into the other."""
        hidden = magnitude[-1]
        fraction = magnitude[BELOW_SIGNIFICAND:-1]
        # One less than the field to come: the hidden bit is added to it. Without a hidden bit the
        # number is subnormal, or zero of whatever exponent.
        exponent = Signal(len(self.headroom))
        increment = Signal(len(fraction))
        rounded = Signal(len(fraction) + len(exponent))
        increments = {name: self._increment(name, shifted, magnitude) for name in self._formats}
        m.d.comb += [
            exponent.eq(Mux(hidden, self.headroom - Cat(last, self.places), 0)),
            increment.eq(self._chosen(increments)),
            rounded.eq(Cat(fraction, exponent) + Cat(increment, hidden)),
        ]
        return rounded

    def _increment(self, name, shifted, magnitude):
        """What rounding adds to the fraction: nothing, or one in the format's last place."""
        low = FP16.fraction_bits - FLOAT_FORMATS[name].fraction_bits
        last_place = BELOW_SIGNIFICAND + low
        odd, guard = magnitude[last_place], magnitude[last_place - 1]
        below = shifted[: last_place - 1].any() | self.sticky
        # Of a negative sum, nothing set below the guard bit means ones below it once inverted: with
        # the one that is missing they carry into the guard bit.
        up = Mux(self.negative, guard | (~below & odd), guard & (below | odd))
        return Cat(Const(0, low), up)

    def _chosen(self, choices):
        """The choice for the format asked for, of one a format."""
        if len(choices) == 1:
            return choices[self._formats[0]]
        return Mux(self.format == Format.BF16, choices["bf16"], choices["fp16"])

    def _pack(self, m, rounded, nonzero):
        """The result's bits, with infinities, NaN and the sign of zero."""
        finite, too_large, infinity, nan = self._select(rounded)
        infinite = Signal()
        sign = Signal()
        m.d.comb += [
            self.nan.eq(self.plus & self.minus),
            self.overflow.eq(too_large & ~(self.plus | self.minus)),
            infinite.eq(too_large | self.plus | self.minus),
            # A negative sum is never zero.
            sign.eq(
                Mux(
                    self.plus | self.minus,
                    ~self.plus,
                    Mux(self.negative, ~self.sign, self.sign & nonzero) | self.all_negative,
                )
            ),
            self.result.eq(Cat(Mux(self.nan, nan, Mux(infinite, infinity, finite)), sign)),
        ]

    def _select(self, rounded):
        """Finite bits, overflow, infinity and NaN, of the format that is asked for."""
        field = rounded[FP16.fraction_bits :]
        finite, too_large, infinity, nan = {}, {}, {}, {}
        for name in self._formats:
            layout = FLOAT_FORMATS[name]
            low = FP16.fraction_bits - layout.fraction_bits
            bits = layout.exponent_bits
            finite[name] = rounded[low : low + 15]
            too_large[name] = field[:bits].all() | field[bits:].any()
            infinity[name] = Const(layout.infinity, 15)
            nan[name] = Const(layout.nan, 15)
        return tuple(self._chosen(choice) for choice in (finite, too_large, infinity, nan))
