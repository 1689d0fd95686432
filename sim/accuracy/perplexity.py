"""Perplexity of a language model whose every All-Reduce is done by one method or another."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from sim.llm import Model

from .cache import Cache, meaning_of_sources
from .methods import Method

__all__ = ["REFERENCE", "RANKS", "Scores", "score_windows"]

#: What all others are compared with: the switch's own fp16 All-Reduce.
REFERENCE = Method("fp16")
#: Parts that the contraction dimension of both row-parallel products is cut in.
RANKS = 8
#: Positions whose whole distributions are compared at a time: they stay in the cache.
ROWS = 16
#: Sources that decide the scores.
SOURCES = (
    "accuracy/methods.py",
    "accuracy/perplexity.py",
    "golden/inq.py",
    "golden/quantize.py",
    "golden/scales.py",
    "golden/round.py",
    "llm/attention.py",
    "llm/feed_forward.py",
    "llm/model.py",
    "llm/parallel.py",
    "llm/tokenizer.py",
    "llm/weights.py",
)


@dataclass(frozen=True)
class Scores:
    """A method's scores of every window: float64 (windows, predictions).

    Attributes
    ----------
    surprise : negative logarithm of the probability of the token that follows, in nats
    divergence : Kullback-Leibler divergence of the reference's next-token distribution from the
        method's, in nats
    """

    surprise: np.ndarray
    divergence: np.ndarray


def _hook(method: Method):
    """The All-Reduce of `sim.llm`: each rank rounds to fp16; the message is all tokens' rows."""

    def all_reduce(partials: np.ndarray, place) -> np.ndarray:
        operands = partials.astype(np.float16).reshape(len(partials), -1)
        return method(operands).values.astype(np.float32).reshape(partials.shape[1:])

    return all_reduce


def _logits(model: Model, tokens: np.ndarray, method: Method) -> np.ndarray:
    """(tokens - 1, vocabulary): the last token predicts nothing that is known."""
    hidden = model.hidden(tokens, ranks=RANKS, all_reduce=_hook(method))
    return model.logits(hidden[:-1])


def _log_probabilities(logits: np.ndarray) -> np.ndarray:
    """Of each row's tokens: float32, made of sums in float64."""
    logits = logits - logits.max(axis=-1, keepdims=True)
    total = np.exp(logits).sum(axis=-1, keepdims=True, dtype=np.float64)
    return logits - np.log(total).astype(np.float32)


def score(logits: np.ndarray, reference: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
    """`surprise` and `divergence` of each row of `logits`."""
    surprise, divergence = np.empty(len(targets)), np.empty(len(targets))
    for low in range(0, len(targets), ROWS):
        rows = slice(low, low + ROWS)
        ours, theirs = _log_probabilities(logits[rows]), _log_probabilities(reference[rows])
        surprise[rows] = -np.take_along_axis(ours, targets[rows, None], axis=1)[:, 0]
        divergence[rows] = _divergence(theirs, ours)
    return {"surprise": surprise, "divergence": divergence}


def _divergence(theirs: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """Sum of p (log p - log q), p `theirs` and q `ours`, with q - p added, whose sum is 0.

    So each term is p (exp(d) - 1 - d) >= 0, d = log q - log p, and what log p and log q lack to
    add up to 1 does not count in first order.
    """
    difference = ours - theirs
    return (np.exp(theirs) * (np.expm1(difference) - difference)).sum(axis=1, dtype=np.float64)


def score_windows(
    model: Model,
    model_sha256: str,
    windows: np.ndarray,
    methods: list[Method],
    cache: Cache,
    progress: Callable[[Method], None] = lambda method: None,
) -> dict[Method, Scores]:
    """Scores of all `methods` on all `windows` (windows, tokens), window by window.

    Parameters
    ----------
    model_sha256
        Of the file that the model came from; a part of the cache's keys.
    cache
        What is in it is not computed again.
    progress
        Called after each window of each method.
    """
    found = {method: [] for method in methods}
    for tokens in windows:
        reference = None
        for method in methods:
            key = {
                "model": model_sha256,
                "tokens": hashlib.sha256(tokens.astype("<i8").tobytes()).hexdigest(),
                "ranks": RANKS,
                "method": asdict(method),
                "reference": asdict(REFERENCE),
                "sources": meaning_of_sources(*SOURCES),
                "numpy": np.__version__,
            }
            scores = cache.get(key)
            if scores is None:
                if reference is None:
                    reference = _logits(model, tokens, REFERENCE)
                logits = reference if method == REFERENCE else _logits(model, tokens, method)
                scores = score(logits, reference, tokens[1:])
                cache.put(key, scores)
            found[method].append(scores)
            progress(method)
    return {
        method: Scores(
            *(np.stack([s[name] for s in scores]) for name in ("surprise", "divergence"))
        )
        for method, scores in found.items()
    }
