"""The host tool end to end: every command through the serial code, on one simulated board."""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import sim.plan
from fpga.host.cli import main
from fpga.host.client import Client
from fpga.host.ports import open_serial
from fpga.host.session import open_bench
from fpga.twin import Twin
from hdl.config import SwitchConfig
from hdl.registers import IDENTITY
from sim.allreduce import main as simulate
from sim.bench import place
from sim.cli.output import console
from sim.cli.progress import RunProgress
from sim.engines.build import find_compiler
from sim.register_host import Instruction
from sim.waves.trace_dump import TraceDump

REPOSITORY = Path(__file__).resolve().parents[2]
#: The smallest system with every format, in which several waves are in flight.
FIELDS = {
    "ranks": 2,
    "formats": "fp16,bf16,inq8",
    "waves": 2,
    "wave_bytes": 256,
    "memory_bytes": 2048,
    "link_latency_max": 8,
    "trace_records": 64,
}
CONFIG = SwitchConfig.preset("tiny", **FIELDS)
WORDS = ["--config", "tiny"] + [
    word for field, value in FIELDS.items() for word in ("--set", f"{field}={value}")
]

#: The twin loses nothing, but the machine may be busy.
PATIENT = ["--timeout", "30"]

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler: apt g++")


@pytest.fixture(scope="module")
def twin():
    with Twin(CONFIG) as made:
        yield made


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(twin, capsys):
    """A function that runs a command on the twin: exit status, standard output and error."""

    def command(*words: str):
        status = main(["--port", twin.device, *PATIENT, *WORDS, *words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


@pytest.fixture
def report(run):
    """A function that runs a command that must end well, with its JSON."""

    def command(*words: str):
        status, out, err = run(*words, "--json", "-")
        assert status == 0, err
        return json.loads(out)

    return command


@contextmanager
def client_of(twin):
    with Client(open_serial(twin.device, 1_000_000), timeout=30) as client:
        client.identify()
        yield client


# -- commands ------------------------------------------------------------------------------------


def test_info(report):
    found = report("info")
    assert found["digest"] == CONFIG.digest[:8]
    assert found["ranks"] == CONFIG.ranks
    assert found["preset"] == "tiny"


@pytest.mark.parametrize(
    ("size", "reason"),
    [("512", "no picture: 64 records hold no whole wave of 512 bytes; take fewer, or a board with"),
     ("0", "no picture: an operation of 0 bytes has no waves")],
)  # fmt: skip
def test_a_trace_without_a_picture_says_so(run, size, reason):
    status, out, _err = run("trace", "--out", "run", "--bytes", size)
    assert status == 0
    assert reason in out
    assert sorted(path.name for path in Path().iterdir()) == ["run.gtkw", "run.json", "run.vcd"]


def test_cycles_are_those_of_the_simulator(report, capsys):
    """Exactly, and every other count; one run after another, with a rank that is late."""
    words = ["--bytes", "512,66", "--skew", "0,30"]
    board = report("allreduce", *words)
    assert simulate([*WORDS, *words, "--engine", "pysim", "--json", "-"]) == 0
    simulated = json.loads(capsys.readouterr().out)
    assert set(board) == set(simulated)
    assert (board["engine"], board["engine_cycles_per_second"]) == ("board", None)
    differ = {key for key in board if board[key] != simulated[key]}
    assert differ == {"engine", "engine_cycles_per_second"}
    assert [run["cycles"]["data"] > 0 for run in board["runs"]] == [True, True]


def test_bench_beside_the_simulator(run):
    files = ["--csv", "b.csv", "--picture", "pictures/b", "--json", "b.json"]
    status, out, _err = run("bench", "--sizes", "256", "--simulator", "pysim", *files)
    assert status == 0
    assert out.splitlines()[-1] == "all 3 runs bit-exact, every count as in pysim"
    rows = json.loads(Path("b.json").read_text())["rows"]
    assert [row["dtype"] for row in rows] == list(CONFIG.formats)
    assert all(row["simulated"]["cycles"] == row["cycles"] for row in rows)
    header, *lines = Path("b.csv").read_text().splitlines()
    assert header.startswith("dtype,bytes,cycles_data,cycles_arrive_to_flag,ns_data,")
    for row, line in zip(rows, lines, strict=True):
        assert line.startswith(f"{row['dtype']},256,{row['cycles']['data']},")
        assert line.endswith(f",{row['cycles']['data']},{row['cycles']['arrive_to_flag']}")
    assert matplotlib.image.imread("pictures/b.png").ndim == 3
    assert b"</svg>" in Path("pictures/b.svg").read_bytes()


@pytest.mark.parametrize("dtype", CONFIG.formats)
def test_trace(report, dtype):
    found = report("trace", "--out", "t/run", "--dtype", dtype, "--bytes", "256")
    assert sorted(path.name for path in Path("t").iterdir()) == [
        "run.gtkw", "run.json", "run.png", "run.svg", "run.vcd",
    ]  # fmt: skip
    events = TraceDump.load("t/run.json").events()
    assert (events.bytes, events.dtype) == (256, dtype)
    assert len(events.waves) == 256 // CONFIG.wave_bytes
    assert events.last_response - events.first_request == found["cycles"]["data"]
    # The trace is the switch's: an arrival has been on a link, and a flag has one before it.
    at_switch = max(events.flags) - max(events.arrivals)
    on_links = found["cycles"]["arrive_to_flag"] - at_switch
    assert at_switch > 0
    assert 2 * CONFIG.link_latency <= on_links < at_switch


@pytest.mark.parametrize("dtype", CONFIG.formats)
def test_all_reduce_under_every_disturbance(report, dtype):
    found = report(
        "allreduce", "--dtype", dtype, "--seed", "4", "--repeat", "2", "--out-of-place",
        "--stalls", "heavy", "--latency-jitter", "50", "--skew", "90,0",
    )  # fmt: skip
    assert (found["bit_exact"], found["status"], len(found["runs"])) == (True, "ok", 2)
    assert not found["in_place"]


def test_what_is_in_memory_can_be_dumped(run, report):
    report("allreduce", "--bytes", "64", "--seed", "1")
    assert run("dump", "--bytes", "64", "--out", "0.bin")[0] == 0
    assert run("dump", "--bytes", "64", "--rank", "1", "--out", "1.bin")[0] == 0
    values = np.fromfile("0.bin", np.float16)
    assert (values == np.fromfile("1.bin", np.float16)).all()
    assert np.isfinite(values).all()
    assert values.any()
    assert run("load", "--rank", "1", "--address", "3", "0.bin")[0] == 0
    status, out, _err = run("registers", "switch.operations", "switch.identity", "--json", "-")
    assert (status, json.loads(out)) == (
        0, {"switch.operations": 1, "switch.identity": IDENTITY},
    )  # fmt: skip


def test_the_tool_makes_its_own_twin(capsys):
    """--port sim, as a user types it."""
    words = ["--port", "sim", *WORDS, "allreduce", "--dtype", "inq8", "--bytes", "100"]
    assert main([*words, "--json", "r.json"]) == 0
    assert "this board is the design in simulation" in capsys.readouterr().out
    assert json.loads(Path("r.json").read_text())["bit_exact"]


def test_selftest(report):
    found = report("selftest")
    assert all(test["passed"] for test in found["tests"]), found["tests"]
    names = [test["test"] for test in found["tests"]]
    assert names[:5] == ["line", "board's own test", "registers", "refusals", "memories"]
    assert names[5:] == ["All-Reduce fp16", "All-Reduce bf16", "All-Reduce inq8"]


# -- failures ------------------------------------------------------------------------------------


def test_a_difference_is_found_told_and_kept(run, monkeypatch):
    golden = sim.plan.collective

    def wrong_in_one_bit(*arguments, **options):
        results = golden(*arguments, **options)
        results[:, 10] ^= 1
        return results

    monkeypatch.setattr(sim.plan, "collective", wrong_in_one_bit)
    status, out, _err = run("allreduce", "--bytes", "64", "--repeat", "2")
    assert status == 1
    assert "difference: rank 0 address 0x14: is 0x" in out
    (folder,) = Path("build/failures").iterdir()
    assert f"kept for this failure: {folder}" in " ".join(out.split())
    assert len((folder / "differences.txt").read_text().splitlines()) == CONFIG.ranks
    replay = json.loads((folder / "run.json").read_text())
    assert replay["command"].startswith("python -m fpga.host --port ")
    assert run("bench", "--sizes", "64", "--dtypes", "fp16", "--simulator", "none")[0] == 1


def test_a_run_that_does_not_end_and_the_next_one(run, report):
    """The rank that is late is reset, and nothing of that run is left."""
    alone = report("allreduce", "--bytes", "128")
    status, _out, _err = run(
        "allreduce", "--bytes", "128", "--skew", "0,100000000", "--max-cycles", "5000"
    )
    assert status == 3
    (folder,) = Path("build/failures").iterdir()
    state = json.loads((folder / "state.json").read_text())
    assert state["switch"]["arrived"] == 0b01
    assert state["rank1"]["delay"] == 100_000_000
    assert state["trace"]["operations"] == 0
    assert report("allreduce", "--bytes", "128") == alone


def test_an_instruction_that_waits_is_forgotten(twin, report):
    """As a tool leaves it that ends between posting and starting."""
    alone = report("allreduce", "--bytes", "128", "--dtype", "bf16")
    with client_of(twin) as client, open(os.devnull, "w") as nowhere:
        bench = open_bench(client, CONFIG, RunProgress(console(nowhere), []))
        where = place(CONFIG, 64)
        instruction = Instruction(64, where.sources, where.destinations, where.flags)
        assert bench.host.post(instruction)[0].name == "OK"
    assert report("allreduce", "--bytes", "128", "--dtype", "bf16") == alone


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.4])
def test_an_interrupt_leaves_the_board_usable(twin, report, seconds):
    """SIGINT, as of Ctrl-C, at some moment of a self-test."""
    words = ["--port", twin.device, *PATIENT, *WORDS, "selftest"]
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "fpga.host", *words],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Also where these tests run in the background, which ignores it.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline().startswith("ok    line")
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert err == "interrupted; the next command finds the board as ever\n"
    assert report("allreduce", "--bytes", "66")["bit_exact"]
