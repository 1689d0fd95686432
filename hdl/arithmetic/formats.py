"""The number formats that the reducer adds, and the fixed-point window that they share."""

from dataclasses import dataclass

__all__ = [
    "BF16",
    "BF16_WINDOW_BITS",
    "FLOAT_FORMATS",
    "FP16",
    "FP16_REFERENCE",
    "INTEGER_BITS",
    "LANE_BITS",
    "SIGNIFICAND_BITS",
    "WINDOW_BITS",
    "FloatFormat",
    "exponent_bits",
    "headroom_bits",
]


@dataclass(frozen=True)
class FloatFormat:
    """An IEEE 754 style binary format of 16 bits: sign, biased exponent, fraction."""

    exponent_bits: int
    fraction_bits: int

    @property
    def exponent_ones(self) -> int:
        """The exponent field of infinities and NaNs."""
        return (1 << self.exponent_bits) - 1

    @property
    def infinity(self) -> int:
        """Bits of positive infinity."""
        return self.exponent_ones << self.fraction_bits

    @property
    def nan(self) -> int:
        """Bits of the one NaN that leaves the reducer: positive and quiet."""
        return self.infinity | 1 << (self.fraction_bits - 1)

    @property
    def spare_bits(self) -> int:
        """Fraction bits that fp16 has more."""
        return 10 - self.fraction_bits


#: A lane of a flit: a floating-point number, or half an integer.
LANE_BITS = 16
#: An int32, in two's complement.
INTEGER_BITS = 32

FP16 = FloatFormat(exponent_bits=5, fraction_bits=10)
BF16 = FloatFormat(exponent_bits=8, fraction_bits=7)

#: By the names that `SwitchConfig.formats` uses.
FLOAT_FORMATS = {"fp16": FP16, "bf16": BF16}

#: A significand with its hidden bit, in fp16; bf16's 8 bits stand at its top.
SIGNIFICAND_BITS = 1 + FP16.fraction_bits

#: fp16's largest finite exponent field. Its numbers are multiples of 2^-24, which is the last bit
#: of a significand whose field is 1; so the window is 29 bits longer than a significand.
FP16_REFERENCE = FP16.exponent_ones - 1
WINDOW_BITS = SIGNIFICAND_BITS + FP16_REFERENCE - 1

#: bf16 keeps the bits of weight 2^(E-31) and up, where the window's top bit weighs 2^E.
BF16_WINDOW_BITS = 32


def exponent_bits(formats: tuple[str, ...]) -> int:
    """Width of an exponent field that holds those of all `formats`."""
    return max(FLOAT_FORMATS[name].exponent_bits for name in formats)


def headroom_bits(formats: tuple[str, ...]) -> int:
    """Width of a sum's headroom (see `Align`): the largest reference and 4 levels of adders."""
    return exponent_bits(formats) + 1
