"""Options of the regression on generated Verilog, and the fixture that runs a simulation."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cocotb_tests.lib import results
from cocotb_tests.lib.simulators import SIMULATORS, generate, run
from hdl.config import SwitchConfig

#: Seed of a run that names none, so that everybody's is the same.
DEFAULT_SEED = 1
DEFAULT_FOLDER = Path("build") / "cocotb"


def pytest_addoption(parser):
    group = parser.getgroup("cocotb", "regression on generated Verilog (cocotb_tests)")
    group.addoption(
        "--sim", choices=[*SIMULATORS, "both"], default="both", help="simulator (default: both)"
    )
    group.addoption("--waves", action="store_true", help="write waveforms; the path is printed")
    group.addoption(
        "--seed", type=int, default=DEFAULT_SEED, help="of the first case (default: %(default)s)"
    )
    group.addoption("--cases", type=int, help="random cases of each test, in place of its own")
    group.addoption(
        "--corrupt-golden",
        action="store_true",
        help="change golden by one bit: every test that moves data must fail",
    )
    group.addoption(
        "--verilog-coverage",
        action="store_true",
        help="also line and toggle coverage of the Verilog (Verilator)",
    )
    group.addoption(
        "--results",
        type=Path,
        default=DEFAULT_FOLDER,
        help="folder for logs, waveforms, results.json and coverage (default: %(default)s)",
    )


def pytest_configure(config):
    config.tidegate_started = time.time()


def pytest_generate_tests(metafunc):
    """A test that simulates runs on each simulator that was asked for."""
    if "simulate" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--sim")
        marked = next(metafunc.definition.iter_markers("simulators"), None)
        names = [n for n in (marked.args if marked else SIMULATORS) if asked in (n, "both")]
        metafunc.parametrize("simulate", names, indirect=True)


@pytest.fixture
def simulate(request):
    """Runs a cocotb module on a component; fails where one of its tests does, or none ran.

    Called with the component's name, its configuration, and the module; `scale` multiplies the
    number of cases, `verilog` is a folder in place of what `hdl.build` makes. Gives the outcome.
    """
    option = request.config.getoption
    simulator = request.param

    def start(
        component: str,
        config: SwitchConfig,
        module: str,
        *,
        scale: int = 1,
        verilog: Path | None = None,
        expect_failure: bool = False,
    ):
        named = f"{request.node.name}".replace("/", "-")
        cases = option("--cases")
        corrupt = option("--corrupt-golden") or expect_failure
        command = f"pytest '{request.node.nodeid}' -m ''"
        environment = {
            "TIDEGATE_CASES": str(scale) if cases is None else f"={cases}",
            "TIDEGATE_CORRUPT_GOLDEN": str(int(corrupt)),
            "TIDEGATE_COMMAND": command,
        }
        started = time.perf_counter()
        outcome = run(
            simulator,
            component,
            config,
            module,
            folder=(option("--results") / "runs" / named).resolve(),
            seed=option("--seed"),
            waves=option("--waves"),
            coverage=option("--verilog-coverage") and simulator == "verilator",
            environment=environment,
            verilog=verilog or generate(component, config),
        )
        results.write_run(
            outcome,
            name=named,
            component=component,
            digest=config.digest,
            simulator=simulator,
            seed=option("--seed"),
            seconds=time.perf_counter() - started,
            corrupted=corrupt,
        )
        if option("--waves"):
            print(f"waveform: {results.waveform(outcome.folder)}")  # shown with -s
        if not expect_failure and outcome.failed:
            lines = [f"{name}: {message}" for name, message in outcome.failed.items()]
            if option("--waves"):
                lines.append(f"waveform: {results.waveform(outcome.folder)}")
            pytest.fail("\n".join([*lines, f"log: {outcome.folder / 'log.txt'}"]), pytrace=False)
        return outcome

    return start


def pytest_sessionfinish(session):
    """Merge what this session's runs left, once for all worker processes."""
    config = session.config
    if hasattr(config, "workerinput"):
        return
    report = results.merge(config.getoption("--results"), since=config.tidegate_started)
    if report is not None:
        config.tidegate_report = report


def pytest_terminal_summary(terminalreporter, config):
    report = getattr(config, "tidegate_report", None)
    if report is not None:
        terminalreporter.write_line(results.summary(report))
