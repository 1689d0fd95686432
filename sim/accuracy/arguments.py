"""Arguments of the command."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from hdl.config import unknown_name
from sim.cli.errors import UsageError

__all__ = ["PARTS", "Options", "parse"]

#: What may be run alone.
PARTS = ("tensor", "model")


@dataclass(frozen=True)
class Options:
    """What to run; `json` is a file, or "-" for standard output."""

    short: bool = False
    parts: tuple[str, ...] = PARTS
    json: str | None = None


class _Parser(argparse.ArgumentParser):
    """Raises what it has to say, in the form of all other errors."""

    def error(self, message):
        kind, _, rest = message.partition(" ")
        if kind == "argument":
            message = rest.lstrip("-")
        elif message.startswith("unrecognized arguments: "):
            unknown = message.removeprefix("unrecognized arguments: ").split()[0]
            options = [name for name in self._option_string_actions if name.startswith("--")]
            message = unknown_name("option", unknown.partition("=")[0], options)
        raise UsageError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
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


def _check_writable(text: str):
    """That a file can be written at `text`, tried out; its folder is made."""
    path = Path(text)
    new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
        if new:
            path.unlink()
    except OSError as error:
        rule = f"must be a file that can be written ({error.strerror})"
        raise UsageError(f"json: {rule}, not {text!r}") from None


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
        _check_writable(given.json)
    parts = PARTS if given.only is None else (given.only,)
    return Options(short=given.short, parts=parts, json=given.json)
