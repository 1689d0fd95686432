"""``python -m sim.allreduce``: run an All-Reduce in a simulated switch and check every byte."""

from __future__ import annotations

import sys

from sim.cli.arguments import parse
from sim.cli.errors import UsageError
from sim.cli.report import dumps, report
from sim.cli.session import run_session
from sim.engines.base import EngineError

__all__ = ["main"]

EXIT_OK, EXIT_DIFFERENT, EXIT_USAGE, EXIT_TIMEOUT = 0, 1, 2, 3


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        options = parse(arguments)
        session = run_session(options)
    except (UsageError, EngineError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    print(dumps(report(options, session)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
