"""The command `python -m sim.allreduce`: arguments, exit status, report, files."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from rich.console import Console

import sim.plan
from hdl import __version__
from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from sim import activations
from sim.allreduce import main
from sim.cli.arguments import parse
from sim.cli.errors import UsageError
from sim.cli.operands import Activations, RandomInput, guard_pattern, load_npz
from sim.cli.progress import RunProgress
from sim.cli.stalls import PATTERNS, parse_stalls
from sim.cli.units import binary_size, duration
from sim.waves.gtkw import save_file_names
from sim.waves.vcd import first_and_last_time, read_header
from tests.sim.small_run import CONFIG, SMALL, each_engine, needs_compiler, reported, use_one_model

REPOSITORY = Path(__file__).resolve().parents[2]
PERIOD_FS = 10**15 // CONFIG.clock_hz

RUN_KEYS = {
    "bytes", "bit_exact", "status", "cycles", "ns", "payload_cycles", "utilization", "bound",
    "algbw_GBps", "fp16_equivalent_GBps", "blocks", "waves_in_flight", "stalls",
}  # fmt: skip
REPORT_KEYS = RUN_KEYS | {
    "version", "preset", "config", "digest", "engine", "dtype", "in_place", "seed", "input",
    "runs", "engine_cycles_per_second",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    """Each test in a folder of its own, all with one compiled model."""
    use_one_model(monkeypatch)
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments):
    """See `reported`."""
    return reported(capsys, [*SMALL, *arguments])


# -- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--config demoo", "preset: must be one of tiny, .*not 'demoo'; did you mean 'demo'"),
        ("--config no.json", "config: cannot read 'no.json': No such file"),
        ("--set wavess=3", "field: must be one of ranks, .*'wavess'; did you mean 'waves'"),
        ("--set waves", "set: must be FIELD=VALUE, not 'waves'"),
        ("--set ranks=1", "ranks: must be 2..16, not 1"),
        ("--set ranks=17", "ranks: must be 2..16, not 17"),
        ("--set payload_bytes=100", r"payload_bytes: must be a multiple of flit_bytes \(16\)"),
        ("--set wave_bytes=64", "wave_bytes: must be 128..65536, not 64"),
        ("--bytes 3", "bytes: must be whole elements of 2 bytes, not 3"),
        ("--bytes -2", "bytes: must be a whole number of 0 or more, not '-2'"),
        ("--bytes 1e3", "bytes: must be a whole number of 0 or more, not '1e3'"),
        ("--bytes 4194304", r"bytes: must be at most 4194240, .*\(4194304\), not 4194304"),
        ("--bytes 2097152 --out-of-place", "bytes: must be at most 2097120, .* not 2097152"),
        ("--bytes 2,4 --repeat 3", "bytes: must be one size or one for each of 3 runs, not '2,4'"),
        ("--bytes", "bytes: expected one argument"),
        ("--repeat 0", "repeat: must be a whole number of 1..1000000, not '0'"),
        ("--dtype fp17", "dtype: must be one of fp16, bf16, inq8, not 'fp17'; did you mean 'fp16'"),
        (
            "--set formats=bf16 --dtype inq8",
            r"dtype: must be one of the configuration's formats \(bf16\), not 'inq8'",
        ),
        (
            "--set wave_bytes=128 --dtype inq8",
            "wave_bytes: must give whole flits of 16 bytes of scales where inq8 is built",
        ),
        ("--set block=16 --dtype inq8", "block: must be one of 32, .* where inq8 is built, not 16"),
        (
            "--set inq_reducer=shared --dtype inq8",
            "formats: must be fp16 and inq8 where inq_reducer is shared, not 'fp16,bf16,inq8'",
        ),
        (
            "--dtype inq8 --bytes 4194304",
            r"bytes: must be at most 4067136, .*with scales.*\(4194304\), not 4194304",
        ),
        ("--engine model", "engine: must be one of cxxrtl, pysim, not 'model', which is not built"),
        ("--engine pysm", "engine: must be one of cxxrtl, pysim, not 'pysm'; did you mean 'pysim'"),
        ("--seed -1", "seed: must be a whole number of 0..4294967295, not '-1'"),
        ("--seed 1 --input x.npz", "input: not allowed with argument --seed"),
        ("--input no.npz", "input: cannot read 'no.npz': No such file"),
        ("--skew 1,2", "skew: must be one number for each of 4 ranks, not '1,2'"),
        ("--skew 1,2,3,x", "skew: must be a whole number of 0..2147483647, not 'x'"),
        ("--latency-jitter 1024", "latency-jitter: must be a whole number of 0..1023, not '1024'"),
        ("--stalls hevy", "stalls: must be one of none, .*'hevy'; did you mean 'heavy'"),
        ("--stalls r=1", "stalls: r must be a fraction of 0 to below 1, not '1'"),
        ("--stalls r=nan", "stalls: r must be a fraction of 0 to below 1, not 'nan'"),
        ("--stalls x=0.5", "stalls: channel: must be one of ar, r, aw, w, b, not 'x'"),
        ("--stalls r=0.1,r=0.2", "stalls: must name each channel once, not r twice"),
        ("--max-cycles 0", "max-cycles: must be a whole number of 1 or more, not '0'"),
        ("--vcd-window 1:2", "vcd-window: must come with --vcd, not '1:2' alone"),
        ("--vcd x.vcd --vcd-window 5", "vcd-window: must be FROM:TO, not '5'"),
        ("--vcd x.vcd --vcd-window 5:4", "vcd-window: must have FROM at most TO, not '5:4'"),
        ("--vcd .", "vcd: must be a file that can be written .*, not '.'"),
        ("--vcd x.gtkw", "vcd: must not end in .gtkw, as its view does, not 'x.gtkw'"),
        ("--json .", "json: must be a file that can be written .*, not '.'"),
        ("--json new/x/r.json --vcd .", "vcd: must be a file that can be written .*, not '.'"),
        ("--vcd new/x/a.vcd --json .", "json: must be a file that can be written .*, not '.'"),
        ("--vcd " + 300 * "x", "vcd: must be a file that can be written .File name too long.*"),
        ("--vcd a.vcd --json ./a.vcd", "json: must not be the file of --vcd .*, not './a.vcd'"),
        ("--vcd a.vcd --json a.gtkw", "json: must not be the file of --vcd .*, not 'a.gtkw'"),
        ("--skew -1,0,0,0", "skew: must be a whole number of 0.*, not '-1'"),
        ("--repeat 99999999999999", "repeat: must be a whole number of 1..1000000, not '9+'"),
        ("--jsom x", "option: must be one of --help, .*'--jsom'; did you mean '--json'"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(capsys, tmp_path, arguments, message):
    assert main(arguments.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    with pytest.raises(UsageError, match=message):
        parse(arguments.split())
    assert list(tmp_path.iterdir()) == []  # nothing half done


def test_the_process_ends_with_the_status():
    command = [sys.executable, "-m", "sim.allreduce", "--bytes", "3"]
    done = subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: bytes: must be whole elements of 2 bytes, not 3\n"


def test_cxxrtl_by_name_needs_a_compiler_and_the_default_does_not(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UsageError, match=r"engine: cxxrtl needs a C\+\+ compiler"):
        parse(["--engine", "cxxrtl"])
    options = parse([])
    assert options.engine == "pysim"
    assert options.fallback == "no C++ compiler was found"


def test_defaults():
    options = parse([])
    assert (options.preset, options.dtype, options.sizes) == ("demo", "fp16", (16384,))
    assert isinstance(options.input, Activations)
    assert not options.out_of_place
    assert options.fallback is None or options.engine == "pysim"


def test_the_default_size_fits_small_memories():
    config = SwitchConfig.preset("tiny")
    assert parse(["--config", "tiny"]).sizes == (16384 - config.wave_bytes,)
    assert parse(["--config", "tiny", "--out-of-place"]).sizes == (7936,)


def test_a_size_a_repetition():
    assert parse(["--bytes", "2,4,0x10"]).sizes == (2, 4, 16)
    assert parse(["--bytes", "6", "--repeat", "2"]).sizes == (6, 6)
    assert parse(["--bytes", "2,4", "--repeat", "2"]).sizes == (2, 4)


def test_stall_patterns():
    assert parse_stalls("none") == {}
    assert parse_stalls("ar=0.25,r=0.5,b=0") == {"ar": 64, "r": 128, "b": 0}
    assert parse_stalls("w=0.9999") == {"w": 255}
    for name in PATTERNS:
        assert all(0 < threshold < 256 for threshold in parse_stalls(name).values())


def test_help_names_what_can_be_given(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for word in ("--vcd-window", "paper-8gpu", "heavy:", "ar=0.25", "build/failures"):
        assert word in text
    for code in Status:  # of a table that the docs have, too
        assert code.name in text


# -- input --------------------------------------------------------------------------------------


def save(path, **arrays):
    np.savez(path, **arrays)
    return str(path)


def test_float32_is_rounded_once_and_nan_is_a_value(tmp_path):
    values = np.array([[1 + 2**-11 + 2**-20, np.nan, -0.0], [65519.9, np.inf, 1e-8]], np.float32)
    path = save(tmp_path / "x.npz", data=values)
    bits = load_npz(path, CONFIG, "fp16").bits
    np.testing.assert_array_equal(bits[:, [0, 2]], [[0x3C01, 0x8000], [0x7BFF, 0x0000]])
    assert np.isnan(bits.view(np.float16)[0, 1])
    assert bits[1, 1] == 0x7C00
    bits = load_npz(path, CONFIG, "bf16").bits
    np.testing.assert_array_equal(bits, values.astype(ml_dtypes.bfloat16).view(np.uint16))


def test_16_bit_values_are_taken_as_they_are(tmp_path):
    bits = np.arange(0, 1 << 16, 8191, dtype=np.uint16).reshape(1, -1).repeat(2, axis=0)
    for name, data in (("little", bits.view(np.float16)), ("big", bits.view("<f2").astype(">f2"))):
        path = save(tmp_path / f"{name}.npz", data=data)
        np.testing.assert_array_equal(load_npz(path, CONFIG, "fp16").bits, bits)
    path = save(tmp_path / "bf16.npz", data=np.asfortranarray(bits), format="bf16")
    np.testing.assert_array_equal(load_npz(path, CONFIG, "bf16").bits, bits)


@pytest.mark.parametrize(
    ("arrays", "format", "message"),
    [
        (dict(dat=np.zeros((2, 4))), "fp16", "must hold the key 'data', not only: dat"),
        (dict(data=np.zeros((3, 4), np.float16)), "fp16", r"shape \(2 ranks.*not \(3, 4\)"),
        (dict(data=np.zeros(4, np.float16)), "fp16", r"shape \(2 ranks, elements\), not \(4,\)"),
        (dict(data=np.zeros((2, 4))), "fp16", "float16, float32 or uint16, not float64"),
        (dict(data=np.zeros((2, 4), np.float16)), "bf16", "bits of bf16, not float16"),
        (dict(data=np.zeros((2, 4), np.uint16)), "bf16", "format must be 'bf16' .* not None"),
        (dict(data=np.zeros((2, 4), np.uint16), format="fp16"), "bf16", "not 'fp16'"),
        (dict(data=np.zeros((2, 4), np.uint16), format="bf16"), "fp16", "dtype: must be bf16"),
        (dict(data=np.array([[{}], [{}]])), "fp16", "data must be a plain array"),
    ],
)
def test_files_of_another_form_are_refused(tmp_path, arrays, format, message):
    path = save(tmp_path / "x.npz", **arrays)
    with pytest.raises(UsageError, match=message) as raised:
        load_npz(path, CONFIG, format)
    assert "\n" not in str(raised.value)


def test_files_that_are_no_npz_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 4), np.float16))
    (tmp_path / "text.npz").write_text("data\n")
    (tmp_path / "empty.npz").write_text("")
    whole = Path(save(tmp_path / "whole.npz", data=np.zeros((2, 400), np.float16))).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:-30])
    for name in ("x.npy", "text.npz", "empty.npz", "cut.npz"):
        with pytest.raises(UsageError, match="input: must be an .npz file"):
            load_npz(str(tmp_path / name), CONFIG, "fp16")


@pytest.mark.parametrize("name", ["data", "data.npy"])
def test_members_that_are_no_arrays_are_refused(tmp_path, name):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, "hello")
    with pytest.raises(UsageError, match="input: data must be a plain array") as refused:
        load_npz(str(path), CONFIG, "fp16")
    assert "\n" not in str(refused.value)


def test_a_shape_beyond_all_memory_is_refused(tmp_path):
    whole = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        whole, {"descr": "<f2", "fortran_order": False, "shape": (2, 10**14)}
    )
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.npy", whole.getvalue())
    with pytest.raises(UsageError, match="input: data must fit this machine's memory"):
        load_npz(str(path), CONFIG, "fp16")


def test_a_report_that_cannot_be_written_is_one_line(capsys):
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full, a file without room")
    assert main([*SMALL, "--bytes", "16", "--json", "/dev/full"]) == 2
    assert capsys.readouterr().err.endswith(
        "error: json: cannot write '/dev/full': No space left on device\n"
    )


def test_every_repetition_has_other_data(tmp_path):
    path = save(tmp_path / "x.npz", data=np.arange(10, dtype=np.float16).reshape(2, 5))
    for source in (Activations(), RandomInput(3), load_npz(path, CONFIG, "fp16")):
        first, again, second = (source.operands(CONFIG, 5, "fp16", run) for run in (0, 0, 1))
        np.testing.assert_array_equal(first, again)
        assert (first != second).any()
    more = load_npz(path, CONFIG, "fp16").operands(CONFIG, 12, "fp16", 1)
    assert more.view(np.float16)[0].tolist() == [1, 2, 3, 4, 0] * 2 + [1, 2]


def test_the_default_input_is_the_committed_activations():
    expected = activations.load(4, 100, "bf16", 0)
    found = Activations().operands(SwitchConfig(ranks=4), 100, "bf16", 0)
    np.testing.assert_array_equal(found, expected)


def test_guards_are_nan_in_both_formats():
    bits = guard_pattern().view(np.uint16)
    assert np.isnan(bits.view(np.float16)).all()
    assert np.isnan(bits.view(ml_dtypes.bfloat16).astype(np.float32)).all()
    assert len(set(bits.tolist())) > 200


# -- runs ---------------------------------------------------------------------------------------


@needs_compiler
def test_report_of_one_run(capsys):
    status, report, messages = run(capsys, "--bytes", "512")
    assert status == 0
    assert set(report) == REPORT_KEYS
    assert [set(each) for each in report["runs"]] == [RUN_KEYS]
    assert {key: report[key] for key in RUN_KEYS} == report["runs"][0]
    assert set(report["cycles"]) == set(report["ns"]) == {"arrive_to_flag", "data"}
    in_flight = report["waves_in_flight"]
    assert {key: set(value) for key, value in in_flight.items()} == {
        "reading": {"max", "mean"},
        "writing": {"max", "mean"},
    }
    stalls = report["stalls"]
    assert set(stalls) == {"barrier", "entries", "data", "write_room", "request_credits"}
    for name in ("data", "write_room", "request_credits"):
        assert len(stalls[name]) == CONFIG.ranks

    assert report["version"] == __version__
    assert report["preset"] == "tiny"
    assert SwitchConfig.from_fields(report["config"]) == CONFIG
    assert report["digest"] == CONFIG.digest
    assert (report["engine"], report["dtype"], report["input"]) == ("cxxrtl", "fp16", "activations")
    assert (report["in_place"], report["seed"], report["bytes"]) == (True, 0, 512)
    assert (report["bit_exact"], report["status"]) == (True, "ok")
    cycles = report["cycles"]["data"]
    assert 64 < cycles < report["cycles"]["arrive_to_flag"]
    assert report["ns"]["data"] == pytest.approx(cycles * 10)
    assert report["payload_cycles"] == 64
    assert report["utilization"] == pytest.approx(64 / cycles)
    assert report["utilization"] <= report["bound"] == 0.5
    assert report["algbw_GBps"] == pytest.approx(512 / (cycles * 10))
    assert report["fp16_equivalent_GBps"] is None
    assert 1 <= in_flight["reading"]["mean"] <= in_flight["reading"]["max"] == CONFIG.waves
    assert report["engine_cycles_per_second"] > 1000
    assert "yes, every byte of every rank" in messages


@needs_compiler
def test_no_bytes_complete_without_a_beat(capsys):
    status, report, _ = run(capsys, "--bytes", "0")
    assert (status, report["status"], report["bit_exact"]) == (0, "ok", True)
    assert report["cycles"]["data"] == report["payload_cycles"] == 0
    assert report["cycles"]["arrive_to_flag"] > 0
    assert report["utilization"] is report["bound"] is report["algbw_GBps"] is None


@needs_compiler
def test_several_runs_under_every_disturbance(capsys):
    sizes = [2, 512, 130, 0, 254]
    status, report, messages = run(
        capsys, "--bytes", ",".join(map(str, sizes)), "--seed", "7", "--skew", "0,90",
        "--latency-jitter", "30", "--stalls", "light", "--out-of-place",
    )  # fmt: skip
    assert (status, report["status"], report["bit_exact"]) == (0, "ok", True)
    assert [each["bytes"] for each in report["runs"]] == sizes
    assert report["bytes"] == 2
    assert (report["input"], report["seed"], report["in_place"]) == ("random", 7, False)
    assert report["stalls"]["barrier"] > 90
    assert "All runs, one after another" in messages


@needs_compiler
def test_seeds_change_the_timing_and_repeat(capsys):
    disturbed = ["--bytes", "512", "--stalls", "heavy", "--latency-jitter", "50"]
    cycles = [
        run(capsys, *disturbed, "--seed", seed)[1]["cycles"]["data"] for seed in ("1", "1", "2")
    ]
    assert cycles[0] == cycles[1] != cycles[2]


@needs_compiler
def test_a_file_as_input(capsys, tmp_path):
    values = np.random.default_rng(3).standard_normal((2, 77)).astype(np.float32)
    values[0, 5] = np.nan
    path = save(tmp_path / "x.npz", data=values)
    status, report, _ = run(capsys, "--input", path)
    assert (status, report["bit_exact"]) == (0, True)
    assert (report["input"], report["bytes"]) == (path, 154)


@needs_compiler
def test_json_to_a_file_and_the_table_to_standard_output(capsys, tmp_path):
    assert main([*SMALL, "--bytes", "64", "--json", "out/report.json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""  # no progress where there is no terminal
    assert "\x1b" not in captured.out  # and no colour
    assert "bit-exact" in captured.out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["bytes"] == 64


def test_phases_and_cycles_are_shown_on_a_terminal():
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
        with RunProgress(console, [1000]) as progress:
            for phase in ("generate", "compile", "load", "run"):
                progress.phase(phase)
            progress.cycles(12345)
            progress.phase("compare")
        text = console.file.getvalue()
        if terminal:
            for words in ("generate the design", "compile it", "12,345 cycles", "compare every"):
                assert words in text
        else:
            assert text == ""


def test_one_run_is_shown_at_a_time():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with RunProgress(console, [1000] * 3) as progress:
        for phase in ["load"] + ["run", "compare"] * 3:
            progress.phase(phase)
    lines = console.file.getvalue().split("load the simulator")[-1]
    assert "run 3 of 3" in lines
    assert "run 2 of 3" not in lines


def test_numbers_for_people():
    assert [binary_size(n) for n in (0, 130, 16384, 3 << 19)] == [
        "0 B", "130 B", "16 KiB", "1.5 MiB",
    ]  # fmt: skip
    assert [duration(n) for n in (0, 4.0, 6052.0, 2.5e6, 3e9)] == [
        "0 ns", "4 ns", "6.052 us", "2.5 ms", "3 s",
    ]  # fmt: skip


# -- failures -----------------------------------------------------------------------------------


def kept(tmp_path):
    """The one folder that a failure left."""
    (folder,) = (tmp_path / "build" / "failures").iterdir()
    return folder


@needs_compiler
def test_a_difference_is_found_told_and_kept(capsys, tmp_path, monkeypatch):
    golden = sim.plan.collective

    def wrong_in_one_bit(*arguments, **options):
        results = golden(*arguments, **options)
        results[:, 100] ^= 1
        return results

    monkeypatch.setattr(sim.plan, "collective", wrong_in_one_bit)
    status, report, messages = run(capsys, "--bytes", "512", "--repeat", "3", "--seed", "9")
    assert (status, report["status"], report["bit_exact"]) == (1, "mismatch", False)
    assert len(report["runs"]) == 1  # the runs after it would build on wrong memories
    folder = kept(tmp_path)
    assert str(folder.relative_to(tmp_path)) in messages
    differences = (folder / "differences.txt").read_text().splitlines()
    assert len(differences) == CONFIG.ranks
    assert differences[0].startswith("rank 0 address 0xc8: is 0x")
    replay = json.loads((folder / "run.json").read_text())
    assert replay["seed"] == 9
    assert "--repeat 3 --seed 9" in replay["command"]
    assert SwitchConfig.from_json((folder / "config.json").read_text()) == CONFIG
    assert json.loads((folder / "report.json").read_text()) == report


@needs_compiler
def test_a_run_that_does_not_end(capsys, tmp_path):
    limit = 2500
    arguments = ["--bytes", "512", "--skew", "0,9999", "--max-cycles", str(limit)]
    status, report, messages = run(capsys, *arguments)
    assert (status, report["status"], report["bit_exact"]) == (3, "timeout", False)
    assert set(report) == REPORT_KEYS
    assert set(report["cycles"].values()) == {None}
    folder = kept(tmp_path)
    assert f"{folder.relative_to(tmp_path)}/state.json" in messages.replace("\n", "")
    state = json.loads((folder / "state.json").read_text())
    assert state["switch"]["arrived"] == 0b01
    assert state["rank1"]["delay"] == 9999
    # The last 2,000 cycles before the limit.
    first, last = first_and_last_time(folder / "last.vcd")
    begin, end = json.loads((folder / "run.json").read_text())["cycles"]
    assert end - begin == 2000
    assert end > limit
    assert first == begin * PERIOD_FS
    assert end * PERIOD_FS <= last <= (end + 1) * PERIOD_FS
    assert set(save_file_names(folder / "last.gtkw")) <= names(folder / "last.vcd")


# -- waveforms ----------------------------------------------------------------------------------


def names(vcd):
    return {variable.gtkwave_name for variable in read_header(vcd).values()}


@each_engine
def test_every_name_of_the_view_is_in_the_waveforms(capsys, tmp_path, engine):
    arguments = ["--bytes", "130", "--engine", engine, "--vcd", "waves/run.vcd"]
    status, report, messages = run(capsys, *arguments)
    assert (status, report["engine"]) == (0, engine)
    vcd, view = tmp_path / "waves" / "run.vcd", tmp_path / "waves" / "run.gtkw"
    shown = save_file_names(view)
    assert len(shown) > 100
    assert set(shown) <= names(vcd)
    text = view.read_text()
    assert '[dumpfile] "run.vcd"' in text
    assert str(tmp_path) not in text
    groups = ["waves in flight", "barrier", "wave controller", "reducer", "write-back"]
    for rank in range(CONFIG.ranks):
        groups += [f"rank {rank}", f"port {rank}", f"wave table {rank}", f"to port {rank}"]
    groups += [f"entry {entry}" for entry in range(CONFIG.waves)]
    for group in groups:
        assert f"\n-{group}\n" in text
    assert "waves/run.gtkw" in messages


@needs_compiler
def test_a_window_of_the_waveforms(capsys, tmp_path):
    run(capsys, "--bytes", "64", "--vcd", "run.vcd", "--vcd-window", "100:120")
    first, last = first_and_last_time(tmp_path / "run.vcd")
    assert first == 100 * PERIOD_FS
    assert 120 * PERIOD_FS <= last <= 121 * PERIOD_FS
