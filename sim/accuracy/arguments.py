"""Arguments of the command."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from hdl.config import unknown_name
from sim.cli.errors import UsageError
from sim.cli.parser import Parser, writable

__all__ = ["PARTS", "Options", "parse"]

#: What may be run alone.
PARTS = ("tensor", "model")


@dataclass(frozen=True)
class Options:
    """What to run; `json` is a file, or "-" for standard output."""

    short: bool = False
    parts: tuple[str, ...] = PARTS
    json: str | None = None


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m sim.accuracy",
        description="Errors of quantized All-Reduce on tensors, and perplexity of SmolLM2-135M "
        "with every All-Reduce done by one method or another.",
        epilog="Exit status: 0 done; 2 a bad argument, or the model is not installed. What has "
        "been computed is kept in build/cache/accuracy: a run that was broken off goes on.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="a small part of each table, in seconds; nothing to draw conclusions from",
    )
    parser.add_argument(
        "--only", metavar="tensor|model", help="one of the two parts (default: both)"
    )
    parser.add_argument(
        "--json",
        metavar="FILE|-",
        help="write all rows as JSON to FILE; - is standard output, and the tables then go to "
        "standard error",
    )
    return parser


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
    if given.only is not None and given.only not in PARTS:
        raise UsageError(unknown_name("only", given.only, PARTS))
    if given.json not in (None, "-"):
        writable("json", given.json)
    parts = PARTS if given.only is None else (given.only,)
    return Options(short=given.short, parts=parts, json=given.json)
