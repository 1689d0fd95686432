"""Ways to do one All-Reduce: each takes what the ranks hold in fp16 and gives everyone's result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.golden import all_reduce_inq, dequantize, quantize, scale_values

__all__ = ["KINDS", "Method", "Reduced"]


@dataclass(frozen=True)
class Reduced:
    """The result of an All-Reduce of n values.

    Attributes
    ----------
    values : (n,) float64, exactly what the ranks then hold
    steps : (n,) float64, the step of each value's code; None where the result has no codes
    operands_sum : (n,) float64, the exact sum of what was put in the network; None where operands
        were not quantized
    """

    values: np.ndarray
    steps: np.ndarray | None = None
    operands_sum: np.ndarray | None = None


@dataclass(frozen=True)
class Method:
    """One way to do it.

    Parameters
    ----------
    kind : a key of `KINDS`
    bits, block : of codes; None for a kind that does not quantize
    scale_format, e8m0_rule : as for `sim.golden.all_reduce_inq`
    """

    kind: str
    bits: int | None = None
    block: int | None = None
    scale_format: str = "fp16"
    e8m0_rule: str = "ceil"

    @property
    def options(self) -> dict:
        """What the golden functions need to know."""
        return {
            "block": self.block,
            "scale_format": self.scale_format,
            "code_bits": self.bits,
            "e8m0_rule": self.e8m0_rule,
        }

    def quantize(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Codes (..., n) and scales."""
        return quantize(values, **self.options)

    def dequantize(self, codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Values (..., n) float64, exact."""
        return dequantize(
            codes, scales, block=self.block, scale_format=self.scale_format, code_bits=self.bits
        )

    def steps(self, scales: np.ndarray, n: int) -> np.ndarray:
        """Step of each of n codes."""
        values = scale_values(scales, self.scale_format, self.bits)
        return np.repeat(values, self.block)[:n]

    def __call__(self, operands: np.ndarray) -> Reduced:
        """All-Reduce of `operands`, (ranks, n) float16."""
        return KINDS[self.kind](operands, self)


def exact_sum(operands: np.ndarray) -> np.ndarray:
    """(n,) float64. Up to 16 fp16 numbers add up exactly in it: 45 bits."""
    return operands.sum(axis=0, dtype=np.float64)


def _fp32(operands, method) -> Reduced:
    """Rounded to no 16-bit format at all; what is left is the model's own float32."""
    return Reduced(exact_sum(operands))


def _fp16(operands, method) -> Reduced:
    """The switch: the exact sum, rounded once."""
    return Reduced(exact_sum(operands).astype(np.float16).astype(np.float64))


def _fp16_sequential(operands, method) -> Reduced:
    """One rank after the other, each sum rounded to fp16."""
    total = operands[0]
    for operand in operands[1:]:
        total = total + operand
    return Reduced(total.astype(np.float64))


def _inq(operands, method: Method) -> Reduced:
    """Every rank quantizes; the switch adds and quantizes once."""
    codes, scales = method.quantize(operands.astype(np.float32))  # faster than from float16
    added = method.dequantize(codes, scales).sum(axis=0)
    codes, scales, _ = all_reduce_inq(codes, scales, **method.options)
    n = operands.shape[1]
    return Reduced(method.dequantize(codes, scales), method.steps(scales, n), added)


def _output(operands, method: Method) -> Reduced:
    """Only the result is quantized: what no method with codes on the way back can beat."""
    n = operands.shape[1]
    codes, scales = method.quantize(exact_sum(operands))
    return Reduced(method.dequantize(codes, scales), method.steps(scales, n))


def _ring(operands, method: Method) -> Reduced:
    """A ring: the partial sum is quantized on each of N - 1 hops, and once for the all-gather.

    A chunk's partial sum starts at the chunk's own rank. Each rank adds its operand, which never
    was quantized, in float32. N quantizations of growing sums, where INQ has one of each operand
    and one of the sum.
    """
    ranks, n = operands.shape
    blocks = -(-n // method.block)
    start = np.repeat(np.arange(blocks) * ranks // max(blocks, 1), method.block)[:n]
    columns = np.arange(n)
    total = operands[start, columns].astype(np.float32)
    for hop in range(1, ranks):
        received = method.dequantize(*method.quantize(total)).astype(np.float32)
        total = received + operands[(start + hop) % ranks, columns]
    codes, scales = method.quantize(total)
    return Reduced(method.dequantize(codes, scales), method.steps(scales, n))


#: Kind to what does it.
KINDS = {
    "fp32": _fp32,
    "fp16": _fp16,
    "fp16_sequential": _fp16_sequential,
    "inq": _inq,
    "output": _output,
    "ring": _ring,
}
