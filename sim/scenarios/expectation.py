"""What a scenario's operations may end with, worked out from the scenario alone."""

from __future__ import annotations

from hdl.config import SwitchConfig

from .endings import Expectation, together
from .scenario import Part, Round

__all__ = ["disturbed", "expectation", "refusals"]


def expectation(config: SwitchConfig, each: Round, part: Part) -> Expectation:
    """How the operations of a part of a round may end."""
    causes = (*each.faults, part.trouble)
    allowed = zip(
        *(fault.allows(config, part) for fault in each.faults),
        part.trouble.allows(config, part),
        strict=True,
    )
    orders = tuple(together(each) for each in allowed)
    return Expectation(
        orders,
        part.in_band,
        frozenset().union(*(cause.astray(part) for cause in causes)),
        frozenset().union(*(cause.absent(part) for cause in causes)),
        frozenset().union(*(fault.again(part) for fault in each.faults)),
    )


def disturbed(each: Round, part: Part) -> bool:
    """Whether ranks of a part may come out of step."""
    return part.trouble.disturbs() or any(fault.disturbs(part) for fault in each.faults)


def refusals(each: Round, rank: int) -> tuple[int, int] | None:
    """The fewest and the most of a rank's writes to the accelerator that a round has refused; None
    where ranks may come out of step.
    """
    if any(disturbed(each, part) for part in each.parts):
        return None
    bounds = [part.trouble.refusals(part, rank) for part in each.parts]
    return sum(low for low, _ in bounds), sum(high for _, high in bounds)
