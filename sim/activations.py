"""Real input: partial sums that a language model's ranks hand to All-Reduce.

The committed file holds them in float32 for 16 ranks; docs/activations.md says where they come
from. They are added up to fewer ranks in float32 and rounded once, to the wanted format.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from pathlib import Path
from typing import Literal

import ml_dtypes
import numpy as np

__all__ = ["FILE", "FORMATS", "PARTS", "load", "partial_sums", "provenance", "round_once"]

#: The committed activations; their provenance is in a file of the same name, ending in .json.
FILE = Path(__file__).parent / "data" / "activations.npz"
#: Parts that the contraction dimension is cut in, and so the most ranks there is data for.
PARTS = 16
#: 16-bit formats by name.
FORMATS = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}
#: A seed starts at a multiple of this many elements. It divides a row of the model (576), so a
#: quantization block of 64 never holds values of two tokens, as in a real message.
ROTATION_STEP = 64


@functools.cache
def _stored() -> np.ndarray:
    """(PARTS, elements) float32, in the order of the file: place, token, hidden."""
    with np.load(FILE, allow_pickle=False) as file:
        stored = file["partials"]
    if stored.dtype != np.float32 or stored.shape[0] != PARTS:
        raise ValueError(f"partials: must be float32 ({PARTS}, ...), not {stored.shape}")
    stored = stored.reshape(PARTS, -1)
    stored.flags.writeable = False
    return stored


@functools.cache
def _grouped(ranks: int) -> np.ndarray:
    """(ranks, elements) float32: contiguous parts, as evenly as possible, added in order."""
    edges = [-(-rank * PARTS // ranks) for rank in range(ranks + 1)]
    groups = itertools.pairwise(edges)
    grouped = np.stack([functools.reduce(np.add, _stored()[low:high]) for low, high in groups])
    grouped.flags.writeable = False
    return grouped


def _start(seed: int, total: int) -> int:
    """First element for `seed`: 0 for seed 0, and far apart for neighbouring seeds.

    Steps of the golden ratio of the length, made coprime to it, so that ``total /
    ROTATION_STEP`` seeds in a row start at different elements.
    """
    steps = total // ROTATION_STEP
    stride = round(steps * (math.sqrt(5) - 1) / 2)
    while math.gcd(stride, steps) != 1:
        stride -= 1
    return seed * stride % steps * ROTATION_STEP


def _rotated(values: np.ndarray, elements: int, seed: int) -> np.ndarray:
    """`elements` columns of `values`, from the seed's start, around as often as needed."""
    total = values.shape[1]
    rolled = np.roll(values, -_start(seed, total), axis=1)
    return np.tile(rolled, -(-elements // total))[:, :elements].copy()


def _check(ranks: int, elements: int):
    if not 1 <= ranks <= PARTS:
        raise ValueError(f"ranks: must be 1..{PARTS}, not {ranks!r}")
    if elements < 0:
        raise ValueError(f"elements: must be 0 or more, not {elements!r}")


def partial_sums(ranks: int, elements: int, seed: int = 0) -> np.ndarray:
    """The partial sums before rounding: (ranks, elements) float32.

    Parameters and errors as for `load`.
    """
    _check(ranks, elements)
    return _rotated(_grouped(ranks), elements, seed)


def round_once(values: np.ndarray, format: Literal["fp16", "bf16"]) -> np.ndarray:
    """Float32 to the nearest value of `format`, ties to even; its bits as uint16."""
    if format not in FORMATS:
        raise ValueError(f"format: must be one of {', '.join(FORMATS)}, not {format!r}")
    with np.errstate(over="ignore"):
        return values.astype(FORMATS[format]).view(np.uint16)


def load(ranks: int, elements: int, format: Literal["fp16", "bf16"], seed: int = 0) -> np.ndarray:
    """The bits that each rank holds before an All-Reduce: (ranks, elements) uint16.

    Parameters
    ----------
    ranks
        1..16. A rank holds the sum of one or more of the 16 stored parts.
    elements
        0 or more a rank. The stored elements (13,824) are repeated where it is more.
    format
        ``"fp16"`` or ``"bf16"``; rounded to once, after parts are added.
    seed
        Rotates the first element; 0 starts at the first one stored.

    Raises
    ------
    ValueError
        A parameter breaks its rule; the message names it, the rule and the value.
    """
    _check(ranks, elements)
    return _rotated(round_once(_grouped(ranks), format), elements, seed)


def provenance() -> dict:
    """Where the stored activations come from: model, text, tokens, places, command."""
    return json.loads(FILE.with_suffix(".json").read_text())
