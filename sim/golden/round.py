"""Rounds sums to numbers, once, to nearest even."""

import numpy as np

from .align import WINDOW_BITS
from .formats import FloatFormat

__all__ = ["bit_length", "round_quotient", "round_sum"]

#: Bits of a quotient below the window's last one, before those that only say "not exact". A kept
#: sum of bf16 that is not 0 has its leading bit at least 8 above the window's last, and loses at
#: most 4 by a division by 16: with 6 more, 11 bits remain, which is its significand, a guard bit
#: and one below.
QUOTIENT_BITS = 6


def bit_length(values: np.ndarray) -> np.ndarray:
    """Bits that non-negative int64 values below 2^53 need; 0 for 0."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def round_sum(total: np.ndarray, reference: np.ndarray, layout: FloatFormat) -> np.ndarray:
    """Bits (uint16) of the nearest numbers to ``total * 2^(reference - bias - 39)``; ties to even.

    `total` is int64 (n,), `reference` the biased exponents (n,) of the window's top bit. A sum of
    zero gives +0; a magnitude of at least half a unit beyond the largest number gives infinity.
    """
    return _round(total, reference, layout, below=0)


def round_quotient(
    total: np.ndarray, count: int, reference: np.ndarray, layout: FloatFormat
) -> np.ndarray:
    """Bits (uint16) of the nearest numbers to ``total / count``, in `round_sum`'s unit.

    `count` is 1 to 16. The exact quotient is rounded, once; one that rounds to zero has the sum's
    sign.
    """
    quotient, rest = np.divmod(np.abs(total) << QUOTIENT_BITS, count)
    # One more bit below stands for all that follow: it breaks ties, and cannot make one.
    magnitude = quotient << 1 | (rest != 0)
    return _round(np.where(total < 0, -magnitude, magnitude), reference, layout, QUOTIENT_BITS + 1)


def _round(total, reference, layout: FloatFormat, below: int) -> np.ndarray:
    """`round_sum` of ``total / 2^below``."""
    magnitude = np.abs(total)
    # The exponent field that the leading bit asks for; below 1 the last place stays at field 1's.
    field = np.maximum(reference + bit_length(magnitude) - below - WINDOW_BITS, 1)
    # Places from the window's last bit up to the result's: negative where the result is finer.
    places = field - reference + WINDOW_BITS + below - 1 - layout.fraction_bits
    significand = _shift_to_nearest_even(magnitude, places)
    # The hidden bit, and a carry out of rounding, add into the field.
    bits = ((field - 1) << layout.fraction_bits) + significand
    bits = np.where(magnitude == 0, 0, np.minimum(bits, layout.infinity))
    return (bits | (total < 0).astype(np.int64) << 15).astype(np.uint16)


def _shift_to_nearest_even(magnitude: np.ndarray, places: np.ndarray) -> np.ndarray:
    """``magnitude / 2^places``, rounded; a negative `places` shifts up, and is exact."""
    down = np.maximum(places, 0)
    quotient = magnitude >> down
    remainder = magnitude - (quotient << down)
    twice, unit = 2 * remainder, np.int64(1) << down
    up = (twice > unit) | ((twice == unit) & (quotient & 1 == 1))
    return (quotient + up) << np.maximum(-places, 0)
