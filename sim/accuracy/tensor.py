"""Errors of one All-Reduce of known data, by method, block and number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sim import activations

from .methods import Method, Reduced, exact_sum

__all__ = ["DATA", "SEED", "Sweep", "tensor_rows"]

SEED = 20260
#: Rank counts at which only the methods of main interest are compared; the others at 8 alone.
RANKS = (2, 3, 4, 5, 6, 7, 8, 16)
BLOCKS = (32, 64, 128, 256, 512)
#: Ranks of the methods that are compared only once.
VARIANT_RANKS = 8


def _gaussian(random, ranks: int, elements: int) -> np.ndarray:
    return random.standard_normal((ranks, elements))


def _student_t(random, ranks: int, elements: int) -> np.ndarray:
    """Heavy tails: three degrees of freedom."""
    return random.standard_t(3, (ranks, elements))


def _outliers(random, ranks: int, elements: int) -> np.ndarray:
    """Gaussian, with one value of a hundred thirty times as large."""
    large = random.random((ranks, elements)) < 0.01
    return random.standard_normal((ranks, elements)) * np.where(large, 30, 1)


def _activations(random, ranks: int, elements: int) -> np.ndarray:
    """All the stored ones; among them a first token's massive activations, of up to 1e4."""
    return activations.partial_sums(ranks, STORED)


def _later_tokens(random, ranks: int, elements: int) -> np.ndarray:
    """Activations of all tokens but the first."""
    stored = activations.partial_sums(ranks, STORED).reshape(ranks, *STORED_SHAPE)
    return stored[:, :, 1:].reshape(ranks, -1)


#: Stored activations a rank: places, tokens, hidden dimension.
STORED_SHAPE = (6, 4, 576)
STORED = 6 * 4 * 576

#: Data by name.
DATA: dict[str, Callable] = {
    "gaussian": _gaussian,
    "student-t": _student_t,
    "outliers": _outliers,
    "activations": _activations,
    "activations, later tokens": _later_tokens,
}


@dataclass(frozen=True)
class Sweep:
    """What is compared; `elements` of made-up data a rank."""

    ranks: tuple[int, ...] = RANKS
    blocks: tuple[int, ...] = BLOCKS
    elements: int = 1 << 17

    def methods(self, ranks: int) -> Iterator[tuple[str, Method]]:
        """Names and methods for so many ranks."""
        yield "fp16", Method("fp16")
        yield "fp16_sequential", Method("fp16_sequential")
        for block in self.blocks:
            yield "inq8", Method("inq", 8, block)
            yield "ring8", Method("ring", 8, block)
            yield "mxint8", Method("inq", 8, block, "e8m0", "floor")
            if ranks != VARIANT_RANKS:
                continue
            yield "inq8_bf16", Method("inq", 8, block, "bf16")
            yield "inq8_e8m0", Method("inq", 8, block, "e8m0")
            yield "output8", Method("output", 8, block)
            yield "inq4", Method("inq", 4, block)
            yield "ring4", Method("ring", 4, block)


def errors(result: Reduced, operands: np.ndarray) -> dict[str, float | None]:
    """How far `result` is from the exact sum of `operands`.

    Keys: ``sqnr_db``; ``relative_error``, of the norms; ``largest_error``, of the largest value;
    ``cosine``; ``largest_error_steps``, in steps of the value's own code; ``rounding_steps``, the
    same against the sum of what the ranks' codes stand for, which the switch alone answers for.
    The last two are null where there are no codes, or where operands have none.
    """
    exact = exact_sum(operands)
    error = result.values - exact
    norm = np.linalg.norm(exact)
    relative = float(np.linalg.norm(error) / norm)
    return {
        "sqnr_db": float(-20 * np.log10(relative)) if relative else None,
        "relative_error": relative,
        "largest_error": float(np.abs(error).max() / np.abs(exact).max()),
        "cosine": float(result.values @ exact / (np.linalg.norm(result.values) * norm)),
        "largest_error_steps": _in_steps(error, result.steps),
        "rounding_steps": (
            None
            if result.operands_sum is None
            else _in_steps(result.values - result.operands_sum, result.steps)
        ),
    }


def _in_steps(error: np.ndarray, steps: np.ndarray | None) -> float | None:
    """The largest error in steps; a block of zeros has none."""
    if steps is None:
        return None
    there = steps > 0
    return float((np.abs(error[there]) / steps[there]).max(initial=0))


def tensor_rows(
    sweep: Sweep, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[dict]:
    """A row for each data, number of ranks, method and block; the same each time."""
    rows, done = [], 0
    total = len(DATA) * sum(1 for ranks in sweep.ranks for _ in sweep.methods(ranks))
    for data, make in DATA.items():
        for ranks in sweep.ranks:
            random = np.random.default_rng([SEED, ranks])
            operands = make(random, ranks, sweep.elements).astype(np.float16)
            for name, method in sweep.methods(ranks):
                row = {"data": data, "block": method.block, "ranks": ranks, "method": name}
                rows.append(row | errors(method(operands), operands))
                done += 1
                progress(done, total)
    return rows
