"""Options of the regression on generated Verilog, and the fixture that runs a simulation."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cocotb_tests.lib import results
from cocotb_tests.lib.simulators import SIMULATORS, generate, run
from hdl.config import SwitchConfig

#: Seed of a run that names none, so that everybody's is the same.
DEFAULT_SEED = 1
#: What pyproject.toml leaves out, unless `-m` says otherwise.
NOT_LONG = "not long"
DEFAULT_FOLDER = Path("build") / "cocotb"


def _cases(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, not {text!r}")
    return int(text)


def pytest_addoption(parser):
    group = parser.getgroup("cocotb", "regression on generated Verilog (cocotb_tests)")
    group.addoption(
        "--sim", choices=[*SIMULATORS, "both"], default="both", help="simulator (default: both)"
    )
    group.addoption("--waves", action="store_true", help="write waveforms; the path is printed")
    group.addoption(
        "--seed", type=int, default=DEFAULT_SEED, help="of the first case (default: %(default)s)"
    )
    group.addoption(
        "--cases", type=_cases, help="random cases of each test, from 1 on, in place of its own"
    )
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
        runs_on = marked.args if marked else SIMULATORS
        names = [name for name in runs_on if asked in (name, "both")]
        if not names:
            reason = f"runs on {' and '.join(runs_on)} only"
            names = [pytest.param(asked, marks=pytest.mark.skip(reason=reason))]
        metafunc.parametrize("simulate", names, indirect=True)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Whoever names a bench gets it, be it marked long; or reads why nothing of it can run."""
    long_left_out = config.option.markexpr == NOT_LONG
    if not (_named(config) and any(map(_simulates, items))):
        return (yield)
    # Of a bench that is left with nothing but long tests these are run, so they must be seen here.
    config.option.markexpr = "" if long_left_out else config.option.markexpr
    try:
        result = yield
    finally:
        config.option.markexpr = NOT_LONG if long_left_out else config.option.markexpr
    chosen = [item for item in items if not (long_left_out and item.get_closest_marker("long"))]
    have = {item.path for item in chosen if _runs(item)}
    kept = [item for item in items if item in chosen or (_runs(item) and item.path not in have)]
    if any(map(_simulates, items)) and not any(map(_runs, kept)):
        raise pytest.UsageError(
            f"--sim {config.getoption('--sim')}: no bench of those that were named runs on it"
        )
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
    return result


def _named(config) -> bool:
    """Whether the command line names benches, or a file of them."""
    paths = [argument.partition("::")[0] for argument in config.args]
    return bool(config.option.keyword) or any(path.endswith(".py") for path in paths)


def _simulates(item) -> bool:
    return "simulate" in getattr(item, "fixturenames", ())


def _runs(item) -> bool:
    return _simulates(item) and item.get_closest_marker("skip") is None


def again(test: str, option: Callable[[str], object]) -> str:
    """The command that runs a test as this one does, its seed apart."""
    command = [f"pytest '{test}' -m ''"]
    if option("--cases") is not None:
        command.append(f"--cases {option('--cases')}")
    command += [name for name in ("--corrupt-golden", "--verilog-coverage") if option(name)]
    return " ".join(command)


@pytest.fixture
def simulate(request):
    """Runs a cocotb module on a component; fails where one of its tests does, or none ran.

    Called with the component's name, its configuration, and the module; `scale` multiplies the
    number of cases, or `cases` is that number; `verilog` is a folder in place of what `hdl.build`
    makes. With `corrupt` golden is wrong at that place of each test, from 1, and tests are to fail:
    the caller looks whether they did. Gives the outcome.
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
        cases: int | None = None,
        corrupt: int = 0,
    ):
        named = f"{request.node.name}".replace("/", "-") + (f"-{corrupt}" if corrupt else "")
        cases = option("--cases") or cases
        expect_failure = bool(corrupt)
        corrupt = corrupt or int(option("--corrupt-golden"))
        environment = {
            "TIDEGATE_CASES": str(scale) if cases is None else f"={cases}",
            "TIDEGATE_CORRUPT_GOLDEN": str(corrupt),
            "TIDEGATE_COMMAND": again(request.node.nodeid, option),
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
            corrupted=bool(corrupt),
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
