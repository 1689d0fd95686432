"""What the commands that check the design have in common: arguments and exit status."""

from __future__ import annotations

import argparse

__all__ = ["BAD_ARGUMENT", "DONE", "FAILURE", "ArgumentError", "Parser"]

#: Exit codes, as of every command of the project.
DONE, FAILURE, BAD_ARGUMENT = 0, 1, 2


class ArgumentError(ValueError):
    """A bad argument; the message names it, the rule and the value."""


class Parser(argparse.ArgumentParser):
    """One line for a bad argument, without the usage text."""

    def error(self, message):
        raise ArgumentError(message)
