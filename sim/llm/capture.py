"""Recording the partial sums that ranks would hand to All-Reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sim.llm.model import Model
from sim.llm.parallel import Place

__all__ = ["NOISE", "capture", "noise"]

#: Most `noise` between captures of the same tokens on two machines. Matrix kernels add in
#: different orders: float32 against float64, and OpenBLAS kernels of three x86 generations
#: against each other, measured at most 2.7e-5. Rounding to fp16 moves a value by up to 4.9e-4.
NOISE = 1e-4


def capture(
    model: Model,
    tokens: Sequence[int],
    *,
    layers: Sequence[int],
    keep: Sequence[int],
    parts: int,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Partial sums of one forward pass: (parts, places, len(keep), hidden) float32.

    Places are attention output and FFN down projection of each of `layers`, in that order.

    Parameters
    ----------
    tokens
        What the model reads.
    layers
        Layer numbers from 0, in rising order.
    keep
        Positions in `tokens` that are kept.
    parts
        Parts that the contraction dimension is cut in.
    progress
        Called with the products done and their number.
    """
    number_of_layers = model.weights.sizes.layers
    for layer in layers:
        if not 0 <= layer < number_of_layers:
            raise ValueError(f"layers: must be 0..{number_of_layers - 1}, not {layer!r}")
    if sorted(set(layers)) != list(layers):
        raise ValueError(f"layers: must rise, not {list(layers)!r}")
    kept = []
    done = 0

    def record(partials: np.ndarray, place: Place) -> np.ndarray:
        nonlocal done
        if place[0] in layers:
            kept.append(partials[:, list(keep)])
        done += 1
        if progress is not None:
            progress(done, 2 * number_of_layers)
        return partials.sum(axis=0)

    model.hidden(tokens, ranks=parts, all_reduce=record)
    return np.stack(kept, axis=1)


def noise(captured: np.ndarray, reference: np.ndarray) -> float:
    """Largest difference of two captures, each relative to its value and its row.

    A difference is divided by the reference's magnitude plus the median magnitude of its place
    and token: a row with a massive activation is not excused by it.
    """
    magnitude = np.abs(reference)
    row = np.median(magnitude, axis=(0, 3), keepdims=True)
    return float(np.max(np.abs(captured - reference) / (magnitude + row)))
