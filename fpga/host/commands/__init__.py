"""The host tool's commands, by name."""

from __future__ import annotations

from .allreduce import ALLREDUCE
from .bench import BENCH
from .command import Command
from .info import INFO
from .memory import DUMP, LOAD
from .registers import REGISTERS
from .selftest import SELFTEST
from .trace import TRACE

__all__ = ["COMMANDS", "Command"]

COMMANDS: dict[str, Command] = {
    "info": INFO,
    "selftest": SELFTEST,
    "allreduce": ALLREDUCE,
    "bench": BENCH,
    "registers": REGISTERS,
    "dump": DUMP,
    "load": LOAD,
    "trace": TRACE,
}
