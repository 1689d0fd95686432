"""From scores to rows: perplexity, paired differences, and the orders that they bear out."""

from __future__ import annotations

import numpy as np

from .methods import Method
from .perplexity import REFERENCE, Scores

__all__ = ["CLAIM", "CLAIM_WINDOWS", "model_methods", "model_rows", "order_rows"]

#: An order is claimed beyond so many standard errors of the paired difference.
CLAIM = 2
#: ... which must come from so many texts at least: of fewer, the spread itself is a guess.
CLAIM_WINDOWS = 10
#: MXINT8: E8M0 scales by the specification's rule, and its block.
MXINT8 = Method("inq", 8, 32, "e8m0", "floor")


def model_methods(blocks: tuple[int, ...], *, variants: bool = True) -> list[Method]:
    """The reference, INQ and ring at every block, and what else is worth a row."""
    plain = [REFERENCE]
    if variants:
        plain += [Method("fp32"), Method("fp16_sequential")]
    quantized = [
        Method(kind, bits, block)
        for bits in (8, 4)
        for block in blocks
        for kind in ("inq", "ring")
    ]  # fmt: skip
    scales = [Method("inq", 8, 64, "bf16"), Method("inq", 8, 64, "e8m0"), MXINT8]
    return plain + quantized + (scales if variants else [])


def _name(method: Method) -> str:
    return "mxint" if method.e8m0_rule == "floor" else method.kind


def _mean_and_error(of_windows: np.ndarray) -> tuple[float, float | None]:
    """Mean, and its standard error from the spread of windows, which are independent texts.

    Tokens of one window are not: they share a context, and what one All-Reduce does to it. One
    window has no spread.
    """
    count = len(of_windows)
    error = float(of_windows.std(ddof=1) / np.sqrt(count)) if count > 1 else None
    return float(of_windows.mean()), error


def _paired(scores: Scores, other: Scores) -> tuple[float, float | None]:
    """Mean difference of the surprise, window by window, and its standard error, in nats."""
    return _mean_and_error((scores.surprise - other.surprise).mean(axis=1))


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def model_rows(scores: dict[Method, Scores]) -> list[dict]:
    """A row a method.

    ``delta`` is the perplexity less the reference's. ``stderr`` is its standard error for the
    reference's perplexity as it is: the standard error of the paired difference of the mean
    surprise, times the perplexity, since d exp(x) = exp(x) dx.
    """
    reference = scores[REFERENCE]
    base = float(np.exp(reference.surprise.mean()))
    rows = []
    for method, own in scores.items():
        perplexity = float(np.exp(own.surprise.mean()))
        difference, error = _paired(own, reference)
        kl, kl_error = _mean_and_error(own.divergence.mean(axis=1))
        rows.append(
            {
                "method": _name(method),
                "bits": 16 if method.bits is None else method.bits,
                "block": method.block,
                "scale_format": None if method.bits is None else method.scale_format,
                "perplexity": perplexity,
                "delta": perplexity - base,
                "stderr": _times(error, perplexity),
                "nats": difference,
                "nats_stderr": error,
                "kl": kl,
                "kl_stderr": kl_error,
            }
        )
    return rows


def _order(difference: np.ndarray) -> str | None:
    """Which is better, "inq" or "ring", by what INQ has more of in each window; null if unclear."""
    mean, error = _mean_and_error(difference)
    if len(difference) < CLAIM_WINDOWS or abs(mean) <= CLAIM * error:
        return None
    return "inq" if mean < 0 else "ring"


def order_rows(scores: dict[Method, Scores]) -> list[dict]:
    """INQ less ring for each width and block: perplexity and divergence with standard errors.

    ``order`` (by perplexity) and ``kl_order`` (by divergence) name the better one, "inq" or
    "ring", where the paired difference is beyond `CLAIM` standard errors; else they are null.
    """
    rows = []
    for method in scores:
        ring = Method("ring", method.bits, method.block)
        if method != Method("inq", method.bits, method.block) or ring not in scores:
            continue
        inq, other = scores[method], scores[ring]
        surprise = (inq.surprise - other.surprise).mean(axis=1)
        divergence = (inq.divergence - other.divergence).mean(axis=1)
        difference, error = _mean_and_error(surprise)
        perplexities = [float(np.exp(each.surprise.mean())) for each in (inq, other)]
        kl, kl_error = _mean_and_error(divergence)
        rows.append(
            {
                "bits": method.bits,
                "block": method.block,
                "difference": perplexities[0] - perplexities[1],
                "stderr": _times(error, float(np.sqrt(np.prod(perplexities)))),
                "nats": difference,
                "nats_stderr": error,
                "order": _order(surprise),
                "kl": kl,
                "kl_stderr": kl_error,
                "kl_order": _order(divergence),
            }
        )
    return rows
