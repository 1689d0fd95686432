"""Quantized operands: the codes of every rank, and a scale for each block of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hdl.accelerator.layouts import CODE_BYTES, ELEMENT_BYTES, INTEGER_BYTES
from hdl.config import SwitchConfig

from .golden import all_reduce_inq, quantize

__all__ = ["INTEGER", "QUANTIZED", "Blocks", "Quantized", "element_bytes"]

#: The format whose operands have scales.
QUANTIZED = "inq8"
#: The format of integers.
INTEGER = "int32"


def element_bytes(format: str) -> int:
    """Bytes of a value in the operand: of a number, or of a code."""
    return {QUANTIZED: CODE_BYTES, INTEGER: INTEGER_BYTES}.get(format, ELEMENT_BYTES)


class Blocks(NamedTuple):
    """Blocks of a result that are no numbers' best: whose scale is NaN, whose codes are clamped."""

    nan: int
    overflow: int


@dataclass(frozen=True)
class Quantized:
    """What the ranks hold before a quantized All-Reduce.

    Parameters
    ----------
    codes
        (ranks, n) int8.
    scales
        (ranks, ceil(n / block)), their bits: uint16, or uint8 for E8M0.
    """

    codes: np.ndarray
    scales: np.ndarray
    _reductions: dict = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, values: np.ndarray, config: SwitchConfig) -> Quantized:
        """Floating-point `values` (ranks, n), quantized once by the rules of `config`."""
        codes, scales = quantize(
            values,
            block=config.block,
            scale_format=config.scale_format,
            e8m0_rule=config.e8m0_rule,
        )
        return cls(codes, scales)

    def reduced(self, config: SwitchConfig) -> tuple[np.ndarray, np.ndarray]:
        """What every rank must hold afterwards: codes (n,) and scales (ceil(n / block),)."""
        codes, scales, _status = self._reduction(config)
        return codes, scales

    def blocks(self, config: SwitchConfig) -> Blocks:
        """How many blocks of that are told of in the status."""
        *_, status = self._reduction(config)
        return Blocks(status.nan_blocks, status.overflow_blocks)

    def _reduction(self, config: SwitchConfig):
        rules = config.block, config.scale_format, config.e8m0_rule
        if rules not in self._reductions:  # a large one takes the golden model seconds
            self._reductions[rules] = all_reduce_inq(
                self.codes,
                self.scales,
                block=config.block,
                scale_format=config.scale_format,
                e8m0_rule=config.e8m0_rule,
            )
        return self._reductions[rules]
