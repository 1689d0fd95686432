"""The formats of a block's scale, and the fixed-point window that sums are made in."""

from dataclasses import dataclass

from .pipeline import tree_levels

__all__ = ["CODE_BITS", "LAST_CODE", "SCALE_FORMATS", "ScaleFormat"]

CODE_BITS = 8
#: The largest code that goes out; its negative is the smallest. A code that comes in counts up to
#: 2^7, since -128 is taken as it is.
LAST_CODE = 127


@dataclass(frozen=True)
class ScaleFormat:
    """A format of scales: ``significand * 2^(exponent - offset)`` is a step of a code.

    Sums count *units*. A scale with its exponent at the *reference* counts its significand, and
    `guard_bits` zeros below it; another is shifted down by how much its exponent is smaller. So a
    unit is ``2^(reference - offset - guard_bits)``.
    """

    name: str
    bits: int
    exponent_bits: int
    significand_bits: int  # hidden bit included
    guard_bits: int
    fixed_reference: int | None  # None: the largest exponent among the ranks' scales of a block
    smallest_exponent: int  # a subnormal's and a zero's; of E8M0, the smallest there is
    largest: int  # bits of the largest finite scale
    nan: int  # bits of the one NaN that leaves the switch
    lowest_place: int  # log2 of the last place of the smallest new scale, in units

    @property
    def fraction_bits(self) -> int:
        return self.significand_bits - 1

    @property
    def window_bits(self) -> int:
        """Bits of an aligned scale."""
        return self.significand_bits + self.guard_bits

    @property
    def dividend_bits(self) -> int:
        """Bits of the largest code times a scale's significand."""
        return (LAST_CODE * ((1 << self.significand_bits) - 1)).bit_length()

    def magnitude_bits(self, ranks: int) -> int:
        """Bits of a sum of codes times aligned scales, sign apart."""
        return self.window_bits + CODE_BITS - 1 + tree_levels(ranks)

    def sum_bits(self, ranks: int) -> int:
        """Bits of such a sum in two's complement."""
        return 1 + self.magnitude_bits(ranks)


#: fp16's window holds every finite scale: exponents 1 to 30. The other windows end 31 bits below
#: the largest scale's last bit; as a code counts 2^7 at most, products keep 24 guard bits.
#:
#: A new scale is at least 1/127 unit, if there is a sum at all: of bf16 that is 130 * 2^-14, of
#: E8M0 2^-6. Of fp16 it is a whole number of units, and 1 is 1024 * 2^-10.
SCALE_FORMATS = {
    "fp16": ScaleFormat("fp16", 16, 5, 11, 29, 30, 1, 0x7BFF, 0x7E00, -10),
    "bf16": ScaleFormat("bf16", 16, 8, 8, 31, None, 1, 0x7F7F, 0x7FC0, -14),
    "e8m0": ScaleFormat("e8m0", 8, 8, 1, 31, None, 0, 0xFE, 0xFF, -6),
}
