"""Arrays out of an ``.npz`` file that anybody may have written."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .errors import UsageError

__all__ = ["array", "digest", "open_npz"]


@contextmanager
def open_npz(path: str) -> Iterator[np.lib.npyio.NpzFile]:
    """The file, open; never with pickled objects. UsageError where it cannot be read."""
    try:
        file = np.load(Path(path), allow_pickle=False)
    except OSError as error:
        raise UsageError(f"input: cannot read {path!r}: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile):
        file = None
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise UsageError(f"input: must be an .npz file of numpy, not {path!r}")
    with file:
        yield file


def array(file: np.lib.npyio.NpzFile, key: str) -> np.ndarray:
    """The array of that key, in this machine's byte order. UsageError where it is none."""
    try:
        data = file[key]
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"input: {key} must be a plain array ({reason})") from None
    return data.astype(data.dtype.newbyteorder("="), order="C")


def digest(*arrays: np.ndarray) -> str:
    """SHA-256 of the arrays' bytes, one after the other."""
    return hashlib.sha256(b"".join(each.tobytes() for each in arrays)).hexdigest()
