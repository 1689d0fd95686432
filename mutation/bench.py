"""A component's cocotb bench as a judge: Verilog with many faults in it, simulated by Icarus."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from amaranth import Signal
from amaranth.back import verilog
from amaranth.hdl import Fragment
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from cocotb_tests.lib import simulators
from hdl.building.cache import cached, digest
from hdl.building.verilog import flat_ports, module_name, start_constants

from . import faults as faults_module
from .components import Component
from .faults import SELECT, Fault, find, plant, select_bits
from .forked import BREAKS

__all__ = ["BenchJudge"]

#: The simulator: it builds in a second, and unknown values show.
SIMULATOR = "icarus"
SEED = 1


class BenchJudge:
    """Asks a component's bench for its verdict on one fault after the other.

    Parameters
    ----------
    component
        Has a bench.
    faults
        All that are ever asked for: they are built into one simulation.
    folder
        For the runs.
    """

    name = "bench"

    def __init__(self, component: Component, faults: Sequence[Fault], folder: Path):
        self._component = component
        self._folder = folder.resolve()  # simulations run in folders of their own
        here = find(Fragment.get(component.create(component.config), None), component.files)
        self._here = {fault.key for fault in here}
        self._keys = [fault.key for fault in faults]
        self._verilog = _mutated(component, faults)
        # Builds now, in the process that stays: the judge's copies only run it.
        simulators.build(SIMULATOR, component.name, self._verilog)

    def __call__(self, number: int) -> str:
        """The test that fails with fault `number` (from 1; 0 is none), or an empty text.

        The bench's configuration may not have what the fault is in.
        """
        if number and self._keys[number - 1] not in self._here:
            return ""
        bench = self._component.bench
        try:
            outcome = simulators.run(
                SIMULATOR,
                self._component.name,
                self._component.config,
                bench.module,
                folder=self._folder / f"bench-{number}",
                seed=SEED,
                verilog=self._verilog,
                plusargs=[f"+{SELECT}={number}"],
                environment={
                    "TIDEGATE_CASES": str(bench.scale),
                    "TIDEGATE_CORRUPT_GOLDEN": "0",
                    "COCOTB_MAX_FAILURES": "1",
                },
            )
        except simulators.SimulationError:
            if not number:
                raise
            return f"{bench.module}: {BREAKS}"
        shutil.rmtree(outcome.folder, ignore_errors=True)
        return next((f"{bench.module}.{name}" for name in outcome.failed), "")


def _mutated(component: Component, faults: Sequence[Fault]) -> Path:
    """A folder as `simulators.generate` makes it, with faults in the Verilog."""
    plain = simulators.generate(component.name, component.config)
    planting = (Path(__file__), Path(faults_module.__file__))
    key = digest(
        [
            "mutated", str(plain),
            *(path.read_text() for path in planting),
            *(fault.key for fault in faults),
        ]
    )  # fmt: skip

    def make(folder: Path):
        top = module_name(component.name)
        text = _verilog(component, faults, top)
        ports = json.loads((plain / "ports.json").read_text())
        shutil.copy2(plain / "ports.json", folder)
        (folder / f"{top}.v").write_text(f"{text}\n{_selecting(top, ports, len(faults))}")

    return cached(key, make)[0]


def _verilog(component: Component, faults: Sequence[Fault], top: str) -> str:
    made = component.create(component.config)
    fragment = Fragment.get(made, platform=None)
    select = Signal(select_bits(len(faults)), name=SELECT)
    plant(fragment, faults, select)
    ports = {
        "__".join(map(str, path)): (
            value,
            PortDirection.Input if member.flow == wiring.In else PortDirection.Output,
        )
        for path, member, value in flat_ports(made)
    }
    ports[SELECT] = (select, PortDirection.Input)
    text = verilog.convert(
        fragment, name=f"{top}_with_faults", ports=ports, emit_src=False, strip_internal_attrs=True
    )
    return start_constants(text)


def _selecting(top: str, ports: Sequence[dict], count: int) -> str:
    """A module `top` that has the component's own ports, and is told the fault's number."""
    names = [f"\\{port['name']} " for port in ports]
    lines = [f"module {top}({', '.join(names)});"]
    for port, name in zip(ports, names, strict=True):
        lines.append(f"  {port['direction']} [{port['width'] - 1}:0] {name};")
    connections = [f".{name}({name})" for name in (*names, f"{SELECT} ")]
    return "\n".join(
        [
            *lines,
            f"  reg [{select_bits(count) - 1}:0] {SELECT};",
            f'  initial if (!$value$plusargs("{SELECT}=%d", {SELECT})) {SELECT} = 0;',
            f"  {top}_with_faults faulty ({', '.join(connections)});",
            "endmodule\n",
        ]
    )
