"""Events of waves against the hardware's own counters, and the pictures drawn of them."""

import dataclasses
import itertools

import numpy as np
import pytest

from scripts.draw_waves import main
from sim.cli.arguments import parse
from sim.cli.session import open_bench, run_once, settle_memories
from sim.waves.events import EventsError, RunEvents, Wave, record, run_events
from sim.waves.picture import PHASES, draw_runs, pack_rows, phases, save_picture
from tests.sim.small_run import CONFIG, SMALL, needs_compiler, use_one_model

MOST_SVG_BYTES = 300_000


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    use_one_model(monkeypatch)
    monkeypatch.chdir(tmp_path)


def recorded(arguments, runs=1):
    """(outcome, events) of each of `runs` repetitions in one system."""
    options = parse([*SMALL, *arguments, "--repeat", str(runs)])
    results = []
    with open_bench(options, vcd=True) as bench:
        settle_memories(bench, options)
        for run in range(runs):
            outcome = run_once(
                bench, options, run, during=lambda: record(bench.engine, CONFIG.ranks)
            )
            events = run_events(bench.engine.recording(), CONFIG, outcome.bytes, options.dtype)
            results.append((outcome, events))
    return results


def most_at_once(spans):
    """Most of the half-open spans (begin, end) that hold at one time."""
    steps = [(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans]
    return int(np.cumsum([change for _, change in sorted(steps)]).max())


@needs_compiler
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_events_agree_with_the_hardware_counters(seed):
    arguments = ["--bytes", "1000", "--seed", str(seed), "--latency-jitter", "40", "--skew", "9,0"]
    for outcome, events in recorded([*arguments, "--stalls", "heavy"], runs=2):
        assert outcome.status == "ok"
        figures = outcome.figures
        assert events.last_response - events.first_request == figures.data
        assert len(events.waves) == figures.waves == -(-1000 // CONFIG.wave_bytes)
        reading = [(wave.issued, wave.released) for wave in events.waves]
        assert most_at_once(reading) == figures.reading_max
        total = sum(end - begin for begin, end in reading)
        # The counters stop with the last response; by then every wave is read out.
        assert total == pytest.approx(figures.reading_mean * figures.data, abs=len(reading))
        assert min(events.flags) > events.last_response
        assert max(events.arrivals) < events.first_request


@needs_compiler
def test_pictures_are_drawn_and_their_bytes_repeat(capsys, tmp_path):
    options = [*SMALL, "--bytes", "1024", "--latency-jitter", "30"]
    assert main(["--out", "a/picture", "--save-events", *options]) == 0
    assert capsys.readouterr().out == "wrote a/picture.png\nwrote a/picture.svg\n"
    assert main(["--out", "b/picture", "--events", "a/picture-k2.json"]) == 0
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        first, second = (tmp_path / name / f"picture{suffix}" for name in ("a", "b"))
        assert first.read_bytes().startswith(start)
        assert first.read_bytes() == second.read_bytes()
    svg = (tmp_path / "a" / "picture.svg").read_text()
    assert "date" not in svg.lower()
    assert str(tmp_path) not in svg
    for phase in PHASES:
        assert phase.color.lower() in svg


def example(count=4, length=300, spacing=100):
    """A run of `count` waves, of `length` cycles each, `spacing` after each other."""
    waves = [
        Wave(
            issued=begin,
            requested=[begin + 1, begin + 2],
            complete=[begin + length // 3, begin + length // 2],
            read_out=begin + length // 2 + 1,
            released=begin + length // 2 + 30,
            written=[begin + length // 2 + 8] * 2,
            acknowledged=[begin + length, begin + length - 5],
        )
        for begin in range(1000, 1000 + count * spacing, spacing)
    ]
    fields = CONFIG.to_fields()
    return RunEvents(fields, count * CONFIG.wave_bytes, "fp16", [900, 900], [2000, 2000], waves)


def test_phases_follow_each_other():
    wave = example().waves[0]
    assert phases(wave, 0) == [(1001, 1100), (1100, 1151), (1151, 1180), (1180, 1300)]
    early = dataclasses.replace(wave, acknowledged=[1170, 1170])
    assert phases(early, 0)[2:] == [(1151, 1170), (1170, 1170)]


def test_rows_are_shared_only_by_waves_that_do_not_overlap():
    waves = example(count=9).waves
    rows = pack_rows(waves, 0)
    assert max(rows) + 1 == 3  # 300 cycles each, one every 100
    for row in set(rows):
        mine = [wave for wave, at in zip(waves, rows, strict=True) if at == row]
        for before, after in itertools.pairwise(mine):
            assert before.acknowledged[0] <= after.requested[0]
    assert pack_rows(example(spacing=1000).waves, 0) == [0, 0, 0, 0]


def test_large_pictures_stay_small_files(tmp_path):
    """Two panels of the size that the README's picture has: 4 ranks, 16 waves."""
    run = example(count=16)
    for wave in run.waves:
        for name in ("requested", "complete", "written", "acknowledged"):
            setattr(wave, name, getattr(wave, name) * 2)
    run.config |= {"ranks": 4}
    figure = draw_runs([run, run], ["one", "two"], "heading")
    assert len(figure.axes) == 2
    _, svg = save_picture(figure, tmp_path / "large")
    assert svg.stat().st_size < MOST_SVG_BYTES


def test_events_are_saved_and_loaded(tmp_path):
    run = example()
    run.save(tmp_path / "events.json")
    assert RunEvents.load(tmp_path / "events.json") == run


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"waves": [{"issued": 1}]}'])
def test_other_files_are_refused(capsys, tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(EventsError, match="events: 'x.json' must be a file of saved events"):
        RunEvents.load("x.json")
    assert main(["--out", "a", "--events", "x.json"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_events_out_of_order_are_found():
    run = example()
    run.check()
    run.waves[2].complete[1] = run.waves[2].read_out + 1
    with pytest.raises(EventsError, match="events: wave 2 at rank 1 is out of order"):
        run.check()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: --out"),
        ("--out a --waves x", "waves: must be a whole number, not 'x'"),
        ("--out a --waves 3", "waves: must be a power of two, not 3"),
        ("--out a --bytes 3", "bytes: must be whole elements of 2 bytes, not 3"),
        ("--out a --events no.json --bytes 2", "events: must come without a run's options"),
        ("--out a --nothing", "option: must be one of --help"),
        ("--out .", "out: must be pictures' name without its ending, not '.'"),
        ("--out " + 300 * "x", "out: must be a file that can be written (File name too long)"),
        ("--out a --events no.json", "events: cannot read 'no.json': No such file"),
        ("--out a --trace no.json", "trace: cannot read 'no.json': No such file"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(capsys, tmp_path, arguments, message):
    assert main(arguments.split()) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
