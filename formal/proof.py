"""What is proved: a specification at a size, how, and faults that the proof must catch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from amaranth import Value

from .specification import Specification

__all__ = ["BOUNDED", "INDUCTION", "Fault", "Proof"]

#: For every number of cycles; for as many from reset as the proof is deep.
INDUCTION, BOUNDED = "induction", "bounded"


@dataclass(frozen=True)
class Fault:
    """A fault to plant in a component: a signal that gets other values than it should.

    Parameters
    ----------
    name
        What is wrong then.
    at
        The signal, as `Inside` names it.
    change
        What is assigned to it instead, from what should be.
    """

    name: str
    at: str
    change: Callable[[Value], Value]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """All properties of one specification, proved together.

    Parameters
    ----------
    name
        Unique; also its folder's name.
    component
        Class of the component, by name.
    size
        Its parameters, in words.
    specify
        Makes the specification, each time a new one.
    mode
        `INDUCTION` or `BOUNDED`.
    depth
        Cycles: of the induction, or from reset.
    trace_depth
        Cycles in which each property's situation must be reached.
    solver
        As SymbiYosys knows it.
    timeout
        Seconds, for the proof and for the traces each.
    quick
        Takes seconds: proved by the tests, too.
    faults
        Each must be caught within ``fault_depth`` cycles from reset.
    mutants_depth
        Cycles in which a trace for one of many mutants is looked for, where as many as
        ``fault_depth`` are too much for the solver.
    """

    name: str
    component: str
    size: str
    specify: Callable[[], Specification]
    mode: str = INDUCTION
    depth: int = 1
    trace_depth: int = 20
    solver: str = "yices"
    timeout: int = 600
    quick: bool = True
    faults: tuple[Fault, ...] = field(default=())
    fault_depth: int = 12
    mutants_depth: int | None = None

    @property
    def engine(self) -> str:
        return f"smtbmc {self.solver}"
