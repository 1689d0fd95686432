"""What a failed run leaves behind: all that it takes to see and to repeat it, in one folder."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable
from pathlib import Path

from sim.waves.groups import write_view

from .arguments import Options
from .report import dumps
from .session import Session, run_session

__all__ = ["FOLDER", "LAST_CYCLES", "keep_failure", "keep_files"]

#: Folder of the folders, below the one that the command runs in.
FOLDER = Path("build") / "failures"
#: Cycles of the waveform, up to the failed run's end.
LAST_CYCLES = 2000


def _folder(options: Options, report: dict) -> Path:
    """The same command that fails the same way has the same folder."""
    identity = json.dumps([options.arguments, report["digest"], report["status"]])
    mark = hashlib.sha256(identity.encode()).hexdigest()[:8]
    name = options.preset or report["digest"]
    return FOLDER / f"{name}-{report['dtype']}-{report['status'].lower()}-{mark}"


def _replay(options: Options, program: str) -> dict:
    """The settings of the run, as the command takes them."""
    return {
        "command": shlex.join(["python", "-m", program, *options.arguments]),
        "seed": options.seed,
        "input": options.input.name,
        "bytes": list(options.sizes),
        "skew": options.skew,
        "latency_jitter": options.jitter,
        "stalls": options.stalls_text,
        "stall_thresholds": options.stalls,
        "max_cycles": options.max_cycles,
    }


def keep_files(options: Options, session: Session, report: dict, program: str, **more) -> Path:
    """Write the folder of a session whose last run failed, without a waveform; its path.

    Parameters
    ----------
    program
        The module that was run.
    more
        What else ``run.json`` says.
    """
    failed = session.failed
    folder = _folder(options, report)
    folder.mkdir(parents=True, exist_ok=True)
    replay = _replay(options, program) | {"run": len(session.outcomes)} | more
    if options.input.sha256:
        replay["input_sha256"] = options.input.sha256
    (folder / "run.json").write_text(dumps(replay))
    (folder / "config.json").write_text(options.config.to_json())
    (folder / "report.json").write_text(dumps(report))
    (folder / "state.json").write_text(dumps(failed.state))
    (folder / "differences.txt").write_text("".join(f"{line}\n" for line in failed.differences))
    return folder


def keep_failure(
    options: Options,
    session: Session,
    report: dict,
    program: str = "sim.allreduce",
    *,
    phases: Callable[[str], None] = lambda phase: None,
) -> Path:
    """Write the folder of a session whose last run failed, and name it.

    It holds ``run.json`` (command, seed, settings), ``config.json``, ``report.json``,
    ``state.json`` (every register of a run that did not end), ``differences.txt``, and the
    waveform of the last cycles, ``last.vcd`` and ``last.gtkw``, from running the same once more.
    """
    failed = session.failed
    first = max(failed.ended - LAST_CYCLES, 0)
    cycles = [first, failed.ended]
    folder = keep_files(options, session, report, program, cycles=cycles)
    vcd = folder / "last.vcd"
    run_session(options, phases=phases, vcd=vcd, window=(first, failed.ended))
    write_view(vcd, options.config)
    return folder
