"""GTKWave save files: one writer for the waveforms of both engines.

A view is a tree of groups whose traces name signals by their path below the top. The writer looks
each one up in the header of the VCD it is for, so the same tree serves both engines although they
spell names differently; enums, which CXXRTL writes as bare bits, get translate filter files.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import EnumMeta
from pathlib import Path

from vcd.gtkw import GTKWFlag, GTKWSave, make_translation_filter

from .vcd import TOP_SCOPE, Variable, first_and_last_time, read_header

__all__ = ["Group", "Trace", "WaveError", "save_file_names", "write_save_file"]

FORMATS = ("hex", "dec", "bin", "signed")

#: Blank lines below an analog trace, over which GTKWave stretches it.
ANALOG_LINES = 3

#: GTKWave's zoom is minus the binary logarithm of the time in this many pixels.
ZOOM_PIXELS = 200
#: The whole file is to fit into about this many.
WINDOW_PIXELS = 1000


class WaveError(Exception):
    """A view names what the waveform file does not hold. The message is one line."""


@dataclass(frozen=True)
class Trace:
    """One signal of a view.

    Parameters
    ----------
    path
        Submodules below the top, signal and struct field, joined by dots.
    format
        ``hex``, ``dec``, ``bin`` or ``signed``.
    enum
        Python enum whose member names stand for the values.
    analog
        Draw the value as a stepped curve.
    label
        Shown instead of the path.
    """

    path: str
    format: str = "hex"
    enum: EnumMeta | None = None
    analog: bool = False
    label: str | None = None

    def __post_init__(self):
        if self.format not in FORMATS:
            raise WaveError(f"format: must be one of {', '.join(FORMATS)}, not {self.format!r}")


@dataclass(frozen=True)
class Group:
    """Traces and groups under one name; `closed` ones begin folded."""

    name: str
    items: tuple[Trace | Group, ...]
    closed: bool = False

    def __init__(self, name: str, items: Iterable[Trace | Group], *, closed: bool = False):
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "items", tuple(items))
        object.__setattr__(self, "closed", closed)


class _Writer:
    def __init__(self, save: GTKWSave, path: Path, variables: dict[str, Variable]):
        self._save = save
        self._path = path
        self._variables = variables
        self._filters: dict[str, EnumMeta] = {}

    def items(self, items: Iterable[Trace | Group]):
        for item in items:
            if isinstance(item, Group):
                with self._save.group(item.name, closed=item.closed):
                    self.items(item.items)
            else:
                self._trace(item)

    def _trace(self, trace: Trace):
        variable = self._variables[trace.path]
        translated = trace.enum is not None and not variable.is_text
        self._save.trace(
            variable.gtkwave_name,
            alias=trace.label,
            datafmt="ascii" if variable.is_text else "hex" if translated else trace.format,
            extraflags=GTKWFlag.analog_step if trace.analog else GTKWFlag(0),
            translate_filter_file=self._filter(trace.enum, variable) if translated else None,
        )
        if trace.analog:
            for _ in range(ANALOG_LINES):
                self._save.blank(analog_extend=True)

    def _filter(self, enum: EnumMeta, variable: Variable) -> str:
        """Name of the translate file of `enum`, written beside the save file."""
        name = f"{self._path.stem}.{enum.__name__}.{variable.width}.txt"
        if self._filters.setdefault(name, enum) is not enum:
            raise WaveError(f"enum: two different ones are named {enum.__name__}")
        members = [(member.value, member.name) for member in enum]
        text = make_translation_filter(members, datafmt="hex", size=variable.width)
        self._path.with_name(name).write_text(text + "\n")
        return name


def _paths(items: Iterable[Trace | Group]):
    for item in items:
        if isinstance(item, Group):
            yield from _paths(item.items)
        else:
            yield item.path


def write_save_file(
    path: str | os.PathLike, vcd_path: str | os.PathLike, items: Iterable[Trace | Group]
) -> None:
    """Write the view `items` of the waveforms in `vcd_path` as a GTKWave save file.

    The file names the VCD and its translate files relative to its own folder: open it from there.

    Raises
    ------
    WaveError
        A trace is not in the VCD; nothing is written.
    """
    path, items = Path(path), tuple(items)
    variables = read_header(vcd_path)
    missing = [name for name in _paths(items) if name not in variables]
    if missing:
        raise WaveError(f"trace: {os.fspath(vcd_path)} holds no signal {', '.join(missing)}")
    with open(path, "w") as file:
        save = GTKWSave(file)
        save.dumpfile(os.path.relpath(vcd_path, path.parent), abspath=False)
        save.treeopen(".".join(TOP_SCOPE) + ".")
        save.sst_expanded(True)
        first, last = first_and_last_time(vcd_path)
        save.timestart(first)
        save.zoom_markers(-math.log2(max(last - first, 1) / (WINDOW_PIXELS / ZOOM_PIXELS)))
        _Writer(save, path, variables).items(items)


def save_file_names(path: str | os.PathLike) -> list[str]:
    """The signals that a save file shows, as it spells them."""
    names = []
    for line in Path(path).read_text().splitlines():
        if line.startswith("+{"):
            line = line.partition("} ")[2]
        if line and line[0] not in "[@-^*#":
            names.append(line)
    return names
