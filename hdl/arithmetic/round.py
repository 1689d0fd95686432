"""Rounding to nearest even, and packing, of a normalized sum."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import FLOAT_FORMATS, FP16
from .normalize import NORMALIZED_BITS

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
    normalized, negative, sticky, room : from `Normalize`
    all_negative, plus, minus : from `Decode`
    sign : from `AdderTree`: the sum counts negative
    bf16 : format of the result; without effect where one is built
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
                "room": In(headroom_bits),
                "all_negative": In(1),
                "plus": In(1),
                "minus": In(1),
                "sign": In(1),
                "bf16": In(1),
                "result": Out(16),
                "nan": Out(1),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        magnitude = Signal(NORMALIZED_BITS)
        m.d.comb += magnitude.eq(self.normalized ^ self.negative.replicate(NORMALIZED_BITS))
        rounded = self._rounded(m, magnitude)
        self._pack(m, rounded, nonzero=magnitude[1:].any())
        return m

    def _chosen(self, choice):
        """``choice(name)`` of the format asked for."""
        if len(self._formats) == 1:
            return choice(self._formats[0])
        return Mux(self.bf16, choice("bf16"), choice("fp16"))

    def _rounded(self, m, magnitude):
        """Exponent field and fraction after rounding; a carry runs from one into the other."""
        hidden = magnitude[-1]
        fraction = magnitude[1:-1]
        # One less than the field to come: the hidden bit is added to it. Without a hidden bit the
        # number is subnormal, or zero of whatever exponent.
        exponent = Signal(len(self.room))
        increment = Signal(len(fraction))
        rounded = Signal(len(fraction) + len(exponent))
        up = self._up(m, magnitude)
        m.d.comb += [
            exponent.eq(Mux(hidden, self.room, 0)),
            increment.eq(
                self._chosen(lambda name: Cat(Const(0, FLOAT_FORMATS[name].spare_bits), up))
            ),
            rounded.eq(Cat(fraction, exponent) + Cat(increment, hidden)),
        ]
        return rounded

    def _up(self, m, magnitude):
        """Rounding adds one to the format's last place."""
        odd, guard, below, up = Signal(), Signal(), Signal(), Signal()

        def last_place(name):
            return 1 + FLOAT_FORMATS[name].spare_bits

        m.d.comb += [
            odd.eq(self._chosen(lambda name: magnitude[last_place(name)])),
            guard.eq(self._chosen(lambda name: magnitude[last_place(name) - 1])),
            below.eq(
                self._chosen(lambda name: self.normalized[: last_place(name) - 1].any())
                | self.sticky
            ),
            # Of a negative sum, nothing set below the guard bit means ones below it once inverted:
            # with the one that is missing they carry into the guard bit.
            up.eq(Mux(self.negative, guard | (~below & odd), guard & (below | odd))),
        ]
        return up

    def _pack(self, m, rounded, nonzero):
        """The result's bits, with infinities, NaN and the sign of zero."""
        infinite, too_large, sign = Signal(), Signal(), Signal()
        bits = Signal(15)
        m.d.comb += [
            too_large.eq(self._chosen(lambda name: self._too_large(rounded, name))),
            infinite.eq(self.plus | self.minus),
            self.nan.eq(self.plus & self.minus),
            self.overflow.eq(too_large & ~infinite),
            # A negative sum is never zero.
            sign.eq(Mux(self.negative, ~self.sign, self.sign & nonzero) | self.all_negative),
            bits.eq(self._chosen(lambda name: self._finite(rounded, name))),
        ]
        with m.If(self.nan):
            m.d.comb += self.result.eq(self._chosen(lambda name: FLOAT_FORMATS[name].nan))
        with m.Elif(infinite | too_large):
            infinity = self._chosen(lambda name: Const(FLOAT_FORMATS[name].infinity, 15))
            m.d.comb += self.result.eq(Cat(infinity, Mux(infinite, self.minus, sign)))
        with m.Else():
            m.d.comb += self.result.eq(Cat(bits, sign))

    def _finite(self, rounded, name):
        """A finite result without its sign: fp16 uses all fraction bits, bf16 the upper ones."""
        return rounded[FLOAT_FORMATS[name].spare_bits :][:15]

    def _too_large(self, rounded, name):
        """The exponent field is that of infinity, or beyond."""
        field = rounded[FP16.fraction_bits :]
        bits = FLOAT_FORMATS[name].exponent_bits
        return field[:bits].all() | field[bits:].any()
