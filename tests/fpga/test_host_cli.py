"""The host tool without a simulation: arguments, ports, boards that are silent or others."""

import json
import os
import random
import re
import subprocess
import sys
import threading
import tty

import pytest

from fpga.host import __main__ as loader
from fpga.host import bench_picture
from fpga.host.cli import main
from fpga.host.commands import COMMANDS
from fpga.host.ports import open_serial
from hdl.config import PRESETS, SwitchConfig
from tests.fpga.host_stand_in import StandIn, identity_of

TINY = SwitchConfig.preset("tiny")


def run(capsys, *arguments: str):
    """Exit status, standard output, standard error."""
    status = main(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def one_error(err: str) -> str:
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


# -- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "command: must be one of info, selftest, allreduce"),
        ("--port sim", "command: must be one of info, "),
        ("info", "port: must be given, a serial port or sim"),
        ("--port sim inof", "command: must be one of .*, not 'inof'; did you mean 'info'?"),
        ("--prot sim info", "option: must be one of .*, not '--prot'; did you mean '--port'"),
        ("--port sim info --jsn x", "option: must be one of .*'--jsn'; did you mean '--json'"),
        ("info --port", "port: expected one argument"),
        ("--port sim --baud x info", "baud: invalid int value: 'x'"),
        ("--port sim --baud 0 info", "baud: must be a number above 0, not 0"),
        (
            "--port sim --timeout -1 info",
            "timeout: must be a number above 0 and at most .*, not -1",
        ),
        (
            "--port sim --timeout nan info",
            "timeout: must be a number above 0 and at most .*, not nan",
        ),
        ("--port sim --timeout 1e300 info", "timeout: must be a number above 0 and at most 3600"),
        ("--port sim --retries -1 info", "retries: must be 0 or more, not -1"),
        ("--port sim --config tinny info", "preset: must be one of .*did you mean 'tiny'?"),
        ("--port sim --set ranks=1 info", "ranks: must be 2..16, not 1"),
        ("--port sim info --set rank=1", "field: must be one of .*'rank'; did you mean 'ranks'"),
        ("--port sim allreduce --engine pysim", "engine: a board is no simulator; use python -m"),
        ("--port sim allreduce --vcd x.vcd", "vcd: a board keeps no waveform; use trace, or"),
        ("--port sim allreduce --vcd-window 1:2", "vcd-window: a board keeps no waveform; use"),
        ("--port sim allreduce --dtype fp61", "dtype: must be one of .*; did you mean 'fp16'"),
        ("--port sim allreduce --bytes 3", "bytes: must be whole elements of 2 bytes, not 3"),
        ("--port sim allreduce --bytes 99999998", "bytes: must be at most .*, not 99999998"),
        ("--port sim allreduce --skew 1,2", "skew: must be one number for each of 4 ranks"),
        ("--port sim bench --sizes 0", "sizes: must be whole numbers of 1 or more, not '0'"),
        ("--port sim bench --sizes 7", "sizes: must be whole elements of 2 bytes for fp16, not 7"),
        ("--port sim bench --dtypes bf61", "dtypes: must be one of .*; did you mean 'bf16'"),
        ("--port sim bench --dtypes bf16", r"dtypes: must be of those that the board has \(fp16"),
        ("--port sim bench --simulator pysm", "simulator: must be .*did you mean 'pysim'"),
        ("--port sim bench --csv .", "csv: must be a file that can be written"),
        ("--port sim bench --csv x --json ./x", "csv: must not be a file that --json writes"),
        ("--port sim bench --csv x.png --picture x", "picture: must not be a file that --csv"),
        ("--port sim bench --picture .", "picture: must be a name, of which NAME.png, NAME.svg"),
        ("--port sim bench --picture a/folder", "picture: must be a file that can be written (Is"),
        ("--port sim info --json .", "json: must be a file that can be written"),
        ("--port sim selftest --json /proc/x/y", "json: must be a file that can be written"),
        ("--port sim registers --json .", "json: must be a file that can be written"),
        ("--port sim trace --out .", "out: must be a name, of which NAME.json, NAME.vcd"),
        ("--port sim trace --out x --json x.vcd", "out: must not be a file that --json writes"),
        ("--port sim trace --out a/folder", "out: must be a file that can be written (Is a"),
        ("--port sim dump --rank 4", "rank: must be below 4, not 4"),
        ("--port sim dump --rank x", "rank: must be a whole number of 0 or more, not 'x'"),
        (
            "--port sim dump --address 16380 --bytes 8",
            "address: must stay within a memory of 16384",
        ),
        ("--port sim load no.bin", "file: cannot read 'no.bin': No such file"),
        ("--port sim load", "the following arguments are required: FILE"),
        ("--port sim trace", "the following arguments are required: --out"),
        ("--port sim trace --out x --repeat 2", "bytes: must be one size for a trace, not 2 runs"),
        (
            "--port sim --set trace_records=0 trace --out x",
            "trace_records: the board has no trace buffer; build it with",
        ),
    ],
)
def test_bad_arguments_are_refused_in_one_line(capsys, tmp_path, monkeypatch, arguments, message):
    """Before any twin is made, and with nothing left behind."""
    folder = tmp_path / "a/folder.svg"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fpga.twin.Twin", None)
    status, out, err = run(capsys, *arguments.split())
    assert (status, out) == (2, "")
    assert re.match(message.replace("written (", r"written \("), one_error(err))
    assert list(tmp_path.rglob("*")) == [folder.parent, folder]


def test_an_interrupt_while_the_tool_is_loaded(capsys, monkeypatch):
    """Loading takes a second or two, in which nothing of the tool can catch it yet."""

    class Interrupt:
        @staticmethod
        def find_spec(name, path, target=None):
            if name == "fpga.host.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "fpga.host.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupt, *sys.meta_path])
    assert loader.main() == 130
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "interrupted\n")


def test_help_names_commands_and_options(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert name in text
        assert command.summary in text
    for option in ("--port", "--config", "--set", "--any-digest", "--baud", "--timeout"):
        assert option in text
    for name in COMMANDS:
        with pytest.raises(SystemExit):
            main([name, "--help"])
        assert f"{name} [" in capsys.readouterr().out.replace("\n", " ")


# -- ports ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("port", "message"),
    [
        ("/dev/tty-of-nobody", "port: must be one that is there (found"),
        (os.devnull, "port: must be a serial port ("),
    ],
)
def test_a_port_that_is_none(capsys, port, message):
    status, out, err = run(capsys, "--port", port, "info")
    assert (status, out) == (2, "")
    assert one_error(err).startswith(message)
    assert err.rstrip().endswith(f"not {port!r}")


def test_a_rate_that_no_port_has(capsys):
    with StandIn(TINY) as board:
        status, _out, err = run(capsys, "--port", board.device, "--baud", str(1 << 32), "info")
    assert status == 2
    assert one_error(err) == f"baud: must be a rate that the port has, not {1 << 32}"


def test_a_port_that_another_program_has(capsys):
    with StandIn(TINY) as board, open_serial(board.device, 1_000_000):
        status, _out, err = run(capsys, "--port", board.device, "info")
    assert status == 2
    assert one_error(err).startswith("port: must be one that no other program has, not ")


@pytest.mark.parametrize("noise", [b"", b"\x7e garbage \x7e" * 20])
def test_a_board_that_does_not_answer(capsys, noise):
    """Nothing comes; or what comes is no frame."""
    master, slave = os.openpty()
    try:
        tty.setraw(slave)
        stop = threading.Event()

        def talk():
            while noise and not stop.wait(0.02):
                os.write(master, noise)

        talker = threading.Thread(target=talk)
        talker.start()
        patience = ["--timeout", "0.1", "--retries", "1"]
        status, out, err = run(capsys, "--port", os.ttyname(slave), *patience, "info")
        stop.set()
        talker.join()
    finally:
        os.close(master)
        os.close(slave)
    assert (status, out) == (4, "")
    assert "does not answer at 1000000 baud; " in one_error(err)
    assert ("what it sends is no frame" in err) == bool(noise)
    assert ("is it on" in err) == (not noise)


# -- which board ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tiny", "arty", "ulx3s-85f"])
def test_the_preset_of_a_board_is_found(capsys, name):
    config = SwitchConfig.preset(name)
    with StandIn(config) as board:
        status, out, err = run(capsys, "--port", board.device, "info", "--json", "-")
    report = json.loads(out)
    assert (status, report["preset"], report["digest"]) == (0, name, config.digest[:8])
    assert (report["ranks"], report["self_test"]) == (config.ranks, "passed")
    assert (report["simulated"], report["version"]) == (False, "0.1.0")
    assert SwitchConfig.from_fields(report["config"]) == config
    assert f"{config.digest[:8]}: {name}" in err


def test_a_board_of_other_settings(capsys):
    """It is refused, with what it says of itself, until its settings are named."""
    config = SwitchConfig.preset("tiny", waves=2)
    with StandIn(config) as board:
        status, out, err = run(capsys, "--port", board.device, "info")
        assert status == 2
        assert f"{config.digest[:8]}: not known to this checkout" in out
        assert one_error(err).startswith(
            f"digest: the board's, {config.digest[:8]}, is that of no preset of this checkout;"
        )
        status, _out, err = run(capsys, "--port", board.device, "dump", "--bytes", "0")
        assert status == 2
        for words in (["--set", "waves=2"], ["--config", "tiny", "--set", "waves=2"]):
            status, out, _err = run(capsys, "--port", board.device, "info", *words)
            assert status == 0
            assert f"{config.digest[:8]}: tiny with --set" in out
        # Nothing but `info` can do without a configuration; another one is enough for the rest.
        words = ["--port", board.device, "--any-digest"]
        status, out, err = run(capsys, *words, "info")
        assert (status, err) == (0, "")
        assert f"{config.digest[:8]}: not known to this checkout" in out
        status, _out, err = run(capsys, *words, "dump", "--bytes", "0")
        assert status == 2
        assert "(another's with --any-digest too)" in one_error(err)
        assert run(capsys, *words, "dump", "--bytes", "0", "--config", "tiny")[0] == 0


@pytest.mark.parametrize(
    ("changes", "message", "told"),
    [
        ({"config_digest": 0xDEAD}, "digest: the board has 0000dead, this checkout's ", True),
        ({"version": (0, 2, 7)}, "version: the board has 0.2.7, this checkout's config", True),
        ({"ranks": 2}, "ranks: the board has 2, this checkout's configuration 3; name", False),
        ({"memory_bytes": 1 << 20}, "memory_bytes: the board has 1048576, this ", False),
    ],
)
def test_another_board_than_told(capsys, changes, message, told):
    """--any-digest goes on where it can: not with other sizes."""
    with StandIn(TINY, identity_of(TINY, **changes)) as board:
        words = ["--port", board.device, "--config", "tiny", "registers", "switch.identity"]
        status, out, err = run(capsys, *words)
        assert (status, out) == (2, "")
        assert one_error(err).startswith(message)
        assert run(capsys, "--any-digest", *words)[0] == (0 if told else 2)


def test_formats_of_a_board_are_as_they_are(capsys):
    """A preset gets no format for a board that is built without."""
    with StandIn(TINY) as board:
        words = ["--port", board.device, "allreduce", "--dtype", "inq8"]
        status, _out, err = run(capsys, *words)
    assert status == 2
    assert one_error(err) == "dtype: must be one that the board has (fp16, bf16), not 'inq8'"


# -- commands that need no run -------------------------------------------------------------------


def test_registers_by_name(capsys):
    with StandIn(TINY) as board:
        port = ["--port", board.device]
        status, out, _err = run(capsys, *port, "registers", "--json", "-")
        values = json.loads(out)
        assert status == 0
        assert values["switch.identity"] == 0x54474154
        assert values["rank2.memory_latency"] == TINY.memory_latency
        assert "system.go" not in values
        status, out, _err = run(
            capsys, *port, "registers", "rank*.jitter=0x3f", "rank1.stalls=0x1_0203_0405",
            "--json", "-",
        )  # fmt: skip
        assert json.loads(out) == {
            "rank0.jitter": 63, "rank1.jitter": 63, "rank2.jitter": 63,
            "rank1.stalls": 0x102030405,
        }  # fmt: skip
        status, out, _err = run(capsys, *port, "registers", "switch.epoch")
        assert status == 0
        assert "epoch whose arrivals are being collected" in " ".join(out.split())
        for words, message in (
            ("swich.epoch", "register: must be one that .*'swich.epoch'; near it: switch.epoch,"),
            ("switch.epoch=1", "switch.epoch: is driven by hardware and cannot be written"),
            ("rank0.jitter=1024", "rank0.jitter: must be a whole number of 0..0x3ff, not '1024'"),
            ("system.go", "system.go: reads nothing; write it, as system.go=1"),
        ):
            status, out, err = run(capsys, *port, "registers", words)
            assert (status, out) == (2, "")
            assert re.match(message, one_error(err))


def test_dump_and_load(capsys, tmp_path):
    data = random.Random(1).randbytes(3000)
    source, target = tmp_path / "in.bin", tmp_path / "out.bin"
    source.write_bytes(data)
    with StandIn(TINY) as board:
        place = ["--port", board.device, "--config", "tiny"]
        status, out, _err = run(
            capsys, *place, "load", "--rank", "2", "--address", "0x11", str(source)
        )
        assert status == 0
        assert out == "3,000 bytes written to rank 2 from 0x11, and read back the same\n"
        assert board.board.memories[2][0x11 : 0x11 + 3000] == data
        assert not any(board.board.memories[0])
        words = [*place, "dump", "--rank", "2", "--address", "0x11"]
        assert run(capsys, *words, "--bytes", "3000", "--out", str(target))[0] == 0
        assert target.read_bytes() == data
        board.board.memories[2][0x11:0x23] = b"Tidegate\0\xff" + b"AAAAAAAA"
        status, out, _err = run(capsys, *words, "--bytes", "18")
        assert out.splitlines() == [
            "00000011  54 69 64 65 67 61 74 65 00 ff 41 41 41 41 41 41  Tidegate..AAAAAA",
            f"00000021  {'41 41':47}  AA",
        ]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_disk_that_is_full(capsys):
    with StandIn(TINY) as board:
        words = ["--port", board.device, "dump", "--bytes", "16", "--out", "/dev/full"]
        status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert one_error(err).endswith("cannot be written: No space left on device")


def test_a_reader_that_has_gone():
    """As of ``dump | head -1``: no traceback, and the status that a shell gives it."""
    with StandIn(TINY) as board:
        words = [sys.executable, "-m", "fpga.host", "--port", board.device, "dump"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tool:
            tool.stdout.close()
            assert tool.stderr.read() == b""
            assert tool.wait(60) == 141


@pytest.mark.parametrize("simulator", [None, "pysim"])
def test_a_picture_shows_a_simulator_where_there_is_one(monkeypatch, tmp_path, simulator):
    drawn = []
    monkeypatch.setattr(bench_picture, "save_picture", lambda figure, base: drawn.append(figure))
    cycles = {"data": 50, "arrive_to_flag": 80}
    row = {"dtype": "fp16", "bytes": 64, "cycles": cycles}
    if simulator:
        row["simulated"] = {"cycles": cycles}
    report = {
        "rows": [row], "config": TINY.to_fields(), "digest": TINY.digest, "preset": "tiny",
        "simulator": simulator, "simulated_board": False,
    }  # fmt: skip
    bench_picture.draw_bench(report, tmp_path / "bench")
    (figure,) = drawn
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ours = ["fp16, simulator, pysim"] if simulator else []
    assert labels == [*ours, "fp16, board"]
    assert figure.get_suptitle().endswith("board beside simulator" if simulator else ": board")


def test_load_tells_a_byte_that_reads_otherwise(capsys, tmp_path, monkeypatch):
    source = tmp_path / "in.bin"
    source.write_bytes(bytes(40))

    def wrong(self, rank, address, length):
        return bytes(length - 1) + b"\x04"

    monkeypatch.setattr("fpga.host.client.Client.read_memory", wrong)
    with StandIn(TINY) as board:
        status, out, _err = run(capsys, "--port", board.device, "load", str(source))
    assert status == 1
    assert out == "difference: rank 0 from 0x0: byte 39 reads 0x04, was 0x00\n"


def test_a_line_that_loses_and_spoils_answers(capsys):
    """Requests are sent again, and nothing is done twice or read wrongly."""
    draw = random.Random(5)

    def spoil(data):
        kind = draw.random()
        if kind < 0.2:
            return b""
        return data[:-3] + b"\x00" + data[-2:] if kind < 0.4 else b"\x7e\x11" * (kind < 0.5) + data

    with StandIn(TINY, spoil=spoil) as board:
        board.board.memories[1][:] = expected = random.Random(6).randbytes(TINY.memory_bytes)
        words = ["--port", board.device, "--timeout", "0.1", "--retries", "40"]
        assert run(capsys, *words, "registers", "rank0.jitter=5")[0] == 0
        assert [value for _, value in board.board.acts] == [5]
        status, out, _err = run(capsys, *words, "dump", "--rank", "1")
        read = b"".join(bytes.fromhex(line[10:57]) for line in out.splitlines())
    assert (status, read) == (0, expected)


def test_every_preset_is_known_by_its_digest():
    digests = {SwitchConfig.preset(name).digest[:8] for name in PRESETS}
    assert len(digests) == len(PRESETS)
