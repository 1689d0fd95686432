"""The runtime that models without waveforms are built on: values in machine words.

``cxxrtl/cxxrtl.h`` stands in for CXXRTL's own header of that name: the same classes and cells, as
far as Yosys writes them for synthesizable designs, with less for the compiler to do (measured in
docs/engines.md). `serves` tells whether it has all that a model needs.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["CELLS", "HEADER", "INCLUDE", "serves"]

#: The folder for the compiler's search path.
INCLUDE = Path(__file__).parent
HEADER = INCLUDE / "cxxrtl" / "cxxrtl.h"


def _forms(names: str, forms: str) -> set[str]:
    return {f"{name}_{form}" for name in names.split() for form in forms.split()}


#: Cells of the header. Of those that CXXRTL writes, division is not among them.
CELLS = frozenset(
    _forms("pos not neg", "u s")
    | _forms("and or xor xnor", "uu ss")
    | _forms("eq ne eqx nex lt gt le ge", "uu ss")
    | _forms("add sub mul", "uu ss")
    | _forms("shl sshl shr sshr", "uu su")
    | _forms("shift shiftx", "uu su us ss")
    | {"reduce_and", "reduce_or", "reduce_xor", "reduce_xnor", "reduce_bool"}
    | {"logic_not", "logic_and", "logic_or"}
)
#: What is called of a value.
_MEMBERS = frozenset({"slice", "concat", "repeat"})
_CALL = re.compile(r"\b([a-z]\w*)<\d+(?:, ?\d+)*>\(")
#: Printing, assertions and black boxes.
_CALLBACKS = re.compile(r"\bperformer->|\bblack_box\b")


def serves(model: str) -> bool:
    """Whether the header has everything that the C++ of `model` calls."""
    called = {match[1] for match in _CALL.finditer(model)}
    return called <= CELLS | _MEMBERS | {"value", "wire"} and not _CALLBACKS.search(model)
