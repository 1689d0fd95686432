"""What a test depends on: the files of the project that it imports, however indirectly."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterator
from pathlib import Path

__all__ = ["imported", "imported_files"]


def imported(test: Path, root: Path) -> tuple[str, ...]:
    """Files below ``tests`` and folders of `root` that `test` imports, however indirectly; sorted.

    Parameters
    ----------
    test
        Below `root`, relative to it.
    """
    files = _reached([test], root, ["tests"])
    folders = {
        name.partition(".")[0]
        for file in files
        for name in _modules(root / file, Path(file))
        if not name.startswith("tests") and (root / name.partition(".")[0]).is_dir()
    }
    return tuple(sorted(files | folders))


def imported_files(files: Collection[Path], root: Path) -> tuple[str, ...]:
    """`files` and all that they import below `root`, however indirectly; sorted."""
    return tuple(sorted(_reached(files, root, None)))


def _reached(files: Collection[Path], root: Path, folders: Collection[str] | None) -> set[str]:
    """`files` and what is reached from them, in `folders` alone if they are given."""
    found: set[str] = set()
    left = list(files)
    while left:
        file = left.pop()
        if file.as_posix() in found:
            continue
        found.add(file.as_posix())
        for name in _modules(root / file, file):
            path = Path(*name.split("."))
            if folders is not None and path.parts[0] not in folders:
                continue
            packages = (folder / "__init__.py" for folder in (path, *path.parents[:-1]))
            left += [
                other for other in (path.with_suffix(".py"), *packages) if (root / other).is_file()
            ]
    return found


@functools.cache
def _modules(path: Path, file: Path) -> tuple[str, ...]:
    """Names of modules, and of what is taken from them, which may be modules, too."""
    return tuple(_names(ast.parse(path.read_text()), file))


def _names(tree: ast.AST, file: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = file.parts[: len(file.parts) - node.level] if node.level else ()
            start = ".".join((*parents, *filter(None, [node.module])))
            yield start
            yield from (f"{start}.{each.name}" for each in node.names)
