"""All-Reduce sums of fp16 and bf16, bit for bit as the switch gives them."""

from dataclasses import dataclass

import numpy as np

from .align import align, reference_exponent
from .decode import Decoded, decode
from .formats import FORMATS, FloatFormat
from .round import round_sum

__all__ = ["Status", "all_reduce_sum", "checked_operands", "sum_all", "with_specials"]


@dataclass(frozen=True)
class Status:
    """What became of each element: boolean arrays (n,)."""

    nan: np.ndarray  # the result is NaN
    overflow: np.ndarray  # finite operands, infinite result

    @property
    def any_nan(self) -> bool:
        return bool(self.nan.any())

    @property
    def any_overflow(self) -> bool:
        return bool(self.overflow.any())


def all_reduce_sum(operands: np.ndarray, format: str) -> tuple[np.ndarray, Status]:
    """Sum over the ranks.

    Parameters
    ----------
    operands : (ranks, n) uint16, bits of the numbers; 1 to 16 ranks
    format : ``"fp16"`` or ``"bf16"``

    Returns
    -------
    bits : (n,) uint16
    status : of each element

    Raises
    ------
    ValueError : another format, shape or type
    """
    if format not in FORMATS:
        raise ValueError(f"format: must be one of {', '.join(FORMATS)}, not {format!r}")
    checked_operands(operands, np.uint16)
    return sum_all(operands, FORMATS[format])


def sum_all(operands: np.ndarray, layout: FloatFormat) -> tuple[np.ndarray, Status]:
    """`all_reduce_sum` of operands that are as they must be."""
    decoded = decode(operands, layout)
    reference = reference_exponent(decoded, layout)
    total = align(decoded, reference, layout).sum(axis=0)
    finite = round_sum(total, reference, layout)
    return with_specials(finite, total, decoded, layout)


def with_specials(finite, total, decoded: Decoded, layout: FloatFormat):
    """Puts infinities, NaN, and the sign of a sum of zero into the `finite` results (n,).

    `total` are the sums (n,) that they were rounded from; also gives their `Status`.
    """
    plus = (decoded.infinite & ~decoded.sign).any(axis=0)
    minus = (decoded.infinite & decoded.sign).any(axis=0)
    nan = decoded.nan.any(axis=0) | (plus & minus)
    infinite = plus | minus
    negative_zero = (total == 0) & decoded.sign.all(axis=0)

    bits = np.where(negative_zero, 0x8000, finite)
    bits = np.where(infinite, np.where(minus, 0x8000, 0) | layout.infinity, bits)
    bits = np.where(nan, layout.nan, bits).astype(np.uint16)
    overflow = ~infinite & ~nan & ((finite & 0x7FFF) == layout.infinity)
    return bits, Status(nan=nan, overflow=overflow)


def checked_operands(operands: np.ndarray, dtype: type):
    """Refuse operands that are no (ranks, elements) of 1 to 16 ranks and type `dtype`."""
    if operands.dtype != dtype:
        raise ValueError(f"operands: must be {np.dtype(dtype)}, not {operands.dtype}")
    if operands.ndim != 2 or not 1 <= len(operands) <= 16:
        rule = "must have the shape (ranks, elements) with 1 to 16 ranks"
        raise ValueError(f"operands: {rule}, not {operands.shape}")
