"""The model: tokens in, logits out, with a hook in the place of every All-Reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tokenizers

from sim.llm.attention import Rotation, attend
from sim.llm.feed_forward import gated
from sim.llm.gguf_file import GgufFile, installed_model
from sim.llm.parallel import AllReduce, row_parallel
from sim.llm.tokenizer import build_tokenizer
from sim.llm.weights import Weights

__all__ = ["Model"]


def _rms_norm(values: np.ndarray, gain: np.ndarray, epsilon: float) -> np.ndarray:
    mean_square = np.mean(values * values, axis=-1, keepdims=True)
    return values / np.sqrt(mean_square + np.float32(epsilon)) * gain


class Model:
    """A LLaMA-architecture model in float32 numpy. One sequence at a time, no cache.

    Parameters
    ----------
    weights
        Dequantized weights and sizes.
    tokenizer
        The vocabulary that the weights belong to.
    """

    def __init__(self, weights: Weights, tokenizer: tokenizers.Tokenizer):
        self.weights = weights
        self.tokenizer = tokenizer

    @classmethod
    def load(
        cls, path: Path | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Model:
        """Read the GGUF file `path`; without one, the installed model.

        `progress` is called with the layers dequantized and their number. Raises `ModelMissing`
        where the model is not installed.
        """
        file = GgufFile(installed_model()[0] if path is None else path)
        return cls(Weights.read(file, progress), build_tokenizer(file))

    # -- text -----------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).ids

    def decode(self, tokens: Sequence[int]) -> str:
        return self.tokenizer.decode(list(tokens), skip_special_tokens=False)

    # -- forward pass ---------------------------------------------------------------------------

    def hidden(
        self, tokens: Sequence[int], *, ranks: int = 1, all_reduce: AllReduce | None = None
    ) -> np.ndarray:
        """Normalized output of the last layer, (tokens, hidden) float32.

        Parameters
        ----------
        tokens
            Token numbers, 1 to the model's context length of them.
        ranks
            Ranks that the contraction dimension of both row-parallel products is cut for.
        all_reduce
            Called as ``all_reduce(partials, place)`` with the partial sums (ranks, tokens,
            hidden) in float32 and (layer, "attention" | "ffn"); returns their sum (tokens,
            hidden). None multiplies whole matrices.
        """
        sizes = self.weights.sizes
        if not 1 <= len(tokens) <= sizes.context:
            raise ValueError(f"tokens: must be 1..{sizes.context} of them, not {len(tokens)}")
        epsilon = sizes.norm_epsilon
        rotation = Rotation(len(tokens), sizes)
        stream = self.weights.embedding[np.asarray(tokens)]
        for number, layer in enumerate(self.weights.layers):
            values = attend(_rms_norm(stream, layer.attn_norm, epsilon), layer, sizes, rotation)
            stream = stream + row_parallel(
                values, layer.attn_output, (number, "attention"), ranks, all_reduce
            )
            values = gated(_rms_norm(stream, layer.ffn_norm, epsilon), layer)
            stream = stream + row_parallel(
                values, layer.ffn_down, (number, "ffn"), ranks, all_reduce
            )
        return _rms_norm(stream, self.weights.output_norm, epsilon)

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        """Logits (..., vocabulary) of rows that `hidden` returned."""
        return hidden @ self.weights.embedding.T

    def next_token(self, tokens: Sequence[int], **options) -> int:
        """The most likely token after `tokens`; `options` as for `hidden`."""
        return int(np.argmax(self.logits(self.hidden(tokens, **options)[-1])))
