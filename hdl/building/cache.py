"""Results of slow tools, kept under a hash of everything that they were made from."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["cached", "digest"]

#: The repository's own folder for what can be made again.
DEFAULT = Path(__file__).resolve().parents[2] / "build" / "cache"


def digest(parts: Iterable[str]) -> str:
    """32 hexadecimal digits that name these texts, in this order."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode()
        total.update(f"{len(data)}:".encode())
        total.update(data)
    return total.hexdigest()[:32]


def cached(key: str, make: Callable[[Path], None]) -> tuple[Path, bool]:
    """The folder kept under `key`, filled by `make` unless it is there; whether it was made now.

    It appears whole or not at all, whoever else makes it at the same time. Folders are kept in the
    environment's TIDEGATE_CACHE, else in ``build/cache`` of the project.
    """
    root = Path(os.environ.get("TIDEGATE_CACHE") or DEFAULT)
    kept = root / f"tools-{key}"
    if kept.is_dir():
        return kept, False
    root.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=root, prefix="new-"))
    try:
        make(work)
        work.chmod(0o755)
        try:
            work.rename(kept)
        except OSError:
            if not kept.is_dir():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return kept, True
