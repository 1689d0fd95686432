"""From sums to codes: the exact quotient by the block's scale, to nearest even."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .block_scale import PLACES_BITS
from .delay_line import delayed
from .pipeline import register, tree_levels
from .reciprocal import RECIPROCAL_BITS
from .scale_formats import CODE_BITS, LAST_CODE, SCALE_FORMATS

__all__ = ["Quantize"]

#: Digits of the shift: step and bits of `places`, largest first.
DIGITS = ((16, slice(4, 6)), (4, slice(2, 4)), (1, slice(0, 2)))
#: The part of a sum that is multiplied, for an 18-bit port.
MULTIPLIED_BITS = 18


class Quantize(wiring.Component):
    """Divides the sums of one block's lanes by the block's scale; codes are exact.

    1. *Shift.* A sum x is shifted so that it counts halves of the scale's last place: to the whole
       number y below or at it, with a sticky bit for what is lost. A scale is s such places, so the
       code is the whole number nearest to x / s = (y + sticky's) / 2 s. That is
       q = floor(x / s + 1/2) = floor((y + s) / (2 s)), since y and s are whole numbers, and what is
       lost is less than 1. It is a tie if 2 s divides y + s and the sticky bit is 0: then the last
       bit is cleared. All this holds for a negative y as well, so no sum is ever negated.
    2. *Candidate.* c = floor(y * reciprocal of 2 s). The reciprocal is of a table, and the product
       off by less than 1/2 (see `reciprocal`); so c is q or q - 1.
    3. *Remainder.* r = y - s (2 c + 1), which is from -2 s to 2 s - 1, is what is left of y + s
       for c + 1: if it is not negative, then q = c + 1. There is a tie if r = 0 or r = -2 s.

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
    places, negated, reciprocal : of the block they belong to, from `BlockScale`
    keep : lanes that count and have a code; the others' is 0
    codes : after `delay` cycles, a byte a lane
    """

    def __init__(self, ranks: int, lanes: int, scale_format: str):
        self._lanes = lanes
        self._layout = layout = SCALE_FORMATS[scale_format]
        # Bits of y without its sign, twice 127 times s; and after overflow, N times as much.
        self._bits = layout.significand_bits + CODE_BITS
        self._overflow_bits = self._bits + tree_levels(ranks)
        super().__init__(
            {
                "sums": In(signed(layout.sum_bits(ranks))).array(lanes),
                "places": In(PLACES_BITS),
                "negated": In(signed(layout.significand_bits + 1)),
                "reciprocal": In(RECIPROCAL_BITS),
                "keep": In(lanes),
                "codes": Out(lanes * CODE_BITS),
            }
        )

    @property
    def _divides(self) -> bool:
        return self._layout.fraction_bits > 0

    @property
    def _round_at(self) -> int:
        """Cycles from a sum to its quotient: shift twice, and multiply twice, subtract."""
        return 2 + (3 if self._divides else 0)

    @property
    def delay(self) -> int:
        """Cycles from a sum to its code: the quotient, round, limit."""
        return self._round_at + 2

    def elaborate(self, platform):
        m = Module()
        # Parameters of a block pass by with its sums: at each cycle from the sums' on.
        self._places = [self.places, delayed(m, self.places, 1, name="places")]
        self._reciprocal = delayed(m, self.reciprocal, 2, name="reciprocal")
        self._negated = [self.negated]
        for cycle in range(1, self._round_at + 1):
            self._negated.append(delayed(m, self._negated[-1], 1, name=f"negated_{cycle}"))
        keep = delayed(m, self.keep, self.delay - 1, name="keep")
        for lane in range(self._lanes):
            rounded, flags = self._rounded(m, lane, self.sums[lane])
            code = self._limited(m, lane, rounded, flags, keep[lane])
            m.d.comb += self.codes.word_select(lane, CODE_BITS).eq(code)
        return m

    def _rounded(self, m, lane, total):
        """The rounded quotient; whether the sum is too large for a code, and its sign."""
        value, sticky = self._shift(m, lane, total)
        negative = value[-1]
        large = (value[self._bits : -1] ^ negative.replicate(len(value) - 1 - self._bits)).any()
        flags = Cat(sticky, large, negative)
        flags = delayed(m, flags, self._round_at - 2, name=f"flags_{lane}")
        if self._divides:
            quotient, multiple = self._divide(m, lane, value[: self._bits + 1].as_signed())
        else:
            doubled = value[: self._bits + 1].as_signed() + 1
            quotient, multiple = doubled >> 1, ~doubled[0]
        tie = multiple & ~flags[0]
        rounded = Signal(signed(CODE_BITS + 1), name=f"rounded_{lane}", reset_less=True)
        m.d.sync += rounded.eq(Cat(quotient[0] & ~tie, quotient[1:]))
        return rounded, register(m, flags[1:], valid=1, name=f"flags_rounded_{lane}")

    def _shift(self, m, lane, total):
        """Two registers: the sum in halves of the scale's last place, and what is lost."""
        # Zeros below, for scales finer than a unit.
        value = Cat(Const(0, 1 - self._layout.lowest_place), total)
        sticky = Const(0)
        for cycle, digits in enumerate((DIGITS[:1], DIGITS[1:])):
            for step, digit in digits:
                # Less significant digits still shift by less than one step of this one.
                width = self._overflow_bits + 1 + step - 1
                shifts = self._places[cycle][digit]
                value, lost = _shift_down(m, value, step, shifts, width, f"{lane}_{step}")
                sticky = sticky | lost
            value = register(m, value, valid=1, name=f"value_{lane}_{cycle}")
            sticky = register(m, sticky, valid=1, name=f"sticky_{lane}_{cycle}")
        return value, sticky

    def _divide(self, m, lane, value):
        """Three registers: the quotient, a half rounded up, and whether it may be such a half."""
        significand_bits = self._layout.significand_bits
        unused = max(len(value) - MULTIPLIED_BITS, 0)
        product = value[unused:].as_signed() * self._reciprocal
        product = register(m, product, valid=1, name=f"product_{lane}")
        below = RECIPROCAL_BITS + significand_bits - unused
        candidate = product[below:][: CODE_BITS + 1].as_signed()
        multiple = Cat(Const(1, 1), candidate).as_signed() * self._negated[3]
        multiple = register(m, multiple, valid=1, name=f"multiple_{lane}")
        # The remainder needs no more than its own bits.
        bits = significand_bits + 2
        value = delayed(m, value[:bits], 2, name=f"low_{lane}")
        remainder = register(m, (value + multiple[:bits])[:bits], valid=1, name=f"remainder_{lane}")
        candidate = delayed(m, candidate, 2, name=f"candidate_{lane}").as_signed()
        none = (remainder == 0) | (remainder == Cat(Const(0, 1), self._negated[5]))
        return candidate + ~remainder[-1], none

    def _limited(self, m, lane, rounded, flags, keep):
        """One register: a code, at most 127 in magnitude."""
        # The sum's sign: E8M0's quotient, up to 256 after overflow, may have lost its own.
        large, negative = flags
        code = Signal(signed(CODE_BITS), name=f"code_{lane}", reset_less=True)
        # Of nine bits the upper two differ beyond -128..127, and -128 is one too many.
        large = large | (rounded[-1] ^ rounded[-2]) | (rounded[-2] & ~rounded[:-2].any())
        m.d.sync += code.eq(Mux(large, Mux(negative, -LAST_CODE, LAST_CODE), rounded))
        with m.If(~keep):
            m.d.sync += code.eq(0)
        return code


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
