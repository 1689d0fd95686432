"""How large each part of a design is: synthesis that keeps the parts apart.

A part is optimized by itself, like a design of its own. What crosses its edge is looked at first:
constants, signals that are one, and signals that nobody uses go no further, as in a flattened
design. What is left over to the whole is logic that a flattened design would merge across an edge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

from .cache import cached, digest
from .resources import Resources, count_cells
from .synthesis import HIDE_ALIASES
from .tools import YOSYS
from .verilog import flat_ports

__all__ = ["Netlist", "breakdown", "netlist", "parts_of"]

TOP = "top"
#: A number that tells a module's name from another one's, and that of a rank.
_UNIQUE, _RANK = re.compile(r"\$\d+$"), re.compile(r"_(\d+)$")
#: What is known at one edge goes through a part to its other edges: constants and what is unused.
#: Resets and enables of flip-flops are left to synthesis, which looks for state machines first.
EDGE_ROUND = ("opt_hier", "opt_expr", "opt_dff -nodffe -nosdff", "opt_clean")
EDGE_ROUNDS = 3


@dataclass(frozen=True)
class Netlist:
    """A design before synthesis: its RTLIL, and 32 digits that name its logic."""

    text: str
    digest: str


def netlist(component: wiring.Component) -> Netlist:
    """`component` as RTLIL, sources not named, module `TOP`."""
    ports = [value for _path, _member, value in flat_ports(component)]
    text = rtlil.convert(component, name=TOP, ports=ports, emit_src=False)
    return Netlist(text, digest([text]))


def modules_of(text: str) -> list[str]:
    """Names of an RTLIL text's modules, the instances' paths with dots."""
    return re.findall(r"^module \\(\S+)$", text, re.MULTILINE)


def parts_of(modules: Iterable[str], inside: Iterable[str] = ()) -> dict[str, list[str]]:
    """Modules by part: what stands in the top, and what stands in those named in `inside`.

    Instances that differ by a rank's number are one part, in the order of ranks.
    """
    parents = {TOP, *(f"{TOP}.{name}" for name in inside)}
    parts: dict[str, list[str]] = {}
    for module in modules:
        parent, _dot, name = module.rpartition(".")
        if parent in parents:
            part = _RANK.sub("", _UNIQUE.sub("", name))
            parts.setdefault(part, []).append(module)
    return {part: sorted(named, key=_rank) for part, named in parts.items()}


def _rank(module: str) -> int:
    match = _RANK.search(module)
    return int(match[1]) if match else 0


def script(parts: Mapping[str, list[str]]) -> str:
    """Yosys' commands. Of a part for each rank the last is synthesized; the others have gone."""
    kept = [module for modules in parts.values() for module in modules]
    others = [module for modules in parts.values() for module in modules[:-1]]
    return "\n".join(
        [
            "read_rtlil design.il",
            HIDE_ALIASES,
            *([f"setattr -mod -set keep_hierarchy 1 {' '.join(kept)}"] if kept else []),
            f"hierarchy -top {TOP}",
            "proc",
            "flatten",
            "opt_expr",
            "opt_clean",
            *EDGE_ROUND * EDGE_ROUNDS,
            *([f"blackbox {' '.join(others)}"] if others else []),
            f"synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top {TOP}",
            "tee -q -o stat.json stat -json",
        ]
    )


def count(stat: str, parts: Mapping[str, list[str]]) -> dict[str, Resources]:
    """Resources by part from ``stat -json``, all ranks' together; ``TOP`` is what joins them."""
    modules = {name.lstrip("\\"): data for name, data in json.loads(stat)["modules"].items()}
    inside = {module for named in parts.values() for module in named}

    def own(module: str) -> Resources:
        # Yosys drops a part of which nothing is left.
        cells = modules[module]["num_cells_by_type"] if module in modules else {}
        own_cells = {cell: n for cell, n in cells.items() if cell.lstrip("\\") not in inside}
        return count_cells(own_cells)

    sizes = {part: Resources().plus(own(named[-1]), len(named)) for part, named in parts.items()}
    return {TOP: own(TOP), **sizes}


def breakdown(
    design: Netlist,
    *,
    inside: Iterable[str] = (),
    cpu_seconds: int | None = None,
    phases: Callable[[str], None] = lambda text: None,
) -> dict[str, Resources]:
    """7-series resources by part (see `parts_of`), before placement; cached.

    Raises
    ------
    TimeLimit
        Yosys took more than `cpu_seconds` of processor time.
    BuildError
        Yosys is missing or failed.
    """
    parts = parts_of(modules_of(design.text), inside)
    commands = script(parts)

    def make(folder: Path):
        phases(f"synthesis of {len(parts)} parts by Yosys {YOSYS.version}")
        (folder / "design.il").write_text(design.text)
        (folder / "script.ys").write_text(commands)
        YOSYS.run(["-q", "-s", "script.ys"], folder, cpu_seconds=cpu_seconds)
        (folder / "design.il").unlink()

    kept, _made = cached(digest([design.text, commands, YOSYS.version]), make)
    return count((kept / "stat.json").read_text(), parts)
