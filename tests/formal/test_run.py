"""``python -m formal``: arguments, exit codes, and what it writes."""

import json
import re

import pytest

from formal import run
from formal.check import FaultRow, Row
from formal.proofs import PROOFS


def row(result="proved", waveform=None) -> Row:
    return Row(
        property="holds",
        component="Queue",
        size="depth 2",
        engine="smtbmc yices",
        mode="induction",
        depth=2,
        seconds=1.5,
        result=result,
        proof="queue",
        meaning="It holds.",
        waveform=waveform,
    )


@pytest.fixture
def no_solver(monkeypatch):
    """Every proof is one property that holds."""
    monkeypatch.setattr(run, "check", lambda proof: [row()])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "quue"], "only: must be one of .*; did you mean 'queue'?"),
        (["--jobs", "0"], "jobs: must be a whole number from 1 on, not '0'"),
        (["--jobs", "two"], "jobs: must be a whole number from 1 on, not 'two'"),
        (["--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_a_bad_argument_is_one_line(arguments, message, capsys):
    assert run.main(arguments) == run.BAD_ARGUMENT
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error)


def test_the_list_names_every_proof(capsys):
    assert run.main(["--list"]) == run.DONE
    text = capsys.readouterr().out
    assert all(name in text for name in PROOFS)


def test_rows_are_written_as_json(no_solver, tmp_path):
    target = tmp_path / "proofs.json"
    assert run.main(["--only", "queue", "--json", str(target)]) == run.DONE
    (written,) = json.loads(target.read_text())
    assert written == {
        "property": "holds", "component": "Queue", "size": "depth 2", "engine": "smtbmc yices",
        "mode": "induction", "depth": 2, "seconds": 1.5, "result": "proved", "proof": "queue",
        "meaning": "It holds.",
    }  # fmt: skip


def test_json_on_standard_output_is_alone_there(no_solver, capsys):
    assert run.main(["--only", "queue", "--json", "-"]) == run.DONE
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)) == 1
    assert "queue: ok" in captured.err


def test_a_component_names_all_of_its_proofs(no_solver, capsys):
    assert run.main(["--only", "Queue"]) == run.DONE
    text = capsys.readouterr().out
    assert "queue: ok" in text
    assert "queue-block-ram: ok" in text


def test_a_failure_names_the_property_and_the_waveform(monkeypatch, capsys):
    monkeypatch.setattr(run, "check", lambda proof: [row(), row("failed", "build/trace.vcd")])
    assert run.main(["--only", "queue"]) == run.FAILURE
    assert "queue: holds (induction): failed; see build/trace.vcd" in capsys.readouterr().err


def test_a_time_limit_is_a_failure(monkeypatch, capsys):
    monkeypatch.setattr(run, "check", lambda proof: [row("timeout")])
    assert run.main(["--only", "queue"]) == run.FAILURE
    assert "timeout" in capsys.readouterr().err


def test_a_fault_that_is_not_caught_is_a_failure(monkeypatch, capsys):
    def never(proof, fault):
        return FaultRow(fault.name, proof.component, proof.name, [], 20, 1.0)

    monkeypatch.setattr(run, "caught", never)
    assert run.main(["--only", "queue", "--faults"]) == run.FAILURE
    assert "queue: never full: not caught" in capsys.readouterr().err
