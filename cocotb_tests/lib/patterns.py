"""When a valid or a ready goes up: shapes of idle and of back-pressure."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

__all__ = ["SHAPES", "pairs", "pattern"]

#: Longest pause of the shape "pauses", in cycles: longer than any queue of the small
#: configurations takes to fill, so that what stands behind it stops too.
LONGEST_PAUSE = 40
#: Chance of the shape "random", of 1.
CHANCE = 0.5

#: Names of the shapes.
SHAPES = ("always", "pauses", "quarter", "random")


def pattern(shape: str, draw: random.Random) -> Iterator[bool]:
    """For each cycle whether to go ahead, without an end.

    ``always``; ``pauses``: not for n cycles, then for n cycles, n drawn anew each time;
    ``quarter``: in one cycle of four; ``random``: in every second, by chance.
    """
    if shape == "always":
        yield from itertools.repeat(True)
    elif shape == "quarter":
        yield from itertools.cycle((False, False, False, True))
    elif shape == "random":
        while True:
            yield draw.random() < CHANCE
    elif shape == "pauses":
        while True:
            yield from itertools.repeat(False, draw.randint(1, LONGEST_PAUSE))
            yield from itertools.repeat(True, draw.randint(1, LONGEST_PAUSE))
    else:
        raise ValueError(f"shape: must be one of {', '.join(SHAPES)}, not {shape!r}")


def pairs() -> list[tuple[str, str]]:
    """Every shape of idle with every shape of back-pressure."""
    return list(itertools.product(SHAPES, SHAPES))
