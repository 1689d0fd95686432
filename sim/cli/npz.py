"""Arrays out of an ``.npz`` file that anybody may have written."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .errors import UsageError

__all__ = ["array", "digest", "keys", "open_npz"]


#: What reading a member raises: of pickles, of a file cut short or damaged, of an archive that is
#: encrypted or packed by a method that Python lacks.
UNREADABLE = (
    ValueError,
    EOFError,
    OSError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


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
    except MemoryError:
        raise UsageError(f"input: {key} must fit this machine's memory") from None
    except UNREADABLE as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(f"input: {key} must be a plain array ({reason})") from None
    if not isinstance(data, np.ndarray):
        raise UsageError(f"input: {key} must be a plain array (its file in the archive is none)")
    return data.astype(data.dtype.newbyteorder("="), order="C")


def keys(file: np.lib.npyio.NpzFile) -> str:
    """The file's keys for an error's one line."""
    names = (name if name.isprintable() else repr(name) for name in file.files)
    return ", ".join(names) or "none"


def digest(*arrays: np.ndarray) -> str:
    """SHA-256 of the arrays' bytes, one after the other."""
    return hashlib.sha256(b"".join(each.tobytes() for each in arrays)).hexdigest()
