"""``python -m regress``: run everything that checks the design, and write a page about it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from formal.arguments import BAD_ARGUMENT, DONE, FAILURE, ArgumentError, Parser
from hdl.config import unknown_name

from .items import PARTS, Item, Options, items
from .runner import ITEMS, known, run_all
from .summary import summarize, write

__all__ = ["main"]

FOLDER = Path("build") / "regress"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m regress",
        description="Run everything that checks the design: tests, benches, proofs, mutation.",
        epilog="Exit status: 0 all that ran passed; 1 something failed; 2 a bad argument. What "
        "passed is not run again until a source changes. The summary is summary.html and "
        "summary.json in the folder.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help=f"a part ({', '.join(PARTS)}) or an item; may be repeated (default: all)",
    )
    parser.add_argument("--jobs", metavar="N", default="2", help="at a time (default: %(default)s)")
    parser.add_argument(
        "--minutes", metavar="M", help="start nothing more after that (default: no limit)"
    )
    parser.add_argument(
        "--seed", metavar="N", default="1", help="of the benches (default: %(default)s)"
    )
    parser.add_argument(
        "--mutants",
        metavar="N",
        default="12",
        help="faults planted in each component (default: %(default)s)",
    )
    parser.add_argument(
        "--folder", metavar="DIR", type=Path, default=FOLDER, help="default: %(default)s"
    )
    parser.add_argument("--list", action="store_true", help="name the items; run none")
    return parser


def _whole(name: str, text: str, least: int = 1) -> int:
    if not text.isdigit() or int(text) < least:
        raise ArgumentError(f"{name}: must be a whole number from {least} on, not {text!r}")
    return int(text)


def _chosen(every: list[Item], names: list[str]) -> list[Item]:
    known = [*PARTS, *(item.name for item in every)]
    for name in names:
        if name not in known:
            raise ArgumentError(unknown_name("only", name, known))
    return [item for item in every if not names or item.name in names or item.part in names]


def _run(arguments: list[str]) -> int:
    given = _parser().parse_args(arguments)
    jobs = _whole("jobs", given.jobs)
    seconds = None if given.minutes is None else 60 * _whole("minutes", given.minutes, 0)
    folder = given.folder.resolve()
    options = Options(
        seed=_whole("seed", given.seed, 0),
        mutants=_whole("mutants", given.mutants),
    )
    every = items(options)
    chosen = _chosen(every, given.only)
    if given.list:
        print("\n".join(item.name for item in chosen))
        return DONE
    began = time.monotonic()
    statuses = run_all(chosen, folder / ITEMS, jobs=jobs, seconds=seconds,
                       say=lambda line: print(line, flush=True))  # fmt: skip
    ran = {status.name: status for status in statuses}
    others = known([item for item in every if item.name not in ran], folder / ITEMS)
    ran |= {status.name: status for status in others}
    statuses = [ran[item.name] for item in every]
    summary = summarize(statuses, folder, options, time.monotonic() - began)
    write(summary, folder)
    _say(summary, folder)
    return FAILURE if summary["failures"] else DONE


def _say(summary: dict, folder: Path):
    tests, properties, mutants = (summary[key] for key in ("tests", "properties", "mutants"))
    print(
        f"{tests['passed']} of {tests['run']} tests passed; functional coverage "
        f"{summary['functional_coverage']} %; {properties['proved']} properties proved, "
        f"{properties['bounded']} bounded, {properties['failed']} failed; "
        f"{mutants['caught']} of {mutants['planted']} planted faults caught"
    )
    for failure in summary["failures"]:
        print(f"failed: {failure}", file=sys.stderr)
    print(f"see {folder / 'summary.html'}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit code."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except (ArgumentError, OSError) as error:
        print(error, file=sys.stderr)
        return BAD_ARGUMENT
