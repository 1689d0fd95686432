"""Largest and smallest of the ranks' numbers."""

import numpy as np

from .allreduce import Status
from .decode import decode
from .formats import FloatFormat

__all__ = ["float_extremum", "integer_extremum"]


def float_extremum(
    operands: np.ndarray, layout: FloatFormat, *, largest: bool
) -> tuple[np.ndarray, Status]:
    """The largest, or smallest, of floating-point numbers given as bits (ranks, n) uint16.

    -0 is below +0; infinities are numbers like others; any NaN gives the format's one NaN.
    """
    nan = decode(operands, layout).nan.any(axis=0)
    # Magnitudes order as their bits do; the sign turns that around, and parts -0 from +0.
    magnitude = (operands & 0x7FFF).astype(np.int64)
    order = np.where(operands >> 15, -1 - magnitude, magnitude)
    order = order.max(axis=0) if largest else order.min(axis=0)
    bits = np.where(order < 0, 0x8000 | (-1 - order), order)
    bits = np.where(nan, layout.nan, bits).astype(np.uint16)
    return bits, Status(nan=nan, overflow=np.zeros(nan.shape, bool))


def integer_extremum(operands: np.ndarray, *, largest: bool) -> np.ndarray:
    """The largest, or smallest, of int32 (ranks, n)."""
    return operands.max(axis=0) if largest else operands.min(axis=0)
