"""Run the tests of docs/field-reports.md, and keep what came of them.

    python -m scripts.field_reports [PYTEST ARGUMENT ...]

Reports and their tests stand in docs/data/field-reports.json, `rows`; how many cases of each test
ran and passed is written there, `results`. `make docs` writes the table. Exit status: 0 all passed;
1 one has failed, or there is none of a name.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from scripts.measured import DATA, table

__all__ = ["TABLES", "main"]

ROOT = DATA.parent.parent
FILE = DATA / "field-reports.json"


def read() -> dict:
    """`rows` (report, happened, tags, tests) and `results` (by test: run, passed)."""
    return json.loads(FILE.read_text())


def named(rows: list[dict]) -> list[str]:
    """Every test once."""
    return list(dict.fromkeys(test for row in rows for test in row["tests"]))


def run(tests: list[str], arguments: list[str]) -> dict[str, dict[str, int]]:
    """By test, cases that ran and that passed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "", f"--junitxml={report}"]
        subprocess.run([*command, *tests, *arguments], cwd=ROOT, check=False)
        return counted(tests, report)


def counted(tests: list[str], report: Path) -> dict[str, dict[str, int]]:
    """The same, out of a JUnit report; none where there is no report."""
    counts = {test: {"run": 0, "passed": 0} for test in tests}
    for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
        name = f"{case.get('classname').replace('.', '/')}.py::{case.get('name').split('[')[0]}"
        if name in counts:
            bad = any(child.tag in ("failure", "error", "skipped") for child in case)
            counts[name]["run"] += 1
            counts[name]["passed"] += not bad
    return counts


def result(row: dict, results: dict[str, dict[str, int]]) -> str:
    """What came of a report's tests."""
    counts = [results.get(test, {"run": 0, "passed": 0}) for test in row["tests"]]
    if not all(count["run"] for count in counts):
        return "not run"
    cases, passed = (sum(count[name] for count in counts) for name in ("run", "passed"))
    return f"passed ({cases})" if passed == cases else f"failed ({cases - passed} of {cases})"


def field_reports() -> str:
    """Each report, its tests, and what came of their cases."""
    kept = read()
    body = [
        [row["report"], row["happened"], " ".join(row["tags"]),
         ", ".join(f"`{test}`" for test in row["tests"]), result(row, kept["results"])]
        for row in kept["rows"]
    ]  # fmt: skip
    return table(["Report", "What happened", "Tags", "Test", "Result (cases)"], body)


#: Generated parts of the docs, by name.
TABLES = {"field_reports": field_reports}


def main(arguments: list[str] | None = None) -> int:
    kept = read()
    results = run(named(kept["rows"]), sys.argv[1:] if arguments is None else arguments)
    text = json.dumps({"rows": kept["rows"], "results": results}, indent=1)
    FILE.write_text(text + "\n")
    bad = [test for test, count in results.items() if not 0 < count["run"] == count["passed"]]
    for test in bad:
        print(f"field_reports: {test}: {results[test]}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
