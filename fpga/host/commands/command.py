"""What a command of the host tool is."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from ..link import Link

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """One command.

    Parameters
    ----------
    summary
        A line for the overview.
    description
        What its help says.
    add_arguments
        Puts its options into a parser.
    run
        Does it, by the options given; the exit status.
    """

    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Link, argparse.Namespace], int]
