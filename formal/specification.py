# amaranth: UnusedElaboratable=no
# A specification that is refused half-way leaves parts that nobody uses.
"""What a component must do: named properties around it, as one design that a solver can read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from amaranth import Cat, ClockDomain, Module, Signal, Value
from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Instance
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from hdl.building.verilog import flat_ports

from .inside import Inside

__all__ = ["Property", "Specification"]

#: Name of the module that solvers see, and what comes before names that are not properties'.
TOP = "top"
ASSUMPTION, LEMMA, TRACE = "assume_", "lemma_", "reach_"


@dataclass(frozen=True)
class Property:
    """Something that holds in every cycle.

    Parameters
    ----------
    name
        In words joined by underscores; solvers name what failed by it.
    meaning
        One sentence, for the list of proofs.
    """

    name: str
    meaning: str


class _Check(Elaboratable):
    """One statement in a module of its own, since only modules have names that reports show."""

    def __init__(self, statement, value):
        self._statement = statement
        self._value = value

    def elaborate(self, platform):
        m = Module()
        holds = Signal()
        m.d.comb += [holds.eq(self._value), self._statement(holds)]
        return m


class Specification:
    """A component, assumptions about what surrounds it, and what it then must do.

    A subclass says so in `specify`, by `assume` and `always`. All inputs of the component are
    free, but for what is assumed. There is no reset: the first cycle has the state of reset, and
    induction starts from any.

    Parameters
    ----------
    component
        What is specified.

    Attributes
    ----------
    component
    inside : the component's inner signals
    helper : the module that the component and the properties stand in; `specify` adds to it
    properties : what was said by `always`, in order; there once `to_rtlil` was called
    """

    def __init__(self, component: wiring.Component):
        self.component = component
        self.inside = Inside(component)
        self.properties: list[Property] = []
        self.helper = Module()

    def specify(self, m: Module):
        """Say what holds; `m` is `helper`."""
        raise NotImplementedError

    # -- what `specify` uses --------------------------------------------------------------------

    def assume(self, name: str, value: Value):
        """Only inputs matter for which `value` holds in every cycle."""
        self._check(ASSUMPTION + name, Assume, value)

    def always(
        self, name: str, holds: Value, meaning: str, *, when: Value | None = None, trace=None
    ):
        """`holds` in every cycle, or in those in which `when` does.

        So that this is not vacuous, a trace must exist that reaches `trace`, or else `when`; one of
        them is given.
        """
        situation = trace if trace is not None else when
        if situation is None:
            raise ValueError(f"{name}: a property needs `when` or `trace`")
        self.properties.append(Property(name, " ".join(meaning.split())))
        self._check(name, Assert, holds if when is None else ~_bool(when) | _bool(holds))
        self._check(TRACE + name, Cover, situation)

    def lemma(self, name: str, holds: Value):
        """`holds` in every cycle: proved along with the rest, which needs it for induction."""
        if self._with_lemmas:
            self._check(LEMMA + name, Assert, holds)

    def past(self, value, *, name: str, init: int = 0) -> Signal:
        """`value` one cycle ago; `init` in the first cycle."""
        before = Signal.like(Value.cast(value), name=f"past_{name}", init=init)
        self.helper.d.sync += before.eq(value)
        return before

    def any_constant(self, shape, name: str) -> Signal:
        """Some value, the same in every cycle: what is proved of it is proved of all."""
        chosen = Signal(shape, name=name)
        self.helper.submodules[f"choose_{name}"] = Instance(
            "$anyconst", p_WIDTH=len(Value.cast(chosen)), o_Y=chosen
        )
        return chosen

    def any_value(self, shape, name: str) -> Signal:
        """Some value, another one in each cycle."""
        free = Signal(shape, name=name)
        self.helper.submodules[f"choose_{name}"] = Instance(
            "$anyseq", p_WIDTH=len(Value.cast(free)), o_Y=free
        )
        return free

    def offers(self, port, name: str) -> Value:
        """The stream contract of `port` in this cycle: what was not taken is offered again."""
        waits = self.past(port.valid & ~port.ready, name=f"{name}_waits")
        payload = self.past(Value.cast(port.payload), name=f"{name}_payload")
        return ~waits | (port.valid & (Value.cast(port.payload) == payload))

    def offer_waits(self, port, name: str) -> Value:
        """The cycle follows one in which `port` was not taken: the contract says something."""
        return self.past(port.valid & ~port.ready, name=f"{name}_waited")

    # -- made of it -----------------------------------------------------------------------------

    def to_rtlil(self, *, lemmas: bool = True, breaking: Mapping[str, Value] | None = None) -> str:
        """The design as Yosys reads it: module `TOP`, its inputs those of the component.

        To be called once. Without `lemmas` only properties are checked. With `breaking` none is:
        for each of its names a trace is sought that breaks a property while the value holds.
        """
        self._with_lemmas = lemmas
        self._broken = None if breaking is None else []
        m = self.helper
        m.domains.sync = clock = ClockDomain(reset_less=True)
        m.submodules.component = self.inside.fragment
        self.specify(m)
        for name, value in (breaking or {}).items():
            m.submodules[name] = _Check(Cover, value & Cat(*self._broken).any())
        ports = {
            "__".join(map(str, path)): (value, PortDirection.Input)
            for path, member, value in flat_ports(self.component)
            if member.flow == wiring.In
        }
        ports["clk"] = (clock.clk, PortDirection.Input)
        text = rtlil.convert(m, name=TOP, ports=ports, emit_src=False)
        # Amaranth writes every instance as a module of somebody's; Yosys' own have no backslash.
        return re.sub(r"^(\s*cell )\\\$", r"\1$", text, flags=re.MULTILINE)

    def _check(self, name: str, statement, value):
        if self._broken is not None and statement is not Assume:
            if statement is Assert:
                self._broken.append(~_bool(value))
            return
        self.helper.submodules[name] = _Check(statement, value)


def _bool(value) -> Value:
    return Value.cast(value).bool()
