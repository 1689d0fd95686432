"""The command `python -m sim.scenarios`: arguments, report, what it says of a failure."""

import functools
import json

import pytest

from sim.cli.errors import UsageError
from sim.scenarios import campaign, command, running
from sim.scenarios.arguments import parse
from sim.scenarios.campaign import chosen_seeds
from sim.scenarios.command import main
from sim.scenarios.configurations import CONFIGURATIONS
from sim.scenarios.draw import configuration_of
from sim.scenarios.running import Outcome
from tests.sim.small_run import needs_compiler

pytestmark = needs_compiler
STATE = {"context0": {"epoch": 3}}


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--count 0", "count: must be a whole number of 1..1000000, not '0'"),
        ("--count=", "count: must be a whole number of 1..1000000, not ''"),
        ("--seed=", "seed: must be a whole number of 0..4294967295, not ''"),
        ("--jobs=", "jobs: must be a whole number of 1..64, not ''"),
        ("--count many", "count: must be a whole number .*, not 'many'"),
        ("--seed -1", "seed: must be a whole number of 0..4294967295, not '-1'"),
        ("--only plan", "only: must be one of plain, .*, not 'plan'; did you mean 'plain'"),
        ("--jobs 0", "jobs: must be a whole number of 1..64, not '0'"),
        ("--vcd a.vcd", "vcd: must come with --replay"),
        ("--replay 3 --count 2", "count: must not come with --replay"),
        ("--replay 3 --vcd-window 1:2", "vcd-window: must come with --vcd"),
        ("--replay 3 --vcd a.vcd --vcd-window 9:2", "vcd-window: must have FROM at most TO"),
        ("--json .", "json: must be a file that can be written"),
        ("--replay 3 --vcd a --json a", "json: must not be the file of --vcd"),
        ("--cout 3", "option: must be one of .*, not '--cout'; did you mean '--count'"),
    ],
)
def test_bad_arguments_are_one_line(arguments, message, capsys):
    with pytest.raises(UsageError, match=message):
        parse(arguments.split())
    assert main(arguments.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_no_seed_is_run_that_could_not_be_replayed(capsys):
    assert main(["--seed", "4294967295", "--count", "2"]) == 2
    message = "count: must be at most 1 from seed 4294967295 on, not 2"
    assert capsys.readouterr().err.strip().endswith(message)


def test_seeds_go_up_and_are_those_of_the_configurations_asked_for():
    assert chosen_seeds(5, 10, tuple(CONFIGURATIONS)) == [10, 11, 12, 13, 14]
    some = chosen_seeds(5, 10, ("wide",))
    assert {configuration_of(seed) for seed in some} == {"wide"}
    assert some == sorted(set(some))


def outcomes(monkeypatch, failing=()):
    """The command with scenarios that need not run."""

    def told(seeds, *, jobs, phases):
        for seed in seeds:
            reason = (
                "round 0: rank 1 address 0x10: is 0x00, must be 0x01" if seed in failing else None
            )
            yield Outcome(seed, reason, 1000, state=STATE if reason else {})

    monkeypatch.setattr(command, "campaign", told)


def test_the_report_counts_scenarios_and_kinds(monkeypatch, capsys):
    outcomes(monkeypatch)
    assert main(["--count", "30", "--seed", "1", "--json", "report.json"]) == 0
    with open("report.json") as file:
        report = json.load(file)
    assert (report["count"], report["passed"], report["failures"]) == (30, 30, [])
    assert report["seeds"] == list(range(1, 31))
    assert report["cycles"] == 30_000
    assert sum(report["kinds"][f"configuration {name}"] for name in report["configurations"]) == 30
    assert all(0 < count <= 30 for count in report["kinds"].values())
    assert "30 of 30 scenarios passed, seeds 1 to 30" in capsys.readouterr().out


def test_a_failure_names_seed_reason_and_the_command_that_runs_it_again(monkeypatch, capsys):
    outcomes(monkeypatch, failing=(4,))
    assert main(["--count", "5", "--seed", "2", "--json", "-"]) == 1
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert (report["count"], report["passed"]) == (5, 4)
    (failure,) = report["failures"]
    assert failure["seed"] == 4
    assert failure["reason"].startswith("round 0: rank 1")
    assert failure["state"] == STATE
    again = "python -m sim.scenarios --replay 4 --vcd build/scenarios/4.vcd"
    assert failure["replay"] == again
    assert "seed 4" in captured.err
    assert again in captured.err
    assert parse(again.split()[3:]).replay == 4


@pytest.fixture
def one_model(monkeypatch):
    """Runners that leave their model open, so that it is made once."""
    make = functools.cache(running.Runner)

    def runner(name, **_options):
        made = make(name)
        monkeypatch.setattr(made.bed, "close", lambda: None)
        return made

    for module in (campaign, command):
        monkeypatch.setattr(module, "Runner", runner)


def test_scenarios_run(one_model, capsys):
    """Two of them, and one of them again, told line by line."""
    assert main(["--count", "2", "--only", "plain", "--json", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] == 2
    assert report["kinds"]["configuration plain"] == 2
    seed = report["seeds"][0]
    assert main(["--replay", str(seed)]) == 0
    said = capsys.readouterr().out
    assert f"seed {seed}: configuration plain" in said
    assert f"seed {seed}: passed" in said


@pytest.mark.long
def test_a_replay_writes_waveforms(capsys):
    """Of the scenario's last cycles, unless told."""
    (seed,) = chosen_seeds(1, 1, ("plain",))
    assert main(f"--replay {seed} --vcd a.vcd".split()) == 0
    assert "waveforms: a.vcd, cycles" in capsys.readouterr().out
    with open("a.vcd") as file:
        assert "$scope module context_0 $end" in file.read(1 << 20)
    assert main(f"--replay {seed} --vcd b.vcd --vcd-window 100:120".split()) == 0


@pytest.mark.long
def test_processes_side_by_side_find_the_same():
    found = []
    for jobs in ("1", "2"):
        name = f"{jobs}.json"
        assert main(f"--count 6 --only plain,three --jobs {jobs} --json {name}".split()) == 0
        with open(name) as file:
            report = json.load(file)
        found.append({key: value for key, value in report.items() if key != "seconds"})
    assert found[0] == found[1]
