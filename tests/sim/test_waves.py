"""Waveform files of both engines: what they hold, in which window, and the view of them."""

import re
from enum import Enum

import pytest

from hdl.config import SwitchConfig
from sim.engines import ENGINES, EngineError, create
from sim.engines.build import find_compiler
from sim.waves.gtkw import Group, Trace, WaveError, save_file_names, write_save_file
from sim.waves.vcd import first_and_last_time, read_header
from tests.sim.engine_top import EngineTop, Phase

CONFIG = SwitchConfig.preset("tiny", ranks=2)
PERIOD_FS = 10**15 // CONFIG.clock_hz

VIEW = [
    Group(
        "ranks",
        [
            Group(
                f"rank {rank}",
                [
                    Trace(f"client_{rank}.status.phase", enum=Phase, label="phase"),
                    Trace(f"client_{rank}.status.count", format="dec", analog=True),
                    Trace(f"client_{rank}.storage__read_address"),
                ],
                closed=rank > 0,
            )
            for rank in range(2)
        ],
    ),
    Trace("count", format="dec"),
    Trace("lane_0.wide", label="aligned sum"),
]

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler: apt g++")
each_engine = pytest.mark.parametrize(
    "name", [pytest.param("cxxrtl", marks=needs_compiler), "pysim"]
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def make(cache):
    engines = []

    def make_one(name, **options):
        engine = create(
            name,
            lambda: EngineTop(CONFIG, lanes=2),
            clock_hz=CONFIG.clock_hz,
            cache_dir=cache,
            **options,
        )
        engines.append(engine)
        return engine

    yield make_one
    for engine in engines:
        engine.close()


def read_values(path, signal):
    """(time, value) of each change of the signal `signal`; words are read as they stand."""
    variable = read_header(path)[signal]
    scopes, changes, time, code = [], [], None, None
    for line in path.read_text().splitlines():
        words = line.split()
        if words[:1] == ["$scope"]:
            scopes.append(words[2])
        elif words[:1] == ["$upscope"]:
            scopes.pop()
        elif words[:1] == ["$var"]:
            if (tuple(scopes), words[4]) == (variable.scope, variable.name):
                code = words[3]
        elif line.startswith("#"):
            time = int(line[1:])
        elif len(words) == 2 and words[1] == code:
            value = words[0][1:] if words[0][0] == "s" else int(words[0][1:], 2)
            changes.append((time, value))
        elif len(words) == 1 and line[1:] == code:
            changes.append((time, int(line[0])))
    return changes


def run(engine, path, cycles=60, window=None):
    engine.set("go", 1)
    with engine.vcd(path, window):
        engine.step(cycles)


def changes_only(changes):
    """The last value at each time, where it differs: an edge and a new input share a time."""
    kept = []
    for time, value in dict(changes).items():
        if not kept or kept[-1][1] != value:
            kept.append((time, value))
    return kept


@each_engine
def test_every_cycle_lasts_one_period_from_its_edge(make, tmp_path, name):
    path = tmp_path / "run.vcd"
    run(make(name, vcd=True), path)
    assert changes_only(read_values(path, "count")) == [(c * PERIOD_FS, c) for c in range(61)]
    clock = changes_only(read_values(path, "clk"))
    assert clock[:4] == [
        (0, 0),
        (PERIOD_FS, 1),
        (PERIOD_FS * 3 // 2, 0),
        (PERIOD_FS * 2, 1),
    ]


@needs_compiler
def test_engines_write_the_same_values(make, tmp_path):
    signals = ["client_1.status.count", "client_0.storage__write_data", "lane_1.wide"]
    signals += ["data", "parity"]  # an input, and what follows it without a register
    files = {}
    for name in ENGINES:
        files[name] = tmp_path / f"{name}.vcd"
        engine = make(name, vcd=True)
        for rank in engine.ranks:
            engine.load(rank, 0, bytes(range(1, 251)) * 8)
        engine.set("go", 1)
        engine.set("push", 1)
        with engine.vcd(files[name]):
            for cycle in range(60):
                engine.set("data", 12345 * cycle)
                engine.step()
    for signal in signals:
        fast, slow = (changes_only(read_values(files[name], signal)) for name in ENGINES)
        assert fast == slow, signal
        assert len(fast) > 5, signal


@each_engine
def test_struct_fields_are_there_and_memories_are_not(make, tmp_path, name):
    path = tmp_path / "run.vcd"
    run(make(name, vcd=True), path, cycles=3)
    variables = read_header(path)
    assert variables["client_0.status.count"].width == 6
    assert variables["client_0.status.phase"].is_text == (name == "pysim")
    assert variables["status__1.phase"].scope[:2] == ("bench", "top")
    for variable in variables.values():  # GTKWave finds names with a dot only so
        assert variable.name.startswith("\\") or "." not in variable.name
    assert not [v for v in variables if re.search(r"(table|storage)\[\d+\]", v)]


@each_engine
def test_window_bounds_the_file(make, tmp_path, name):
    path = tmp_path / "run.vcd"
    engine = make(name, vcd=True)
    run(engine, path, cycles=100, window=(40, 50))
    first, last = first_and_last_time(path)
    assert first == 40 * PERIOD_FS
    assert 50 * PERIOD_FS <= last <= 51 * PERIOD_FS
    counts = changes_only(read_values(path, "count"))
    assert counts == [(c * PERIOD_FS, c) for c in range(40, 51)]
    assert engine.cycle == 100


@each_engine
def test_window_that_never_comes_leaves_a_valid_file(make, tmp_path, name):
    path = tmp_path / "run.vcd"
    run(make(name, vcd=True), path, cycles=5, window=(40, 50))
    assert "count" in read_header(path)
    assert first_and_last_time(path)[0] <= 6 * PERIOD_FS


@each_engine
def test_waveforms_can_begin_late_and_do_not_change_the_run(make, tmp_path, name):
    plain, watched = make(name), make(name, vcd=True)
    for engine in (plain, watched):
        engine.set("go", 1)
        engine.step(30)
    run(watched, tmp_path / "run.vcd", cycles=40)
    plain.step(40)
    watched.step(10)
    plain.step(10)
    for port in plain.ports:
        assert plain.get(port) == watched.get(port)
    assert first_and_last_time(tmp_path / "run.vcd")[0] == 30 * PERIOD_FS


@each_engine
def test_bad_windows_and_files_are_refused(make, tmp_path, name):
    engine = make(name, vcd=True)
    with pytest.raises(EngineError, match="vcd-window: must be FROM:TO"):
        engine.start_vcd(tmp_path / "run.vcd", (5, 4))
    with pytest.raises(EngineError, match="vcd: cannot write"):
        engine.start_vcd(tmp_path / "no" / "run.vcd")


@needs_compiler
def test_cxxrtl_says_when_it_was_built_without_waveforms(make, tmp_path):
    with pytest.raises(EngineError, match="create it with vcd=True"):
        make("cxxrtl").start_vcd(tmp_path / "run.vcd")


@each_engine
def test_every_name_in_the_save_file_is_in_the_vcd(make, tmp_path, name):
    vcd, save = tmp_path / "run.vcd", tmp_path / "run.gtkw"
    run(make(name, vcd=True), vcd)
    write_save_file(save, vcd, VIEW)
    names = save_file_names(save)
    assert len(names) == 8
    declared = {variable.gtkwave_name for variable in read_header(vcd).values()}
    assert set(names) <= declared
    text = save.read_text()
    assert '[dumpfile] "run.vcd"' in text
    assert str(tmp_path) not in text
    for group in ("ranks", "rank 0", "rank 1"):
        assert text.count(f"-{group}\n") == 2  # begin and end


@each_engine
def test_enums_are_shown_by_name(make, tmp_path, name):
    """Amaranth writes the words itself; CXXRTL's bits are translated by a file."""
    vcd, save = tmp_path / "run.vcd", tmp_path / "run.gtkw"
    run(make(name, vcd=True), vcd)
    write_save_file(save, vcd, VIEW)
    values = {value for _, value in read_values(vcd, "client_0.status.phase")}
    if name == "pysim":
        assert values == {phase.name for phase in Phase}
        assert list(tmp_path.glob("*.txt")) == []
    else:
        assert values == {phase.value for phase in Phase}
        assert "^1 run.Phase.2.txt" in save.read_text()
        table = (tmp_path / "run.Phase.2.txt").read_text().split("\n")
        assert table == ["0 IDLE", "1 READ", "2 WRITE", "3 REST", ""]


def test_views_are_checked(make, tmp_path):
    vcd, save = tmp_path / "run.vcd", tmp_path / "run.gtkw"
    run(make("pysim"), vcd, cycles=2)
    with pytest.raises(WaveError, match="holds no signal client_7.status, nothing"):
        write_save_file(save, vcd, [Group("g", [Trace("client_7.status")]), Trace("nothing")])
    assert not save.exists()
    with pytest.raises(WaveError, match="format: must be one of"):
        Trace("count", format="roman")


@needs_compiler
def test_two_enums_of_one_name_are_refused(make, tmp_path):
    vcd = tmp_path / "run.vcd"
    run(make("cxxrtl", vcd=True), vcd, cycles=2)
    other = Enum("Phase", {"A": 0})
    view = [Trace("client_0.status.phase", enum=kind) for kind in (Phase, other)]
    with pytest.raises(WaveError, match="two different ones are named Phase"):
        write_save_file(tmp_path / "run.gtkw", vcd, view)
