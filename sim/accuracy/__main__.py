"""``python -m sim.accuracy``: tables of what quantized All-Reduce costs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console

from sim.accuracy.arguments import parse
from sim.accuracy.experiment import run
from sim.accuracy.table import print_tables
from sim.cli.errors import UsageError
from sim.llm import ModelMissing

__all__ = ["main"]

EXIT_OK, EXIT_USAGE, EXIT_INTERRUPTED = 0, 2, 130
#: Columns of a table that goes to a file or a pipe.
WIDTH = 120


def dumps(report: dict) -> str:
    """JSON with a line for each row."""
    lines = []
    for key, value in report.items():
        if isinstance(value, list):
            rows = ",\n".join("  " + json.dumps(row) for row in value)
            lines.append(f" {json.dumps(key)}: [\n{rows}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _console(file) -> Console:
    return Console(file=file, width=None if file.isatty() else WIDTH, highlight=False)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    messages = _console(sys.stderr)
    try:
        options = parse(arguments)
        report = run(options, messages)
    except (UsageError, ModelMissing) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("interrupted; what was computed is kept", file=sys.stderr)
        return EXIT_INTERRUPTED
    if options.json == "-":
        sys.stdout.write(dumps(report))
    elif options.json:
        Path(options.json).write_text(dumps(report))
    print_tables(messages if options.json == "-" else _console(sys.stdout), report)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
