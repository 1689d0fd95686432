"""``selftest``: the line, registers, memories and All-Reduces of a board, one after another."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fpga.self_test import Fault
from hdl.config import SwitchConfig
from hdl.registers import PAGE_BYTES, RANK_PAGE, Register
from sim.bench import Bench, place
from sim.cli.operands import RandomInput, guard_pattern
from sim.cli.output import EXIT_DIFFERENT, EXIT_OK, console, write_json
from sim.cli.progress import RunProgress
from sim.cli.stalls import parse_stalls
from sim.quantized import element_bytes

from ..board_host import BoardHost
from ..client import Client
from ..errors import BusError
from ..link import SELF_TEST_SECONDS, Link
from ..outputs import try_out
from ..session import open_bench
from .command import Command

__all__ = ["SELFTEST"]

#: Seeds of what is written; a test is the same each time.
SEED = 20
#: Requests of the first test, and bytes of each: short and long, odd and even.
LINE_REQUESTS = 48
#: Patterns that registers are written with, cut to their width.
PATTERNS = (0x5555_5555_5555_5555, 0xAAAA_AAAA_AAAA_AAAA, 0)
#: A register that does not keep what is written: it is held to what the links are built for.
HELD = {"link_latency"}


class Failure(Exception):
    """What is wrong, in one line."""


@dataclass(frozen=True)
class Subject:
    """What is tested."""

    client: Client
    config: SwitchConfig
    progress: RunProgress

    def host(self) -> BoardHost:
        return BoardHost(self.client, self.config)

    def bench(self) -> Bench:
        return open_bench(self.client, self.config, self.progress)


# -- tests: each gives what it has done, in a few words, or raises Failure -----------------------


def _line(subject: Subject) -> str:
    """Bytes there and back, in requests of many sizes."""
    client, memory_bytes = subject.client, subject.config.memory_bytes
    draw = np.random.default_rng(SEED)
    most = min(client.identify().burst_bytes, memory_bytes)
    before = client.statistics.retries
    for size in np.geomspace(1, most, LINE_REQUESTS).astype(int).tolist():
        data = draw.bytes(size)
        address = int(draw.integers(memory_bytes - size + 1))
        client.write_memory(0, address, data)
        if client.read_memory(0, address, size) != data:
            raise Failure(f"{size} bytes at {address:#x} read otherwise than written")
    retries = client.statistics.retries - before
    return f"{2 * LINE_REQUESTS} requests" + (f", {retries} sent again" if retries else "")


def _own_test(subject: Subject) -> str:
    """The test that the board runs without a host."""
    client = subject.client
    if not client.identify().self_test.built:
        return "there is none"
    client.start_self_test()
    give_up = time.monotonic() + SELF_TEST_SECONDS
    while (state := client.identify().self_test).busy:
        if time.monotonic() > give_up:
            raise Failure(f"goes on after {SELF_TEST_SECONDS:g} s")
    if not state.passed:
        raise Failure(Fault(state.fault).name.lower().replace("_", " "))
    return "passed"


def _writable(host: BoardHost) -> Iterator[tuple[str, Register]]:
    for where, (table, _page) in host.tables.items():
        for register in table:
            if register.access == "rw" and register.name not in HELD:
                yield where, register


def _registers(subject: Subject) -> str:
    """Constants are right, and what can be written keeps it, each apart from the others."""
    subject.client.reset()
    host = subject.host()
    for register in host.tables["switch"][0]:
        if register.constant and host.read("switch", register.name) != register.reset:
            raise Failure(f"switch.{register.name} is not {register.reset:#x}")
    registers = list(_writable(host))
    for pattern in PATTERNS:
        written = {}
        for number, (where, register) in enumerate(registers):
            value = (pattern ^ number) & ((1 << register.width) - 1)
            host.write(where, register.name, value)
            written[where, register.name] = value
        for (where, name), value in written.items():
            if (found := host.read(where, name)) != value:
                raise Failure(f"{where}.{name} is {found:#x}, written {value:#x}")
    subject.client.reset()
    for where, register in registers:
        if (found := host.read(where, register.name)) != register.reset:
            raise Failure(f"{where}.{register.name} is {found:#x} after a reset")
    return f"{len(registers)} written and read, {len(PATTERNS)} patterns"


def _refusals(subject: Subject) -> str:
    """Accesses to what is not there are refused, at the right address."""
    client, config = subject.client, subject.config
    no_rank = (RANK_PAGE + config.ranks) * PAGE_BYTES
    accesses: list[tuple[str, Callable[[], object], int]] = [
        ("a register that is not there", lambda: client.read_words(no_rank), no_rank),
        ("a write to it", lambda: client.write_words(no_rank, [1]), no_rank),
        (
            "the end of a memory",
            lambda: client.read_memory(0, config.memory_bytes - 2, 4),
            config.memory_bytes,
        ),
        ("a rank that is not there", lambda: client.read_memory(config.ranks, 0, 1), 0),
    ]
    for what, access, address in accesses:
        try:
            access()
        except BusError as error:
            if error.address != address:
                raise Failure(f"{what}: refused at {error.address:#x}, not {address:#x}") from None
        else:
            raise Failure(f"{what}: not refused")
    return f"{len(accesses)} accesses to nothing"


def _memories(subject: Subject) -> str:
    """Every byte of every memory keeps what is written, and its complement."""
    client, config = subject.client, subject.config
    draw = np.random.default_rng(SEED)
    data = draw.integers(256, size=(config.ranks, config.memory_bytes), dtype=np.uint8)
    for written in (data, ~data):
        for rank in range(config.ranks):
            client.write_memory(rank, 0, written[rank].tobytes())
        for rank in range(config.ranks):
            found = np.frombuffer(client.read_memory(rank, 0, config.memory_bytes), np.uint8)
            wrong = np.flatnonzero(found != written[rank])
            if len(wrong):
                raise Failure(f"rank {rank} byte {wrong[0]:#x} and {len(wrong) - 1} others")
    return f"{config.ranks} x {config.memory_bytes:,} bytes, twice"


def _sizes(config: SwitchConfig, format: str) -> list[int]:
    """Nothing, a value, not a whole wave, several waves; as far as they fit."""
    unit = element_bytes(format)
    sizes = []
    for size in (0, unit, config.wave_bytes - unit, 2 * config.wave_bytes + 3 * unit):
        try:
            place(config, size, format, out_of_place=True)
        except ValueError:
            continue
        sizes.append(size)
    return sizes


def _all_reduces(subject: Subject, format: str) -> str:
    """Every byte of every memory after All-Reduces of many shapes."""
    config, bench = subject.config, subject.bench()
    stalls = parse_stalls("light")
    sizes = _sizes(config, format)
    shapes = [(size, out_of_place, False) for size in sizes for out_of_place in (False, True)]
    shapes.append((sizes[-1], False, True))
    for run, (size, out_of_place, disturbed) in enumerate(shapes):
        if disturbed:
            for rank in range(config.ranks):
                bench.set_memory(rank, jitter=config.memory_latency, stalls=stalls, seed=rank)
        outcome = bench.all_reduce(
            RandomInput(SEED).operands(config, size // element_bytes(format), format, run),
            format,
            out_of_place=out_of_place,
            guard=guard_pattern(),
            delays=[7 * rank for rank in range(config.ranks)] if disturbed else None,
        )
        if outcome.status != "ok":
            first = f": {outcome.differences[0]}" if outcome.differences else ""
            raise Failure(f"{size} bytes: {outcome.status}{first}")
    return f"{len(shapes)} of up to {max(sizes):,} bytes, every byte of every memory"


def _tests(config: SwitchConfig) -> Iterator[tuple[str, Callable[[Subject], str]]]:
    yield "line", _line
    yield "board's own test", _own_test
    yield "registers", _registers
    yield "refusals", _refusals
    yield "memories", _memories
    for format in config.formats:
        yield f"All-Reduce {format}", lambda subject, format=format: _all_reduces(subject, format)


# -- the command -----------------------------------------------------------------------------------


def _add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--json", metavar="FILE|-", help="write what came of each test as JSON")


def _run(link: Link, given: argparse.Namespace) -> int:
    try_out(json=given.json)
    link.configure()
    out = console(sys.stderr if given.json == "-" else sys.stdout)
    messages, results = console(sys.stderr), []
    for name, test in _tests(link.config):
        began = time.monotonic()
        with RunProgress(messages, [], transient=True) as progress:
            client = link.open(progress.phase)
            progress.phase(name)
            try:
                passed, detail = True, test(Subject(client, link.config, progress))
            except Failure as failure:
                passed, detail = False, str(failure)
        seconds = time.monotonic() - began
        results.append(
            {"test": name, "passed": passed, "detail": detail, "seconds": round(seconds, 3)}
        )
        verdict = "[green]ok[/]  " if passed else "[bold red]FAIL[/]"
        out.print(f"{verdict}  {name:18}  {detail}", end="")
        out.print(f"  [dim]{seconds:.1f} s[/]" if out.is_terminal else "")
    link.open().reset()
    failed = sum(not result["passed"] for result in results)
    out.print(f"{failed} of {len(results)} failed" if failed else f"all {len(results)} passed")
    write_json(given.json, {"config": link.config.to_fields(), "tests": results})
    return EXIT_DIFFERENT if failed else EXIT_OK


SELFTEST = Command(
    summary="test line, registers, memories and All-Reduces",
    description="Test the line, the board's own self-test, registers, refusals, memories, and "
    "All-Reduces of every format and many shapes. Overwrites the memories and resets the board.",
    add_arguments=_add_arguments,
    run=_run,
)
