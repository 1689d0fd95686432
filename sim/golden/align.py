"""Places operands in the fixed-point window that they are added in."""

import numpy as np

from .decode import SIGNIFICAND_BITS, Decoded
from .formats import FORMATS, FloatFormat

__all__ = ["WINDOW_BITS", "align", "reference_exponent"]

#: Holds every finite fp16 number exactly: exponent fields 1 to 30, so shifts of 0 to 29 places.
WINDOW_BITS = SIGNIFICAND_BITS + 29
#: Of the window, bf16 keeps this many bits from the top: weights 2^E down to 2^(E-31).
BF16_KEPT_BITS = 32


def reference_exponent(decoded: Decoded, layout: FloatFormat) -> np.ndarray:
    """E of each element, the biased exponent of the window's top bit; shape (n,)."""
    if layout is FORMATS["fp16"]:
        return np.full(decoded.exponent.shape[1:], layout.exponent_ones - 1, np.int64)
    return decoded.exponent.max(axis=0)


def align(decoded: Decoded, reference: np.ndarray, layout: FloatFormat) -> np.ndarray:
    """Signed integers of the operands, shape (ranks, n), in units of 2^(E - bias - 39).

    bf16 magnitudes are truncated toward zero below 2^(E - bias - 31). Elements with an infinity or
    a NaN get a value without meaning.
    """
    distance = np.clip(reference - decoded.exponent, 0, WINDOW_BITS)
    magnitude = (decoded.significand << (WINDOW_BITS - SIGNIFICAND_BITS)) >> distance
    if layout is FORMATS["bf16"]:
        magnitude &= ~np.int64((1 << (WINDOW_BITS - BF16_KEPT_BITS)) - 1)
    return np.where(decoded.sign, -magnitude, magnitude)
