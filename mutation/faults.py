"""Faults in elaborated components: where they can stand, and how they are planted.

A fault changes one statement or one operator of the design, as a slip of the pen would: a condition
inverted, an assignment forgotten, a bound off by one. Many faults stand in one design, each behind
its own value of a select input, so that it is built once; or a single one stands in it for good.
"""

from __future__ import annotations

import linecache
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path

from amaranth import Const, Signal, Value
from amaranth.hdl import Fragment
from amaranth.hdl._ast import (
    Assign,
    Concat,
    Mux,
    Operator,
    Part,
    Slice,
    Switch,
    SwitchValue,
    _StatementList,
)

__all__ = ["COMPARISON", "KINDS", "SELECT", "Fault", "find", "nearest", "plant", "select_bits"]

ROOT = Path(__file__).resolve().parents[1]
#: The name of the input that selects a fault.
SELECT = "planted_fault"

CONDITION = "condition inverted"
DROPPED = "assignment dropped"
COMPARISON = "comparison inverted"
BOUND = "bound off by one"
LOGIC = "and and or exchanged"
SIGN = "plus and minus exchanged"
INVERSION = "inversion dropped"
CHOICE = "choices exchanged"
INDEX = "neighbour taken"
CONSTANT = "constant off by one"
#: Every kind of fault.
KINDS = (
    CONDITION, DROPPED, COMPARISON, BOUND, LOGIC, SIGN, INVERSION, CHOICE, INDEX, CONSTANT,
)  # fmt: skip

#: What stands in the place of an operator of two operands, and what kind of fault that is.
EXCHANGED = {
    "==": ("!=", COMPARISON),
    "!=": ("==", COMPARISON),
    "<": ("<=", BOUND),
    "<=": ("<", BOUND),
    ">": (">=", BOUND),
    ">=": (">", BOUND),
    "&": ("|", LOGIC),
    "|": ("&", LOGIC),
    "+": ("-", SIGN),
    "-": ("+", SIGN),
}


@dataclass(frozen=True, order=True)
class Fault:
    """One fault at one place.

    Parameters
    ----------
    file
        Below the repository's root.
    kind
        One of `KINDS`.
    text
        The line of source, which names the place also where lines have moved.
    ordinal
        Which of several such places on lines of this text: a loop makes one for each round.
    line
        Where that is today.
    """

    file: str
    kind: str
    text: str
    ordinal: int
    line: int

    @property
    def key(self) -> str:
        """What names the fault, whatever happens to other lines."""
        return f"{self.file}: {self.kind}: {self.text} [{self.ordinal}]"


def find(fragment: Fragment, files: Collection[str]) -> list[Fault]:
    """Every fault that can be planted in `fragment` and stands in one of `files`."""
    found: list[Fault] = []

    def note(fault: Fault) -> None:
        found.append(fault)

    _Rewriter(files, note).fragment(fragment)
    return found


def nearest(fragment: Fragment, fault: Fault) -> Fault | None:
    """`fault`, or where `fragment` has fewer such places, another of them; None without any.

    A loop over ranks makes fewer places where there are fewer ranks: the slip is the same one.
    """
    alike = [
        found
        for found in find(fragment, [fault.file])
        if (found.kind, found.text) == (fault.kind, fault.text)
    ]
    return alike[fault.ordinal % len(alike)] if alike else None


def select_bits(count: int) -> int:
    """Bits of a select for `count` faults; 0 is none."""
    return count.bit_length()


def plant(fragment: Fragment, faults: Sequence[Fault | None], select: Value | None = None) -> int:
    """Put `faults` into `fragment`; how many were found there.

    Parameters
    ----------
    faults
        None is nowhere, and has its number all the same; several may be the same one.
    select
        Fault number n (from 1) is there while this is n. None: all are there always.
    """
    numbers = defaultdict(list)
    for number, fault in enumerate(faults, start=1):
        if fault is not None:
            numbers[fault.key].append(number)
    met = set()

    def active(fault: Fault) -> Value | None:
        chosen = numbers.get(fault.key)
        if chosen is None:
            return None
        met.update(chosen)
        if select is None:
            return Const(1)
        return reduce(or_, (select == number for number in chosen))

    _Rewriter({fault.file for fault in faults if fault is not None}, active).fragment(fragment)
    return len(met)


class _Rewriter:
    """Goes through a design in a fixed order, and writes it anew with what `active` asks for.

    `active` is asked for each fault that can be, and gives the condition under which it is there,
    or None for never. A value that several statements share changes in all of them.
    """

    def __init__(self, files: Collection[str], active: Callable[[Fault], Value | None]):
        self._files = {str(ROOT / file): file for file in files}
        self._active = active
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._done: dict[object, tuple[object, Value]] = {}
        self._place: tuple[str, int] | None = None

    # -- places ---------------------------------------------------------------------------------

    def _ask(self, kind: str, node) -> Value | None:
        """The condition for a fault of `kind` at `node`."""
        place = self._place
        source = getattr(node, "src_loc", None)
        if source is not None and source[0] in self._files:
            place = source[0], source[1]
        if place is None or place[0] not in self._files:
            return None
        file, line = self._files[place[0]], place[1]
        text = linecache.getline(place[0], line).strip()
        ordinal = self._counts[file, kind, text]
        self._counts[file, kind, text] += 1
        return self._active(Fault(file, kind, text, ordinal, line))

    def _exchange(self, kind: str, node: Value, made: Value, other: Callable[[], Value]) -> Value:
        """`made`, or `other` where a fault is active; of the shape that the place has."""
        active = self._ask(kind, node)
        if active is None:
            return made
        shape = made.shape()
        variant = other()
        if shape.width > len(variant):
            variant = variant.as_signed() if shape.signed else variant
            variant = Operator("|", [variant, Const(0, shape)])
        variant = Slice(variant, 0, shape.width)
        variant = variant.as_signed() if shape.signed else variant
        return variant if isinstance(active, Const) else Mux(active, variant, made)

    # -- statements -----------------------------------------------------------------------------

    def fragment(self, fragment: Fragment):
        """Rewrite `fragment` and all below it."""
        for domain, statements in fragment.statements.items():
            fragment.statements[domain] = self._statements(statements)
        for inner, _name, _place in fragment.subfragments:
            self.fragment(inner)

    def _statements(self, statements) -> _StatementList:
        return _StatementList(
            made for statement in statements for made in self._statement(statement)
        )

    def _statement(self, statement) -> list:
        before, self._place = self._place, statement.src_loc and tuple(statement.src_loc[:2])
        try:
            if isinstance(statement, Switch):
                return [self._switch(statement)]
            if isinstance(statement, Assign):
                return self._assign(statement)
            return [statement]
        finally:
            self._place = before

    def _switch(self, statement: Switch) -> Switch:
        test = self._conditions(statement) if _is_if(statement) else self._value(statement.test)
        cases = [
            (patterns, self._statements(inner), place) for patterns, inner, place in statement.cases
        ]
        return Switch(test, cases, src_loc=statement.src_loc)

    def _conditions(self, statement: Switch) -> Value:
        """Of an If and its Elifs."""
        parts = []
        for part in statement.test.parts:
            # A condition that is not one bit is made one in each clock domain again.
            reduces = isinstance(part, Operator) and part.operator == "b"
            shared = part.operands[0] if reduces else part
            made = self._value(part)
            parts.append(
                self._once(
                    ("condition", id(shared)),
                    shared,
                    lambda part=part, made=made: self._exchange(
                        CONDITION, part, made, lambda: ~made
                    ),
                )
            )
        return Concat(parts)

    def _assign(self, statement: Assign) -> list:
        made = Assign(self._target(statement.lhs), self._value(statement.rhs))
        made.src_loc = statement.src_loc
        active = self._ask(DROPPED, statement)
        if active is None:
            return [made]
        if isinstance(active, Const):
            return []
        return [Switch(active, [(0, [made], statement.src_loc)], src_loc=statement.src_loc)]

    def _target(self, target: Value) -> Value:
        """What is assigned to: only its indices can be wrong."""
        if isinstance(target, Part):
            return Part(
                self._target(target.value), self._index(target.offset), target.width, target.stride
            )
        if isinstance(target, Slice):
            return Slice(self._target(target.value), target.start, target.stop)
        if isinstance(target, Concat):
            return Concat([self._target(part) for part in target.parts])
        if isinstance(target, SwitchValue):
            cases = [(patterns, self._target(value)) for patterns, value in target.cases]
            return SwitchValue(self._index(target.test), cases, src_loc=target.src_loc)
        return target

    # -- values ---------------------------------------------------------------------------------

    def _once(self, key, alive, make: Callable[[], Value]) -> Value:
        """What `make` gives, made once for `key`; `alive` keeps the key's object."""
        if key not in self._done:
            self._done[key] = alive, make()
        return self._done[key][1]

    def _value(self, value: Value) -> Value:
        if isinstance(value, Signal):
            return value
        return self._once(id(value), value, lambda: self._made(value))

    def _made(self, value: Value) -> Value:
        if isinstance(value, Const):
            return self._constant(value)
        if isinstance(value, Operator):
            return self._operator(value)
        if isinstance(value, SwitchValue):
            return self._choice(value)
        if isinstance(value, Part):
            made = Part(
                self._value(value.value), self._index(value.offset), value.width, value.stride
            )
        elif isinstance(value, Slice):
            made = Slice(self._value(value.value), value.start, value.stop)
        elif isinstance(value, Concat):
            made = Concat([self._value(part) for part in value.parts])
        else:
            return value
        made.src_loc = value.src_loc
        return made

    def _constant(self, value: Const) -> Value:
        shape = value.shape()
        if not shape.width:
            return value
        return self._exchange(CONSTANT, None, value, lambda: Const(value.value + 1, shape.width))

    def _operator(self, value: Operator) -> Value:
        made = Operator(value.operator, [self._value(operand) for operand in value.operands])
        made.src_loc = value.src_loc
        if value.operator in EXCHANGED and len(value.operands) == 2:
            other, kind = EXCHANGED[value.operator]
            return self._exchange(kind, value, made, lambda: Operator(other, made.operands))
        if value.operator == "~":
            return self._exchange(INVERSION, value, made, lambda: made.operands[0])
        return made

    def _choice(self, value: SwitchValue) -> Value:
        cases = [(patterns, self._value(case)) for patterns, case in value.cases]
        if len(cases) == 2 and cases[1][0] is None:
            test = self._value(value.test)
            made = SwitchValue(test, cases, src_loc=value.src_loc)
            first, second = cases
            swapped = [(first[0], second[1]), (None, first[1])]
            return self._exchange(CHOICE, value, made, lambda: SwitchValue(test, swapped))
        return SwitchValue(self._index(value.test), cases, src_loc=value.src_loc)

    def _index(self, index: Value) -> Value:
        """An index of one out of several."""
        made = self._value(index)
        if isinstance(index, Const) or not len(index):
            return made
        return self._exchange(INDEX, index, made, lambda: made ^ 1)


def _is_if(statement: Switch) -> bool:
    """Whether `statement` was written as If, Elif and Else: one bit for each condition."""
    patterns = [case[0] for case in statement.cases if case[0] is not None]
    return isinstance(statement.test, Concat) and all(
        len(pattern) == 1 and pattern[0].count("1") == 1 and "0" not in pattern[0]
        for pattern in patterns
    )
