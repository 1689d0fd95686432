"""Line and toggle coverage of the generated Verilog, from what Verilator's models leave.

A second opinion beside the functional bins: the lines are those of generated text.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["read_coverage"]

#: A point: its attributes, each behind a control character, and how often it was reached.
POINT = re.compile(r"^C '(?P<attributes>.*)' (?P<count>\d+)$")
ATTRIBUTE = re.compile("\x01(?P<name>[^\x02]*)\x02(?P<value>[^\x01]*)")


def read_coverage(path: Path) -> dict[str, dict[str, int]]:
    """Points and those that were reached, by kind (``line``, ``branch``, ``toggle``)."""
    found: dict[str, dict[str, int]] = {}
    for line in path.read_text(errors="replace").splitlines():
        match = POINT.match(line)
        if match is None:
            continue
        attributes = dict(ATTRIBUTE.findall(match["attributes"]))
        kind = attributes.get("page", "").partition("/")[0].removeprefix("v_") or "other"
        counts = found.setdefault(kind, {"points": 0, "reached": 0})
        counts["points"] += 1
        counts["reached"] += int(match["count"]) > 0
    return found
