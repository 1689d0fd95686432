"""Where a command's tables and reports go, and what its exit status says."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from .errors import UsageError
from .report import dumps

__all__ = [
    "EXIT_DIFFERENT",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_TIMEOUT",
    "EXIT_USAGE",
    "console",
    "exit_status",
    "write_json",
]

EXIT_OK, EXIT_DIFFERENT, EXIT_USAGE, EXIT_TIMEOUT = 0, 1, 2, 3
EXIT_INTERRUPTED = 130
#: Columns of a table that goes to a file or a pipe.
WIDTH = 100


def console(file) -> Console:
    """Tables and messages into `file`; colour only where it is a terminal."""
    return Console(file=file, width=None if file.isatty() else WIDTH, highlight=False)


def write_json(name: str | None, value):
    """A report to the file `name`, to standard output where it is ``-``, to nowhere if None.

    UsageError where the file, tried out before, cannot be written any more.
    """
    if name == "-":
        sys.stdout.write(dumps(value))
    elif name:
        try:
            Path(name).write_text(dumps(value))
        except OSError as error:
            raise UsageError(f"json: cannot write {name!r}: {error.strerror}") from None


def exit_status(report: dict) -> int:
    """Of a report of All-Reduces."""
    if report["status"] == "ok":
        return EXIT_OK
    return EXIT_TIMEOUT if report["status"] == "timeout" else EXIT_DIFFERENT
