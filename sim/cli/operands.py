"""What the ranks hold before an All-Reduce: activations, a file, or pseudo-random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hdl.config import SwitchConfig
from sim import activations
from sim.quantized import INTEGER, QUANTIZED, Quantized

from .errors import UsageError
from .npz import array, digest, keys, open_npz

__all__ = ["Activations", "FileInput", "Input", "RandomInput", "guard_pattern", "load_npz"]

#: Seeds the NaN patterns around the operands; they need not change from run to run.
GUARD_SEED = 0x6A7D
#: 16-bit values of the guard pattern. A prime: it comes round at no multiple of a flit or packet.
GUARD_VALUES = 1021
#: Steps of an integer in 1.0, where real numbers become integers.
INTEGER_STEPS = 1 << 16


class Input(Protocol):
    """Where operands come from; `name` stands for it in reports, `sha256` for a file's contents."""

    name: str
    sha256: str | None

    def operands(
        self, config: SwitchConfig, elements: int, format: str, run: int
    ) -> np.ndarray | Quantized:
        """Values of all ranks, others for each repetition `run`.

        Bits of (ranks, elements) numbers as uint16; int32 numbers; for ``inq8`` so many codes and
        their scales.
        """


def _in_format(values: np.ndarray, format: str, config: SwitchConfig) -> np.ndarray | Quantized:
    """Float32 values, rounded or quantized once."""
    if format == QUANTIZED:
        return Quantized.of(values, config)
    if format == INTEGER:
        return np.rint(values.astype(np.float64) * INTEGER_STEPS).astype(np.int32)
    return activations.round_once(values, format)


class Activations:
    """The committed partial sums of a language model, from another place in each run."""

    name = "activations"
    sha256 = None

    def operands(self, config, elements, format, run):
        values = activations.partial_sums(config.ranks, elements, run)
        return _in_format(values, format, config)


@dataclass(frozen=True)
class RandomInput:
    """Standard normal numbers, rounded or quantized once; integers of all 32 bits."""

    seed: int
    name: str = "random"
    sha256: str | None = None

    def operands(self, config, elements, format, run):
        generator = np.random.default_rng([self.seed, run])
        if format == INTEGER:
            limits = np.iinfo(np.int32)
            shape = (config.ranks, elements)
            return generator.integers(limits.min, limits.max, shape, np.int32, endpoint=True)
        values = generator.standard_normal((config.ranks, elements), dtype=np.float32)
        return _in_format(values, format, config)


@dataclass(frozen=True)
class FileInput:
    """The values of a file, around as often as needed; run i starts i elements later."""

    name: str
    bits: np.ndarray

    @property
    def elements(self) -> int:
        return self.bits.shape[1]

    @property
    def sha256(self) -> str:
        return digest(self.bits)

    def operands(self, config, elements, format, run):
        if elements == 0:
            return self.bits[:, :0].copy()
        columns = (np.arange(elements) + run) % self.elements
        return self.bits[:, columns]


def guard_pattern() -> np.ndarray:
    """Bytes to put around operands: 16-bit values that are NaN in fp16 and in bf16 alike.

    Whatever adds one of them to a result, or overwrites one, is found out.
    """
    generator = np.random.default_rng(GUARD_SEED)
    mantissa = generator.integers(1, 1 << 7, GUARD_VALUES, dtype=np.uint16)
    sign = generator.integers(0, 2, GUARD_VALUES, dtype=np.uint16) << 15
    return (sign | 0x7F80 | mantissa).astype("<u2").view(np.uint8)


def load_npz(path: str, config: SwitchConfig, format: str) -> FileInput:
    """The operands in an ``.npz`` file, rounded once if they are float32.

    ``data`` has shape (ranks, elements) and type float16 (for fp16), float32, or uint16 with
    ``format`` = "bf16" beside it: bits of bf16. NaN and infinities are values like others. For
    int32 it has that type.

    Raises
    ------
    UsageError
        The file cannot be read, or a key, shape or type is not as above.
    """
    with open_npz(path) as file:
        if "data" not in file.files:
            found = keys(file)
            raise UsageError(f"input: must hold the key 'data', not only: {found}")
        data = array(file, "data")
        named = str(array(file, "format")) if "format" in file.files else None
    if data.ndim != 2 or data.shape[0] != config.ranks:
        raise UsageError(
            f"input: data must have the shape ({config.ranks} ranks, elements), not {data.shape}"
        )
    if INTEGER in (format, data.dtype.name):
        if format != INTEGER:
            raise UsageError(f"dtype: must be int32 for an input of int32, not {format!r}")
        if data.dtype != np.int32:
            raise UsageError(f"input: data must be int32 for int32, not {data.dtype}")
        bits = data
    elif data.dtype == np.float32:
        bits = activations.round_once(data, format)
    elif data.dtype == np.float16:
        if format != "fp16":
            raise UsageError(f"input: data must be float32 or bits of {format}, not float16")
        bits = data.view(np.uint16)
    elif data.dtype == np.uint16:
        if named != "bf16":
            raise UsageError(f"input: format must be 'bf16' beside uint16 data, not {named!r}")
        if format != "bf16":
            raise UsageError(f"dtype: must be bf16 for an input of bf16 bits, not {format!r}")
        bits = data
    else:
        raise UsageError(f"input: data must be float16, float32 or uint16, not {data.dtype}")
    return FileInput(path, bits)
