"""``python -m mutation``: plant faults, count those that tests and proofs notice."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from formal.arguments import BAD_ARGUMENT, DONE, FAILURE, ArgumentError, Parser
from hdl.config import unknown_name

from .components import COMPONENTS
from .judging import CAUGHT, EQUIVALENT, EXPLAINED, SURVIVED, JudgeError, Mutant, judge, sample

__all__ = ["SURVIVORS", "main", "totals"]


#: Exit code where a fault survived that has no explanation.
SURVIVORS = 3
#: Faults of a component, and what they are drawn by, unless told.
COUNT, SEED = 12, 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m mutation",
        description="Plant faults in the design, and count those that tests and proofs notice.",
        epilog="Exit status: 0 every fault is caught, equivalent or explained; 1 a judge broke; "
        f"2 a bad argument; {SURVIVORS} a fault survived. What was judged before is kept in "
        "build/mutation and not judged again.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--only",
        metavar="COMPONENT",
        action="append",
        default=[],
        help="may be repeated (default: all)",
    )
    parser.add_argument(
        "--count", metavar="N", default=str(COUNT), help="faults of each (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", metavar="N", default=str(SEED), help="they are drawn by (default: %(default)s)"
    )
    parser.add_argument("--proofs", action="store_true", help="ask the proofs, too")
    parser.add_argument(
        "--jobs", metavar="N", default="1", help="components at a time (default: 1)"
    )
    parser.add_argument("--json", metavar="FILE", help="write every fault and its verdict")
    parser.add_argument("--list", action="store_true", help="name the faults; plant none")
    return parser


def _whole(name: str, text: str, least: int) -> int:
    if not text.isdigit() or int(text) < least:
        raise ArgumentError(f"{name}: must be a whole number from {least} on, not {text!r}")
    return int(text)


def _chosen(names: list[str]) -> list[str]:
    for name in names:
        if name not in COMPONENTS:
            raise ArgumentError(unknown_name("only", name, COMPONENTS))
    return [name for name in COMPONENTS if not names or name in names]


def _judge(name: str, count: int, seed: int, proofs: bool) -> list[Mutant]:
    """A component's part, in a process of its own."""
    component = COMPONENTS[name]
    faults = sample(component, count, seed)
    return judge(component, faults, proofs=proofs, say=lambda line: print(line, flush=True))


def _parts(tasks: list[tuple], jobs: int) -> list[list[Mutant]]:
    """Every component's part, several at a time in processes of their own."""
    if jobs == 1:
        return [_judge(*task) for task in tasks]
    # Of new processes: judges make copies of theirs, which must have no threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1) as pool:
        return list(pool.map(_judge, *zip(*tasks, strict=True)))


def totals(mutants: list[Mutant]) -> dict:
    """How many faults were planted that change something, and how many of them were caught."""
    counts = Counter(mutant.result for mutant in mutants)
    none = counts[EQUIVALENT] + counts[EXPLAINED]
    return {
        "planted": len(mutants) - none,
        "caught": counts[CAUGHT],
        "equivalent": counts[EQUIVALENT],
        "explained": counts[EXPLAINED],
        "survived": counts[SURVIVED],
        "broken_proofs": sum(bool(mutant.proofs) for mutant in mutants),
        "seconds": round(sum(mutant.seconds for mutant in mutants), 1),
    }


def _table(mutants: list[Mutant]) -> Table:
    table = Table("component", "planted", "caught", "survived", "equivalent", "explained",
                  "break a proof", "seconds")  # fmt: skip
    names = list(dict.fromkeys(mutant.component for mutant in mutants))
    for name in [*names, "all"]:
        of_it = [mutant for mutant in mutants if name in ("all", mutant.component)]
        all_of_it = totals(of_it)
        table.add_row(
            name,
            *(
                str(all_of_it[key])
                for key in ("planted", "caught", "survived", "equivalent", "explained",
                            "broken_proofs", "seconds")
            ),
        )  # fmt: skip
    return table


def _run(arguments: list[str]) -> int:
    given = _parser().parse_args(arguments)
    names = _chosen(given.only)
    count, seed = _whole("count", given.count, 1), _whole("seed", given.seed, 0)
    jobs = _whole("jobs", given.jobs, 1)
    if given.list:
        for name in names:
            for fault in sample(COMPONENTS[name], count, seed):
                print(f"{name}: {fault.file}:{fault.line}: {fault.kind}: {fault.text}")
        return DONE
    tasks = [(name, count, seed, given.proofs) for name in names]
    mutants = [mutant for part in _parts(tasks, jobs) for mutant in part]
    if given.json:
        report = {
            "totals": totals(mutants),
            "seed": seed,
            "mutants": [mutant.as_json() for mutant in mutants],
        }
        Path(given.json).write_text(json.dumps(report, indent=1) + "\n")
    Console().print(_table(mutants))
    survivors = [mutant for mutant in mutants if mutant.result == SURVIVED]
    for mutant in survivors:
        place = f"{mutant.fault.file}:{mutant.fault.line}"
        print(f"{place}: survived: {mutant.fault.key}", file=sys.stderr)
    return SURVIVORS if survivors else DONE


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit code."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except JudgeError as error:
        print(error, file=sys.stderr)
        return FAILURE
    except (ArgumentError, OSError) as error:
        print(error, file=sys.stderr)
        return BAD_ARGUMENT
