"""Codes and scales from a file, and how they are repeated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hdl.config import SwitchConfig
from sim.quantized import QUANTIZED, Quantized

from .errors import UsageError
from .npz import array, digest, keys, open_npz

__all__ = ["QuantizedFile", "load_codes"]

#: Types of scales in a file, by the configuration's scale format: numbers where numpy has them.
SCALE_DTYPES = {"fp16": "float16", "bf16": "uint16", "e8m0": "uint8"}


@dataclass(frozen=True)
class QuantizedFile:
    """Whole blocks of a file, around as often as needed, so that every code keeps its scale.

    Repetition i starts i blocks later, with each block's codes i places on. `blocks` has the shape
    (ranks, blocks, block): a short last block is filled up with its own codes. `elements` of them
    are the file's.
    """

    name: str
    blocks: np.ndarray
    scales: np.ndarray
    elements: int

    @property
    def sha256(self) -> str:
        return digest(self.blocks, self.scales)

    def operands(self, config, elements, format, run):
        order = np.arange(-(-elements // config.block)) + run
        order %= max(self.scales.shape[1], 1)
        codes = np.roll(self.blocks, -run, axis=2)[:, order]
        codes = codes.reshape(config.ranks, -1)[:, :elements]
        return Quantized(np.ascontiguousarray(codes), self.scales[:, order])


def load_codes(path: str, config: SwitchConfig) -> QuantizedFile:
    """The quantized operands in an ``.npz`` file.

    ``codes`` is int8 (ranks, n); ``scales`` is (ranks, ceil(n / block)): float16, or bits of bf16
    as uint16 or of E8M0 as uint8, whichever is the configuration's scale format. NaN and infinities
    are scales like others.

    Raises
    ------
    UsageError
        The file cannot be read, or a key, shape or type is not as above.
    """
    with open_npz(path) as file:
        if not {"codes", "scales"} <= set(file.files):
            found = keys(file)
            rule = f"must hold the keys 'codes' and 'scales' for {QUANTIZED}"
            raise UsageError(f"input: {rule}, not only: {found}")
        codes, scales = array(file, "codes"), array(file, "scales")
    _check(codes, scales, config)
    bits = scales.view(f"uint{8 * scales.itemsize}")
    return QuantizedFile(path, _whole_blocks(codes, config.block), bits, codes.shape[1])


def _check(codes: np.ndarray, scales: np.ndarray, config: SwitchConfig):
    if codes.dtype != np.int8:
        raise UsageError(f"input: codes must be int8, not {codes.dtype}")
    if codes.ndim != 2 or codes.shape[0] != config.ranks:
        rule = f"must have the shape ({config.ranks} ranks, codes)"
        raise UsageError(f"input: codes {rule}, not {codes.shape}")
    dtype = SCALE_DTYPES[config.scale_format]
    if scales.dtype != dtype:
        rule = f"must be {dtype} where scale_format is {config.scale_format}"
        raise UsageError(f"input: scales {rule}, not {scales.dtype}")
    want = (config.ranks, -(-codes.shape[1] // config.block))
    if scales.shape != want:
        rule = f"must have the shape {want}, one for each block of {config.block} codes"
        raise UsageError(f"input: scales {rule}, not {scales.shape}")


def _whole_blocks(codes: np.ndarray, block: int) -> np.ndarray:
    """Codes (ranks, n) as (ranks, blocks, block)."""
    ranks, n = codes.shape
    columns = np.arange(-(-n // block) * block)
    whole = n // block * block
    if n > whole:
        columns[whole:] = whole + np.arange(block) % (n - whole)
    return codes[:, columns].reshape(ranks, -1, block)
