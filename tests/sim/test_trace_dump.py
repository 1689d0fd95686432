"""What the trace buffer keeps of a run, against the engine's recording of the same run."""

import dataclasses

import numpy as np
import pytest

from hdl.accelerator.trace import trace_ports
from hdl.accelerator.trace_buffer import record_fields
from hdl.config import SwitchConfig
from scripts.draw_waves import main
from sim.testbed import Placement, Testbed
from sim.waves.events import EventsError, operations, record, run_events
from sim.waves.trace_dump import TraceDump, arm_trace, read_trace
from sim.waves.vcd import read_header
from tests.sim.small_run import FIELDS, needs_compiler
from tests.sim.test_waves import changes_only, read_values
from tests.system.quantized import any_codes
from tests.system.systems import AWKWARD, TINY, Operation, random_bits, run_queue
from tests.system.test_timing import disturb

CONFIG = SwitchConfig.preset("tiny", **FIELDS, trace_records=64)
#: Elements of an operation whose records fit the buffer, and of one whose do not.
SHORT, LONG = 70, 260
FLAGS = [CONFIG.memory_bytes - 64] * CONFIG.ranks


@pytest.fixture(scope="module")
def bed():
    with Testbed(CONFIG, "pysim") as made:
        yield made


def arm(bed, **how):
    arm_trace(bed.host.read_words, bed.host.write_words, bed.config, **how)
    record(bed.engine, bed.config.ranks)


def read(bed, **how):
    return read_trace(bed.host.read_words, bed.host.write_words, bed.config, **how)


def all_reduce(bed, elements, seed=0, **how):
    operands = random_bits(np.random.default_rng(seed), bed.config.ranks, elements)
    outcome = bed.all_reduce(operands, "fp16", **how)
    assert outcome.status == "ok"
    return outcome


def queue(lengths, ranks=CONFIG.ranks):
    """Operations behind each other in memory, at the lengths."""
    rng, low, result = np.random.default_rng(1), 0, []
    for length in lengths:
        where = Placement([low] * ranks, [low] * ranks, FLAGS)
        result.append(Operation(random_bits(rng, ranks, length), "fp16", where))
        low += 1024
    return result


def check_last(trace, recording):
    """The trace holds the last rows of the recording, and says how many it does not."""
    found = trace.recording()
    kept = min(len(recording), trace.config.trace_records)
    assert trace.overwritten == len(recording) - kept
    assert found.ports == recording.ports
    assert found.cycles == list(recording.cycles[-kept:])
    assert found.values == recording.values[-kept:]


def since_request(events):
    """Waves by cycles since the first read request."""
    start = events.first_request
    waves = [dataclasses.asdict(wave) for wave in events.waves]
    return [
        {
            name: [c - start for c in cycles] if isinstance(cycles, list) else cycles - start
            for name, cycles in wave.items()
        }
        for wave in waves
    ]


def by_cycle(path, name, cycles):
    """The value of a signal of a waveform in each of the cycles."""
    period = 10**15 // CONFIG.clock_hz
    changes = {time // period: value for time, value in read_values(path, name)}
    result, value = {}, None
    for cycle in cycles:
        value = changes.get(cycle, value)
        result[cycle] = value
    return result


def test_a_short_operation_is_kept_whole(bed):
    """Records and events are those of the simulated trace ports."""
    arm(bed, operations=1)
    outcome = all_reduce(bed, SHORT)
    recording = bed.engine.recording()
    trace = read(bed, runs=[(outcome.bytes, "fp16")])
    assert (trace.whole, trace.missed, trace.frozen, trace.losses()) == (True, 0, True, None)
    assert trace == read(bed, runs=[(outcome.bytes, "fp16")])  # reading takes nothing
    check_last(trace, recording)
    events = trace.events()
    assert events == run_events(recording, CONFIG, outcome.bytes, "fp16")
    assert events.last_response - events.first_request == outcome.figures.data
    assert all(events.arrivals)
    assert min(events.flags) > events.last_response


def test_waveforms_of_traces_have_a_simulated_ones_names_and_the_trace_s_values(bed, tmp_path):
    now = bed.engine.cycle
    with bed.engine.vcd(tmp_path / "simulated.vcd", (now, now)):
        bed.engine.step()
    arm(bed)
    outcome = all_reduce(bed, 100)
    trace = read(bed)
    assert trace.whole
    path, view = trace.vcd(tmp_path / "trace.vcd")
    assert view.is_file()
    simulated, traced = read_header(tmp_path / "simulated.vcd"), read_header(path)
    names = [*record_fields(CONFIG), "trace__reading", "trace__writing"]
    assert list(traced) == names
    for name in names:
        assert traced[name].scope == simulated[name].scope
        assert traced[name].width == simulated[name].width
    rows = dict(trace.recording().rows())
    shown = {name: by_cycle(path, name, range(min(rows) - 1, max(rows) + 2)) for name in names}
    for strobe, numbers in trace_ports(CONFIG.ranks).items():
        events = {cycle for cycle, row in rows.items() if row[strobe]}
        assert {cycle for cycle, value in shown[strobe].items() if value} == events
        for name in numbers:
            assert all(shown[name][cycle] == rows[cycle][name] for cycle in events)
    for phase in ("reading", "writing"):
        levels = shown[f"trace__{phase}"]
        assert max(levels.values()) == getattr(outcome.figures, f"{phase}_max")
        assert levels[max(levels)] == 0


@pytest.fixture(scope="module")
def long_run(bed):
    """Outcome, recording and events of an operation that does not fit the buffer, and its trace."""
    arm(bed, operations=1)
    outcome = all_reduce(bed, LONG)
    recording = bed.engine.recording()
    trace = read(bed, runs=[(outcome.bytes, "fp16")])
    return outcome, recording, run_events(recording, CONFIG, outcome.bytes, "fp16"), trace


def test_of_a_long_operation_the_last_records_are_kept(long_run, tmp_path, capsys, monkeypatch):
    outcome, recording, whole, trace = long_run
    assert trace.overwritten > 0
    check_last(trace, recording)
    events = trace.events()
    assert 0 < events.first_wave < len(whole.waves)
    assert events.waves == whole.waves[events.first_wave :]
    assert events.flags == whole.flags
    assert events.arrivals == [0, 0]  # overwritten
    assert events.seen_bytes == outcome.bytes - events.first_wave * CONFIG.wave_bytes

    monkeypatch.chdir(tmp_path)
    trace.save("trace.json")
    assert TraceDump.load("trace.json") == trace
    assert main(["--trace", "trace.json", "--out", "a/picture", "--save-vcd"]) == 0
    captured = capsys.readouterr()
    files = [f"a/picture{suffix}" for suffix in (".png", ".svg", ".vcd", ".gtkw")]
    assert captured.out == "".join(f"wrote {name}\n" for name in files)
    assert captured.err == f"trace: {trace.overwritten} older records were overwritten\n"
    assert "x" in (tmp_path / "a/picture.vcd").read_text().partition("$dumpvars")[2]


def test_operations_one_after_the_other(bed):
    """Two that overlap and an empty one between: each with its waves, arrivals and flags."""
    lengths = [100, 0, 60]
    arm(bed)
    run_queue(bed, queue(lengths))
    recording = bed.engine.recording()
    assert len(recording) > CONFIG.trace_records
    found = operations(recording, CONFIG.ranks)
    sizes = [2 * length for length in lengths]
    assert [len(each.waves) for each in found] == [-(-n // CONFIG.wave_bytes) for n in sizes]
    for before, after in zip(found, found[1:], strict=False):
        assert max(before.arrivals) < max(after.arrivals)
        assert max(before.flags) < min(after.flags)

    trace = read(bed, runs=[(size, "fp16") for size in sizes])
    assert not trace.frozen
    check_last(trace, recording)
    kept = trace.operations()
    assert [len(each.waves) for each in kept[1:]] == [len(each.waves) for each in found[1:]]
    assert trace.events(-1).waves == found[-1].waves
    assert trace.events(0).waves == found[0].waves[trace.events(0).first_wave :]


def test_the_buffer_freezes_with_the_last_flag_of_an_operation(bed):
    """What comes behind is not kept, and counted."""
    arm(bed, operations=1)
    first, second = queue([40, 200])
    run_queue(bed, [first, second])
    recording = bed.engine.recording()
    trace = read(bed, runs=[(80, "fp16")])
    kept = len(trace.records)
    assert trace.frozen
    assert trace.whole
    assert trace.missed == len(recording) - kept > 0
    assert trace.losses() == f"trace: {trace.missed} later cycles with events were not recorded"
    assert trace.recording().cycles == list(recording.cycles[:kept])
    assert trace.recording().values == recording.values[:kept]
    events = trace.events(0)
    assert events.waves == operations(recording, CONFIG.ranks)[0].waves
    assert max(events.flags) <= trace.recording().cycles[-1]


def test_reading_does_not_disturb_a_run(bed, long_run):
    """It stops the recording: what comes behind is missed, and counted."""
    undisturbed, _, before, _ = long_run
    arm(bed)
    middle = []

    def watch(_cycles):
        if not middle:
            bed.engine.step(120)
            middle.append(read(bed))

    outcome = all_reduce(bed, LONG, watch=watch)
    recording = bed.engine.recording()
    assert middle
    assert 0 < len(middle[0].records) < CONFIG.trace_records
    after = run_events(recording, CONFIG, outcome.bytes, "fp16")
    assert since_request(after) == since_request(before)
    assert outcome.figures == undisturbed.figures
    trace = read(bed)
    assert trace.missed >= middle[0].missed > 0
    assert trace.records == middle[0].records
    assert len(trace.records) + trace.overwritten + trace.missed == len(recording)
    found, kept = trace.recording(), len(trace.records)
    assert (found.cycles, found.values) == (list(recording.cycles[:kept]), recording.values[:kept])


@pytest.mark.long
@needs_compiler
def test_waveforms_of_traces_are_the_simulated_ones(tmp_path):
    with Testbed(TINY.replace(trace_records=1024), "cxxrtl", vcd=True) as bed:
        arm(bed, operations=1)
        with bed.engine.vcd(tmp_path / "simulated.vcd"):
            all_reduce(bed, 500)
        trace = read(bed)
    assert trace.whole
    path, _view = trace.vcd(tmp_path / "trace.vcd")
    for name in (*trace_ports(TINY.ranks), "trace__reading", "trace__writing"):
        seen = changes_only(read_values(path, name))[1:]  # but for the value it begins with
        assert seen == changes_only(read_values(tmp_path / "simulated.vcd", name))[1:], name


SHAPES = {
    "three ranks": TINY.replace(trace_records=4096),
    "three ranks, wrapped": TINY.replace(trace_records=64),
    "awkward sizes": AWKWARD.replace(trace_records=256),
    "one wave": TINY.replace(ranks=2, waves=1, write_waves=1, trace_records=128),
    "codes": TINY.replace(formats=("fp16", "inq8"), trace_records=256),
}


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_under_disturbance(shape):
    config = SHAPES[shape]
    with Testbed(config, "cxxrtl") as bed:
        for seed in range(6):
            print("seed", seed)
            rng = np.random.default_rng(seed)
            delays = disturb(bed, rng)
            format, elements = "fp16", int(rng.integers(1, 600))
            operands = random_bits(rng, config.ranks, elements)
            if config.quantizes and seed % 2:
                format = "inq8"
                operands = any_codes(rng, config, elements)
            arm(bed, operations=1)
            outcome = bed.all_reduce(operands, format, delays=delays)
            assert outcome.status == "ok"
            recording = bed.engine.recording()
            trace = read(bed, runs=[(outcome.bytes, format)])
            assert (trace.frozen, trace.missed) == (True, 0)
            check_last(trace, recording)
            whole = run_events(recording, config, outcome.bytes, format)
            try:
                events = trace.events()
            except EventsError:
                assert not trace.whole  # no wave is there from its issue on
                continue
            assert events.waves == whole.waves[events.first_wave :]


# -- without a run -----------------------------------------------------------------------------


def example(cycles):
    """A trace in which rank 0 arrives in each of the cycles."""
    at = list(record_fields(CONFIG)).index("rank_trace__0__arrival")
    bit = 32 + sum(list(record_fields(CONFIG).values())[:at])
    return TraceDump(CONFIG, [cycle | 1 << bit for cycle in cycles])


def test_time_goes_on_where_its_stamp_wraps():
    recording = example([0xFFFF_FFF0, 0xFFFF_FFFF, 3, 2, 5]).recording()
    turn = 1 << 32
    assert recording.cycles == [turn - 16, turn - 1, turn + 3, 2 * turn + 2, 2 * turn + 5]
    assert [row["rank_trace__0__arrival"] for _, row in recording.rows()] == [1] * 5
    assert sum(sum(values) for values in recording.values) == 5


def test_a_configuration_without_a_trace_buffer_is_refused():
    config = CONFIG.replace(trace_records=0)
    for call in (arm_trace, read_trace):
        with pytest.raises(EventsError, match="trace_records: must be more than 0 for a trace"):
            call(None, None, config)


def test_operations_that_are_not_there_are_refused():
    with pytest.raises(EventsError, match="operation: must be one of the 0 in the trace, not -1"):
        example([1, 2]).events()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "trace: cannot read 'x.json'"),
        ("", "trace: 'x.json' must be a file of a saved trace"),
        ("[]", "trace: 'x.json' must be a file of a saved trace"),
        ('{"config": {}}', "trace: 'x.json' must be a file of a saved trace"),
        ('{"config": {"rank": 1}}', "trace: 'x.json': field: must be one of ranks, "),
    ],
)
def test_other_files_are_refused(monkeypatch, tmp_path, capsys, text, message):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "x.json").write_text(text)
    assert main(["--out", "a", "--trace", "x.json"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--trace a --bytes 2", "trace: must come without a run's options"),
        ("--trace a --events b", "trace: must come without events"),
        ("--save-vcd", "save-vcd: must come with a trace"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(capsys, arguments, message):
    assert main(["--out", "a", *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_trace_without_waves_is_not_drawn(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    example([1, 5]).save("trace.json")
    assert main(["--out", "a", "--trace", "trace.json"]) == 1
    assert "must hold an operation with waves" in capsys.readouterr().err
