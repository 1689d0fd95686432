"""In-network quantization (INQ): All-Reduce of block-quantized codes, bit for bit.

Every rank holds signed codes of B bits (8, or 4) and one scale for each block of consecutive
codes. L = 2^(B-1) - 1 is the last code (127, or 7). The steps, in the order of the hardware; all
numbers are integers, and nothing is rounded but where it says so.

1. **Take apart.** A scale is ``q * 2^(e - offset)`` per step of a code, q its significand with the
   hidden bit, e its biased exponent field (a subnormal and zero have e = 1, no hidden bit)::

                     q        e        offset
       fp16   11 bits   1..30      25
       bf16    8 bits   1..254     134
       E8M0    1 (1)    0..254     133 (B = 4: 129)

2. **Align the scales.** Once a rank and block, q goes to the top of a window and is shifted down by
   R - e; what falls off the window's end is dropped, so a *scale* is truncated toward zero::

                     R (reference exponent)     below q   window    unit = weight of its last bit
       fp16   30, always                29        40 bits   2^-24 (nothing is ever dropped)
       bf16   largest e of the ranks    31        39 bits   2^(R - 134 - 31) = 2^(R - 165)
       E8M0   largest e of the ranks    31        32 bits   2^(R - 133 - 31) = 2^(R - 164)

   aligned = (q << below) >> (R - e), and 0 for R - e of the window's width or more. R is the
   largest e over the scales of that block at the ranks that take part, whatever their codes; a
   zero scale's e is 1. A code counts 2^7 at most, so products keep 31 - 7 = 24 guard bits.

3. **Dequantize and sum.** The sum over the ranks of code * aligned, exactly. A code of -128 (B = 4:
   -8) that comes in counts as -128; no such code ever goes out. In two's complement: fp16 51 bits
   for up to 8 ranks (52 for 16), bf16 50 (51), E8M0 42 (43). Order cannot matter.

4. **Largest magnitude** M of the block: 50 bits for fp16 and 8 ranks, 49 for bf16, 42 for E8M0
   (-128 at every rank is -2^41). Only codes inside the message count.

5. **Scale.** The smallest scale of the format with ``scale * L >= M * unit``: the exact M / L
   rounded *up*, once.

   - fp16: Q = ceil(M / 127), then rounded up to 11 significant bits (the two steps give what one
     would). Below 2^11 it is Q itself, a multiple of 2^-24; below 2^10 that is a subnormal.
   - bf16: the same with 8 bits, at any magnitude: after cancellation also finer than the unit.
     Subnormals are multiples of 2^-133.
   - E8M0: with m = M * unit and 2^k <= m < 2^(k+1), X = k + 127 where m <= L * 2^(k-B+2), else
     k + 128; 0 where that is negative. `e8m0_rule="floor"`, the rule of the OCP MX specification,
     takes k + 127 always, and codes saturate at L.

   A scale beyond the format's largest finite one (0x7BFF, 0x7F7F, 0xFE) becomes that one, and the
   block counts as *overflow*.

6. **Codes.** sign(S) * min(L, RNE(|S| * unit / scale)), RNE of the *exact* quotient to nearest,
   ties to even. With the new scale's q', e' and g = e' - offset - log2(unit), the divisor is
   ``q' * 2^g``. For up to 8 ranks: fp16 g = e' - 1 = 0..29; bf16 g = e' - R + 31 = -14..35; E8M0
   q' = 1 and g = X' - R + 31 = -6..35. A negative g shifts S up instead: to less than 2^15, for M
   is small then. So a block normalized by M needs no more bits than the sum. Only after overflow,
   or by the floor rule, can min(L, ...) act.

7. **Special blocks**, the first that applies:

   - A scale of a rank that takes part is NaN, infinite or negative (-0 is 0; E8M0: 0xFF): scale NaN
     (0x7E00, 0x7FC0, 0xFF), codes 0, the block counts as *nan*, and in no other status.
   - M = 0, which truncation can bring about too: scale +0 (E8M0: X = 0), codes 0.

   Other blocks are untouched by either.

A block at the end of the message may be shorter; codes past the end count in nothing.
"""

from dataclasses import dataclass

import numpy as np

from .scales import SCALE_FORMATS, DecodedScales, ScaleFormat, decode_scales, round_up_scale

__all__ = [
    "CODE_BITS",
    "E8M0_RULES",
    "InqStatus",
    "aligned_sums",
    "all_reduce_inq",
    "checked_scales",
    "divide_to_codes",
    "scale_layout",
]

#: Widths of codes.
CODE_BITS = (8, 4)
#: How the largest magnitude gives E8M0's exponent.
E8M0_RULES = ("ceil", "floor")
#: An aligned magnitude shifted by this much is 0 in every format.
WINDOW_LIMIT = 48


@dataclass(frozen=True)
class InqStatus:
    """What became of each block: boolean arrays (blocks,)."""

    nan: np.ndarray  # a rank's scale is NaN, infinite or negative
    overflow: np.ndarray  # no finite scale is large enough: the largest one, codes clamped

    @property
    def nan_blocks(self) -> int:
        return int(self.nan.sum())

    @property
    def overflow_blocks(self) -> int:
        return int(self.overflow.sum())

    @property
    def any_nan(self) -> bool:
        return bool(self.nan.any())

    @property
    def any_overflow(self) -> bool:
        return bool(self.overflow.any())


def all_reduce_inq(
    codes: np.ndarray,
    scales: np.ndarray,
    *,
    block: int = 64,
    scale_format: str = "fp16",
    code_bits: int = 8,
    e8m0_rule: str = "ceil",
) -> tuple[np.ndarray, np.ndarray, InqStatus]:
    """Sum of quantized operands over the ranks, quantized once.

    Parameters
    ----------
    codes : (ranks, n) int8; 1 to 16 ranks (those that take part), 4-bit codes one a byte
    scales : (ranks, ceil(n / block)): uint16 bits, or float16, for fp16; uint16 bits for bf16;
        uint8 for E8M0
    block : codes that share a scale
    scale_format : ``"fp16"``, ``"bf16"`` or ``"e8m0"``
    code_bits : 8 or 4
    e8m0_rule : ``"ceil"`` (no code clips) or ``"floor"`` (OCP MX: codes saturate)

    Returns
    -------
    codes : (n,) int8
    scales : (ceil(n / block),) uint16, or uint8 for E8M0
    status : of each block

    Raises
    ------
    ValueError : a shape, type or parameter is not as above
    """
    layout = scale_layout(scale_format, code_bits, e8m0_rule)
    _check_codes(codes, code_bits)
    bits = checked_scales(scales, codes.shape, block, layout)
    decoded = decode_scales(bits, layout)
    totals, unit = aligned_sums(codes, decoded, block, layout, code_bits)
    largest = np.abs(totals).max(axis=1, initial=0)
    floor = scale_format == "e8m0" and e8m0_rule == "floor"
    new, overflow = round_up_scale(largest, unit, layout, code_bits, floor=floor)
    result = divide_to_codes(totals, unit, new, layout, code_bits)

    nan = decoded.bad.any(axis=0)
    result[nan | (largest == 0)] = 0
    new = np.where(nan, layout.nan, new).astype(layout.dtype)
    status = InqStatus(nan=nan, overflow=overflow & ~nan)
    return result.reshape(-1)[: codes.shape[1]], new, status


def aligned_sums(
    codes: np.ndarray, scales: DecodedScales, block: int, layout: ScaleFormat, code_bits: int = 8
) -> tuple[np.ndarray, np.ndarray]:
    """Steps 1 to 3: sums (blocks, block) and the exponents (blocks,) of their units, int64.

    Codes past the end of the message are 0. Blocks with a bad scale get values without meaning.
    """
    ranks, n = codes.shape
    blocks = scales.exponent.shape[1]
    reference = np.full(blocks, layout.fixed_reference or 0, np.int64)
    if layout.fixed_reference is None and blocks:
        reference = scales.exponent.max(axis=0)
    # A bad scale's exponent may lie above fp16's reference: its block has no meaning.
    distance = np.clip(reference - scales.exponent, 0, WINDOW_LIMIT)
    totals = np.zeros(blocks * block, np.int64)
    for rank in range(ranks):
        padded = np.zeros(blocks * block, np.int64)
        padded[:n] = codes[rank]
        aligned = (scales.significand[rank] << layout.guard_bits) >> distance[rank]
        totals += (padded.reshape(blocks, block) * aligned[:, None]).reshape(-1)
    unit = reference - layout.offset(code_bits) - layout.guard_bits
    return totals.reshape(blocks, block), unit


def divide_to_codes(
    totals: np.ndarray,
    unit: np.ndarray,
    scales: np.ndarray,
    layout: ScaleFormat,
    code_bits: int = 8,
) -> np.ndarray:
    """Step 6: codes (blocks, block) int8 of sums in units of ``2^unit``, for finite new scales.

    Where a scale is 0, codes have no meaning.
    """
    new = decode_scales(scales, layout)
    places = (new.exponent - layout.offset(code_bits) - unit)[:, None]
    dividend = np.abs(totals) << np.maximum(-places, 0)
    divisor = np.maximum(new.significand, 1)[:, None] << np.maximum(places, 0)
    quotient = dividend // divisor
    twice = 2 * (dividend - quotient * divisor)
    quotient += (twice > divisor) | ((twice == divisor) & (quotient & 1 == 1))
    quotient = np.minimum(quotient, (1 << (code_bits - 1)) - 1)
    return np.where(totals < 0, -quotient, quotient).astype(np.int8)


def scale_layout(scale_format: str, code_bits: int, e8m0_rule: str = "ceil") -> ScaleFormat:
    """The scale format of that name. Raises ValueError for an unknown name or width."""
    if scale_format not in SCALE_FORMATS:
        names = ", ".join(SCALE_FORMATS)
        raise ValueError(f"scale_format: must be one of {names}, not {scale_format!r}")
    if code_bits not in CODE_BITS:
        raise ValueError(f"code_bits: must be 8 or 4, not {code_bits!r}")
    if e8m0_rule not in E8M0_RULES:
        raise ValueError(f"e8m0_rule: must be one of {', '.join(E8M0_RULES)}, not {e8m0_rule!r}")
    return SCALE_FORMATS[scale_format]


def _check_codes(codes: np.ndarray, code_bits: int):
    if codes.dtype != np.int8:
        raise ValueError(f"codes: must be int8, not {codes.dtype}")
    if codes.ndim != 2 or not 1 <= len(codes) <= 16:
        rule = "must have the shape (ranks, codes) with 1 to 16 ranks"
        raise ValueError(f"codes: {rule}, not {codes.shape}")
    limit = 1 << (code_bits - 1)
    if code_bits < 8 and codes.size and (codes.min() < -limit or codes.max() >= limit):
        worst = codes.min() if codes.min() < -limit else codes.max()
        raise ValueError(f"codes: must be {-limit}..{limit - 1}, not {worst}")


def checked_scales(
    scales: np.ndarray, codes_shape: tuple[int, ...], block: int, layout: ScaleFormat
) -> np.ndarray:
    """Bits of `scales`, which must be as many as the codes' shape (..., n) asks for.

    Raises
    ------
    ValueError : another shape or type, or a block that is not positive
    """
    if block < 1:
        raise ValueError(f"block: must be 1 or more, not {block!r}")
    if scales.dtype == np.float16 and layout is SCALE_FORMATS["fp16"]:
        scales = scales.view(np.uint16)
    if scales.dtype != layout.dtype:
        raise ValueError(f"scales: must be {layout.dtype}, not {scales.dtype}")
    want = (*codes_shape[:-1], -(-codes_shape[-1] // block))
    if scales.shape != want:
        rule = f"must have the shape {want} for codes {tuple(codes_shape)} and block {block}"
        raise ValueError(f"scales: {rule}, not {scales.shape}")
    return scales
