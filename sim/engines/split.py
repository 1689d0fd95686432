"""Cut the evaluation of a CXXRTL model into functions that a compiler can digest.

Yosys writes all of a flattened design as one function with thousands of local variables; the
compiler's time grows faster than that function. Here its locals become members and its statements,
in their order, the bodies of many small functions; neighbours that wait for the same clock edge
share one test of it.
"""

from __future__ import annotations

import re

__all__ = ["split"]

#: Characters of source in one function. Measured: see docs/engines.md.
PART_CHARACTERS = 8_000

_LOCAL = re.compile(r"\tvalue<\d+> (\w+);\Z")
_EDGE = "\tif (posedge_p_clk) {"
_CONSTRUCTOR = "\tp_top(interior) {}\n"


def split(cxx: str) -> str:
    """The same model with its evaluation in parts, or `cxx` itself if it has another form."""
    members: dict[str, str] = {}
    declarations: list[str] = []
    for name, result in (("eval", "bool"), ("debug_eval", "void")):
        found = re.search(rf"^{result} p_top::{name}\(([^)]*)\) {{\n(.*?)^}}\n", cxx, re.M | re.S)
        if not found:
            continue
        locals_, head, statements, tail = _parse(found[2].splitlines())
        if any("converged" in statement for statement in statements):
            return cxx
        members |= locals_
        bodies = [f"{result} p_top::{name}({found[1]}) {{"]
        parts = []
        for i, body in enumerate(_parts(statements)):
            arguments = "performer *performer, bool posedge_p_clk" if name == "eval" else ""
            declarations.append(f"\tvoid {name}_{i}({arguments});")
            parts.append(f"void p_top::{name}_{i}({arguments}) {{\n{body}\n}}\n")
        call = "(performer, posedge_p_clk)" if name == "eval" else "()"
        bodies += [*head, *(f"\t{name}_{i}{call};" for i in range(len(parts))), *tail, "}\n"]
        cxx = cxx[: found.start()] + "\n".join([*parts, "\n".join(bodies)]) + cxx[found.end() :]
    present = set(re.findall(r"^\t(?:/\*\w+\*/ )?(?:value|wire)<\d+> (\w+);$", cxx, re.M))
    declarations += [line for name, line in members.items() if name not in present]
    return cxx.replace(_CONSTRUCTOR, "\n".join(declarations) + "\n\n" + _CONSTRUCTOR, 1)


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
        elif line.endswith("{"):
            open_block = [line]
        else:
            statements.append(line)
    return locals_, head, statements, tail


def _parts(statements: list[str]):
    """Statements in their order, gathered to bodies of about `PART_CHARACTERS`."""
    body: list[str] = []
    size = 0
    for statement in statements:
        if body and size + len(statement) > PART_CHARACTERS:
            yield "\n".join(body)
            body, size = [], 0
        if body and statement.startswith(_EDGE) and body[-1].startswith(_EDGE):
            # Share the test: drop the closing brace above and the opening line here.
            body[-1] = body[-1].removesuffix("\n\t}")
            statement = statement.removeprefix(_EDGE + "\n")
            body[-1] += "\n" + statement
        else:
            body.append(statement)
        size += len(statement)
    if body:
        yield "\n".join(body)
