"""What the arguments of all commands have in common."""

from __future__ import annotations

import argparse
from pathlib import Path

from hdl.config import unknown_name

from .errors import UsageError

__all__ = ["Parser", "writable"]


class Parser(argparse.ArgumentParser):
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


def writable(name: str, text: str) -> Path:
    """`text` as a file that can be written, tried out; its folder is made."""
    path = Path(text)
    new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
        if new:
            path.unlink()
    except OSError as error:
        rule = f"must be a file that can be written ({error.strerror})"
        raise UsageError(f"{name}: {rule}, not {text!r}") from None
    return path
