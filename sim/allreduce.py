"""``python -m sim.allreduce``: run an All-Reduce in a simulated switch and check every byte."""

from __future__ import annotations

import sys

from sim.cli.arguments import parse
from sim.cli.command import run_command

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    return run_command("sim.allreduce", parse, arguments)


if __name__ == "__main__":
    sys.exit(main())
