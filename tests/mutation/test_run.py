"""``python -m mutation``: arguments, exit codes, totals, and what it writes."""

import json
import re
from collections import Counter

import pytest

from mutation import run
from mutation.components import COMPONENTS
from mutation.faults import ROOT, Fault
from mutation.judging import Mutant

FAULT = Fault("hdl/x.py", "bound off by one", "a < b", 0, 7)


def mutant(result, proofs=()):
    return Mutant("barrier", FAULT, result, "a test", ("tests",), 1.5, proofs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "barier"], "only: must be one of .*; did you mean 'barrier'?"),
        (["--count", "0"], "count: must be a whole number from 1 on, not '0'"),
        (["--jobs", "x"], "jobs: must be a whole number from 1 on, not 'x'"),
        (["--seed", "-1"], "seed: must be a whole number from 0 on, not '-1'|expected one arg"),
        (["--all"], "unrecognized arguments: --all"),
    ],
)
def test_a_bad_argument_is_one_line(arguments, message, capsys):
    assert run.main(arguments) == run.BAD_ARGUMENT
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)


def test_the_list_names_faults_of_every_component(capsys):
    assert run.main(["--list", "--count", "1"]) == run.DONE
    lines = capsys.readouterr().out.splitlines()
    assert list(dict.fromkeys(line.partition(":")[0] for line in lines)) == list(COMPONENTS)


def test_totals_count_what_changes_something():
    results = ["caught", "caught", "survived", "equivalent", "explained"]
    totals = run.totals([mutant(result) for result in results] + [mutant("caught", ("barrier",))])
    assert (totals["planted"], totals["caught"], totals["survived"]) == (4, 3, 1)
    assert (totals["equivalent"], totals["explained"], totals["broken_proofs"]) == (1, 1, 1)
    assert totals["seconds"] == 9.0


def test_json_has_every_fault(monkeypatch, tmp_path, capsys):
    judged = [mutant("caught"), mutant("survived")]
    monkeypatch.setattr(run, "_judge", lambda name, count, seed, proofs: judged)
    target = tmp_path / "mutants.json"
    assert run.main(["--only", "barrier", "--json", str(target)]) == run.SURVIVORS
    written = json.loads(target.read_text())
    assert written["totals"]["planted"] == 2
    assert written["mutants"][0]["file"] == "hdl/x.py"
    assert written["mutants"][0]["result"] == "caught"
    assert "hdl/x.py:7: survived" in capsys.readouterr().err


def test_the_published_verdicts_are_of_every_component():
    """And those that nobody has noticed are few: each stands in docs/verification.md."""
    mutants = json.loads((ROOT / "docs" / "data" / "mutants.json").read_text())["mutants"]
    assert {mutant["component"] for mutant in mutants} == set(COMPONENTS)
    results = Counter(mutant["result"] for mutant in mutants)
    assert results["survived"] <= 0.05 * (results["survived"] + results["caught"])
