"""Tables of docs/formal.md, made of what `python -m formal --json` wrote."""

from __future__ import annotations

import json
from pathlib import Path

from formal.streams import COMPOSED, WITHDRAWN
from scripts.measured import table

__all__ = ["TABLES"]

DATA = Path(__file__).resolve().parent.parent / "docs" / "data"


def listed(name: str) -> list[dict]:
    """Rows of a list; none where it was not made."""
    path = DATA / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else []


def proofs() -> str:
    """Every property: how it is proved, and how long its trace is."""
    rows = listed("proofs")
    traces = {(r["proof"], r["property"]): r for r in rows if r["mode"] == "cover"}
    body = []
    for row in rows:
        if row["mode"] == "cover":
            continue
        trace = traces[row["proof"], row["property"]]
        seen = trace["depth"] if trace["result"] == "reached" else trace["result"]
        body.append(
            [
                f"`{row['property']}`",
                row["component"],
                row["size"],
                row["engine"],
                row["mode"],
                str(row["depth"]),
                f"{row['seconds']:.1f}",
                row["result"],
                str(seen),
            ]
        )
    header = ["Property", "component", "size", "engine", "mode", "depth", "seconds", "result"]
    return table([*header, "trace"], body)


def proof_summary() -> str:
    """Properties by mode and result."""
    rows = [row for row in listed("proofs") if row["mode"] != "cover"]
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        key = row["mode"], row["result"]
        counts[key] = counts.get(key, 0) + 1
    body = [[mode, result, str(count)] for (mode, result), count in sorted(counts.items())]
    return table(["Mode", "result", "properties"], [*body, ["", "**all**", f"**{len(rows)}**"]])


def property_meanings() -> str:
    """What each property says, once for all sizes at which it is proved."""
    said: dict[tuple[str, str], str] = {}
    for row in listed("proofs"):
        said.setdefault((row["component"], row["property"]), row["meaning"])
    body = [[component, f"`{name}`", meaning] for (component, name), meaning in said.items()]
    return table(["Component", "property", "meaning"], body)


def proof_streams() -> str:
    """Streams whose contract no proof of their component is about."""
    body = [[f"`{name}`", "all", reason] for name, reason in COMPOSED.items()]
    body += [[f"`{name}`", "heads", reason] for name, reason in WITHDRAWN.items()]
    return table(["Component", "outputs", "what they are"], body)


#: Generated part to what writes it.
TABLES = {
    "proofs": proofs,
    "proof_summary": proof_summary,
    "property_meanings": property_meanings,
    "proof_streams": proof_streams,
}
