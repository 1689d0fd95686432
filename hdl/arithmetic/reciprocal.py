"""Reciprocals of significands, exact enough for a quotient that a remainder puts right."""

from fractions import Fraction

from amaranth import Array, Const

__all__ = ["RECIPROCAL_BITS", "reciprocal"]

RECIPROCAL_BITS = 11
#: Bits below the hidden one that choose the table's entry.
TABLE_BITS = 7


def reciprocal(significand):
    """Table entry of a significand s of n bits, 8 to 11, its top bit set: about 2^(n + 10) / s.

    It is the nearest number to 2^(n + 10) / t, t the middle of the significands that share it: off
    by 3.5 / 1027 for t, and by half of 1 / 1024 for rounding, at most. So a quotient of up to 129
    that is made with it is off by less than 0.5 (0.461, by trial of all).
    """
    bits = len(significand)
    unused = bits - 1 - TABLE_BITS
    entries = []
    for upper in range(1 << TABLE_BITS, 2 << TABLE_BITS):
        middle = Fraction((2 * upper + 1 << unused) - 1, 2)
        entry = round((1 << bits + RECIPROCAL_BITS - 1) / middle)
        # A significand that is a power of two, without company, would take one bit more.
        entries.append(Const(min(entry, (1 << RECIPROCAL_BITS) - 1), RECIPROCAL_BITS))
    return Array(entries)[significand[unused:-1]]
