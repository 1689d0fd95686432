"""Files that a command will write: tried out before anything else happens, and all different."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sim.cli.errors import UsageError
from sim.cli.parser import all_writable
from sim.waves.groups import VIEW_SUFFIX

__all__ = ["PICTURE", "TRACE_FILES", "beside", "try_out"]

#: What is added to the name of a picture, and to that of a trace.
PICTURE = (".png", ".svg")
TRACE_FILES = (".json", ".vcd", VIEW_SUFFIX, *PICTURE)


def beside(option: str, base: str | None, suffixes: Iterable[str]) -> list[tuple[str, str]]:
    """(option, file) for each suffix; none without a base.

    Raises
    ------
    UsageError
        The base has no name that a suffix could be added to.
    """
    if base is None:
        return []
    path = Path(base)
    if not path.name:
        names = ", ".join(f"NAME{suffix}" for suffix in suffixes)
        raise UsageError(f"{option}: must be a name, of which {names} are made, not {base!r}")
    return [(option, str(path.with_name(path.name + suffix))) for suffix in suffixes]


def try_out(*, json: str | None = None, others: Iterable[tuple[str, str | None]] = ()):
    """Refuse what cannot be written, or would be written over; no folder is made then.

    Parameters
    ----------
    json
        What ``--json`` says: a file, ``-`` for standard output, or None.
    others
        (option, file), the file None where the option is not given.
    """
    files = [("json", json), *others]
    files = [(option, text) for option, text in files if text is not None]
    files = [(option, text) for option, text in files if (option, text) != ("json", "-")]
    taken: dict[Path, str] = {}
    for option, text in files:
        first = taken.setdefault(Path(text).resolve(), option)
        if first != option:
            raise UsageError(f"{option}: must not be a file that --{first} writes, not {text!r}")
    all_writable(files)
