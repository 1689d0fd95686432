"""The same sums by exact rationals, one number at a time: slow, plain, and written apart."""

from fractions import Fraction

#: Exponent and fraction bits, by format.
WIDTHS = {"fp16": (5, 10), "bf16": (8, 7)}
INFINITY = {"fp16": 0x7C00, "bf16": 0x7F80}
NAN = {"fp16": 0x7E00, "bf16": 0x7FC0}


def is_special(bits: int, name: str) -> bool:
    return bits & 0x7FFF >= INFINITY[name]


def value(bits: int, name: str) -> Fraction:
    """The value of a finite number."""
    exponent_bits, fraction_bits = WIDTHS[name]
    bias = 2 ** (exponent_bits - 1) - 1
    field = bits >> fraction_bits & 2**exponent_bits - 1
    fraction = Fraction(bits % 2**fraction_bits, 2**fraction_bits)
    if field:
        magnitude = (1 + fraction) * Fraction(2) ** (field - bias)
    else:
        magnitude = fraction * Fraction(2) ** (1 - bias)
    return -magnitude if bits >> 15 else magnitude


def nearest(exact: Fraction, name: str) -> int:
    """Bits of the number nearest to `exact`, ties to the even one; by bisection over all numbers.

    A magnitude is infinite from half a unit beyond the largest number on. Zero is +0.
    """
    magnitude = abs(exact)
    low, high = 0, INFINITY[name]
    # Bits of positive numbers order as the numbers do; infinity stands for the next power of two.
    while high - low > 1:
        middle = (low + high) // 2
        if value(middle, name) <= magnitude:
            low = middle
        else:
            high = middle
    above = value(high, name)  # of infinity's bits: 2^(largest exponent + 1), as wanted
    below = value(low, name)
    twice = 2 * magnitude
    if twice > below + above or (twice == below + above and low % 2) or magnitude >= above:
        low = high
    return low | (0x8000 if exact < 0 else 0)


def unit_in_last_place(bits: int, name: str) -> Fraction:
    """Distance between neighbours at a finite number."""
    exponent_bits, fraction_bits = WIDTHS[name]
    field = max(bits >> fraction_bits & 2**exponent_bits - 1, 1)
    return Fraction(2) ** (field - 2 ** (exponent_bits - 1) + 1 - fraction_bits)


def truncated(bits: int, largest: int, name: str) -> Fraction:
    """A bf16 value cut toward zero below 2^(E - 31), E the unbiased `largest` exponent."""
    unit = Fraction(2) ** (largest - 31)
    exact = value(bits, name)
    count = abs(exact) // unit
    return count * unit if exact >= 0 else -count * unit


def exponent(bits: int, name: str) -> int:
    """Unbiased exponent; a subnormal's is the smallest normal one's."""
    exponent_bits, fraction_bits = WIDTHS[name]
    field = max(bits >> fraction_bits & 2**exponent_bits - 1, 1)
    return field - 2 ** (exponent_bits - 1) + 1


def special(operands: list[int], name: str) -> int | None:
    """The result of a sum or average that NaN or infinities decide; None where none takes part."""
    if any(bits & 0x7FFF > INFINITY[name] for bits in operands):
        return NAN[name]
    infinities = {bits for bits in operands if bits & 0x7FFF == INFINITY[name]}
    if infinities:
        return NAN[name] if len(infinities) == 2 else infinities.pop()
    return None


def kept_sum(operands: list[int], name: str) -> Fraction:
    """The sum of finite numbers, of what bf16 keeps of them."""
    if name == "fp16":
        return sum(value(bits, name) for bits in operands)
    largest = max(exponent(bits, name) for bits in operands)
    return sum(truncated(bits, largest, name) for bits in operands)


def all_reduce(operands: list[int], name: str) -> int:
    """The sum of one element of every rank, by the rules of docs/numerics.md."""
    decided = special(operands, name)
    if decided is not None:
        return decided
    total = kept_sum(operands, name)
    if total == 0 and all(bits >> 15 for bits in operands):
        return 0x8000
    return nearest(total, name)


def average(operands: list[int], name: str) -> int:
    """The average, by the same rules: a sum's, but for the division ahead of the one rounding."""
    decided = special(operands, name)
    if decided is not None:
        return decided
    total = kept_sum(operands, name)
    if total == 0:
        return 0x8000 if all(bits >> 15 for bits in operands) else 0
    return nearest(total / len(operands), name)


def extremum(operands: list[int], name: str, *, largest: bool) -> int:
    """The largest or smallest number: NaN if one is; of equal values, which only zeros of both
    signs are, +0 is the larger.
    """
    if any(bits & 0x7FFF > INFINITY[name] for bits in operands):
        return NAN[name]

    def key(bits):
        # The bits of infinity have the value of the next power of two, which nothing reaches.
        return value(bits, name), not bits >> 15

    return max(operands, key=key) if largest else min(operands, key=key)
