"""Cheaper steps for the registers and memories of a CXXRTL model, whose clock the shim knows.

CXXRTL's `commit` compares every register with its next value, to tell whether another evaluation is
needed, and queues a write for every port of every memory in every cycle, whether enabled or not.
With one clock and no feedback nobody asks, so here registers take their next values unseen
(`advance`), or keep the present ones (`discard`), and only enabled writes are queued.
"""

from __future__ import annotations

import re

__all__ = ["add_advance"]

_COMMIT = re.compile(r"^\t\tbool changed = false;\n(.*?)^\t\treturn changed;\n", re.M | re.S)
_CLOCK = "\t\tprev_p_clk = p_clk;"
_STEP = re.compile(r"\t\tif \((\w+)\.commit\(observer\)\) changed = true;\n")
_PLACE = "\tbool commit() override {\n"
#: A write whose mask is one enable repeated: the enable is a bit of its own, or of a register.
_WRITE = re.compile(
    r"(?P<call>\w+\.update\(\w+\.index, .*, (?P<enable>\w+(?:\.curr)?)"
    r"\.repeat<\d+>\(\)\.val\(\), \d+\);)$",
    re.M,
)
#: In the evaluation of a design whose combinational wires do not feed back.
_SINGLE_PASS = "bool converged = true;"
#: Run once a wait, so not worth the compiler's time.
_COLD = '__attribute__((optimize("O0")))'


def add_advance(cxx: str) -> str:
    """The same model with `advance` and `discard`, or `cxx` itself if it has another form."""
    commit = _COMMIT.search(cxx)
    if not commit or _PLACE not in cxx:
        return cxx
    names = _STEP.findall(commit[1])
    if _STEP.sub("", commit[1]) != _CLOCK + "\n":
        return cxx
    memories = [name for name in names if name.startswith("memory_")]
    registers = [name for name in names if not name.startswith("memory_")]
    lines = [
        "\tvoid advance() {",
        "\t\tobserver observer;",
        _CLOCK,
        *(f"\t\t{name}.curr = {name}.next;" for name in registers),
        *(f"\t\tif (!{name}.write_queue.empty()) {name}.commit(observer);" for name in memories),
        "\t}",
        f"\t{_COLD} void discard() {{",
        *(f"\t\t{name}.next = {name}.curr;" for name in registers),
        *(f"\t\t{name}.write_queue.clear();" for name in memories),
        "\t}",
    ]
    if _SINGLE_PASS in cxx:
        # Nobody calls it then, and it is much to compile.
        cxx = cxx[: commit.start()] + "\t\treturn false;\n" + cxx[commit.end() :]
    cxx = _WRITE.sub(r"if (\g<enable>) \g<call>", cxx)
    return cxx.replace(_PLACE, "\n".join(lines) + "\n\n" + _PLACE, 1)
