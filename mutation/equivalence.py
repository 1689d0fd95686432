"""Whether a fault changes nothing that anybody can see: Yosys compares the design with and without.

Registers of both are taken as equal, and so is every word of a memory; if then all next values and
all outputs are, for every input, the fault is none: what is different cannot be reached, whatever
comes. A fault that needs an unreachable state to show is not found so, and stays a survivor.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Fragment
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from hdl.building.cache import cached, digest
from hdl.building.errors import BuildError
from hdl.building.tools import YOSYS
from hdl.building.verilog import flat_ports
from hdl.config import SwitchConfig

from .components import Component
from .faults import Fault, plant

__all__ = ["is_equivalent"]

#: Processor seconds for one fault.
LIMIT = 30
SCRIPT = """
read_rtlil gold.il
read_rtlil gate.il
proc
flatten
memory_map
opt_clean
equiv_make gold gate both
cd both
opt_expr
equiv_struct
equiv_simple
tee -o status.txt equiv_status
"""
UNPROVED = re.compile(r"(\d+) are unproven")


def is_equivalent(component: Component, fault: Fault) -> bool:
    """Whether `fault` is proved to change nothing, in every configuration that has its place."""
    answers = []
    for config in component.configs:
        gold, _ = _rtlil(component, config, (), "gold")
        gate, planted = _rtlil(component, config, (fault,), "gate")
        if planted:
            answers.append(gold == gate.replace("gate", "gold") or _proved(gold, gate))
    return all(answers) and bool(answers)


def _proved(gold: str, gate: str) -> bool:
    def make(folder: Path):
        (folder / "gold.il").write_text(gold)
        (folder / "gate.il").write_text(gate)
        (folder / "script.ys").write_text(SCRIPT)
        try:
            YOSYS.run(["-q", "-s", "script.ys"], folder, cpu_seconds=LIMIT)
        except BuildError as error:
            (folder / "status.txt").write_text(f"no answer: {error}\n")
        for name in ("gold.il", "gate.il"):
            (folder / name).unlink()

    kept, _made = cached(digest(["equivalent", gold, gate, SCRIPT, YOSYS.version]), make)
    status = (kept / "status.txt").read_text()
    unproved = UNPROVED.search(status)
    return "successfully proven" in status or bool(unproved and unproved[1] == "0")


def _rtlil(
    component: Component, config: SwitchConfig, faults: Sequence[Fault], name: str
) -> tuple[str, int]:
    """The design as Yosys reads it, and how many of `faults` are in it."""
    made = component.create(config)
    fragment = Fragment.get(made, platform=None)
    planted = plant(fragment, faults)
    ports = {
        "__".join(map(str, path)): (
            value,
            PortDirection.Input if member.flow == wiring.In else PortDirection.Output,
        )
        for path, member, value in flat_ports(made)
    }
    text = rtlil.convert(fragment, name=name, ports=ports, emit_src=False)
    # Of two designs neither is the top, or Yosys would drop the other.
    return text.replace("attribute \\top 1\n", ""), planted
