"""Comparisons with golden, and the switch that makes golden wrong by one bit."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import numpy as np

__all__ = ["Mismatch", "begin_test", "compare", "corrupts", "golden"]


class Mismatch(AssertionError):
    """The design gave something else than golden."""


_pending: random.Random | None = None


def corrupts() -> bool:
    """Whether golden is to be wrong by one bit (``--corrupt-golden``)."""
    return os.environ.get("TIDEGATE_CORRUPT_GOLDEN") == "1"


def begin_test(name: str, seed: int):
    """The next data that golden gives is wrong by one bit, where that is asked for."""
    global _pending
    _pending = random.Random(f"{name} {seed}") if corrupts() else None


def golden(values: np.ndarray | Sequence[int], bits: int | None = None):
    """What golden expects, all of it data that the design moves or computes.

    Everything that a test compares data with goes through here, so that the switch reaches it.

    Parameters
    ----------
    values
        An array of integers, or whole numbers of `bits` bits each.
    """
    global _pending
    if _pending is None or len(values) == 0:
        return values
    draw, _pending = _pending, None
    index = draw.randrange(len(values))
    if isinstance(values, np.ndarray):
        changed = values.copy()
        flat = changed.reshape(-1).view(np.uint8)
        flat[draw.randrange(len(flat))] ^= np.uint8(1 << draw.randrange(8))
        return changed
    changed = list(values)
    changed[index] ^= 1 << draw.randrange(bits)
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
