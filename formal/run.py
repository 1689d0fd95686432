"""``python -m formal``: prove the properties, and show that planted faults break them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hdl.config import unknown_name

from .arguments import BAD_ARGUMENT, DONE, FAILURE, ArgumentError, Parser
from .check import FaultRow, Row, caught, check
from .proof import Proof
from .proofs import PROOFS
from .sby import SolverError

__all__ = ["main"]


#: Columns of a table in a file or a pipe.
LINE = 150


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m formal",
        description="Prove properties of the design's components with SymbiYosys.",
        epilog="Exit status: 0 everything is proved; 1 something is not, and the waveform of it is "
        "named; 2 a bad argument, or a tool failed. What did not change is not proved again: "
        "outcomes are kept in build/formal.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="a proof, or all of a component; may be repeated (default: all)",
    )
    parser.add_argument("--quick", action="store_true", help="only proofs that take seconds")
    parser.add_argument(
        "--faults",
        action="store_true",
        help="plant faults instead: each must be caught by a property",
    )
    parser.add_argument("--json", metavar="FILE", help="write the rows, too; - is standard output")
    parser.add_argument("--list", action="store_true", help="name the proofs; prove none")
    parser.add_argument(
        "--jobs", metavar="N", default="1", help="solvers at the same time (default: 1)"
    )
    return parser


def _chosen(given: argparse.Namespace) -> list[Proof]:
    """The proofs that are asked for, in their order."""
    components = {proof.component for proof in PROOFS.values()}
    for name in given.only:
        if name not in PROOFS and name not in components:
            raise ArgumentError(unknown_name("only", name, [*PROOFS, *sorted(components)]))
    return [
        proof
        for proof in PROOFS.values()
        if (not given.only or proof.name in given.only or proof.component in given.only)
        and (proof.quick or not given.quick)
    ]


def _jobs(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ArgumentError(f"jobs: must be a whole number from 1 on, not {text!r}")
    return int(text)


def _console(**options) -> Console:
    """The terminal; what is not one takes long lines."""
    console = Console(**options)
    return console if console.is_terminal else Console(**options, width=LINE)


def _list(proofs: Iterable[Proof]):
    table = Table("proof", "component", "size", "mode", "depth", "quick", "faults")
    for proof in proofs:
        table.add_row(
            proof.name,
            proof.component,
            proof.size,
            proof.mode,
            str(proof.depth),
            "yes" if proof.quick else "",
            str(len(proof.faults)),
        )
    _console().print(table)


def _properties_table(rows: list[Row]) -> Table:
    table = Table("property", "component", "size", "engine", "mode", "depth", "seconds", "result")
    for row in rows:
        table.add_row(
            row.property,
            row.component,
            row.size,
            row.engine,
            row.mode,
            str(row.depth),
            f"{row.seconds:.1f}",
            row.result,
            style=None if row.good else "red",
        )
    return table


def _faults_table(rows: list[FaultRow]) -> Table:
    table = Table("fault", "proof", "caught by", "seconds")
    for row in rows:
        table.add_row(
            row.fault,
            row.proof,
            ", ".join(row.caught_by) or "nothing",
            f"{row.seconds:.1f}",
            style=None if row.good else "red",
        )
    return table


def _rows(proofs: list[Proof], work: Callable, jobs: int, console: Console) -> list:
    """Rows of all proofs in order, while a line tells of each that ends."""
    results = []
    with ThreadPoolExecutor(jobs) as pool:
        for proof, rows in zip(proofs, pool.map(work, proofs), strict=True):
            good = all(row.good for row in rows)
            seconds = sum({row.seconds for row in rows})
            console.print(f"{proof.name}: {'ok' if good else 'NOT ok'}, {seconds:.1f} s")
            results += rows
    return results


def _write(rows: list, target: str, out):
    text = json.dumps([row.as_json() for row in rows], indent=1) + "\n"
    if target == "-":
        out.write(text)
    else:
        Path(target).write_text(text)


def _run(arguments: list[str]) -> int:
    given = _parser().parse_args(arguments)
    jobs, proofs = _jobs(given.jobs), _chosen(given)
    if given.list:
        _list(proofs)
        return DONE
    console = _console(stderr=given.json == "-")
    if given.faults:
        rows = _rows(proofs, lambda p: [caught(p, f) for f in p.faults], jobs, console)
        console.print(_faults_table(rows))
    else:
        rows = _rows(proofs, check, jobs, console)
        console.print(_properties_table(rows))
    if given.json:
        _write(rows, given.json, sys.stdout)
    bad = [row for row in rows if not row.good]
    for row in bad:
        if isinstance(row, FaultRow):
            print(f"{row.proof}: {row.fault}: not caught", file=sys.stderr)
        else:
            seen = f"; see {row.waveform}" if row.waveform else ""
            print(f"{row.proof}: {row.property} ({row.mode}): {row.result}{seen}", file=sys.stderr)
    return FAILURE if bad else DONE


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit code."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except (ArgumentError, SolverError, OSError) as error:
        print(error, file=sys.stderr)
        return BAD_ARGUMENT
