"""Comparisons with golden, and the switch that makes golden wrong by one bit."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

__all__ = ["Mismatch", "begin_test", "compare", "corrupted_place", "golden", "places"]


class Mismatch(AssertionError):
    """The design gave something else than golden."""


#: Of the test under way: the place whose golden is to be wrong, 0 for none, and its random bits.
_wrong = 0
_draw = random.Random()
#: Places that have asked for golden, in the order of their first data.
_places: list[str] = []


def corrupted_place() -> int:
    """Which of a test's places gets golden that is wrong by one bit, from 1; 0 for none.

    ``--corrupt-golden`` is the first; `test_golden_corrupted.py` goes through all of them.
    """
    return int(os.environ.get("TIDEGATE_CORRUPT_GOLDEN") or 0)


def begin_test(name: str, seed: int):
    """The next data that the corrupted place gets is wrong by one bit, where that is asked for."""
    global _wrong, _draw
    _wrong = corrupted_place()
    _draw = random.Random(f"{name} {seed} {_wrong}")
    _places.clear()


def places() -> list[str]:
    """Where this test has compared data with golden so far."""
    return list(_places)


def golden(values: np.ndarray | Sequence[int], bits: int | None = None, *, what: str = ""):
    """What golden expects, all of it data that the design moves or computes.

    Everything that a test compares data with goes through here, so that the switch reaches it.

    Parameters
    ----------
    values
        An array of integers, or whole numbers of `bits` bits each.
    what
        Tells places apart that are one line of a bench.
    """
    if len(values) == 0:
        return values
    caller = sys._getframe(1)
    place = f"{Path(caller.f_code.co_filename).stem}:{caller.f_lineno}{what and f' {what}'}"
    if place in _places:
        return values
    _places.append(place)
    return _changed(values, bits) if len(_places) == _wrong else values


def _changed(values, bits: int | None):
    """A copy that differs by one bit."""
    if isinstance(values, np.ndarray):
        changed = values.copy()
        flat = changed.reshape(-1).view(np.uint8)
        flat[_draw.randrange(len(flat))] ^= np.uint8(1 << _draw.randrange(8))
        return changed
    changed = list(values)
    changed[_draw.randrange(len(values))] ^= 1 << _draw.randrange(bits)
    return bytes(changed) if isinstance(values, bytes) else changed


def compare(what: str, got: Sequence, expected: Sequence):
    """Raise `Mismatch` at the first element that differs, or where the lengths do."""
    for index, (have, want) in enumerate(zip(got, expected, strict=False)):
        if have != want:
            raise Mismatch(f"{what}[{index}]: is {_shown(have)}, must be {_shown(want)}")
    if len(got) != len(expected):
        raise Mismatch(f"{what}: {len(got)} of them, must be {len(expected)}")


def _shown(value) -> str:
    return f"{value:#x}" if isinstance(value, int | np.integer) else repr(value)
