"""The regression's own parts: patterns, scoreboard, layouts, coverage, reports."""

import itertools
import json
import os
import random

import numpy as np
import pytest

from cocotb_tests import report
from cocotb_tests.lib import coverage, results, scoreboard
from cocotb_tests.lib.bins import BINS
from cocotb_tests.lib.packets import Packet, ProtocolError, from_flits, header_bits, header_fields
from cocotb_tests.lib.patterns import SHAPES, pattern
from cocotb_tests.lib.ports import Layout
from cocotb_tests.lib.scoreboard import Mismatch, compare, golden
from cocotb_tests.lib.simulators import Outcome
from cocotb_tests.lib.verilog_coverage import read_coverage


@pytest.mark.parametrize("shape", SHAPES)
def test_patterns_go_on_and_repeat_with_their_seed(shape):
    first, again = (list(itertools.islice(pattern(shape, random.Random(5)), 400)) for _ in range(2))
    assert first == again
    assert any(first)
    assert all(first) == (shape == "always")


def test_an_unknown_pattern_is_refused():
    with pytest.raises(ValueError, match="must be one of always, pauses"):
        next(pattern("sometimes", random.Random()))


def test_layouts_pack_and_unpack():
    layout = Layout({"low": (0, 3), "high": (3, 5)})
    assert layout.unpack(layout.pack({"low": 5, "high": 17})) == {"low": 5, "high": 17}
    with pytest.raises(ValueError, match="low: must fit 3 bits"):
        layout.pack({"low": 8})


def test_headers_are_102_bits():
    header = dict.fromkeys(header_fields(0), 1)
    assert header_fields(header_bits(header)) == header
    assert header_bits(header_fields((1 << 102) - 1)) == (1 << 102) - 1


def test_bits_above_a_header_are_noticed():
    from cocotb_tests.lib.configs import TINY

    flits = Packet({"message_class": 3}).flits(TINY)
    assert from_flits(TINY, flits).channel == 3
    flits[-1]["data"] |= 1 << 63
    with pytest.raises(ProtocolError, match="bits above"):
        from_flits(TINY, flits)


def test_compare_names_the_element():
    compare("x", [1, 2], [1, 2])
    with pytest.raises(Mismatch, match=r"x\[1\]: is 0x2, must be 0x3"):
        compare("x", [1, 2], [1, 3])
    with pytest.raises(Mismatch, match="2 of them, must be 3"):
        compare("x", [1, 2], [1, 2, 3])


@pytest.mark.parametrize(
    "values",
    [[3, 4, 5], bytes(range(7)), np.arange(5, dtype=np.uint16), np.zeros((2, 3), np.int8)],
    ids=lambda values: type(values).__name__,
)
def test_golden_is_changed_by_one_bit_once(values, monkeypatch):
    monkeypatch.setenv("TIDEGATE_CORRUPT_GOLDEN", "1")
    scoreboard.begin_test("a test", 3)

    def ask(values):
        return golden(values, 8)

    assert ask([]) == []  # nothing to change: the next one is
    changed, then = ask(values), ask(values)
    before, after = (np.asarray(list(x) if isinstance(x, bytes) else x) for x in (values, changed))
    flipped = np.asarray(before ^ after)
    assert sum(int(x).bit_count() for x in flipped.reshape(-1).view(f"u{flipped.itemsize}")) == 1
    assert np.array_equal(np.asarray(then), np.asarray(values))
    monkeypatch.setenv("TIDEGATE_CORRUPT_GOLDEN", "0")
    scoreboard.begin_test("a test", 3)
    assert golden(values, 8) is values


def test_each_place_that_asks_for_golden_can_be_the_wrong_one(monkeypatch):
    """A place is a line of a bench, and what it says that it compares."""

    def wrong(number: int) -> list[bool]:
        monkeypatch.setenv("TIDEGATE_CORRUPT_GOLDEN", str(number))
        scoreboard.begin_test("a test", 3)
        answers = []
        for what in ("a", "b", "a", "b"):
            answers.append(golden([7], 8, what=what))
        answers.append(golden([7], 8))
        return [answer != [7] for answer in answers]

    assert wrong(0) == [False] * 5
    assert len(scoreboard.places()) == 3
    assert [wrong(number) for number in (1, 2, 3, 4)] == [
        [True, False, False, False, False],
        [False, True, False, False, False],
        [False, False, False, False, True],
        [False] * 5,
    ]


def test_only_declared_bins_count():
    coverage.taken()
    coverage.hit("core_stub.request", "read")
    assert coverage.taken() == {"core_stub.request/read": 1}
    assert coverage.taken() == {}
    with pytest.raises(KeyError, match="no bin 'both'"):
        coverage.hit("core_stub.request", "both")


@pytest.mark.parametrize(
    ("value", "name"), [(0, "0"), (1, "1"), (2, "2-4"), (4, "2-4"), (5, "5+"), (99, "5+")]
)
def test_ranges_have_names(value, name):
    assert coverage.range_bin(value, 0, 1, 4) == name


def _leave_run(folder, name, simulator, cases, **more):
    run = folder / "runs" / name
    run.mkdir(parents=True)
    record = {"test": "t", "cases": cases, "cycles": 10, "seconds": 1.0,
              "bins": {"core_stub.request/read": 2}}  # fmt: skip
    (run / "cases.jsonl").write_text(json.dumps(record) + "\n")
    outcome = Outcome(more.pop("passed", ("t",)), more.pop("failed", {}), (), run)
    told = dict(component="core-stub", digest="d", simulator=simulator, seed=1, seconds=2.0,
                corrupted=False)  # fmt: skip
    results.write_run(outcome, name=name, **told | more)


def test_runs_are_merged(tmp_path, monkeypatch):
    """A seed counts once a simulator, whatever runs it; corrupted runs are counted apart."""
    monkeypatch.setattr(results, "simulator_version", lambda name: f"{name} 1")
    assert results.merge(tmp_path) is None
    _leave_run(tmp_path, "a", "icarus", 4)
    _leave_run(tmp_path, "b", "icarus", 6)
    _leave_run(tmp_path, "c", "verilator", 5)
    _leave_run(tmp_path, "d", "icarus", 1, corrupted=True, passed=(), failed={"t": "Mismatch"})
    merged = results.merge(tmp_path)
    assert merged["cases"] == {"icarus": 6, "verilator": 5, "total": 11, "distinct": 6}
    assert merged["tests"] == {"run": 3, "passed": 3}
    assert merged["corrupted_golden"] == {"tests": 1, "failed": 1}
    assert "core_stub.request/write" in merged["bins"]["holes"]
    assert "core_stub.request/read" not in merged["bins"]["holes"]
    assert merged["bins"]["declared"] == sum(len(group.bins) for group in BINS.values())
    assert json.loads((tmp_path / "results.json").read_text()) == merged
    assert "holes: " in (tmp_path / "coverage.txt").read_text()


def test_report_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(results, "simulator_version", lambda name: f"{name} 1")
    assert report.main([str(tmp_path)]) == 2
    assert "must hold runs/*/run.json" in capsys.readouterr().err
    _leave_run(tmp_path, "a", "icarus", 4)
    assert report.main([str(tmp_path)]) == 0
    _leave_run(tmp_path, "b", "icarus", 4, passed=(), failed={"t": "Mismatch"})
    assert report.main([str(tmp_path)]) == 1
    assert "1 of 2 tests passed" in capsys.readouterr().out


def test_runs_of_before_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "simulator_version", lambda name: f"{name} 1")
    _leave_run(tmp_path, "a", "icarus", 4)
    os.utime(tmp_path / "runs" / "a" / "run.json", (1, 1))
    assert results.merge(tmp_path, since=10.0) is None


def test_what_a_failed_run_has_reached_is_not_covered(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "simulator_version", lambda name: f"{name} 1")
    _leave_run(tmp_path, "a", "icarus", 4, passed=(), failed={"t": "Mismatch"})
    assert results.merge(tmp_path)["functional_coverage"] == 0


def test_runs_of_several_folders_are_merged_into_another(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "simulator_version", lambda name: f"{name} 1")
    _leave_run(tmp_path / "a", "a", "icarus", 4)
    _leave_run(tmp_path / "b", "b", "verilator", 4)
    _leave_run(tmp_path / "c", "c", "verilator", 9)
    merged = results.merge(tmp_path / "all", sources=[tmp_path / "a", tmp_path / "b"])
    assert merged["cases"]["total"] == 8
    assert (tmp_path / "all" / "coverage.txt").exists()


def test_coverage_of_verilator_is_read(tmp_path):
    path = tmp_path / "coverage.dat"
    point = "\x01f\x02x.v\x01l\x023\x01page\x02{}/top\x01o\x02block"
    lines = ["# SystemC::Coverage-3"]
    lines += [f"C '{point.format('v_line')}' {count}" for count in (0, 4)]
    lines += [f"C '{point.format('v_toggle')}' 1"]
    path.write_text("\n".join(lines))
    assert read_coverage(path) == {
        "line": {"points": 2, "reached": 1},
        "toggle": {"points": 1, "reached": 1},
    }
