"""The host tool's commands, by name."""

from __future__ import annotations

from .allreduce import ALLREDUCE
from .command import Command
from .info import INFO

__all__ = ["COMMANDS", "Command"]

COMMANDS: dict[str, Command] = {
    "info": INFO,
    "allreduce": ALLREDUCE,
}
