"""From numbers to codes and scales, by the rule of the switch, and back."""

import functools

import numpy as np

from .inq import checked_scales, scale_layout
from .scales import ScaleFormat, decode_scales

__all__ = ["dequantize", "quantize", "scale_values"]


def scale_values(bits: np.ndarray, scale_format: str = "fp16", code_bits: int = 8) -> np.ndarray:
    """Value of one step of a code, float64 and exact; NaN where the scale is NaN, infinite or
    negative."""
    layout = scale_layout(scale_format, code_bits)
    decoded = decode_scales(bits, layout)
    value = np.ldexp(decoded.significand.astype(np.float64),
                     decoded.exponent - layout.offset(code_bits))  # fmt: skip
    return np.where(decoded.bad, np.nan, value)


def dequantize(
    codes: np.ndarray,
    scales: np.ndarray,
    *,
    block: int = 64,
    scale_format: str = "fp16",
    code_bits: int = 8,
) -> np.ndarray:
    """Values (..., n) of codes (..., n) and their scales (..., ceil(n / block)), float64 and exact.

    A block whose scale is NaN, infinite or negative is NaN. Scales are bits, or float16, as for
    `all_reduce_inq`. Raises ValueError where a shape, type or parameter is wrong.
    """
    layout = scale_layout(scale_format, code_bits)
    bits = checked_scales(scales, codes.shape, block, layout)
    steps = np.repeat(scale_values(bits, scale_format, code_bits), block, axis=-1)
    return codes * steps[..., : codes.shape[-1]]


def quantize(
    values: np.ndarray,
    *,
    block: int = 64,
    scale_format: str = "fp16",
    code_bits: int = 8,
    e8m0_rule: str = "ceil",
) -> tuple[np.ndarray, np.ndarray]:
    """Codes (..., n) int8 and scales (..., ceil(n / block)) of float16, float32 or float64 values.

    The rule is `all_reduce_inq`'s, on exact values: the smallest scale with ``scale * last code >=
    largest magnitude``, codes the nearest (ties to even) of the exact quotients; the largest finite
    scale and clamped codes where none is large enough; NaN scale and codes 0 for a block with a NaN
    or an infinity.
    """
    layout = scale_layout(scale_format, code_bits, e8m0_rule)
    if values.dtype not in (np.float16, np.float32, np.float64):
        raise ValueError(f"values: must be float16, float32 or float64, not {values.dtype}")
    if block < 1:
        raise ValueError(f"block: must be 1 or more, not {block!r}")
    n = values.shape[-1]
    blocks = -(-n // block)
    if n != blocks * block:
        padding = np.zeros((*values.shape[:-1], blocks * block - n), values.dtype)
        values = np.concatenate([values, padding], axis=-1)
    values = values.reshape(*values.shape[:-1], blocks, block)

    largest = np.abs(values).max(axis=-1, initial=0).astype(np.float64)  # NaN if there is one
    bad = ~np.isfinite(largest)
    bits = _scale_for(np.where(bad, 0, largest), layout, scale_format, code_bits, e8m0_rule)
    step = scale_values(bits.astype(layout.dtype), scale_format, code_bits)
    step = np.where(step == 0, 1, step)  # of a zero block
    values = np.where(bad[..., None], 0, values) if bad.any() else values
    codes = _nearest_codes(values, step[..., None], code_bits).astype(np.int8)
    scales = np.where(bad, layout.nan, bits).astype(layout.dtype)
    return codes.reshape(*codes.shape[:-2], -1)[..., :n], scales


@functools.cache
def _largest_magnitudes(scale_format: str, code_bits: int) -> np.ndarray:
    """What each scale's last code stands for, by the bits of the scale; it rises with them."""
    every = np.arange(scale_layout(scale_format, code_bits).largest + 1)
    return scale_values(every, scale_format, code_bits) * ((1 << (code_bits - 1)) - 1)


def _scale_for(
    largest: np.ndarray, layout: ScaleFormat, scale_format: str, code_bits: int, e8m0_rule: str
) -> np.ndarray:
    """Bits of the scale for each largest magnitude; the largest scale where none is large enough.

    By bisection over all scales: a scale times a code is exact in float64.
    """
    if scale_format == "e8m0" and e8m0_rule == "floor":
        bits = np.maximum(np.frexp(largest)[1] - 1 + layout.bias, 0)
    else:
        bits = np.searchsorted(_largest_magnitudes(scale_format, code_bits), largest, side="left")
    return np.where(largest == 0, 0, np.minimum(bits, layout.largest))


def _nearest_codes(values: np.ndarray, step: np.ndarray, code_bits: int) -> np.ndarray:
    """``values / step`` to the nearest whole number, ties to even, within the codes; float64.

    float64's rounded quotient is a half only where the exact one is. For a half h, h * step is a
    float64 number, and any other one is at least a last place away from it. Divided by step, that
    is more than half a last place of h, since significands are at least 1 and below 2.
    """
    last_code = (1 << (code_bits - 1)) - 1
    code = values / step
    np.rint(code, out=code)
    return np.clip(code, -last_code, last_code, out=code)
