"""From numbers to codes and scales, by the rule of the switch, and back."""

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
    padded = np.zeros((*values.shape[:-1], blocks * block))
    padded[..., :n] = values
    padded = padded.reshape(*values.shape[:-1], blocks, block)

    bad = ~np.isfinite(padded).all(axis=-1)
    magnitude = np.where(bad[..., None], 0, np.abs(padded))
    largest = magnitude.max(axis=-1, initial=0)
    if scale_format == "e8m0" and e8m0_rule == "floor":
        bits = np.frexp(largest)[1] - 1 + layout.bias
        bits = np.where(largest == 0, 0, np.clip(bits, 0, layout.largest))
    else:
        bits = _smallest_scale(largest, layout, scale_format, code_bits)
    step = scale_values(bits.astype(layout.dtype), scale_format, code_bits)[..., None]
    codes = np.copysign(_nearest_codes(magnitude, step, code_bits), padded)
    codes = np.where(largest[..., None] == 0, 0, codes).astype(np.int8)
    scales = np.where(bad, layout.nan, bits).astype(layout.dtype)
    return codes.reshape(*values.shape[:-1], -1)[..., :n], scales


def _smallest_scale(largest, layout: ScaleFormat, scale_format: str, code_bits: int) -> np.ndarray:
    """Bits of the smallest scale with ``scale * last code >= largest``, or of the largest one.

    By bisection over all bits, which order as scales do: products with a code are exact in
    float64, so every comparison is.
    """
    last_code = (1 << (code_bits - 1)) - 1
    every = scale_values(np.arange(layout.largest + 1), scale_format, code_bits) * last_code
    bits = np.minimum(np.searchsorted(every, largest, side="left"), layout.largest)
    return np.where(largest == 0, 0, bits)


def _nearest_codes(magnitude: np.ndarray, step: np.ndarray, code_bits: int) -> np.ndarray:
    """``magnitude / step`` to the nearest whole number, ties to even, at most the last code.

    float64's quotient may round onto a half; halves times `step` are exact and put that right.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        code = np.rint(np.minimum(magnitude / step, 1 << code_bits))
    above, below = (code + 0.5) * step, (code - 0.5) * step
    odd = code % 2 == 1
    code = code + ((magnitude > above) | ((magnitude == above) & odd))
    code = code - ((magnitude < below) | ((magnitude == below) & odd))
    return np.minimum(code, (1 << (code_bits - 1)) - 1)
