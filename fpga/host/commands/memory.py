"""``dump`` and ``load``: a rank's memory, to a file and from one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sim.cli.errors import UsageError
from sim.cli.output import EXIT_DIFFERENT, EXIT_OK, console
from sim.cli.progress import RunProgress

from ..board_host import BoardMemories
from ..link import Link
from ..outputs import try_out
from .command import Command

__all__ = ["DUMP", "LOAD"]

#: Bytes in a line of a dump for people.
LINE_BYTES = 16


def _whole(text: str) -> int:
    """A whole number, decimal or hexadecimal."""
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be a whole number of 0 or more, not {text!r}")
    return value


def _add_place(parser: argparse.ArgumentParser):
    add = parser.add_argument
    add("--rank", type=_whole, default=0, metavar="R", help="whose memory (default: 0)")
    add("--address", type=_whole, default=0, metavar="A", help="first byte (default: 0)")


def _add_dump_arguments(parser: argparse.ArgumentParser):
    _add_place(parser)
    add = parser.add_argument
    add("--bytes", type=_whole, metavar="N", help="how many (default: to the memory's end)")
    add("--out", metavar="FILE", help="write the bare bytes to FILE (default: lines for people)")


def _add_load_arguments(parser: argparse.ArgumentParser):
    _add_place(parser)
    parser.add_argument("file", metavar="FILE", help="the bytes; - is standard input")


def _check(link: Link, given: argparse.Namespace, size: int):
    config = link.config
    if given.rank >= config.ranks:
        raise UsageError(f"rank: must be below {config.ranks}, not {given.rank}")
    if given.address + size > config.memory_bytes:
        raise UsageError(
            f"address: must stay within a memory of {config.memory_bytes} bytes, not "
            f"{given.address} + {size}"
        )


def _lines(address: int, data: bytes):
    """Address, bytes and what they are as ASCII, line by line."""
    for start in range(0, len(data), LINE_BYTES):
        line = data[start : start + LINE_BYTES]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in line)
        yield f"{address + start:08x}  {line.hex(' '):{3 * LINE_BYTES - 1}}  {text}"


def _dump(link: Link, given: argparse.Namespace) -> int:
    link.configure()
    _check(link, given, given.bytes or 0)
    size = link.config.memory_bytes - given.address if given.bytes is None else given.bytes
    try_out(others=[("out", given.out)])
    with RunProgress(console(sys.stderr), [], transient=True) as progress:
        client = link.open(progress.phase)
        progress.phase("read")
        memories = BoardMemories(client, link.config, watch=progress.part)
        data = memories.read(given.rank, given.address, size)
    if given.out is None:
        for line in _lines(given.address, data):
            print(line)
    else:
        Path(given.out).write_bytes(data)
    return EXIT_OK


def _contents(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"file: cannot read {name!r}: {error.strerror}") from None


def _load(link: Link, given: argparse.Namespace) -> int:
    data = _contents(given.file)
    link.configure()
    _check(link, given, len(data))
    with RunProgress(console(sys.stderr), [], transient=True) as progress:
        client = link.open(progress.phase)
        memories = BoardMemories(client, link.config, phases=progress.phase, watch=progress.part)
        memories.load(given.rank, given.address, data)
        memories.flush()
        progress.phase("read")
        found = memories.read(given.rank, given.address, len(data))
    where = f"rank {given.rank} from {given.address:#x}"
    if found != data:
        wrong = next(
            at for at, pair in enumerate(zip(found, data, strict=True)) if len({*pair}) > 1
        )
        print(
            f"difference: {where}: byte {wrong} reads {found[wrong]:#04x}, was {data[wrong]:#04x}"
        )
        return EXIT_DIFFERENT
    print(f"{len(data):,} bytes written to {where}, and read back the same")
    return EXIT_OK


DUMP = Command(
    summary="read a rank's memory",
    description="Read a rank's memory, as lines or into a file. Nothing is reset.",
    add_arguments=_add_dump_arguments,
    run=_dump,
)
LOAD = Command(
    summary="write a file into a rank's memory",
    description="Write a file's bytes into a rank's memory and read them back. Nothing is reset.",
    add_arguments=_add_load_arguments,
    run=_load,
)
