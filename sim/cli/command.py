"""What `sim.allreduce` and `sim.collective` do with their options, up to the exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from sim.engines.base import EngineError
from sim.waves.groups import VIEW_SUFFIX, write_view

from .arguments import Options
from .errors import UsageError
from .failure import keep_failure
from .output import EXIT_INTERRUPTED, EXIT_USAGE, console, exit_status, write_json
from .progress import RunProgress, expected_cycles
from .report import report
from .session import Session, run_session
from .table import print_tables

__all__ = ["run_command"]


def _run(options: Options, messages: Console) -> tuple[Session, dict]:
    """The session that the options ask for, and its report, which is written at once."""
    with RunProgress(messages, _expected(options)) as progress:
        session = run_session(
            options,
            phases=progress.phase,
            watch=progress.cycles,
            vcd=options.vcd,
            window=options.vcd_window,
        )
    result = report(options, session)
    write_json(options.json, result)
    if options.vcd:
        write_view(options.vcd, options.config)
    return session, result


def _keep(
    options: Options, session: Session, result: dict, program: str, messages: Console
) -> Path | None:
    """The folder of what a failed run leaves; None where none failed."""
    if not session.failed:
        return None
    messages.print(f"{result['status']}: running again for the waveform of its last cycles")
    with RunProgress(messages, _expected(options)) as progress:
        return keep_failure(options, session, result, program, phases=progress.phase)


def _expected(options: Options) -> list[int]:
    return [
        expected_cycles(options.config, size, options.skew, options.dtype) for size in options.sizes
    ]


def _tell(options: Options, session: Session, result: dict, folder: Path | None, out: Console):
    """Tables, where files are, and what failed."""
    print_tables(out, result)
    if options.fallback:
        out.print(f"engine {options.engine}: {options.fallback}")
    if options.vcd:
        out.print(f"waveforms: {options.vcd}, view: {options.vcd.with_suffix(VIEW_SUFFIX)}")
    for line in session.failed.differences if session.failed else ():
        out.print(f"difference: {line}")
    if folder:
        state = f", registers in {folder / 'state.json'}" if result["status"] == "timeout" else ""
        out.print(f"kept for this failure: {folder}{state}")


def run_command(
    program: str, parse: Callable[[list[str]], Options], arguments: list[str] | None
) -> int:
    """Run what `arguments`, or the command line, ask for; the exit status.

    Parameters
    ----------
    program
        The module's name.
    parse
        Makes options of arguments; raises `UsageError`.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = None
    try:
        options = parse(arguments)
        messages = console(sys.stderr)
        if options.added:
            print(options.added, file=sys.stderr)
        session, result = _run(options, messages)
        folder = _keep(options, session, result, program, messages)
    except (UsageError, EngineError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except MemoryError:
        size = options.config.memory_bytes if options else "what was asked for"
        print(f"error: memory_bytes: must fit this machine's memory, not {size}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    tables = messages if options.json == "-" else console(sys.stdout)
    _tell(options, session, result, folder, tables)
    return exit_status(result)
