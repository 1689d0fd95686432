"""From sums to codes: the exact quotient by the block's scale, to nearest even."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .block_scale import PLACES_BITS
from .delay_line import delayed
from .pipeline import register, tree_levels
from .reciprocal import DIVIDEND_BITS, RECIPROCAL_BITS, SHIFT
from .scale_formats import CODE_BITS, LAST_CODE, SCALE_FORMATS

__all__ = ["Quantize"]

#: Digits of the shift: step and bits of `places`, largest first.
DIGITS = ((16, slice(4, 6)), (4, slice(2, 4)), (1, slice(0, 2)))


class Quantize(wiring.Component):
    """Divides the sums of one block's lanes by the block's scale; codes are exact.

    1. *Shift.* A sum x is shifted so that it counts halves of the scale's last place: to a whole
       number y, with a sticky bit for what is below. A scale of the block is s such places, so the
       code is the whole number nearest to x / s, and y is all that is needed of x to find it:
       q = floor(x / s + 1/2) = floor((y + s) / (2 s)), as what is below y can not make it reach a
       multiple of 2 s. It is a tie if 2 s divides y + s, and the sticky bit is 0.
    2. *Candidate.* The reciprocal of s, from a table and never too large, gives q or q - 1
       (see `reciprocal`).
    3. *Remainder.* (y + s) - 2 s * candidate is below 2 s if the candidate is q, else the code is
       one more. If the remainder is a multiple of 2 s, the sticky bit decides whether it is a tie,
       which clears the code's last bit.

    Sums are not negated: a negative one is inverted, and the one that is then missing is added with
    s, unless the bits below y hold it: they do if one of them is set.

    A magnitude beyond 127 gives 127. That takes a scale that could not be large enough, or E8M0's
    floor rule. E8M0 has s = 1, and nothing to divide.

    Parameters
    ----------
    ranks : number of operands of the sums
    lanes : sums of one block in a flit
    scale_format : ``fp16``, ``bf16`` or ``e8m0``

    Ports
    -----
    sums : in two's complement, of this cycle
    places, significand, reciprocal : of the block they belong to, from `BlockScale`
    keep : lanes that count and have a code; the others' is 0
    codes : after `delay` cycles, a byte a lane
    """

    def __init__(self, ranks: int, lanes: int, scale_format: str):
        self._ranks = ranks
        self._lanes = lanes
        self._layout = layout = SCALE_FORMATS[scale_format]
        # y: twice a quotient of 7 bits times s; and after overflow, N times 128 as well.
        self._kept = layout.significand_bits + CODE_BITS
        self._bits = self._kept + tree_levels(ranks)
        super().__init__(
            {
                "sums": In(signed(layout.sum_bits(ranks))).array(lanes),
                "places": In(PLACES_BITS),
                "significand": In(layout.significand_bits),
                "reciprocal": In(RECIPROCAL_BITS),
                "keep": In(lanes),
                "codes": Out(lanes * CODE_BITS),
            }
        )

    @property
    def _divides(self) -> bool:
        return self._layout.fraction_bits > 0

    @property
    def delay(self) -> int:
        """Cycles from a sum to its code: shift, add, multiply twice, subtract, correct, sign."""
        return 8 if self._divides else 5

    def elaborate(self, platform):
        m = Module()
        places = [self.places, delayed(m, self.places, 1, name="places")]
        keep = delayed(m, self.keep, self.delay - 1, name="keep")
        self._s = [self.significand]
        for cycle in range(self.delay):
            self._s.append(delayed(m, self._s[-1], 1, name=f"significand_{cycle}"))
        self._reciprocal = delayed(m, self.reciprocal, 3, name="reciprocal")
        for lane in range(self._lanes):
            value, sticky, negative = self._shift(m, lane, places)
            dividend, large = self._dividend(m, lane, value, sticky, negative)
            sticky = delayed(m, sticky, self.delay - 4, name=f"sticky_{lane}")
            if self._divides:
                large = delayed(m, large, 3, name=f"large_{lane}")
                quotient, multiple = self._divide(m, lane, dividend)
            else:
                quotient, multiple = dividend[1:], ~dividend[0]
            magnitude = self._magnitude(m, lane, quotient, multiple & ~sticky, large)
            negative = delayed(m, negative, self.delay - 3, name=f"negative_{lane}")
            code = Signal(signed(CODE_BITS), name=f"code_{lane}", reset_less=True)
            m.d.sync += code.eq(Mux(negative, -magnitude, magnitude))
            with m.If(~keep[lane]):
                m.d.sync += code.eq(0)
            m.d.comb += self.codes.word_select(lane, CODE_BITS).eq(code)
        return m

    def _shift(self, m, lane, places):
        """Two registers: the sum in halves of the scale's last place, bits below it, its sign."""
        # Zeros below, for scales finer than a unit; signs above, for what is shifted in.
        below = 1 - self._layout.lowest_place
        value = Cat(Const(0, below), self.sums[lane]).as_signed()
        negative, sticky = self.sums[lane][-1], Const(0)
        for step, digit in DIGITS:
            digit = places[step < DIGITS[0][0]][digit]
            # Less significant digits still shift by less than one step of this one.
            width = self._bits + step - 1
            value, lost = _shift_down(m, value, step, digit, width, f"{lane}_{step}")
            sticky = sticky | lost
            if step in (DIGITS[0][0], DIGITS[-1][0]):
                value, sticky, negative = (
                    register(m, part, valid=1, name=f"{name}_{lane}_{step}")
                    for name, part in (("value", value), ("sticky", sticky), ("neg", negative))
                )
        return value, sticky, negative

    def _dividend(self, m, lane, value, sticky, negative):
        """One register: y + s, and whether y is too large for a code."""
        magnitude = Signal(self._bits, name=f"magnitude_{lane}")
        m.d.comb += magnitude.eq(value ^ negative.replicate(self._bits))
        missing = negative & ~sticky
        low = magnitude[: self._kept]
        total = (Cat(missing, low) + Cat(missing, self._s[2]))[1:]
        large = magnitude[self._kept :].any()
        return (
            register(m, total, valid=1, name=f"dividend_{lane}"),
            register(m, large, valid=1, name=f"too_large_{lane}"),
        )

    def _divide(self, m, lane, dividend):
        """Three registers: a quotient, or one less, and its remainder; then combinational."""
        upper = dividend[len(dividend) - DIVIDEND_BITS :]
        product = register(m, upper * self._reciprocal, valid=1, name=f"product_{lane}")
        candidate = product[SHIFT:][:CODE_BITS]
        multiple = register(m, candidate * self._s[4], valid=1, name=f"multiple_{lane}")
        candidate = delayed(m, candidate, 2, name=f"candidate_{lane}")
        # The remainder is below 4 s, so its lower bits are all of it.
        bits = self._layout.significand_bits + 2
        dividend = delayed(m, dividend[:bits], 2, name=f"dividend_{lane}_low")
        remainder = (dividend - Cat(Const(0, 1), multiple))[:bits]
        remainder = register(m, remainder, valid=1, name=f"remainder_{lane}")
        twice = Cat(Const(0, 1), self._s[6])
        more = remainder >= twice
        return candidate + more, (remainder == twice) | ~remainder.any()

    def _magnitude(self, m, lane, quotient, tie, large):
        """One register: a code without its sign."""
        rounded = Signal(CODE_BITS, name=f"rounded_{lane}")
        m.d.comb += rounded.eq(Cat(quotient[0] & ~tie, quotient[1:]))
        large = large | rounded[LAST_CODE.bit_length() :].any()
        magnitude = Mux(large, LAST_CODE, rounded[: LAST_CODE.bit_length()])
        return register(m, magnitude, valid=1, name=f"code_magnitude_{lane}")


def _shift_down(m, value, step, digit, width, name):
    """`value` shifted down by `step` times a digit of base 4, and whether a bit set was lost."""
    shifted = Signal(width, name=f"shifted_{name}")
    lost = Signal(name=f"lost_{name}")
    padded = Cat(value, value[-1].replicate(max(width + 3 * step - len(value), 0)))
    with m.Switch(digit):
        for count in range(4):
            with m.Case(count):
                m.d.comb += [
                    shifted.eq(padded[count * step :][:width]),
                    lost.eq(padded[: count * step].any()),
                ]
    return shifted, lost
