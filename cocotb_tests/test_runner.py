"""The runner itself: what must not pass does not."""

import shutil

import pytest

from cocotb_tests.lib import simulators
from cocotb_tests.lib.configs import TINY
from cocotb_tests.lib.simulators import SimulationError, run

#: Where Debian's own programs are.
SYSTEM = "/usr/bin:/bin"


@pytest.mark.parametrize("module", ["lib.patterns", "tb_nothing"])
def test_a_run_without_tests_fails(module, tmp_path):
    """A module that has no test, or is not there at all, is no success."""
    with pytest.raises(SimulationError, match="no test was executed|no results|failed"):
        run("icarus", "barrier", TINY, module, folder=tmp_path / "run", seed=1)


@pytest.mark.skipif(
    shutil.which("python", path=SYSTEM) is not None, reason="this system has a program `python`"
)
def test_verilator_needs_no_python_on_the_path(monkeypatch, tmp_path):
    """Nor an environment that is active: Debian has Python as `python3` alone."""
    flags = simulators._verilator_flags(waves=False, coverage=False)
    runtime = simulators._verilator_runtime(flags)
    monkeypatch.setenv("PATH", SYSTEM)
    source = tmp_path / "empty.v"
    source.write_text("module empty(input clk); endmodule\n")
    simulators._verilate(source, "empty", tmp_path, flags, runtime)
    assert (tmp_path / "empty").exists()


def test_missing_simulator_is_named(monkeypatch):
    """Whoever lacks Icarus reads what to install."""
    monkeypatch.setattr(simulators.shutil, "which", lambda name: None)
    with pytest.raises(SimulationError, match="apt-get install iverilog"):
        simulators._environment("icarus")
