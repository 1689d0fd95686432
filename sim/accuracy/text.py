"""The committed text that perplexity is measured on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sim.llm import Model

__all__ = ["FILE", "provenance", "windows"]

#: The text; its provenance is in a file of the same name, ending in .json.
FILE = Path(__file__).resolve().parents[1] / "data" / "text.txt"


def provenance() -> dict:
    """Where the text comes from, and its licence."""
    return json.loads(FILE.with_suffix(".json").read_text("utf-8"))


def windows(model: Model, tokens: int, count: int) -> np.ndarray:
    """The first ``count * tokens`` tokens of the text, (count, tokens).

    Raises
    ------
    ValueError
        The text is shorter.
    """
    every = model.encode(FILE.read_text("utf-8"))
    if len(every) < count * tokens:
        raise ValueError(f"tokens: must be at most the text's {len(every)}, not {count * tokens}")
    return np.array(every[: count * tokens]).reshape(count, tokens)
