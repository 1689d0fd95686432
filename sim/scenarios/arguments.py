"""Arguments of ``sim.scenarios``, checked before anything is built."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from hdl.config import unknown_name
from sim.cli.arguments import output_files, vcd_window, whole
from sim.cli.errors import UsageError
from sim.cli.parser import Parser

from .campaign import MOST_SEED
from .configurations import CONFIGURATIONS

__all__ = ["Options", "parse"]

DEFAULT_COUNT, DEFAULT_SEED = 20, 1
#: Scenarios of one command: days.
MOST_COUNT = 1_000_000
#: Processes that a command may start.
MOST_JOBS = 64
EXIT_STATUS = (
    "Exit status: 0 all passed; 1 one has failed; 2 a bad argument. A scenario that fails is named "
    "with the command that runs it again and writes its waveform."
)


@dataclass(frozen=True)
class Options:
    """What to run: `count` scenarios from `seed` on, or the one of `replay`."""

    count: int
    seed: int
    only: tuple[str, ...]
    jobs: int
    json: str | None
    replay: int | None
    vcd: Path | None
    vcd_window: tuple[int, int] | None


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m sim.scenarios",
        description="Run random scenarios in simulated switches: tenants, collectives, ordinary "
        "traffic and failures, each decided by its seed alone, and compare every byte of every "
        "rank's memory, every code and every flag with what they must be (docs/scenarios.md).",
        epilog=EXIT_STATUS,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--count", metavar="N", help=f"scenarios to run (default: {DEFAULT_COUNT})")
    add("--seed", metavar="S", help=f"seed of the first; they go up (default: {DEFAULT_SEED})")
    add(
        "--only",
        metavar="NAME[,NAME...]",
        help=f"take seeds of these configurations alone, of {', '.join(CONFIGURATIONS)}",
    )
    add("--jobs", metavar="J", help="processes side by side (default: 1)")
    add("--replay", metavar="SEED", help="run this one scenario and say what happens in it")
    add(
        "--vcd",
        metavar="FILE",
        help="with --replay: waveforms, of its last 5,000 cycles or of --vcd-window",
    )
    add("--vcd-window", metavar="FROM:TO", help="with --vcd: first and last cycle of waveforms")
    add("--json", metavar="FILE|-", help="a report; - writes it to standard output")
    return parser


def _names(text: str | None) -> tuple[str, ...]:
    if text is None:
        return tuple(CONFIGURATIONS)
    names = tuple(text.split(","))
    for name in names:
        if name not in CONFIGURATIONS:
            raise UsageError(unknown_name("only", name, CONFIGURATIONS))
    return names


def parse(arguments: list[str]) -> Options:
    """The options that `arguments` ask for.

    Raises
    ------
    UsageError
        One of them breaks a rule; the message is one line that names it, the rule and the value.
    SystemExit
        ``--help`` was asked for.
    """
    given = _parser().parse_args(arguments)

    def number(name: str, default: int, low: int, high: int) -> int:
        text = getattr(given, name)
        return default if text is None else whole(name, text, low, high)

    if given.replay is not None:
        for name in ("count", "seed", "only", "jobs"):
            if getattr(given, name) is not None:
                raise UsageError(f"{name}: must not come with --replay, which runs one scenario")
    elif given.vcd is not None:
        raise UsageError("vcd: must come with --replay, which runs one scenario")
    window = vcd_window(given.vcd_window, given.vcd)
    vcd = output_files(given.vcd, given.json)
    return Options(
        count=number("count", DEFAULT_COUNT, 1, MOST_COUNT),
        seed=number("seed", DEFAULT_SEED, 0, MOST_SEED),
        only=_names(given.only),
        jobs=number("jobs", 1, 1, MOST_JOBS),
        json=given.json,
        replay=None if given.replay is None else whole("replay", given.replay, 0, MOST_SEED),
        vcd=vcd,
        vcd_window=window,
    )
