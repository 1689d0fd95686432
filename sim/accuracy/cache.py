"""Results kept under the hash of what they follow from: a run that is broken off goes on."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
from pathlib import Path

import numpy as np

__all__ = ["Cache", "meaning_of_sources"]

SIM = Path(__file__).resolve().parents[1]


@functools.cache
def meaning_of_sources(*names: str) -> str:
    """A hash of files under ``sim/`` that stays when only comments or docstrings change."""
    digest = hashlib.sha256()
    for name in names:
        tree = ast.parse((SIM / name).read_text("utf-8"))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            for statement in body if isinstance(body, list) else []:
                # A docstring is an expression that is a bare constant.
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    statement.value = ast.Constant(None)
        digest.update(ast.unparse(tree).encode())
    return digest.hexdigest()


class Cache:
    """Arrays by key.

    Parameters
    ----------
    folder
        Where they are; it is made. None keeps nothing.
    """

    def __init__(self, folder: Path | None):
        self._folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def _path(self, key: dict) -> Path:
        text = json.dumps(key, sort_keys=True)
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"

    def get(self, key: dict) -> dict[str, np.ndarray] | None:
        """What was kept for `key`; None where nothing was."""
        if self._folder is None:
            return None
        try:
            with np.load(self._path(key), allow_pickle=False) as file:
                return dict(file)
        except FileNotFoundError:
            return None

    def put(self, key: dict, arrays: dict[str, np.ndarray]):
        """Keeps `arrays`; another process never sees half of them."""
        if self._folder is None:
            return
        path = self._path(key)
        part = path.with_suffix(f".{os.getpid()}.part")
        with part.open("wb") as file:
            np.savez(file, **arrays)
        part.replace(path)
