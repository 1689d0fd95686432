"""A component's inner signals, for invariants that its ports do not show, and for planted faults.

Induction needs to know more of a state than ports tell: that two counters agree, what a word of a
memory is. So a component is elaborated first, and its signals are found in the result by name, as
a waveform viewer would show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from amaranth import Const, Signal, Value
from amaranth.hdl import Elaboratable, Fragment, MemoryInstance
from amaranth.hdl._ast import Assign, Switch, _StatementList

__all__ = ["Inside", "InsideError", "MemoryInside"]


class InsideError(LookupError):
    """A component has no such signal, memory or submodule."""


class MemoryInside:
    """A memory of an elaborated component.

    Attributes
    ----------
    words : that it has
    read_address, read_data, write_enable, write_address, write_data : of its ports
    """

    def __init__(self, parent: Fragment, memory: MemoryInstance):
        self._parent = parent
        self._memory = memory
        self.words = memory._data.depth
        read, write = memory._read_ports[0], memory._write_ports[0]
        self.read_address, self.read_data = read._addr, read._data
        self.write_enable, self.write_address = write._en, write._addr
        self.write_data = write._data

    def at(self, address: Value) -> Value:
        """The word at `address` in this cycle, by a read port more."""
        number = len(self._memory._read_ports)
        data = Signal(len(self.write_data), name=f"word_{number}")
        port = Signal(len(self.write_address), name=f"word_{number}_address")
        self._memory.read_port(domain="comb", addr=port, data=data, en=Const(1), transparent_for=())
        # A memory has no statements of its own, so the component drives the address.
        self._parent.add_statements("comb", port.eq(address))
        return data


class Inside:
    """An elaborated component.

    Parameters
    ----------
    component
        What to elaborate; afterwards `fragment` takes its place as a submodule.

    Names are those of submodules and signals, joined by dots: ``credits_6.available``.
    """

    def __init__(self, component: Elaboratable):
        self.fragment = Fragment.get(component, platform=None)

    def signal(self, name: str) -> Signal:
        """The signal called `name`: of several the one that its module assigns, or the register.

        Amaranth names only the last of signals that one statement makes; the others are called
        ``$signal``.

        Raises
        ------
        InsideError
            There is none, or there are still several.
        """
        *path, last = name.split(".")
        fragment = self._submodule(path)
        for candidates in (_named(fragment), _assigned(fragment), _registers(fragment)):
            found = [signal for signal in candidates if signal.name == last]
            if len(found) == 1:
                return found[0]
        known = ", ".join(sorted({signal.name for signal in _named(fragment)}))
        raise InsideError(f"{name}: {len(found)} registers of that name among {known}")

    def memory(self, name: str) -> MemoryInside:
        """The memory called `name`, with one read and one write port.

        Raises
        ------
        InsideError
            There is none.
        """
        memory = self._submodule(name.split("."))
        if not isinstance(memory, MemoryInstance):
            raise InsideError(f"{name}: is no memory")
        return MemoryInside(self.fragment, memory)

    def plant(self, name: str, change: Callable[[Value], Value]):
        """Change every value that is assigned to the signal `name`."""
        *path, _last = name.split(".")
        submodule, target = self._submodule(path), self.signal(name)
        changed = 0

        def rewrite(statements):
            nonlocal changed
            result = _StatementList()
            for statement in statements:
                if isinstance(statement, Switch):
                    cases = [
                        (patterns, rewrite(inner), at) for patterns, inner, at in statement.cases
                    ]
                    statement = Switch(statement.test, cases, src_loc=statement.src_loc)
                elif isinstance(statement, Assign) and target in statement._lhs_signals():
                    statement = Assign(statement.lhs, change(statement.rhs))
                    changed += 1
                statement._MustUse__used = True
                result.append(statement)
            return result

        for domain, statements in submodule.statements.items():
            submodule.statements[domain] = rewrite(statements)
        if not changed:
            raise InsideError(f"{name}: is not assigned in its module")

    def _submodule(self, path: list[str]) -> Fragment:
        fragment = self.fragment
        for name in path:
            try:
                fragment = fragment.find_subfragment(name)
            except NameError:
                known = ", ".join(str(sub[1]) for sub in fragment.subfragments)
                raise InsideError(f"{'.'.join(path)}: no submodule {name!r} of {known}") from None
        return fragment


def _named(fragment: Fragment) -> list[Signal]:
    """Signals that a module's own statements speak of, each once."""
    return _once(
        signal
        for statements in fragment.statements.values()
        for signal in (*statements._lhs_signals(), *statements._rhs_signals())
    )


def _assigned(fragment: Fragment) -> list[Signal]:
    """Those that they assign."""
    return _once(
        signal
        for statements in fragment.statements.values()
        for signal in statements._lhs_signals()
    )


def _registers(fragment: Fragment) -> list[Signal]:
    """Those that they assign at a clock edge."""
    return _once(
        signal
        for domain, statements in fragment.statements.items()
        if domain != "comb"
        for signal in statements._lhs_signals()
    )


def _once(signals: Iterable[Signal]) -> list[Signal]:
    return list({id(signal): signal for signal in signals}.values())
