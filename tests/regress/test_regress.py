"""``python -m regress``: items, what is run again, what is left, and the summary of it all."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest

from mutation.sources import imported, imported_files
from regress import run, runner
from regress.items import (
    BENCHES,
    DESIGN_TESTS,
    EVERYTHING,
    FAULTS,
    LONG,
    MUTATION,
    OF_DESIGN,
    PARTS,
    PROOF,
    ROOT,
    RUNS,
    TOOLS,
    UNIT,
    Item,
    Options,
    items,
)
from regress.runner import FAILED, ITEMS, LEFT, PASSED, known, run_all
from regress.summary import summarize, write

JUNIT = """<testsuites><testsuite>
<testcase classname="a" name="good" time="1.0"/>
<testcase classname="a" name="bad" time="2.0"><failure message="no"/></testcase>
<testcase classname="a" name="away" time="0.0"><skipped/></testcase>
</testsuite></testsuites>"""

PROOFS = [
    {"property": "p", "proof": "x", "mode": "induction", "result": "proved"},
    {"property": "q", "proof": "x", "mode": "bounded", "result": "bounded"},
    {"property": "r", "proof": "x", "mode": "induction", "result": "timeout"},
    {"property": "p", "proof": "x", "mode": "cover", "result": "reached"},
    {"property": "r", "proof": "x", "mode": "cover", "result": "unreached"},
]
PROOFS = [
    row | {"component": "C", "size": "small", "engine": "smtbmc yices", "depth": 2, "seconds": 1.0,
           "meaning": "m"} for row in PROOFS
]  # fmt: skip
MUTANTS = {
    "totals": {},
    "mutants": [
        {"file": "hdl/x.py", "line": 7, "kind": "k", "text": "a < b", "result": result, "by": "t",
         "proofs": proofs}
        for result, proofs in
        [("caught", ["x"]), ("caught", []), ("survived", []), ("equivalent", []), ("explained", [])]
    ],
}  # fmt: skip
PLANTED = [{"fault": "f", "proof": "x", "caught_by": ["p"], "seconds": 1.0}]


def python(name, part, text, *, fine=(0,)):
    return Item(name, part, (sys.executable, "-c", text), ("hdl",), fine)


def writes(name, part, file, content):
    text = f"open(r'{{folder}}/{file}', 'w').write({content!r})"
    return python(name, part, text)


@pytest.fixture
def quick(monkeypatch):
    """Sources are looked at in a moment."""
    monkeypatch.setattr(runner, "state", lambda sources: "the same")


def quiet(line):
    pass


def test_every_test_file_and_every_proof_is_an_item(tmp_path):
    every = items(Options())
    names = [item.name for item in every]
    assert len(set(names)) == len(names)
    assert {item.part for item in every} == set(PARTS)
    assert "tests-tests-test_config" in names
    assert "long-tests-tests-system-test_ordinary" in names
    assert "benches-cocotb_tests-test_switch" in names
    assert "proofs-barrier" in names
    assert "mutation-barrier" in names


def test_items_run_once_and_again_when_sources_change(tmp_path, quick, monkeypatch):
    counted = python("count", UNIT, f"open(r'{tmp_path}/n', 'a').write('x')")
    fails = python("fails", UNIT, f"open(r'{tmp_path}/m', 'a').write('x'); raise SystemExit(3)")
    for _ in range(2):
        good, bad = run_all([counted, fails], tmp_path / "items", jobs=2, say=quiet)
        assert (good.result, bad.result, bad.code) == (PASSED, FAILED, 3)
    assert good.kept
    assert not bad.kept
    assert (tmp_path / "n").read_text() == "x"
    assert (tmp_path / "m").read_text() == "xx"  # what failed is run again
    monkeypatch.setattr(runner, "state", lambda sources: "another")
    assert not run_all([counted], tmp_path / "items", jobs=1, say=quiet)[0].kept
    assert (tmp_path / "n").read_text() == "xx"


def test_what_was_run_with_other_tools_is_run_again(tmp_path, quick, monkeypatch):
    item = python("a", UNIT, "pass")
    for versions, kept in (("1", False), ("1", True), ("2", False)):
        monkeypatch.setattr(runner, "tools", lambda versions=versions: {"icarus": versions})
        assert run_all([item], tmp_path, jobs=1, say=quiet)[0].kept == kept


def test_what_ran_while_its_sources_changed_is_run_again(tmp_path, monkeypatch):
    """Also where the change is taken back before the next regression."""
    source = tmp_path / "source"
    monkeypatch.setattr(runner, "state", lambda sources: source.read_text())
    item = python("a", UNIT, f"open(r'{source}', 'w').write('new')")
    for _ in range(2):
        source.write_text("old")
        (status,) = run_all([item], tmp_path / ITEMS, jobs=1, say=quiet)
        assert (status.result, status.kept) == (PASSED, False)


def test_a_status_that_is_cut_off_is_none(tmp_path, quick):
    item = python("a", UNIT, "pass")
    run_all([item], tmp_path, jobs=1, say=quiet)
    path = tmp_path / "a" / runner.STATUS
    path.write_text(path.read_text()[:20])
    assert not run_all([item], tmp_path, jobs=1, say=quiet)[0].kept
    assert run_all([item], tmp_path, jobs=1, say=quiet)[0].kept


def test_a_state_is_of_files_of_every_kind(monkeypatch, tmp_path):
    """Headers of the engine, data without text, and files without a suffix."""
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    names = ("sim/cxxrtl.h", "sim/data.npz", ".ci/run", "pyproject.toml", "constraints.txt")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\xff\x00")
    seen = {runner.state(("sim", ".ci"))}
    for name in names:
        (tmp_path / name).write_bytes(b"\xff\x01")
        seen.add(runner.state(("sim", ".ci")))
    assert len(seen) == 1 + len(names)


def test_a_file_without_chosen_tests_is_no_failure(tmp_path, quick):
    nothing = python("nothing", LONG, "raise SystemExit(5)", fine=(0, 5))
    assert run_all([nothing], tmp_path, jobs=1, say=quiet)[0].result == PASSED


def test_what_is_not_asked_for_is_shown_as_it_is_known(tmp_path, quick):
    """What passed before, and what failed; the rest is left, and does not run."""
    before, never = (python(name, UNIT, f"open(r'{tmp_path}/n', 'a').write('x')") for name in "ab")
    fails = python("c", UNIT, "raise SystemExit(1)")
    run_all([before, fails], tmp_path, jobs=1, say=quiet)
    statuses = known([before, never, fails], tmp_path)
    assert [(status.result, status.kept) for status in statuses] == [
        (PASSED, True), (LEFT, False), (FAILED, True),
    ]  # fmt: skip
    assert (tmp_path / "n").read_text() == "x"


def test_nothing_starts_behind_the_time_limit(tmp_path, quick):
    (left,) = run_all([python("a", UNIT, "pass")], tmp_path, jobs=1, seconds=-1, say=quiet)
    assert left.result == LEFT
    assert not (tmp_path / "a").exists()


def test_what_failed_is_a_failure_also_behind_the_time_limit(tmp_path, quick):
    fails = python("a", UNIT, f"open(r'{tmp_path}/n', 'a').write('x'); raise SystemExit(1)")
    run_all([fails], tmp_path, jobs=1, say=quiet)
    (status,) = run_all([fails], tmp_path, jobs=1, seconds=-1, say=quiet)
    assert (status.result, status.kept) == (FAILED, True)
    assert (tmp_path / "n").read_text() == "x"


def test_a_state_is_that_of_an_items_own_sources(monkeypatch, tmp_path):
    every = {item.name: item.sources for item in items(Options())}
    proof = every["proofs-barrier"]
    design, project = every["long-tests-tests-system-test_links"], every["tests-tests-test_project"]
    system = {"tests/system/tenancy.py", "tests/system/test_links.py"}
    assert {"hdl/stream.py", "sim", *system} < set(design)
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    for name in ("hdl/stream.py", "formal/b.py", "docs/c.md", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    before = {sources: runner.state(sources) for sources in (proof, design, project)}

    def changed():
        return [sources for sources in before if runner.state(sources) != before[sources]]

    (tmp_path / "docs/c.md").write_text("y")
    assert changed() == [project]
    (tmp_path / "formal/b.py").write_text("y")
    assert changed() == [proof, project]
    (tmp_path / "hdl/stream.py").write_text("y")
    assert changed() == [proof, design, project]


def test_of_the_tools_a_result_depends_on_what_it_imports():
    """Benches make Verilog and count no resources; tests of the design use no tool at all."""
    every = {item.name: item.sources for item in items(Options())}
    design, bench = (
        {name for name in every[item] if name.startswith(TOOLS)}
        for item in ("tests-tests-system-test_links", "benches-cocotb_tests-test_link")
    )
    assert not design
    assert "hdl/building/verilog.py" in bench
    assert "hdl/building/breakdown.py" not in bench
    for sources in every.values():
        assert "hdl" in sources or {"hdl/switch.py", "hdl/transport"} < set(sources)


def test_sources_are_what_a_test_imports(tmp_path):
    """Other tests' helpers by any form of import, and theirs; folders of the project."""
    texts = {
        "tests/a/test_x.py": "import random\nfrom tests.lib.one import f\nfrom .two import g\n",
        "tests/lib/one.py": "from hdl.stream import Queue\nimport tests.lib.three\n",
        "tests/lib/three.py": "from tests.b import four\n",
        "tests/b/four.py": "def f():\n    from formal.proof import Proof\n",
        "tests/a/two.py": "",
        "tests/a/five.py": "",
        "hdl/stream.py": "",
        "formal/proof.py": "",
        "sim/x.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert imported(Path("tests/a/test_x.py"), tmp_path) == (
        "formal", "hdl", "tests/a/test_x.py", "tests/a/two.py", "tests/b/four.py",
        "tests/lib/one.py", "tests/lib/three.py",
    )  # fmt: skip


def test_files_are_those_that_any_of_them_imports(tmp_path):
    """In every folder, with the packages that they stand in."""
    texts = {
        "tests/a/test_x.py": "import random\nfrom hdl.stream import Queue\n",
        "hdl/__init__.py": "",
        "hdl/stream.py": "from .config import C\nfrom . import parts\n",
        "hdl/config.py": "from hdl import stream\n",
        "hdl/parts/__init__.py": "from .one import f\n",
        "hdl/parts/one.py": "",
        "hdl/parts/two.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    left_out = {"hdl/parts/two.py"}
    found = imported_files([Path("tests/a/test_x.py")], tmp_path)
    assert found == tuple(sorted(texts.keys() - left_out))


def test_what_depends_on_the_design_alone_imports_nothing_else():
    """`DESIGN_TESTS`: their results outlive a change of docs, boards or scripts."""
    folders = (*DESIGN_TESTS, "lib")
    files = [file for folder in folders for file in (ROOT / "tests" / folder).rglob("*.py")]
    assert files
    ours = {name.partition("/")[0] for name in EVERYTHING} - set(OF_DESIGN)
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            assert not {name.partition(".")[0] for name in names} & ours, file


@pytest.fixture
def summary(tmp_path, quick):
    """Of one item a part; the benches' run hit one bin."""
    every = [
        writes("u", UNIT, "junit.xml", JUNIT),
        writes("b", BENCHES, "junit.xml", JUNIT),
        writes("p", PROOF, "rows.json", json.dumps(PROOFS)),
        writes("f", FAULTS, "rows.json", json.dumps(PLANTED)),
        writes("m", MUTATION, "rows.json", json.dumps(MUTANTS)),
    ]
    options = Options(seed=7)
    statuses = run_all(every, tmp_path / ITEMS, jobs=2, say=quiet)
    leave_run(tmp_path / ITEMS / "b")
    leave_run(tmp_path / ITEMS / "removed")  # of an item that there is no more
    return summarize(statuses, tmp_path, options, 12.34)


def leave_run(item):
    bench = item / RUNS / "runs" / "test_x"
    bench.mkdir(parents=True)
    (bench / "run.json").write_text(
        json.dumps(
            {
                "name": "test_x", "component": "barrier", "digest": item.name,
                "simulator": "icarus", "version": "icarus 1", "seed": 7, "seconds": 1.0,
                "corrupted": False, "verilog_coverage": {"line": {"points": 4, "reached": 3}},
                "passed": ["t"], "failed": {},
                "tests": [{"test": "t", "cases": 3, "cycles": 9, "seconds": 1.0}],
                "cases": 3, "cycles": 9, "bins": {"barrier.take/alone": 2},
            }
        )
    )  # fmt: skip


def test_runs_of_items_that_were_left_count_for_nothing(tmp_path, quick):
    bench = writes("b", BENCHES, "junit.xml", JUNIT)
    leave_run(tmp_path / ITEMS / "b")
    statuses = run_all([bench], tmp_path / ITEMS, jobs=1, seconds=-1, say=quiet)
    summary = summarize(statuses, tmp_path, Options(), 0.0)
    assert summary["functional_coverage"] == 0
    assert summary["benches"]["cases"] is None


def test_the_summary_has_what_was_promised(summary):
    assert summary["tests"] == {"run": 4, "passed": 2, "skipped": 2}
    assert 0 < summary["functional_coverage"] < 1
    properties = {"proved": 1, "bounded": 1, "failed": 1, "unreached": 1}
    assert summary["properties"] == properties
    assert summary["mutants"] == {
        "planted": 3, "caught": 2, "survived": 1, "equivalent": 1, "explained": 1,
        "broken_proofs": 1,
    }  # fmt: skip
    assert summary["seconds"] == 12.3
    assert summary["benches"]["cases"]["total"] == 3
    assert summary["verilog_coverage"]["line"]["percent"] == 75.0
    assert summary["runs"][0]["seed"] == 7
    assert summary["tools"]["amaranth"] != "missing"
    assert "switch.writing/0" in summary["unreachable"]
    assert summary["failures"] == [
        "a.bad", "a.bad", "planted faults: fewer than 95% are caught"
    ]  # fmt: skip
    assert summary["complete"]
    assert not summary["passed"]


def test_a_fault_that_survives_is_no_failure_where_most_are_caught(tmp_path, quick):
    mutants = 20 * MUTANTS["mutants"][:1] + MUTANTS["mutants"][2:3]
    rows = json.dumps({"totals": {}, "mutants": mutants})
    item = writes("m", MUTATION, "rows.json", rows)
    summary = summarize(run_all([item], tmp_path / ITEMS, jobs=1, say=quiet), tmp_path,
                        Options(), 1.0)  # fmt: skip
    assert summary["mutants"]["survived"] == 1
    assert summary["passed"]
    survives = next(item for item in items(Options()) if item.name == "mutation-barrier")
    assert survives.fine == (0, 3)


def test_a_file_of_neither_short_nor_long_tests_is_a_failure(tmp_path, quick):
    nothing = "<testsuites><testsuite></testsuite></testsuites>"
    every = [
        writes(f"{part}-{name}", part, "junit.xml", content)
        for part in (UNIT, LONG)
        for name, content in (("empty", nothing), ("short", JUNIT if part == UNIT else nothing))
    ]
    summary = summarize(run_all(every, tmp_path / ITEMS, jobs=1, say=quiet), tmp_path,
                        Options(), 1.0)  # fmt: skip
    assert [failure for failure in summary["failures"] if "no test" in failure] == [
        "empty: has no test"
    ]


def test_the_page_shows_it(summary, tmp_path):
    write(summary, tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    page = (tmp_path / "summary.html").read_text()
    for text in ("2 / 4", "1 + 1", "2 / 3", "hdl/x.py:7", "a &lt; b", "timeout", "3 failed"):
        assert text in page


def test_a_page_of_nothing(tmp_path, quick):
    statuses = run_all([python("a", UNIT, "pass")], tmp_path, jobs=1, seconds=-1, say=quiet)
    empty = summarize(statuses, tmp_path, Options(), 0.0)
    assert not empty["passed"]
    write(empty, tmp_path)
    assert "Not complete: 1 items were left" in (tmp_path / "summary.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "proof"], "only: must be one of .*; did you mean 'proofs'?"),
        (["--jobs", "0"], "jobs: must be a whole number from 1 on, not '0'"),
        (["--minutes", "soon"], "minutes: must be a whole number from 0 on, not 'soon'"),
        (["--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_a_bad_argument_is_one_line(arguments, message, capsys):
    assert run.main(arguments) == run.BAD_ARGUMENT
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)


def test_the_command(tmp_path, quick, monkeypatch, capsys):
    """A share of one item: it passes, then is kept; with a failure the exit status says so."""
    chosen = [writes("u", UNIT, "junit.xml", JUNIT.replace('<failure message="no"/>', ""))]
    monkeypatch.setattr(run, "items", lambda options: chosen)
    assert run.main(["--folder", str(tmp_path), "--jobs", "1"]) == run.DONE
    assert "2 of 2 tests passed" in capsys.readouterr().out
    assert run.main(["--folder", str(tmp_path)]) == run.DONE
    assert "u: passed (before)" in capsys.readouterr().out
    chosen.append(python("bad", UNIT, "raise SystemExit(1)"))
    assert run.main(["--folder", str(tmp_path)]) == run.FAILURE
    assert "failed: bad: exit status 1" in capsys.readouterr().err
    assert json.loads((tmp_path / "summary.json").read_text())["tests"]["run"] == 2
