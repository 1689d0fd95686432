"""What a test of the design depends on: the files that it imports, and the folders behind them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["imported"]


def imported(test: Path, root: Path) -> tuple[str, ...]:
    """Files below ``tests`` and folders of `root` that `test` imports, however indirectly; sorted.

    Parameters
    ----------
    test
        Below `root`, relative to it.
    """
    found: set[str] = set()
    left = [test]
    while left:
        file = left.pop()
        found.add(file.as_posix())
        for name in _modules(file, root):
            path = Path(*name.split("."))
            other = path.with_suffix(".py")
            if path.parts[0] != "tests":
                found |= {path.parts[0]} if (root / path.parts[0]).is_dir() else set()
            elif (root / other).is_file() and other.as_posix() not in found:
                left.append(other)
    return tuple(sorted(found))


def _modules(file: Path, root: Path) -> Iterator[str]:
    """Names of modules, and of what is taken from them, which may be modules, too."""
    for node in ast.walk(ast.parse((root / file).read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = file.parts[: len(file.parts) - node.level] if node.level else ()
            start = ".".join((*parents, *filter(None, [node.module])))
            yield start
            yield from (f"{start}.{each.name}" for each in node.names)
