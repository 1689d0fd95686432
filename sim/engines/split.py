"""Cut the evaluation of a CXXRTL model into functions that a compiler can digest.

Yosys writes all of a flattened design as one function with thousands of local variables; the
compiler's time grows faster than that function. Here its locals become members and its statements,
in their order, the bodies of many small functions; neighbours that wait for the same clock edge
share one test of it.
"""

from __future__ import annotations

import re

from .order import EDGE, READ, names, order

__all__ = ["split"]

#: Characters of source in one function. Measured: see docs/engines.md.
PART_CHARACTERS = 8_000
#: Wires that one function tells the waveform writer about.
DEBUG_ITEMS = 200

_LOCAL = re.compile(r"\tvalue<\d+> (\w+);\Z")
_DEBUG_INFO = "CXXRTL_EXTREMELY_COLD\nvoid p_top::debug_info("
_COLD = '__attribute__((optimize("O0")))\n'
_DEBUG_ITEM = r"(?:\t\tstatic const .*;\n)?\t\titems->add\(.*\);\n"
_CONSTRUCTOR = "\tp_top(interior) {}\n"


def split(cxx: str) -> str:
    """The same model with its evaluation in parts, or `cxx` itself if it has another form."""
    members: dict[str, str] = {}
    declarations: list[str] = []
    for name, parameters, arguments in (
        ("eval", "performer *performer, bool posedge_p_clk", "performer, posedge_p_clk"),
        ("debug_eval", "", ""),
    ):
        found = re.search(rf"^\w+ p_top::{name}\([^)]*\) {{\n(.*?)^}}\n", cxx, re.M | re.S)
        if not found:
            continue
        locals_, head, statements, tail = _parse(found[1].splitlines())
        if any("converged" in statement for statement in statements):
            return cxx
        elsewhere = set(names(cxx[: found.start()] + cxx[found.end() :]))
        inner = {local for local in locals_ if local not in elsewhere}
        parts, shared = _with_locals(list(_parts(order(statements, inner))), locals_, inner)
        members |= {local: locals_[local] for local in shared}
        declarations += [f"\tvoid {name}_{i}({parameters});" for i in range(len(parts))]
        calls = [f"\t{name}_{i}({arguments});" for i in range(len(parts))]
        functions = [
            f"void p_top::{name}_{i}({parameters}) {{\n{body}\n}}\n\n"
            for i, body in enumerate(parts)
        ]
        body = "\n".join([*head, *calls, *tail]) + "\n"
        cxx = _splice(cxx, found.span(1), body)
        cxx = _splice(cxx, (found.start(), found.start()), "".join(functions))
    cxx = _split_debug_items(cxx, declarations)
    present = set(re.findall(r"^\t(?:/\*\w+\*/ )?(?:value|wire)<\d+> (\w+);$", cxx, re.M))
    declarations += [line for name, line in members.items() if name not in present]
    return cxx.replace(_CONSTRUCTOR, "\n".join(declarations) + "\n\n" + _CONSTRUCTOR, 1)


def _splice(text: str, span: tuple[int, int], new: str) -> str:
    return text[: span[0]] + new + text[span[1] :]


def _split_debug_items(cxx: str, declarations: list[str]) -> str:
    """Move the list of a model's wires, thousands of calls that run once, out of optimization."""
    cxx = re.sub(r"\t\t/\* attribute \w+ is over 64 bits wide \*/\n", "", cxx)
    found = re.search(rf"(?:{_DEBUG_ITEM})+", cxx)
    if not found:
        return cxx
    parameters = "debug_items *items, const std::string &path"
    items = re.findall(_DEBUG_ITEM, found[0])
    calls, functions = [], []
    for i, at in enumerate(range(0, len(items), DEBUG_ITEMS)):
        declarations.append(f"\tvoid debug_items_{i}({parameters});")
        calls.append(f"\t\tdebug_items_{i}(items, path);\n")
        body = "".join(items[at : at + DEBUG_ITEMS])
        functions.append(f"{_COLD}void p_top::debug_items_{i}({parameters}) {{\n{body}}}\n\n")
    cxx = _splice(cxx, found.span(), "".join(calls))
    return cxx.replace(_DEBUG_INFO, "".join(functions) + _DEBUG_INFO, 1)


def _parse(lines: list[str]):
    """Locals by name, lines that come first, statements, lines that come last."""
    locals_, head, statements, tail = {}, [], [], []
    open_block: list[str] | None = None
    for line in lines:
        if open_block is not None:
            open_block.append(line)
            if line == "\t}":
                statements.append("\n".join(open_block))
                open_block = None
        elif line.startswith("\t//"):
            continue
        elif match := _LOCAL.match(line):
            locals_[match[1]] = line
        elif line.startswith("\tbool "):
            head.append(line)
        elif line.startswith("\treturn "):
            tail.append(line)
        elif line.endswith("{") or line.startswith(READ):
            open_block = [line]
        else:
            statements.append(line)
    return locals_, head, statements, tail


def _with_locals(parts: list[str], locals_: dict[str, str], inner: set[str]):
    """Parts that declare what they alone mention, and the names that must be members."""
    parts_of: dict[str, set[int]] = {}
    for index, part in enumerate(parts):
        for name in set(names(part)):
            parts_of.setdefault(name, set()).add(index)
    own: list[list[str]] = [[] for _ in parts]
    shared = []
    for name, line in locals_.items():
        where = parts_of.get(name, ())
        if name in inner and len(where) == 1:
            own[min(where)].append(line)
        elif name not in inner or where:
            shared.append(name)
    return ["\n".join([*lines, part]) for lines, part in zip(own, parts, strict=True)], shared


def _parts(statements: list[str]):
    """Statements in their order, gathered to bodies of about `PART_CHARACTERS`."""
    body: list[str] = []
    size = 0
    for statement in statements:
        if body and size + len(statement) > PART_CHARACTERS:
            yield "\n".join(body)
            body, size = [], 0
        if body and statement.startswith(EDGE) and body[-1].startswith(EDGE):
            # Share the test: drop the closing brace above and the opening line here.
            body[-1] = body[-1].removesuffix("\n\t}")
            statement = statement.removeprefix(EDGE + "\n")
            body[-1] += "\n" + statement
        else:
            body.append(statement)
        size += len(statement)
    if body:
        yield "\n".join(body)
