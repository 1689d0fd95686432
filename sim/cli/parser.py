"""What the arguments of all commands have in common."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from hdl.config import unknown_name

from .errors import UsageError

__all__ = ["Parser", "all_writable", "writable"]

#: What begins so is a value and no option: a negative number, or a list that begins with one.
NEGATIVE = re.compile(r"^-[0-9.]")


class Parser(argparse.ArgumentParser):
    """Raises what it has to say, in the form of all other errors.

    Parameters
    ----------
    codes
        Names and meanings of what the hardware may say, a line each at the end of ``--help``.
    """

    def __init__(self, *arguments, codes: Mapping[str, str] | None = None, **options):
        super().__init__(*arguments, **options)
        self._codes = codes or {}
        # argparse knows single negative numbers, but takes ``-1,0`` for an option.
        self._negative_number_matcher = NEGATIVE

    def format_help(self) -> str:
        width = max(map(len, self._codes), default=0)
        lines = [f"  {name:{width}}  {meaning}" for name, meaning in self._codes.items()]
        title = ["", "status codes of the hardware:"] if lines else []
        return super().format_help() + "".join(f"{line}\n" for line in [*title, *lines])

    def error(self, message):
        kind, _, rest = message.partition(" ")
        if kind == "argument":
            message = rest.lstrip("-")
        elif message.startswith("unrecognized arguments: "):
            unknown = message.removeprefix("unrecognized arguments: ").split()[0]
            options = [name for name in self._option_string_actions if name.startswith("--")]
            message = unknown_name("option", unknown.partition("=")[0], options)
        raise UsageError(message)


def writable(name: str, text: str) -> Path:
    """`text` as a file that can be written, tried out; its folder is made.

    UsageError where it cannot be written; then no folder was made.
    """
    return all_writable([(name, text)])[0]


def all_writable(files: Iterable[tuple[str, str]]) -> list[Path]:
    """Each (name, text) as `writable` has it; where one is refused, no folder was made for any."""
    made: list[Path] = []
    try:
        return [_try_out(name, text, made) for name, text in files]
    except UsageError:
        for folder in reversed(made):
            folder.rmdir()
        raise


def _try_out(name: str, text: str, made: list[Path]) -> Path:
    """One file; the folders that had to be made for it are added to `made`, outermost first."""
    path = Path(text)
    try:
        missing = [folder for folder in path.parents if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir()
            made.append(folder)
        new = not path.exists()
        path.open("a").close()
        if new:
            path.unlink()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        rule = f"must be a file that can be written ({reason})"
        raise UsageError(f"{name}: {rule}, not {text!r}") from None
    return path
