"""The gated feed-forward network (SwiGLU), before its down projection."""

from __future__ import annotations

import numpy as np

from sim.llm.weights import Layer

__all__ = ["gated"]


def _silu(values: np.ndarray) -> np.ndarray:
    # exp(-x) runs to infinity where x is very negative, and x / infinity is the right zero.
    with np.errstate(over="ignore"):
        return values / (1 + np.exp(-values))


def gated(values: np.ndarray, layer: Layer) -> np.ndarray:
    """(tokens, hidden) to (tokens, ffn), float32."""
    return _silu(values @ layer.ffn_gate.T) * (values @ layer.ffn_up.T)
