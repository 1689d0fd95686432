"""What a regression found, from what its items left: one dictionary, and a page of it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from cocotb_tests.lib import results
from formal.proof import BOUNDED, INDUCTION

from .items import BENCHES, FAULTS, JUNIT, LONG, MUTATION, PARTS, PROOF, ROWS, RUNS, UNIT, Options
from .runner import ITEMS, LEFT, PASSED, Status
from .tools import tools

__all__ = ["summarize", "write"]

#: Share of the planted faults that has to be caught, over all components.
LEAST_CAUGHT = 0.95
TEMPLATE = "page.html.j2"


def summarize(statuses: Sequence[Status], folder: Path, options: Options, seconds: float) -> dict:
    """Everything that the page shows.

    Parameters
    ----------
    statuses
        Of all items.
    folder
        The regression's; coverage of all benches is merged there.
    seconds
        That this run took; what was kept from before is in each item's own.
    """
    items = folder / ITEMS
    tests = {part: _tests(statuses, items, part) for part in (UNIT, LONG, BENCHES)}
    benches = _benches(statuses, items, folder / RUNS)
    proofs = _rows(statuses, items, PROOF)
    mutants = [mutant for report in _rows(statuses, items, MUTATION) for mutant in report]
    failures = [failure for part in tests.values() for failure in part["failures"]]
    failures += [
        f"{status.name}: exit status {status.code}"
        for status in statuses
        if status.result not in (PASSED, LEFT)
    ]
    failures += [f"{file}: has no test" for file in _without_tests(statuses, items)]
    planted = _mutants(mutants)
    judged = all(status.result != LEFT for status in statuses if status.part == MUTATION)
    if judged and planted["caught"] < LEAST_CAUGHT * planted["planted"]:
        failures.append(f"planted faults: fewer than {LEAST_CAUGHT:.0%} are caught")
    return {
        "tests": {
            key: sum(part[key] for part in tests.values()) for key in ("run", "passed", "skipped")
        },
        "functional_coverage": benches.get("functional_coverage", 0.0),
        "properties": _properties(proofs),
        "mutants": planted,
        "seconds": round(seconds, 1),
        "complete": all(status.result != LEFT for status in statuses),
        "passed": not failures and any(status.result != LEFT for status in statuses),
        "seed": options.seed,
        "tools": tools(),
        "parts": [_part(statuses, part, tests.get(part)) for part in PARTS],
        "benches": {
            key: benches.get(key)
            for key in ("cases", "cycles", "bins", "corrupted_golden", "simulators")
        },
        "unreachable": _unreachable(folder / RUNS) if benches else {},
        "verilog_coverage": _verilog(benches.get("verilog_coverage") or {}),
        "runs": [
            {key: run[key] for key in ("name", "simulator", "seed", "cases", "cycles", "seconds")}
            for run in benches.get("runs", [])
        ],
        "proofs": [row for row in proofs if row["mode"] != "cover"],
        "planted_faults": _rows(statuses, items, FAULTS),
        "mutant_list": mutants,
        "failures": failures,
        "items": [vars(status) for status in statuses],
    }  # fmt: skip


def _tests(statuses: Iterable[Status], folder: Path, part: str) -> dict:
    """Of a part's JUnit files: how many ran, and what failed."""
    counts, failures, slowest = Counter(), [], []
    for status in statuses:
        path = folder / status.name / JUNIT
        if status.part != part or status.result == LEFT or not path.exists():
            continue
        for case in ElementTree.parse(path).iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            slowest.append((float(case.get("time", 0)), name))
            kinds = {child.tag for child in case}
            if "skipped" in kinds:
                counts["skipped"] += 1
                continue
            counts["run"] += 1
            if kinds & {"failure", "error"}:
                failures.append(name)
            else:
                counts["passed"] += 1
    return {
        **{key: counts[key] for key in ("run", "passed", "skipped")},
        "failures": failures,
        "slowest": [name for _seconds, name in sorted(slowest, reverse=True)[:5]],
    }


def _without_tests(statuses: Iterable[Status], folder: Path) -> list[str]:
    """Items of unit tests that have none, neither short nor long ones."""
    cases: dict[str, list[int]] = {}
    for status in statuses:
        path = folder / status.name / JUNIT
        if status.part in (UNIT, LONG) and status.result == PASSED and path.exists():
            found = sum(1 for _case in ElementTree.parse(path).iter("testcase"))
            cases.setdefault(status.name.removeprefix(f"{status.part}-"), []).append(found)
    return [name for name, shares in cases.items() if len(shares) > 1 and not sum(shares)]


def _benches(statuses: Iterable[Status], items: Path, folder: Path) -> dict:
    """What the benches of these items left, merged into `folder`: no run that others left."""
    ran = [
        items / status.name / RUNS
        for status in statuses
        if status.part == BENCHES and status.result != LEFT
    ]
    return results.merge(folder, sources=ran) or {}


def _rows(statuses: Iterable[Status], folder: Path, part: str) -> list:
    """Rows that a part's items wrote, one after the other."""
    rows = []
    for status in statuses:
        path = folder / status.name / ROWS
        if status.part == part and status.result != LEFT and path.exists():
            read = json.loads(path.read_text())
            rows += [read["mutants"]] if part == MUTATION else read
    return rows


def _properties(rows: list[dict]) -> dict:
    """Properties by result; those whose situation no trace reaches are failed, too."""
    results = Counter(row["result"] for row in rows if row["mode"] in (INDUCTION, BOUNDED))
    unreached = {
        (row["proof"], row["property"])
        for row in rows
        if row["mode"] == "cover" and row["result"] != "reached"
    }
    good = results["proved"] + results["bounded"]
    return {
        "proved": results["proved"],
        "bounded": results["bounded"],
        "failed": sum(results.values()) - good,
        "unreached": len(unreached),
    }


def _mutants(mutants: list[dict]) -> dict:
    counts = Counter(mutant["result"] for mutant in mutants)
    none = counts["equivalent"] + counts["explained"]
    return {
        "planted": len(mutants) - none,
        "caught": counts["caught"],
        "survived": counts["survived"],
        "equivalent": counts["equivalent"],
        "explained": counts["explained"],
        "broken_proofs": sum(bool(mutant["proofs"]) for mutant in mutants),
    }


def _part(statuses: Iterable[Status], part: str, tests: dict | None) -> dict:
    of_it = [status for status in statuses if status.part == part]
    counts = Counter(status.result for status in of_it)
    return {
        "name": part,
        "meaning": PARTS[part],
        "items": len(of_it),
        "passed": counts[PASSED],
        "left": counts[LEFT],
        "seconds": round(sum(status.seconds for status in of_it), 1),
        "tests": tests,
    }


def _unreachable(benches: Path) -> dict:
    return json.loads((benches / "coverage.json").read_text())["unreachable"]


def _verilog(runs: dict[str, dict]) -> dict[str, dict]:
    """Points of the Verilog by kind, over all runs: each bench's own design."""
    totals: dict[str, Counter] = {}
    for kinds in runs.values():
        for kind, counts in kinds.items():
            totals.setdefault(kind, Counter()).update(counts)
    return {
        kind: {**counts, "percent": round(100 * counts["reached"] / counts["points"], 1)}
        for kind, counts in totals.items()
        if counts["points"]
    }


def write(summary: dict, folder: Path):
    """Leave ``summary.json`` and ``summary.html`` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    (folder / "summary.html").write_text(environment.get_template(TEMPLATE).render(**summary))
