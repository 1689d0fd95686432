"""Functional coverage: named bins, declared in one place, counted in the benches."""

from __future__ import annotations

from collections import Counter

from .bins import BINS

__all__ = ["hit", "hit_stalls", "range_bin", "taken"]

_hits: Counter[str] = Counter()


def hit(group: str, bin: str | int | bool):
    """Count `bin` of `group`. A bin that is not declared is an error."""
    name = str(bin)
    if name not in BINS[group].bins:
        raise KeyError(f"{group}: no bin {name!r}; it has {', '.join(BINS[group].bins)}")
    _hits[f"{group}/{name}"] += 1


def hit_stalls(group: str, *shapes: tuple[str, int]):
    """Count the bin of these shapes, where each but ``always`` held something up.

    Each shape comes with the cycles in which something waited for it: what is only set, and has
    stopped nothing, is not counted.
    """
    if all(shape == "always" or held for shape, held in shapes):
        hit(group, "x".join(shape for shape, _ in shapes))


def range_bin(value: int, *edges: int) -> str:
    """The name of the range that `value` lies in: ``3`` for a single number, else ``5-8``, ``9+``.

    `edges` are the ranges' last values, upwards.
    """
    low = 0
    for edge in edges:
        if value <= edge:
            return str(edge) if low == edge else f"{low}-{edge}"
        low = edge + 1
    return f"{low}+"


def taken() -> dict[str, int]:
    """Everything counted since the last call."""
    hits = dict(_hits)
    _hits.clear()
    return hits
