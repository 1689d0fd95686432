"""The model's tokenizer, built from the vocabulary and the merges in its GGUF file."""

from __future__ import annotations

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from sim.llm.gguf_file import GgufFile

__all__ = ["build_tokenizer"]

#: ``tokenizer.ggml.token_type`` of a control token such as ``<|im_start|>``.
CONTROL = 3


def build_tokenizer(file: GgufFile) -> tokenizers.Tokenizer:
    """Byte-level BPE that cuts numbers into digits, as ``tokenizer.ggml.pre`` = smollm asks."""
    pre_tokenizer = file.field("tokenizer.ggml.pre")
    if pre_tokenizer != "smollm":
        raise ValueError(f"tokenizer.ggml.pre: must be 'smollm', not {pre_tokenizer!r}")
    tokens = file.field("tokenizer.ggml.tokens")
    merges = [tuple(pair.split(" ")) for pair in file.field("tokenizer.ggml.merges")]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    types = file.field("tokenizer.ggml.token_type")
    control = [token for token, kind in zip(tokens, types, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens(control)
    return tokenizer
