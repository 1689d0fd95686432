"""Causal self-attention with rotary positions and grouped keys and values."""

from __future__ import annotations

import numpy as np

from sim.llm.weights import Layer, Sizes

__all__ = ["Rotation", "attend"]


class Rotation:
    """Rotary position embedding of neighbouring pairs (2i, 2i + 1), positions from 0.

    GGUF files of this architecture hold the query and key rows permuted for this order.
    """

    def __init__(self, tokens: int, sizes: Sizes):
        frequency = sizes.rope_base ** (-np.arange(0, sizes.head, 2) / sizes.head)
        angle = np.arange(tokens)[:, None] * frequency[None, :]
        self._cos = np.cos(angle).astype(np.float32)
        self._sin = np.sin(angle).astype(np.float32)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Rotate `values` (heads, tokens, head)."""
        even, odd = values[..., 0::2], values[..., 1::2]
        result = np.empty_like(values)
        result[..., 0::2] = even * self._cos - odd * self._sin
        result[..., 1::2] = even * self._sin + odd * self._cos
        return result


def _split_heads(values: np.ndarray, heads: int) -> np.ndarray:
    """(tokens, heads * head) to (heads, tokens, head)."""
    return values.reshape(len(values), heads, -1).transpose(1, 0, 2)


def _causal_softmax(scores: np.ndarray) -> np.ndarray:
    """Softmax over the last axis of `scores` (..., tokens, tokens), later tokens masked."""
    tokens = scores.shape[-1]
    future = np.triu(np.ones((tokens, tokens), dtype=bool), k=1)
    scores = np.where(future, np.float32(-np.inf), scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def attend(values: np.ndarray, layer: Layer, sizes: Sizes, rotation: Rotation) -> np.ndarray:
    """Attention before its output projection: (tokens, hidden) to (tokens, hidden), float32."""
    query = rotation(_split_heads(values @ layer.attn_q.T, sizes.heads))
    key = rotation(_split_heads(values @ layer.attn_k.T, sizes.kv_heads))
    value = _split_heads(values @ layer.attn_v.T, sizes.kv_heads)
    sharing = sizes.heads // sizes.kv_heads
    key, value = (np.repeat(each, sharing, axis=0) for each in (key, value))
    scale = np.float32(sizes.head**-0.5)
    weights = _causal_softmax(query @ key.transpose(0, 2, 1) * scale)
    return (weights @ value).transpose(1, 0, 2).reshape(len(values), -1)
