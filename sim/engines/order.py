"""Order the evaluation of a CXXRTL model so that a value is computed next to where it is used.

Yosys writes an evaluation as single assignments in some order that honours their dependencies;
many are plain copies between modules' ports. The processor then spends its time on carrying values
to and from memory. Here copies are replaced by what they copy, values that nobody uses are left
out, and each remaining one stands just before the first register or output that needs it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

__all__ = ["EDGE", "READ", "names", "order"]

EDGE = "\tif (posedge_p_clk) {"
#: A memory read without a clock: the index, a check of it, and an assignment for either outcome.
READ = "\tauto "
_NAME = re.compile(r"\b[pi]_\w+")
_ASSIGNMENT = re.compile(r"\t[pi]_\w[^=]* = .*;\Z")
_READ_TARGET = re.compile(r"^\t\t([pi]_\w+)[^=\n]* = ", re.M)
_COPY = re.compile(r"\t([pi]_\w+) = ((?:[pi]_\w+(?:\.curr)?)|value<\d+>\{[^{}]*\});\Z")


def names(text: str) -> list[str]:
    """The names of values, registers and ports in a piece of the model."""
    return _NAME.findall(text)


def _assigned(statement: str) -> list[str]:
    """Values that a statement assigns, wholly or in part; registers apart."""
    if statement.startswith(READ):
        return list(dict.fromkeys(_READ_TARGET.findall(statement)))
    return [] if statement.startswith(EDGE) else names(statement.split(" = ", 1)[0])


def _used(statement: str) -> list[str]:
    if statement.startswith(EDGE):
        return names(statement)
    if statement.startswith(READ):
        targets = _assigned(statement)
        return [name for name in names(statement) if name not in targets]
    return names(statement.split(" = ", 1)[1])


def _is_known(statement: str) -> bool:
    if statement.startswith(READ):
        return bool(_assigned(statement))  # whole, with what it assigns
    return statement.startswith(EDGE) or bool(_ASSIGNMENT.match(statement))


def order(statements: list[str], local: set[str]) -> list[str]:
    """The statements that matter, reordered; all as they are if one needs itself or is unknown.

    `local` names the values that are mentioned in these statements only.
    """
    if not all(map(_is_known, statements)):
        return statements
    return _by_use(_without_copies(statements, local), local)


def _without_copies(statements: list[str], local: set[str]) -> list[str]:
    assignments = Counter(name for statement in statements for name in _assigned(statement))
    meaning: dict[str, str] = {}

    def replaced(text: str) -> str:
        return _NAME.sub(lambda match: meaning.get(match[0], match[0]), text)

    kept = []
    for statement in statements:
        if not statement.startswith((EDGE, READ)):
            target, value = statement.split(" = ", 1)
            statement = f"{target} = {replaced(value)}"
            copy = _COPY.match(statement)
            if copy and copy[1] in local and assignments[copy[1]] == 1:
                meaning[copy[1]] = copy[2]
                continue
        kept.append(statement)
    return [replaced(s) if s.startswith((EDGE, READ)) else s for s in kept]


def _by_use(statements: list[str], local: set[str]) -> list[str]:
    """Depth first from registers and outputs, so that what feeds one of them precedes it."""
    writers = defaultdict(list)
    for index, statement in enumerate(statements):
        for name in _assigned(statement):
            writers[name].append(index)
    needs = [
        list(dict.fromkeys(w for name in _used(s) for w in writers.get(name, ())))
        for s in statements
    ]
    result: list[str] = []
    seen, finished = set(), set()  # numbers of statements; those in `seen` alone are under way
    for sink, statement in enumerate(statements):
        if all(name in local for name in _assigned(statement)) and not statement.startswith(EDGE):
            continue
        stack = [(sink, iter(needs[sink]))] if sink not in seen else []
        seen.add(sink)
        while stack:
            index, rest = stack[-1]
            following = next((n for n in rest if n not in finished), None)
            if following is None:
                result.append(statements[index])
                finished.add(index)
                stack.pop()
            elif following in seen:
                return statements
            else:
                seen.add(following)
                stack.append((following, iter(needs[following])))
    return result
