"""Random cases of a test: each has a seed of its own, is counted, and can be run again alone."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import cocotb

from . import coverage, scoreboard
from .bench import Bench

__all__ = ["Case", "scenario"]


@dataclass
class Case:
    """One random case.

    Parameters
    ----------
    index
        Its number in the run.
    seed
        The run's seed plus `index`: with it as the run's seed, this case is the first.
    draw
        All that the case draws comes from here.
    """

    index: int
    seed: int
    draw: random.Random

    def choose(self, options):
        """One option: in turn over the cases, so that each comes up, whatever the seed."""
        options = list(options)
        return options[self.seed % len(options)]


def scenario(
    bench: Callable[[object], Bench], *, cases: int = 1, moves_data: bool = True
) -> Callable[[Callable[[Bench, Case], Awaitable[None]]], object]:
    """A cocotb test of `cases` random cases, one behind the other without a reset.

    Parameters
    ----------
    bench
        Makes the bench of the test from its design.
    cases
        How many; the environment's TIDEGATE_CASES multiplies it or, as ``=N``, replaces it.
    moves_data
        The test compares data with golden, so it must fail where that is changed by one bit.
        Others are left out of such a run.
    """

    def wrap(function):
        async def run(dut):
            made = bench(dut)
            await made.reset()
            base = int(os.environ["COCOTB_RANDOM_SEED"])
            scoreboard.begin_test(function.__name__, base)
            started = time.perf_counter()
            count = 0
            try:
                for index in range(_count(cases)):
                    seed = base + index
                    case = Case(index, seed, random.Random(f"{function.__name__} {seed}"))
                    try:
                        await function(made, case)
                    except Exception as error:
                        raise _located(error, function.__name__, index, seed) from error
                    count += 1
            finally:
                seconds = time.perf_counter() - started
                _record(function.__name__, count, made.now, seconds, moves_data)

        run.__name__ = function.__name__
        run.__qualname__ = function.__qualname__
        run.__module__ = function.__module__
        run.__doc__ = function.__doc__
        left_out = bool(scoreboard.corrupted_place()) and not moves_data
        return cocotb.test(skip=left_out)(run)

    return wrap


def _count(cases: int) -> int:
    text = os.environ.get("TIDEGATE_CASES", "1")
    return int(text[1:]) if text.startswith("=") else cases * int(text)


def _located(error: Exception, test: str, index: int, seed: int) -> AssertionError:
    base = os.environ["COCOTB_RANDOM_SEED"]
    return AssertionError(
        f"{test}: case {index}, seed {seed}: {type(error).__name__}: {error}\n"
        f"  again: {os.environ.get('TIDEGATE_COMMAND', 'pytest cocotb_tests')} --seed {base}\n"
        f"  this case alone: the same with --seed {seed} --cases 1"
    )


def _record(test: str, cases: int, cycles: int, seconds: float, moves_data: bool):
    line = {"test": test, "cases": cases, "cycles": cycles, "seconds": round(seconds, 3)}
    line |= {"moves_data": moves_data, "golden": scoreboard.places()}
    line["bins"] = coverage.taken()
    with open(os.environ["TIDEGATE_RECORD"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
