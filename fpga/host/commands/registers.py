"""``registers``: read or write registers by name."""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import sys

from rich.table import Table

from hdl.registers import Register
from sim.cli.errors import UsageError
from sim.cli.output import EXIT_OK, console, write_json
from sim.cli.progress import RunProgress
from sim.register_host import RegisterHost

from ..board_host import BoardHost
from ..link import Link
from ..outputs import try_out
from .command import Command

__all__ = ["REGISTERS"]


def _add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument(
        "names",
        metavar="NAME[=VALUE]",
        nargs="*",
        help="switch.epoch, rank0.jitter and so on; * and ? stand for any characters. With a value "
        "it is written (default: read all)",
    )
    parser.add_argument("--json", metavar="FILE|-", help="write values as JSON")


def _table_of(host: RegisterHost) -> dict[str, Register]:
    """Registers by full name, in the order of their addresses."""
    return {
        f"{where}.{register.name}": register
        for where, (table, _page) in host.tables.items()
        for register in table
    }


def _matching(pattern: str, names) -> list[str]:
    found = fnmatch.filter(names, pattern)
    if not found:
        near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.4)
        hint = f"; near it: {', '.join(near)}" if near else ""
        raise UsageError(
            f"register: must be one that the command without a name lists, not {pattern!r}{hint}"
        )
    return found


def _value(name: str, register: Register, text: str) -> int:
    """`text` as a value that the register takes."""
    if register.access == "ro":
        raise UsageError(f"{name}: is driven by hardware and cannot be written")
    most = (1 << register.width) - 1
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value <= most:
        raise UsageError(f"{name}: must be a whole number of 0..{most:#x}, not {text!r}")
    return value


def _asked(names: list[str], registers: dict[str, Register]) -> tuple[list[str], dict[str, int]]:
    """Registers to read, and values to write first."""
    read, write = [], {}
    for text in names or ["*"]:
        pattern, separator, value = text.partition("=")
        for name in _matching(pattern, registers):
            if separator:
                write[name] = _value(name, registers[name], value)
            if registers[name].access != "wo":
                read.append(name)
            elif not separator and name == pattern:
                raise UsageError(f"{name}: reads nothing; write it, as {name}=1")
    return list(dict.fromkeys(read)), write


def _print(out, values: dict[str, int], registers: dict[str, Register]):
    table = Table("register", "access", "value", "hexadecimal", "meaning")
    table.columns[2].justify = table.columns[3].justify = "right"
    for name, value in values.items():
        register = registers[name]
        table.add_row(name, register.access, f"{value:,}", f"{value:#x}", register.meaning)
    out.print(table)


def _run(link: Link, given: argparse.Namespace) -> int:
    try_out(json=given.json)
    link.configure()
    with RunProgress(console(sys.stderr), [], transient=True) as progress:
        client = link.open(progress.phase)
    host = BoardHost(client, link.config)
    registers = _table_of(host)
    read, write = _asked(given.names, registers)
    for name, value in write.items():
        host.write(*name.split("."), value)
    values = {name: host.read(*name.split(".")) for name in read}
    if values:
        _print(console(sys.stderr if given.json == "-" else sys.stdout), values, registers)
    write_json(given.json, values)
    return EXIT_OK


REGISTERS = Command(
    summary="read or write registers by name",
    description="Read registers by name, or write them. Nothing is reset. What each means is in "
    "docs/registers.md.",
    add_arguments=_add_arguments,
    run=_run,
)
