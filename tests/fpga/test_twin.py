"""The twin behind its terminal, and a board's core behind its UART."""

import os
import select
import shutil
import termios
import time

import pytest

from fpga import twin as twin_module
from fpga.host.client import Client
from fpga.host.errors import BoardError
from fpga.top import BoardCore
from fpga.twin import SimulatedBoard, Twin
from hdl.config import SwitchConfig
from hdl.registers import IDENTITY
from sim import engines
from tests.fpga.line import Line

CONFIG = SwitchConfig.preset("tiny")

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="needs a C++ compiler"
)


class Terminal:
    """A serial port without a library."""

    def __init__(self, device: str):
        self._file = os.open(device, os.O_RDWR | os.O_NOCTTY)
        self.timeout = None

    def write(self, data):
        while data:
            data = data[os.write(self._file, data) :]

    def read(self, size):
        readable, _, _ = select.select([self._file], [], [], self.timeout)
        return os.read(self._file, size) if readable else b""

    def close(self):
        os.close(self._file)


@pytest.fixture
def twin():
    with Twin(CONFIG) as made:
        yield made


def rested(twin: Twin, seconds: float = 60) -> int:
    """Its cycle, once it sleeps."""
    end = time.monotonic() + seconds
    before, same = -1, 0
    while time.monotonic() < end:
        with twin.lock:
            now = twin.board.engine.cycle
        same = same + 1 if now == before else 0
        if same == 4:
            return now
        before = now
        time.sleep(0.1)
    raise AssertionError("the twin does not rest")


@needs_compiler
def test_a_host_through_the_terminal(twin):
    """Another tool after it, too, and a tool that went away in the middle of a frame."""
    for _ in range(2):
        with Client(Terminal(twin.device), timeout=5) as client:
            assert client.identify().memory_bytes == CONFIG.memory_bytes
            data = os.urandom(3000)
            client.write_memory(2, 77, data)
            assert client.read_memory(2, 77, 3000) == data
            assert client.read_words(0)[0] == IDENTITY
            client._port.write(b"\x7e\x12\x34half a fr")


@needs_compiler
def test_it_sleeps_until_a_byte_comes(twin):
    before = rested(twin)
    time.sleep(0.5)
    assert twin.board.engine.cycle == before
    with Client(Terminal(twin.device), timeout=5) as client:
        client.identify()
    assert rested(twin) > before + twin_module.SETTLE_CYCLES


@needs_compiler
def test_an_operation_that_hangs_does_not_run_for_ever(twin, monkeypatch):
    monkeypatch.setattr(twin_module, "PATIENCE_CYCLES", 20_000)
    rested(twin)
    with Client(Terminal(twin.device), timeout=5) as client:
        client.identify()
        client.start()  # ranks arrive, but there is no instruction
        before = rested(twin)
        assert client.read_words(0)[0] == IDENTITY
        assert rested(twin) > before
        client.reset()


@needs_compiler
def test_the_terminal_changes_no_byte(twin):
    """Raw: no echo, no line ends, no signals."""
    file = os.open(twin.device, os.O_RDWR | os.O_NOCTTY)
    input_flags, output_flags, _, local_flags, *_ = termios.tcgetattr(file)
    os.close(file)
    assert not local_flags & (termios.ECHO | termios.ICANON | termios.ISIG)
    assert not input_flags & (termios.ICRNL | termios.IXON)
    assert not output_flags & termios.OPOST


@needs_compiler
def test_the_button(twin):
    rested(twin)
    with Client(Terminal(twin.device), timeout=5) as client:
        client.identify()
        with twin.lock:
            twin.board.press()
        client.identify()
        while client.identify().self_test.busy:
            time.sleep(0.05)
        assert client.identify().self_test.passed


@needs_compiler
def test_an_error_inside_is_raised_outside():
    twin = Twin(CONFIG)

    def broken(data):
        raise RuntimeError("planted")

    twin.board.feed = broken
    client = Client(Terminal(twin.device), timeout=0.2, retries=1)
    with pytest.raises(BoardError):
        client.identify()
    with pytest.raises(RuntimeError, match="planted"):
        twin.close()
    twin.close()  # once more is nothing


@pytest.mark.parametrize(
    ("fields", "has"),
    [({}, True), (dict(formats=("bf16",)), False), (dict(memory_bytes=4 << 20), False)],
)
def test_a_self_test_is_there_where_it_can_be_waited_for(fields, has):
    assert twin_module._has_self_test(SwitchConfig.preset("tiny", **fields)) == has


# -- through the UART ----------------------------------------------------------------------------

SMALL = SwitchConfig.preset(
    "tiny", ranks=2, waves=2, memory_bytes=1024, queue_depth=1, formats=("fp16",),
    clock_hz=8_000_000,
)  # fmt: skip
DIVISOR = 8  # at 1 Mbaud


class Wire:
    """A port whose bits are drawn on the lines of a board's core, and sampled from them."""

    #: Cycles without a start bit after which nothing more comes.
    QUIET = 60 * DIVISOR

    def __init__(self, engine):
        self.engine = engine
        self.timeout = None
        self._came = bytearray()
        self._since: int | None = None  # cycles since the start bit began
        self._bits: list[int] = []
        self._quiet = 0
        engine.set("rx", 1)

    def _cycle(self):
        level = self.engine.get("tx")
        self.engine.step()
        self._quiet += 1
        if self._since is None and level == 0:
            self._since = 0
        if self._since is None:
            return
        self._quiet = 0
        if self._since % DIVISOR == DIVISOR // 2:
            self._bits.append(level)
        self._since += 1
        if len(self._bits) == 10:
            start, *byte, stop = self._bits
            assert (start, stop) == (0, 1)
            self._came.append(sum(bit << index for index, bit in enumerate(byte)))
            self._bits, self._since = [], None

    def _send(self, level: int, cycles: int = DIVISOR):
        self.engine.set("rx", level)
        for _ in range(cycles):
            self._cycle()

    def write(self, data):
        for byte in data:
            for bit in (0, *(byte >> index & 1 for index in range(8)), 1):
                self._send(bit)
        self._quiet = 0

    def disturb(self):
        """A start bit that is none, and a break."""
        self._send(0, 1)
        self._send(1, 3 * DIVISOR)
        self._send(0, 20 * DIVISOR)
        self._send(1, 3 * DIVISOR)

    def read(self, size):
        while self._quiet < self.QUIET:
            self._cycle()
        data = bytes(self._came[:size])
        del self._came[:size]
        return data

    def close(self):
        pass


def test_a_host_through_the_uart():
    """A board's whole core at its pins, bit by bit."""
    engine = engines.create(engines.default_engine(), lambda: BoardCore(SMALL))
    client = Client(Wire(engine), timeout=60)  # of wall-clock time, while bits are simulated
    while client.identify().self_test.busy:
        pass
    identity = client.identify()
    assert identity.self_test.passed
    assert engine.get("leds") & 1  # busy is shown for a while
    data = bytes(range(0x70, 0x90))  # flags and escapes among them
    client.write_memory(1, 3, data)
    assert client.read_memory(1, 3, len(data)) == data
    assert client.read_words(0)[0] == IDENTITY
    client._port.disturb()
    identity = client.identify()
    assert identity.framing_errors == 1
    assert client.read_memory(1, 3, len(data)) == data
    assert client.statistics.retries == client.statistics.damaged == 0
    engine.close()


def test_a_simulated_board_without_a_compiler():
    """In Amaranth's simulator, with shorter bursts."""
    board = SimulatedBoard(SMALL, "pysim", self_test=False, burst_bytes=64)
    client = Client(Line(board))
    identity = client.identify()
    assert not identity.self_test.built
    assert identity.burst_bytes == 64
    client.write_memory(0, 1, bytes(100))
    client.write_memory(0, 50, b"hello")
    assert client.read_memory(0, 45, 15) == bytes(5) + b"hello" + bytes(5)
