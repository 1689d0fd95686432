"""The number formats of All-Reduce, as bits in uint16."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

__all__ = ["FORMATS", "FloatFormat"]


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format of 16 bits: sign, biased exponent, fraction."""

    exponent_bits: int
    fraction_bits: int
    dtype: np.dtype

    @property
    def exponent_ones(self) -> int:
        """The exponent field of infinities and NaNs."""
        return (1 << self.exponent_bits) - 1

    @property
    def bias(self) -> int:
        return self.exponent_ones >> 1

    @property
    def infinity(self) -> int:
        """Bits of positive infinity."""
        return self.exponent_ones << self.fraction_bits

    @property
    def nan(self) -> int:
        """Bits of the one NaN that an All-Reduce gives: 0x7E00 in fp16, 0x7FC0 in bf16."""
        return self.infinity | 1 << (self.fraction_bits - 1)


FORMATS = {
    "fp16": FloatFormat(exponent_bits=5, fraction_bits=10, dtype=np.dtype(np.float16)),
    "bf16": FloatFormat(exponent_bits=8, fraction_bits=7, dtype=np.dtype(ml_dtypes.bfloat16)),
}
