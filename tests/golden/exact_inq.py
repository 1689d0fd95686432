"""In-network quantization by exact rationals, one block at a time: slow, plain, written apart."""

from dataclasses import dataclass
from fractions import Fraction

from tests.golden import exact

NAN = {"fp16": 0x7E00, "bf16": 0x7FC0, "e8m0": 0xFF}
LARGEST = {"fp16": 0x7BFF, "bf16": 0x7F7F, "e8m0": 0xFE}
#: Bits kept below the last bit of the block's largest scale; None: nothing is cut.
KEPT = {"fp16": None, "bf16": 31, "e8m0": 31}


@dataclass(frozen=True)
class Rules:
    """A scale format, a width of codes, and E8M0's rule."""

    scale_format: str = "fp16"
    code_bits: int = 8
    e8m0_rule: str = "ceil"

    @property
    def last_code(self) -> int:
        return 2 ** (self.code_bits - 1) - 1

    @property
    def floor(self) -> bool:
        return self.scale_format == "e8m0" and self.e8m0_rule == "floor"

    def is_bad(self, bits: int) -> bool:
        """NaN, infinite or negative."""
        if self.scale_format == "e8m0":
            return bits == NAN["e8m0"]
        return exact.is_special(bits, self.scale_format) or bits > 0x8000

    def step(self, bits: int) -> Fraction:
        """Value of a code's step."""
        if self.scale_format == "e8m0":
            return Fraction(2) ** (bits - 127 - (self.code_bits - 2))
        return exact.value(bits, self.scale_format)

    def last_place(self, bits: int) -> Fraction:
        """Weight of a scale's last bit."""
        if self.scale_format == "e8m0":
            return self.step(bits)
        return exact.unit_in_last_place(bits & 0x7FFF, self.scale_format)


def unit_of(scales: list[int], rules: Rules) -> Fraction:
    """Below this, each scale of the block is cut; 0 where nothing is."""
    if KEPT[rules.scale_format] is None:
        return Fraction(0)
    return max(rules.last_place(bits) for bits in scales) / 2 ** KEPT[rules.scale_format]


def kept(number: Fraction, unit: Fraction) -> Fraction:
    """`number`, which is not negative, cut at `unit`."""
    return number // unit * unit if unit else number


def scale_for(largest: Fraction, rules: Rules) -> tuple[int, bool]:
    """Bits of the new scale and whether it overflowed; by bisection over all scales."""
    if largest == 0:
        return 0, False
    if rules.floor:
        # In units of the codes: the largest power of two not above the magnitude is 2^(bits - 2).
        enough = lambda bits: largest < rules.step(bits) * 2 ** (rules.code_bits - 1)  # noqa: E731
    else:
        enough = lambda bits: rules.step(bits) * rules.last_code >= largest  # noqa: E731
    low, high = 0, LARGEST[rules.scale_format]
    if not enough(high):
        return high, True
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low, False


def code_for(number: Fraction, step: Fraction, rules: Rules) -> int:
    """The nearest code, ties to even, at most the last one."""
    nearest = round(number / step)  # Python rounds fractions to even
    return max(-rules.last_code, min(rules.last_code, nearest))


def requantize(numbers: list[Fraction], rules: Rules) -> tuple[list[int], int, bool]:
    """Codes, scale bits and overflow of one block."""
    bits, overflow = scale_for(max(map(abs, numbers)), rules)
    if not any(numbers):
        return [0] * len(numbers), 0, False
    return [code_for(number, rules.step(bits), rules) for number in numbers], bits, overflow


def sums(codes: list[list[int]], scales: list[int], rules: Rules, *, cut=True) -> list[Fraction]:
    """Sums over the ranks of one block, of what the window keeps or of the exact values."""
    unit = unit_of(scales, rules) if cut else Fraction(0)
    steps = [kept(rules.step(bits), unit) for bits in scales]
    return [
        sum(code * step for code, step in zip(column, steps, strict=True))
        for column in zip(*codes, strict=True)
    ]


def all_reduce(codes: list[list[int]], scales: list[int], rules: Rules):
    """Codes, scale bits, nan and overflow of one block; `codes` a list a rank."""
    if any(map(rules.is_bad, scales)):
        return [0] * len(codes[0]), NAN[rules.scale_format], True, False
    new, bits, overflow = requantize(sums(codes, scales, rules), rules)
    return new, bits, False, overflow
