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


def _causal_softmax(scores: np.ndarray, future: np.ndarray):
    """Softmax over the last axis of `scores` (tokens, tokens), in place; `future` is masked."""
    scores[future] = -np.inf
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)


def attend(values: np.ndarray, layer: Layer, sizes: Sizes, rotation: Rotation) -> np.ndarray:
    """Attention before its output projection: (tokens, hidden) to (tokens, hidden), float32."""
    tokens = len(values)
    query = rotation(_split_heads(values @ layer.attn_q.T, sizes.heads))
    key = rotation(_split_heads(values @ layer.attn_k.T, sizes.kv_heads))
    value = _split_heads(values @ layer.attn_v.T, sizes.kv_heads)
    query *= np.float32(sizes.head**-0.5)
    sharing = sizes.heads // sizes.kv_heads
    future = np.triu(np.ones((tokens, tokens), dtype=bool), k=1)
    result = np.empty((tokens, sizes.heads, sizes.head), np.float32)
    # Head by head: the weights of one stay in the processor's cache, which those of all do not.
    for head in range(sizes.heads):
        weights = query[head] @ key[head // sharing].T
        _causal_softmax(weights, future)
        result[:, head] = weights @ value[head // sharing]
    return result.reshape(tokens, -1)
