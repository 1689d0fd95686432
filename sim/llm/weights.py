"""Sizes and dequantized weights of a LLaMA-architecture model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.llm.gguf_file import GgufFile

__all__ = ["Layer", "Sizes", "Weights"]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes and constants of the architecture, as the GGUF file states them."""

    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head: int
    context: int
    rope_base: float
    norm_epsilon: float

    @classmethod
    def read(cls, file: GgufFile) -> Sizes:
        if file.architecture != "llama":
            raise ValueError(f"general.architecture: must be 'llama', not {file.architecture!r}")
        return cls(
            layers=file.parameter("block_count"),
            hidden=file.parameter("embedding_length"),
            ffn=file.parameter("feed_forward_length"),
            heads=file.parameter("attention.head_count"),
            kv_heads=file.parameter("attention.head_count_kv"),
            head=file.parameter("rope.dimension_count"),
            context=file.parameter("context_length"),
            rope_base=file.parameter("rope.freq_base"),
            norm_epsilon=file.parameter("attention.layer_norm_rms_epsilon"),
        )


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Weights of one layer, float32; matrices are (outputs, inputs)."""

    attn_norm: np.ndarray
    attn_q: np.ndarray
    attn_k: np.ndarray
    attn_v: np.ndarray
    attn_output: np.ndarray
    ffn_norm: np.ndarray
    ffn_gate: np.ndarray
    ffn_up: np.ndarray
    ffn_down: np.ndarray

    @classmethod
    def read(cls, file: GgufFile, number: int) -> Layer:
        names = cls.__dataclass_fields__
        return cls(**{name: file.tensor(f"blk.{number}.{name}.weight") for name in names})


@dataclass(frozen=True, kw_only=True)
class Weights:
    """All weights, float32. The output matrix is the embedding (tied)."""

    sizes: Sizes
    embedding: np.ndarray
    layers: tuple[Layer, ...]
    output_norm: np.ndarray

    @classmethod
    def read(cls, file: GgufFile, progress: Callable[[int, int], None] | None = None) -> Weights:
        """Dequantize `file`; `progress` is called with the layers done and their number."""
        sizes = Sizes.read(file)
        layers = []
        for number in range(sizes.layers):
            layers.append(Layer.read(file, number))
            if progress is not None:
                progress(number + 1, sizes.layers)
        return cls(
            sizes=sizes,
            embedding=file.tensor("token_embd.weight"),
            layers=tuple(layers),
            output_norm=file.tensor("output_norm.weight"),
        )
