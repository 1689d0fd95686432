"""The row-parallel matrix product: each rank holds a part of the contraction dimension.

Tensor parallelism ends attention and the FFN with such a product, and an All-Reduce adds the
partial sums that the ranks make.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Literal

import numpy as np

__all__ = ["AllReduce", "Place", "bounds", "partial_sums", "row_parallel"]

#: Where a partial sum arises: layer number from 0, and the block whose last product it is.
Place = tuple[int, Literal["attention", "ffn"]]

#: Turns the partial sums (ranks, tokens, hidden), float32, into their sum (tokens, hidden).
AllReduce = Callable[[np.ndarray, Place], np.ndarray]


def bounds(length: int, parts: int) -> list[tuple[int, int]]:
    """Half-open ranges that cut `length` into `parts` contiguous parts, as evenly as possible.

    The first ``length % parts`` parts are one longer. Raises ValueError where a part were empty.
    """
    if not 1 <= parts <= length:
        raise ValueError(f"parts: must be 1..{length}, not {parts!r}")
    size, longer = divmod(length, parts)
    edges = [part * size + min(part, longer) for part in range(parts + 1)]
    return list(itertools.pairwise(edges))


def partial_sums(values: np.ndarray, matrix: np.ndarray, ranks: int) -> np.ndarray:
    """What each rank computes of ``values @ matrix.T`` from its part of the inputs.

    `values` is (tokens, inputs) and `matrix` (outputs, inputs), float32; the result is
    (ranks, tokens, outputs), float32.
    """
    parts = bounds(values.shape[1], ranks)
    return np.stack([values[:, low:high] @ matrix[:, low:high].T for low, high in parts])


def row_parallel(
    values: np.ndarray,
    matrix: np.ndarray,
    place: Place,
    ranks: int,
    all_reduce: AllReduce | None,
) -> np.ndarray:
    """``values @ matrix.T`` (tokens, outputs), by way of `all_reduce` if there is one."""
    if all_reduce is None:
        return values @ matrix.T
    return all_reduce(partial_sums(values, matrix, ranks), place)
