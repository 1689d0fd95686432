"""From the bits of numbers to sign, exponent, significand and class."""

from dataclasses import dataclass

import numpy as np

from .formats import FloatFormat

__all__ = ["SIGNIFICAND_BITS", "Decoded", "decode"]

#: Bits of a significand, hidden bit included: fp16's; bf16's 8 stand at its top.
SIGNIFICAND_BITS = 11


@dataclass(frozen=True)
class Decoded:
    """Numbers taken apart; every array has the operands' shape.

    A finite number is ``(-1)^sign * significand * 2^(exponent - bias - 10)``.
    """

    sign: np.ndarray  # bool
    exponent: np.ndarray  # int64; a subnormal's is 1
    significand: np.ndarray  # int64, SIGNIFICAND_BITS bits
    infinite: np.ndarray  # bool
    nan: np.ndarray  # bool


def decode(operands: np.ndarray, layout: FloatFormat) -> Decoded:
    """Takes `operands` (uint16 bits, any shape) apart."""
    bits = operands.astype(np.int64)
    field = (bits >> layout.fraction_bits) & layout.exponent_ones
    fraction = bits & ((1 << layout.fraction_bits) - 1)
    hidden = (field != 0).astype(np.int64) << layout.fraction_bits
    special = field == layout.exponent_ones
    return Decoded(
        sign=(bits >> 15) != 0,
        exponent=np.maximum(field, 1),
        significand=(hidden | fraction) << (SIGNIFICAND_BITS - 1 - layout.fraction_bits),
        infinite=special & (fraction == 0),
        nan=special & (fraction != 0),
    )
