"""One of several values, where at most one is meant in a cycle."""

from collections.abc import Sequence

from amaranth import Mux, Value

__all__ = ["one_of"]


def one_of(values: Sequence[tuple]):
    """The value beside the condition that holds; zeros where none does.

    A single value is given as it is, whether its condition holds or not.
    """
    if len(values) == 1:
        return Value.cast(values[0][1])
    total = 0
    for condition, value in values:
        total = total | Mux(condition, Value.cast(value), 0)
    return total
