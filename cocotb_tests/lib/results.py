"""What runs leave, and the report that they are merged into: counts, seeds, coverage, holes."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from .bins import BINS
from .simulators import SIMULATORS, Outcome, simulator_version
from .verilog_coverage import read_coverage

__all__ = ["merge", "summary", "waveform", "write_run"]

#: Endings of waveforms: Icarus writes FST, Verilator VCD.
WAVEFORMS = ("*.fst", "*.vcd")


def waveform(folder: Path) -> Path | None:
    """The waveform that a run left in `folder`."""
    return next((path for ending in WAVEFORMS for path in folder.glob(ending)), None)


def write_run(
    outcome: Outcome,
    *,
    name: str,
    component: str,
    digest: str,
    simulator: str,
    seed: int,
    seconds: float,
    corrupted: bool,
):
    """Leave ``run.json`` in the run's folder."""
    record = outcome.folder / "cases.jsonl"
    lines = record.read_text().splitlines() if record.exists() else []
    tests = [json.loads(line) for line in lines]
    bins: Counter[str] = Counter()
    for test in tests:
        bins.update(test.pop("bins"))
    run = {
        "name": name,
        "component": component,
        "digest": digest,
        "simulator": simulator,
        "version": simulator_version(simulator),
        "seed": seed,
        "seconds": round(seconds, 2),
        "corrupted": corrupted,
        "verilog_coverage": _verilog_coverage(outcome.folder / "coverage.dat"),
        "passed": list(outcome.passed),
        "failed": outcome.failed,
        "tests": tests,
        "cases": sum(test["cases"] for test in tests),
        "cycles": sum(test["cycles"] for test in tests),
        "bins": dict(sorted(bins.items())),
    }
    # Whole or not at all: another session may be merging.
    written = outcome.folder / "run.json.new"
    written.write_text(json.dumps(run, indent=2) + "\n")
    written.replace(outcome.folder / "run.json")


def _verilog_coverage(path: Path) -> dict | None:
    return read_coverage(path) if path.exists() else None


def merge(
    folder: Path, *, since: float = 0.0, sources: Iterable[Path] | None = None
) -> dict | None:
    """Merge the runs under `folder` that are not older than `since` into its reports.

    Writes ``results.json``, ``coverage.json`` and ``coverage.txt``. None where there is no run.
    What a run that failed has reached does not count as covered.

    Parameters
    ----------
    sources
        Folders whose runs are merged, where those are others than `folder`.
    """
    paths = sorted(
        path
        for source in (sources if sources is not None else [folder])
        for path in (source / "runs").glob("*/run.json")
    )
    runs = [json.loads(path.read_text()) for path in paths if path.stat().st_mtime >= since]
    corrupted = [run for run in runs if run["corrupted"]]
    runs = [run for run in runs if not run["corrupted"]]
    if not runs:
        return None
    hits: Counter[str] = Counter()
    for run in runs:
        bins = run.pop("bins")
        hits.update({} if run["failed"] else bins)
    coverage = _coverage(hits)
    report = {
        "tests": {
            "run": sum(len(run["passed"]) + len(run["failed"]) for run in runs),
            "passed": sum(len(run["passed"]) for run in runs),
        },
        "cases": _cases(runs),
        "cycles": sum(run["cycles"] for run in runs),
        "seconds": round(sum(run["seconds"] for run in runs), 1),
        "functional_coverage": coverage["percent"],
        "bins": {key: coverage[key] for key in ("declared", "hit", "holes")},
        "corrupted_golden": {
            "tests": sum(len(run["passed"]) + len(run["failed"]) for run in corrupted),
            "failed": sum(len(run["failed"]) for run in corrupted),
        },
        "verilog_coverage": {
            run["name"]: run["verilog_coverage"] for run in runs if run["verilog_coverage"]
        },
        "simulators": sorted({run["version"] for run in runs}),
        "runs": runs,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(report, indent=2) + "\n")
    (folder / "coverage.json").write_text(json.dumps(coverage, indent=2) + "\n")
    (folder / "coverage.txt").write_text(_text(coverage))
    return report


def _cases(runs: list[dict]) -> dict[str, int]:
    """Random cases by simulator, each seed of a test and configuration once.

    ``distinct`` counts a case that ran on two simulators once.
    """
    seen = {
        (run["simulator"], run["component"], run["digest"], test["test"], run["seed"] + number)
        for run in runs
        for test in run["tests"]
        for number in range(test["cases"])
    }
    by_simulator = Counter(simulator for simulator, *_ in seen)
    return dict(sorted(by_simulator.items())) | {
        "total": len(seen),
        "distinct": len({case[1:] for case in seen}),
    }


def _coverage(hits: Counter[str]) -> dict:
    groups = {
        name: {"meaning": group.meaning, "bins": {bin: hits[f"{name}/{bin}"] for bin in group.bins}}
        for name, group in BINS.items()
    }
    declared = sum(len(group.bins) for group in BINS.values())
    holes = [
        f"{name}/{bin}"
        for name, group in groups.items()
        for bin, count in group["bins"].items()
        if not count
    ]
    hit = declared - len(holes)
    return {
        "declared": declared,
        "hit": hit,
        "percent": round(100 * hit / declared, 2),
        "holes": holes,
        "unreachable": {
            f"{name}/{bin}": reason
            for name, group in BINS.items()
            for bin, reason in group.unreachable.items()
        },
        "groups": groups,
    }


def _text(coverage: dict) -> str:
    lines = [
        f"functional coverage: {coverage['hit']} of {coverage['declared']} bins, "
        f"{coverage['percent']} %",
        f"holes: {', '.join(coverage['holes']) or 'none'}",
        "",
    ]
    for name, group in coverage["groups"].items():
        lines.append(f"{name}: {group['meaning']}")
        lines += [f"  {count or '-':>8}  {bin}" for bin, count in group["bins"].items()]
    if coverage["unreachable"]:
        lines += ["", "not counted, since they cannot be reached:"]
        lines += [f"  {bin}: {reason}" for bin, reason in coverage["unreachable"].items()]
    return "\n".join(lines) + "\n"


def summary(report: dict) -> str:
    """One line."""
    cases = ", ".join(f"{name} {report['cases'][name]}" for name in SIMULATORS
                      if name in report["cases"])  # fmt: skip
    tests, bins = report["tests"], report["bins"]
    return (
        f"generated Verilog: {tests['passed']} of {tests['run']} tests passed, "
        f"{report['cases']['total']} random cases ({cases}), "
        f"{bins['hit']} of {bins['declared']} bins hit"
    )
