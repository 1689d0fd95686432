"""Reciprocals of significands, a little too small, for quotients that a remainder puts right."""

from amaranth import Array, Const

__all__ = ["DIVIDEND_BITS", "RECIPROCAL_BITS", "SHIFT", "reciprocal"]

#: The upper bits of a dividend that are multiplied: the unsigned part of an 18-bit port.
DIVIDEND_BITS = 17
RECIPROCAL_BITS = 12
#: Bits of the product below a quotient of up to 9 bits.
SHIFT = DIVIDEND_BITS + RECIPROCAL_BITS - 9
#: Bits below the hidden one that choose the table's entry.
TABLE_BITS = 7


def reciprocal(significand):
    """Table entry of a significand of n bits, 8 to 11, its top bit set: 2^(n + 11) / s.

    For a dividend y below 2^(n + 9) and its quotient by 2 s, q = y / (2 s), at most 129,
    ``(y's upper 17 bits) * entry / 2^20`` is at most q, and less than 1 below it. For the entry is
    floor(2^(n + 11) / t), t the largest significand that shares it. So it is at most 2^(n + 11) / s,
    and too small by less than (t - s) / t <= 7 / 1031 of that, plus 1 for rounding, which is
    1 / 2048 of it or less; and y's lowest n - 8 bits are 7 / 2048 of q at most:
    129 * (7 / 1031 + 1 / 2048) + 7 / 2048 < 0.95.
    """
    bits = len(significand)
    unused = bits - 1 - TABLE_BITS
    entries = []
    for upper in range(1 << TABLE_BITS, 2 << TABLE_BITS):
        largest = ((upper + 1) << unused) - 1
        entry = (1 << (bits + RECIPROCAL_BITS - 1)) // largest
        # A significand that is a power of two, without company, would take one bit more.
        entries.append(Const(min(entry, (1 << RECIPROCAL_BITS) - 1), RECIPROCAL_BITS))
    return Array(entries)[significand[unused:-1]]
