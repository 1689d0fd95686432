"""``allreduce``: `sim.allreduce` on the board."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from sim.cli.arguments import Options, add_run_arguments, check_json, run_options
from sim.cli.errors import UsageError
from sim.cli.failure import keep_files
from sim.cli.output import console, exit_status, write_json
from sim.cli.progress import RunProgress, expected_cycles
from sim.cli.report import report
from sim.cli.session import Session
from sim.cli.table import print_tables

from ..link import Link
from ..session import run_session
from .command import Command

__all__ = ["ALLREDUCE", "board_options"]

#: What a report calls the engine.
ENGINE = "board"
#: Options of `sim.allreduce` that a board has not, and what to do instead.
SIMULATION_ONLY = {
    "engine": "a board is no simulator; use python -m sim.allreduce",
    "vcd": "a board keeps no waveform; use trace, or python -m sim.allreduce",
    "vcd_window": "a board keeps no waveform; use trace, or python -m sim.allreduce",
}


def _add_arguments(parser: argparse.ArgumentParser):
    add_run_arguments(parser)
    for name in SIMULATION_ONLY:
        parser.add_argument(f"--{name.replace('_', '-')}", help=argparse.SUPPRESS)


def board_options(link: Link, given: argparse.Namespace, **fields) -> Options:
    """What to run, with the link's configuration settled; see `Link.configure` for `fields`."""
    for name, instead in SIMULATION_ONLY.items():
        if getattr(given, name, None) is not None:
            raise UsageError(f"{name.replace('_', '-')}: {instead}")
    link.configure(given.dtype, **fields)
    options = run_options(
        given, given.arguments, link.config, preset=link.preset, engine=ENGINE, added=link.added
    )
    check_json(given.json)
    if options.added:
        print(options.added, file=sys.stderr)
    return options


def _run(link: Link, given: argparse.Namespace) -> int:
    options = board_options(link, given)
    messages = console(sys.stderr)
    expected = [
        expected_cycles(options.config, size, options.skew, options.dtype) for size in options.sizes
    ]
    with RunProgress(messages, expected) as progress:
        session = run_session(link.open(progress.phase), options, progress)
    result = report(options, session)
    write_json(options.json, result)
    _tell(link, options, session, result, messages)
    return exit_status(result)


def _tell(link: Link, options: Options, session: Session, result: dict, messages: Console):
    """Tables, and what failed."""
    out = messages if options.json == "-" else console(sys.stdout)
    print_tables(out, result)
    if link.simulated:
        out.print("this board is the design in simulation")
    if session.failed:
        for line in session.failed.differences:
            out.print(f"difference: {line}")
        out.print(f"kept for this failure: {keep_files(options, session, result, 'fpga.host')}")


ALLREDUCE = Command(
    summary="run All-Reduces, compare every byte of every memory",
    description="Reset the board, fill every byte of its memories, run one All-Reduce or several "
    "in a row, and compare every byte with the golden model, as python -m sim.allreduce does. "
    "Cycles are counted in hardware. A run that fails leaves its seed, configuration and "
    "registers in a folder under build/failures.",
    add_arguments=_add_arguments,
    run=_run,
)
