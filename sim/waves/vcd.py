"""The header of a VCD file: which signals it holds, under which names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Variable", "first_and_last_time", "read_header"]

#: Scope of the clock and of the top in both engines' files.
TOP_SCOPE = ("bench", "top")
#: The end of a file in which its last time stamp is looked for: more than one cycle's changes.
TAIL_BYTES = 1 << 22


@dataclass(frozen=True)
class Variable:
    """One variable: where it is declared, as the file spells it, and how wide it is.

    `is_text` marks a variable whose values are words, as Amaranth's simulator writes for enums.
    """

    scope: tuple[str, ...]
    name: str
    width: int
    is_text: bool

    @property
    def path(self) -> str:
        """Name below the top, the same in both engines: ``client_0.status.phase``."""
        scope = self.scope
        if scope[: len(TOP_SCOPE)] == TOP_SCOPE:
            scope = scope[len(TOP_SCOPE) :]
        return ".".join((*scope, self.name.removeprefix("\\")))

    @property
    def gtkwave_name(self) -> str:
        """Name in a GTKWave save file, which wants the range of a vector behind it."""
        suffix = f"[{self.width - 1}:0]" if self.width > 1 else ""
        return ".".join((*self.scope, self.name)) + suffix


def read_header(path: str | Path) -> dict[str, Variable]:
    """Variables of a VCD file by `Variable.path`; where paths collide, the first declared."""
    variables: dict[str, Variable] = {}
    scope: list[str] = []
    with open(path) as file:
        for line in file:
            match line.split():
                case ["$scope", _, name, "$end"]:
                    scope.append(name)
                case ["$upscope", "$end"]:
                    scope.pop()
                case ["$var", kind, width, _, name, *_]:
                    variable = Variable(tuple(scope), name, int(width), kind == "string")
                    variables.setdefault(variable.path, variable)
                case ["$enddefinitions", *_]:
                    break
    return variables


def first_and_last_time(path: str | Path) -> tuple[int, int]:
    """First and last time stamp of a VCD file, in its own time unit; 0 where it has none."""
    first = last = 0
    with open(path, "rb") as file:
        for line in file:
            if line.startswith(b"#"):
                first = last = int(line[1:])
                break
        file.seek(max(file.tell(), os.path.getsize(path) - TAIL_BYTES))
        for line in file:
            if line.startswith(b"#"):
                last = int(line[1:])
    return first, last
