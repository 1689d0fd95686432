"""``python -m sim.collective``: run any collective in a simulated switch and check every byte."""

from __future__ import annotations

import sys

from sim.cli.collective_arguments import parse
from sim.cli.command import run_command

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    return run_command("sim.collective", parse, arguments)


if __name__ == "__main__":
    sys.exit(main())
