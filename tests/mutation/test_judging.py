"""Judges and their verdicts: what is caught, kept, equivalent, explained; time limits."""

import dataclasses
import functools
import os
import signal
import time
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest
from amaranth.hdl import Fragment

from mutation import judging
from mutation.components import COMPONENTS
from mutation.equivalence import is_equivalent
from mutation.faults import COMPARISON, KINDS, ROOT, find
from mutation.forked import JudgeError, forked
from mutation.judging import OF_A_FILE, judge, places, sample
from mutation.unit import UnitJudge

BARRIER = COMPONENTS["barrier"]


def test_verdicts_of_a_copy(tmp_path):
    log = tmp_path / "log.txt"
    assert not forked(lambda: "", seconds=20, log=log).caught
    caught = forked(lambda: os.write(1, b"said\n") and "a test", seconds=20, log=log)
    assert caught.caught
    assert caught.by == "a test"
    assert log.read_text() == "said\n"


def test_a_copy_that_never_ends_has_caught_it(tmp_path):
    def hangs():
        while True:
            time.perf_counter()

    assert forked(hangs, seconds=1, log=tmp_path / "log.txt").by == "no end"


def test_a_copy_that_breaks_or_is_killed_has_no_verdict(tmp_path):
    """A full disk, or no memory, is not a fault that a test has noticed."""

    def breaks():
        raise OSError("no space left")

    def is_killed():
        os.kill(os.getpid(), signal.SIGKILL)

    log = tmp_path / "log.txt"
    with pytest.raises(JudgeError, match="a judge failed: see .*log.txt"):
        forked(breaks, seconds=20, log=log)
    with pytest.raises(JudgeError, match="ended by signal 9"):
        forked(is_killed, seconds=20, log=log)


def test_a_unit_test_names_itself_where_it_notices_a_fault(tmp_path):
    """And is content without one, and with one that stands elsewhere."""
    faults = [
        next(fault for fault in places(COMPONENTS[name]).values() if fault.kind == COMPARISON)
        for name in ("barrier", "write-tracker")
    ]
    component = dataclasses.replace(BARRIER, tests=("tests/accelerator/test_barrier.py",))
    judge_ = UnitJudge(component, faults, tmp_path)
    said = [
        forked(functools.partial(judge_, number), seconds=300, log=tmp_path / "log.txt")
        for number in range(3)
    ]
    assert [verdict.caught for verdict in said] == [False, True, False]
    assert "test_barrier.py::test_" in said[1].by


def test_verdicts_are_of_all_that_tests_import():
    """Also of what whole systems are made of, and of helpers of tests."""
    component = COMPONENTS["totals"]
    with mock.patch.object(judging, "imported_files", wraps=judging.imported_files) as files:
        judging._state(component)
        (given, root), _ = files.call_args
        read = judging.imported_files(given, root)
    assert {
        "hdl/accelerator/totals.py", "hdl/transport/port.py", "sim/testbed.py",
        "tests/lib/simulate.py", "tests/system/tenancy.py",
    } <= set(read)  # fmt: skip


def test_a_sample_is_the_same_again_and_has_every_kind():
    first = sample(BARRIER, 12, 1)
    assert first == sample(BARRIER, 12, 1)
    assert first != sample(BARRIER, 12, 2)
    kinds = {fault.kind for fault in places(BARRIER).values()}
    assert {fault.kind for fault in first} == kinds <= set(KINDS)
    assert len(sample(BARRIER, 1000, 1)) == len(sample(BARRIER, 999, 1)) > 12


def test_a_sample_has_some_of_every_file():
    reducer = COMPONENTS["reducer"]
    counts = Counter(fault.file for fault in sample(reducer, 1, 1))
    assert set(counts) == set(reducer.files)
    assert min(counts.values()) >= OF_A_FILE


def test_faults_are_looked_for_in_all_configurations():
    """A context that is one of several has a share of the entries; one alone has none."""
    whole = COMPONENTS["wave-controller"]
    alone = dataclasses.replace(whole, also=())
    assert set(places(alone)) < set(places(whole))


@pytest.mark.parametrize("name", COMPONENTS)
def test_components_name_what_there_is(name):
    """Each has faults in each of its files, and somebody who judges them."""
    component = COMPONENTS[name]
    assert {fault.file for fault in places(component).values()} == set(component.files)
    assert component.tests or component.bench
    assert all((ROOT / path).exists() for path in component.tests)
    assert set(component.proofs) <= set(judging.PROOFS)
    if component.bench:
        assert (ROOT / "cocotb_tests" / f"{component.bench.module}.py").exists()


#: The array of an emulated rank's memory, and what is put around a block to time it.
NOT_JUDGED = {"hdl/storage.py", "hdl/building/block_timing.py"}


def test_every_file_that_makes_hardware_is_some_components():
    judged = {file for component in COMPONENTS.values() for file in component.files}
    makes = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "hdl").rglob("*.py")
        if "m.d." in path.read_text()
    }
    assert makes - judged == NOT_JUDGED


def test_a_fault_that_changes_nothing_is_equivalent():
    """``.eq(0)`` of what is 0 anyway; and an inverted comparison is not."""
    doorbell = COMPONENTS["doorbell"]
    made = doorbell.create(doorbell.config)
    listed = find(Fragment.get(made, None), doorbell.files)
    nothing = next(f for f in listed if f.kind == "assignment dropped" and "source.eq" in f.text)
    assert is_equivalent(doorbell, nothing)
    something = next(f for f in listed if f.kind == "comparison inverted")
    assert not is_equivalent(doorbell, something)


class Scripted:
    """Catches faults by their numbers; counts how often it is asked."""

    name = "scripted"
    asked = 0

    def __init__(self, component, faults, folder):
        pass

    def __call__(self, number):
        # In a copy of this process, so the count is kept in a file.
        with Path("asked").open("a") as file:
            file.write(f"{number}\n")
        return "a test" if number % 2 else ""


@pytest.fixture
def scripted(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(judging, "UnitJudge", Scripted)
    monkeypatch.setattr(judging, "BenchJudge", Scripted)
    monkeypatch.setattr(judging, "is_equivalent", lambda component, fault: False)
    return tmp_path


def test_what_was_judged_is_not_judged_again(scripted):
    faults = sample(BARRIER, 4, 1)
    first = judge(BARRIER, faults, proofs=False, say=lambda line: None, build=scripted)
    assert [mutant.result for mutant in first] == ["caught", "survived"] * 2
    asked = (scripted / "asked").read_text()
    assert judge(BARRIER, faults, proofs=False, say=lambda line: None, build=scripted) == first
    assert (scripted / "asked").read_text() == asked


def test_a_survivor_with_a_reason_is_explained(scripted, monkeypatch):
    faults = sample(BARRIER, 2, 1)
    monkeypatch.setattr(judging, "explanations", lambda: {faults[1].key: "cannot show"})
    second = judge(BARRIER, faults, proofs=False, say=lambda line: None, build=scripted)[1]
    assert (second.result, second.by) == ("explained", "cannot show")


def test_reasons_are_of_faults_that_there_are():
    """A reason whose line was changed is out of date."""
    known = {key for component in COMPONENTS.values() for key in places(component)}
    assert set(judging.explanations()) <= known
