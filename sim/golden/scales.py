"""The formats of a block's scale: taken apart, and rounded up to.

A finite scale is ``significand * 2^(exponent - offset)``, per step of a code. `offset` depends on
the codes' width for E8M0 alone, whose elements are binary fractions (OCP MX): 8-bit codes count
2^-6, 4-bit codes 2^-2.
"""

from dataclasses import dataclass

import numpy as np

from .round import bit_length

__all__ = ["SCALE_FORMATS", "DecodedScales", "ScaleFormat", "decode_scales", "round_up_scale"]


@dataclass(frozen=True)
class ScaleFormat:
    """A format of scales, as bits in `dtype`.

    `guard_bits` lie below the last bit of a scale at the window's reference exponent.
    """

    dtype: np.dtype
    significand_bits: int  # hidden bit included
    smallest_exponent: int  # of a zero or a subnormal; of E8M0, the smallest there is
    bias: int
    largest: int  # bits of the largest finite scale
    nan: int  # bits of the one NaN that an All-Reduce gives
    guard_bits: int
    fixed_reference: int | None  # the window's reference exponent; None: the block's largest

    @property
    def fraction_bits(self) -> int:
        return self.significand_bits - 1

    def offset(self, code_bits: int) -> int:
        """What is taken from the exponent field, for the weight of the significand's last bit."""
        if self.fraction_bits == 0:
            return self.bias + code_bits - 2
        return self.bias + self.fraction_bits


#: fp16's fixed window reaches from its largest exponent field, 30, to its smallest, 1.
SCALE_FORMATS = {
    "fp16": ScaleFormat(np.dtype(np.uint16), 11, 1, 15, 0x7BFF, 0x7E00, 29, 30),
    "bf16": ScaleFormat(np.dtype(np.uint16), 8, 1, 127, 0x7F7F, 0x7FC0, 31, None),
    "e8m0": ScaleFormat(np.dtype(np.uint8), 1, 0, 127, 0xFE, 0xFF, 31, None),
}


@dataclass(frozen=True)
class DecodedScales:
    """Scales taken apart; int64 and bool arrays of their shape."""

    significand: np.ndarray
    exponent: np.ndarray  # biased; a zero's and a subnormal's is `smallest_exponent`
    bad: np.ndarray  # NaN, infinite or negative (-0 is 0)


def decode_scales(bits: np.ndarray, layout: ScaleFormat) -> DecodedScales:
    """Takes `bits` (any shape) apart; bad ones get fields without meaning."""
    bits = bits.astype(np.int64)
    if layout.fraction_bits == 0:  # E8M0: no sign, no zero, no subnormals
        return DecodedScales(np.ones_like(bits), bits, bits == layout.nan)
    magnitude = bits & 0x7FFF
    field = magnitude >> layout.fraction_bits
    fraction = magnitude & ((1 << layout.fraction_bits) - 1)
    return DecodedScales(
        significand=fraction | (field != 0).astype(np.int64) << layout.fraction_bits,
        exponent=np.maximum(field, layout.smallest_exponent),
        bad=(magnitude > layout.largest) | ((bits >> 15 != 0) & (magnitude != 0)),
    )


def round_up_scale(
    largest: np.ndarray,
    unit: np.ndarray,
    layout: ScaleFormat,
    code_bits: int = 8,
    *,
    floor: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The smallest scale of the format that is at least ``largest * 2^unit / (2^(bits-1) - 1)``.

    Parameters
    ----------
    largest : int64, 0 to 2^52: the largest magnitude of each block
    unit : int64, of the same shape: exponent of what `largest` counts
    floor : E8M0's other rule: the scale whose code 2^(bits-2) is the largest power of two that is
        not above the magnitude; codes beyond the last one then saturate

    Returns
    -------
    bits : int64; 0 where `largest` is 0
    overflow : bool; no finite scale is large enough, and `bits` is the largest one
    """
    last_code = (1 << (code_bits - 1)) - 1
    length = bit_length(largest)
    # Leading bit of the exact quotient: just below the codes' width, or one more if the magnitude
    # has its leading bits all set.
    lead = length - code_bits + (largest << (code_bits - 1) >= last_code << length)
    if floor:
        bits = length - 1 + unit - (code_bits - 2) + layout.offset(code_bits)
        bits = np.maximum(bits, 0)
    else:
        places = lead - layout.fraction_bits  # of the significand's last bit
        exponent = places + unit + layout.offset(code_bits)
        exponent = np.maximum(exponent, layout.smallest_exponent)
        places = exponent - unit - layout.offset(code_bits)
        dividend = largest << np.maximum(-places, 0)
        divisor = np.int64(last_code) << np.maximum(places, 0)
        significand = -(-dividend // divisor)
        # The hidden bit, and a carry out of rounding up, add into the field. E8M0's significand
        # is 1, or 2 where it carries.
        bits = (exponent - 1 << layout.fraction_bits) + significand
    bits = np.where(largest == 0, 0, bits)
    return np.minimum(bits, layout.largest), bits > layout.largest
