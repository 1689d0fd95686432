"""The runner itself: what must not pass does not."""

import shutil
import subprocess
import sys

import pytest

from cocotb_tests.conftest import again
from cocotb_tests.lib import simulators
from cocotb_tests.lib.configs import TINY
from cocotb_tests.lib.simulators import SimulationError, run

ROOT = simulators.ROOT
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


def collect(*arguments: str) -> subprocess.CompletedProcess:
    """What pytest would run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *arguments], cwd=ROOT, check=False, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        # Quick tests where there are some, else the long ones of that bench.
        (["-k", "test_link and not golden", "--sim", "icarus"], ["test_link[icarus]"]),
        (
            ["-k", "test_link and not golden", "--sim", "verilator"],
            ["test_link_more[verilator]", "test_link_wide[verilator]"],
        ),
        (["cocotb_tests/test_switch_registers.py"], ["test_switch_registers[verilator]"]),
        (["-k", "test_link", "-m", "long and not long"], []),
    ],
    ids=["quick", "long", "a file", "its marks"],
)
def test_a_bench_that_is_named_is_run(arguments, chosen):
    folder = [] if any("/" in argument for argument in arguments) else ["cocotb_tests"]
    output = collect(*folder, *arguments)
    found = [line.partition("::")[2] for line in output.stdout.splitlines() if "::" in line]
    assert [name for name in found if not name.startswith("test_link[verilator")] == chosen
    assert (output.returncode == 0) == bool(chosen)


def test_a_bench_that_cannot_run_on_the_simulator_fails():
    output = collect("cocotb_tests", "-k", "test_switch_registers", "--sim", "icarus")
    assert output.returncode
    assert "--sim icarus: no bench of those that were named runs on it" in output.stderr


def test_what_is_not_named_leaves_long_tests_out():
    output = collect("cocotb_tests", "--sim", "verilator")
    assert "test_link_more" not in output.stdout
    assert "test_endpoint[verilator]" in output.stdout


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({}, ""),
        ({"--cases": 30}, " --cases 30"),
        ({"--cases": 3, "--corrupt-golden": True}, " --cases 3 --corrupt-golden"),
        ({"--verilog-coverage": True, "--waves": True}, " --verilog-coverage"),
    ],
    ids=str,
)
def test_the_line_that_replays_has_every_option_that_counts(options, more):
    assert again("a.py::b[icarus]", options.get) == f"pytest 'a.py::b[icarus]' -m ''{more}"
