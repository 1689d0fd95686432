"""The runner itself: what must not pass does not."""

import pytest

from cocotb_tests.lib import simulators
from cocotb_tests.lib.configs import TINY
from cocotb_tests.lib.simulators import SimulationError, run


@pytest.mark.parametrize("module", ["lib.patterns", "tb_nothing"])
def test_a_run_without_tests_fails(module, tmp_path):
    """A module that has no test, or is not there at all, is no success."""
    with pytest.raises(SimulationError, match="no test was executed|no results|failed"):
        run("icarus", "barrier", TINY, module, folder=tmp_path / "run", seed=1)


def test_missing_simulator_is_named(monkeypatch):
    """Whoever lacks Icarus reads what to install."""
    monkeypatch.setattr(simulators.shutil, "which", lambda name: None)
    with pytest.raises(SimulationError, match="apt-get install iverilog"):
        simulators._environment("icarus")
