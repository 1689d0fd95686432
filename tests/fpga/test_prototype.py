"""The prototype through its client: runs to the cycle, memories at any time, resets, self-tests."""

import random
import shutil

import numpy as np
import pytest

from fpga.host import client as client_module
from fpga.host.client import Client
from fpga.host.errors import BusError, BusyError, SessionLost
from fpga.twin import SimulatedBoard
from hdl.config import SwitchConfig
from hdl.registers import IDENTITY
from sim.bench import Bench
from sim.register_host import RegisterHost
from sim.testbed import Testbed
from tests.fpga.line import Line

CONFIG = SwitchConfig.preset("tiny")
#: Longer than any run here.
RUN_CYCLES = 50_000

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="needs a C++ compiler"
)


class ClientHost(RegisterHost):
    """Registers through a client; what `meanwhile` does is done while ranks are at work."""

    def __init__(self, client: Client, board: SimulatedBoard, config: SwitchConfig):
        self.client, self._board = client, board
        self.meanwhile = lambda: None
        super().__init__(config)

    def read_words(self, address, count):
        return self.client.read_words(address, count)

    def write_words(self, address, values):
        self.client.write_words(address, values)

    def start(self):
        self.client.start()

    def wait(self, cycles):
        end = self._board.engine.cycle + cycles
        while self._board.engine.cycle < end:
            assert self._board.run(end - self._board.engine.cycle) == b""

    def run(self, max_cycles, watch=None):
        self.start()
        end = self._board.engine.cycle + max_cycles
        while self.read("system", "done") != (1 << self.config.ranks) - 1:
            if self._board.engine.cycle > end:
                return False
            self.meanwhile()
        return True


@pytest.fixture(scope="module")
def board():
    made = SimulatedBoard(CONFIG)
    yield made
    made.close()


class ButtonLine(Line):
    """A line that presses the button some cycles after the next frame, if asked to."""

    pressed_after: int | None = None

    def write(self, data):
        size = super().write(data)
        if self.pressed_after is not None:
            for _ in range(self.pressed_after):
                self._came += self.board.run(1)
            self.board.press()
            self.pressed_after = None
        return size


@pytest.fixture
def client(board):
    """A session with a system as after power-up, its memories zero."""
    made = Client(ButtonLine(board))
    made.identify()
    made.reset()
    for rank in range(CONFIG.ranks):
        board.engine.load(rank, 0, bytes(CONFIG.memory_bytes))
    return made


@pytest.fixture
def bench(board, client):
    return Bench(CONFIG, ClientHost(client, board, CONFIG), board.engine)


def operands(seed: int, elements: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    values = draw.standard_normal((CONFIG.ranks, elements)).astype(np.float16)
    return values.view(np.uint16)


def test_the_self_test_at_power_up_and_the_identity(board):
    client = Client(Line(board))
    while client.identify().self_test.busy:
        board.run(1000)
    identity = client.identify()
    assert identity.self_test.passed
    assert not identity.self_test.failed
    assert (identity.ranks, identity.flit_bytes) == (CONFIG.ranks, CONFIG.flit_bytes)
    assert identity.memory_bytes == CONFIG.memory_bytes
    assert identity.config_digest == int(CONFIG.digest[:8], 16)
    assert client.read_words(0)[0] == IDENTITY


def test_memories_at_every_alignment(client):
    draw = random.Random(3)
    expected = [bytearray(CONFIG.memory_bytes) for _ in range(CONFIG.ranks)]
    for _ in range(60):
        rank, size = draw.randrange(CONFIG.ranks), draw.choice((0, 1, 2, 7, 8, 9, 64, 1100))
        address = draw.randrange(CONFIG.memory_bytes - size + 1)
        data = draw.randbytes(size)
        expected[rank][address : address + size] = data
        client.write_memory(rank, address, data)
        assert client.read_memory(rank, address, size) == data
    for rank in range(CONFIG.ranks):
        assert client.read_memory(rank, 0, CONFIG.memory_bytes) == expected[rank]


def test_what_is_not_there_is_told_with_its_address(client):
    for access, address in (
        (lambda: client.read_memory(0, CONFIG.memory_bytes - 3, 8), CONFIG.memory_bytes),
        (lambda: client.write_memory(CONFIG.ranks, 5, b"x"), 5),
        (lambda: client.read_words(0xFC00), 0xFC00),
        (lambda: client.write_words(0x8_0000, [1]), 0x8_0000),
        (lambda: client.read_words(1 << 40), 1 << 40),
    ):
        with pytest.raises(BusError) as caught:
            access()
        assert caught.value.address == address
    assert client.read_words(0)[0] == IDENTITY


@pytest.fixture(scope="module")
def reference():
    """Runs of the bare system, as `sim.allreduce` makes them."""
    with Testbed(CONFIG, "cxxrtl") as testbed:
        yield testbed


@pytest.mark.parametrize(
    ("elements", "delays"), [(0, None), (1, None), (500, None), (3000, None), (700, [0, 300, 20])]
)
def test_a_run_takes_the_cycles_of_the_bare_system(bench, reference, elements, delays):
    """Whatever the host does to memories meanwhile, and with every figure that is counted."""
    values = operands(elements, elements)
    client, draw = bench.host.client, random.Random(elements)
    looks = 0
    # Bytes that the run does not touch.
    low, high = 2 * elements + 64, CONFIG.memory_bytes - 64

    def meanwhile():
        nonlocal looks
        looks += 1
        rank, size = draw.randrange(CONFIG.ranks), draw.randrange(1, 60)
        client.read_memory(rank, draw.randrange(CONFIG.memory_bytes - size), size)
        if low + size < high:
            address, data = draw.randrange(low, high - size), draw.randbytes(size)
            client.write_memory(rank, address, data)
            bench.expected[rank][address : address + size] = np.frombuffer(data, np.uint8)

    bench.host.meanwhile = meanwhile
    run = bench.all_reduce(values, "fp16", delays=delays)
    expected = reference.all_reduce(values, "fp16", delays=delays)
    assert run.status == expected.status == "ok", run.differences
    assert run.figures == expected.figures
    reference.settle()
    assert looks or elements < 100


def test_stalls_and_jitter_leave_the_host_out(bench):
    """Not to the cycle, since random numbers go on while the host speaks; but every byte."""
    for rank in range(CONFIG.ranks):
        stalls = dict(ar=90, r=120, aw=90, w=120, b=60)
        bench.set_memory(rank, stalls=stalls, jitter=20, latency=9, seed=rank)
    client, draw = bench.host.client, random.Random(8)

    def meanwhile():
        client.read_memory(draw.randrange(CONFIG.ranks), draw.randrange(8000), 100)

    bench.host.meanwhile = meanwhile
    for seed in range(3):
        run = bench.all_reduce(operands(seed, 2000), "fp16")
        assert run.status == "ok", run.differences


def test_memories_of_a_hung_operation_are_there(bench, board):
    """A rank that never arrives: everything can be read, and a reset makes it whole again."""
    client, values = bench.host.client, operands(1, 400)
    first = bench.all_reduce(values, "fp16")
    bench.host.program(flags=[0] * CONFIG.ranks)
    bench.host.write("rank1", "count", 0)
    bench.host.start()
    bench.host.wait(5000)
    assert bench.host.read("system", "done") == 0b010
    for rank, expected in enumerate(bench.expected):
        assert client.read_memory(rank, 0, CONFIG.memory_bytes) == expected.tobytes()
    client.reset()
    assert bench.host.read("system", "done") == 0b111
    again = Bench(CONFIG, ClientHost(client, board, CONFIG), board.engine)
    again.expected = bench.expected
    assert again.all_reduce(values, "fp16").figures == first.figures


@pytest.mark.parametrize("cycles", [3, 50, 111, 240, 500])
def test_a_reset_in_the_midst_of_a_run(bench, board, cycles):
    """Wherever it comes, the next run is that of a system just started."""
    client, values = bench.host.client, operands(7, 2000)
    figures = bench.all_reduce(values, "fp16").figures
    client.reset()
    host = ClientHost(client, board, CONFIG)
    again = Bench(CONFIG, host, board.engine)
    host.meanwhile = lambda: (host.wait(cycles), client.reset())
    broken = again.all_reduce(values, "fp16")
    assert broken.figures != figures
    fresh = Bench(CONFIG, ClientHost(client, board, CONFIG), board.engine)
    for rank in range(CONFIG.ranks):
        board.engine.load(rank, 0, bytes(CONFIG.memory_bytes))
    run = fresh.all_reduce(values, "fp16")
    assert run.status == "ok", run.differences
    assert run.figures == figures


def test_the_button_ends_the_session_and_tests(board, client):
    client.write_memory(0, 0, b"of no account")
    board.press()
    board.run(10)
    assert board.engine.get("busy")
    with pytest.raises(SessionLost, match="the session is over; the board was reset, its button"):
        client.read_memory(0, 0, 5)
    assert client.identify().self_test.busy
    client.read_memory(0, 0, 5)  # put off until the test is over
    assert client.statistics.busy
    assert client.identify().self_test.passed


def test_the_host_starts_a_test_and_keeps_its_session(board, client, monkeypatch):
    monkeypatch.setattr(client_module, "BUSY_SECONDS", 0)
    client.start_self_test()
    for request in (
        lambda: client.read_words(0),
        lambda: client.write_words(0x400, [1]),
        lambda: client.read_memory(0, 0, 5),
        lambda: client.write_memory(0, 0, b"hello"),
        client.reset,
        client.start_self_test,
    ):
        with pytest.raises(BusyError):
            request()
    while client.identify().self_test.busy:
        board.run(1000)
    assert client.identify().self_test.passed


def test_the_button_waits_for_a_request(board, client):
    """Pressed at any time of a write, it neither lets it through into the test nor loses it."""
    outcomes = set()
    for cycles in range(0, 160, 13):
        client.identify()  # a new session, since the button ended the last
        client._port.pressed_after = cycles
        try:
            client.write_memory(0, 0, bytes(60))
            outcomes.add("done")
        except SessionLost:
            outcomes.add("refused")
        while client.identify().self_test.busy:
            board.run(1000)
        assert client.identify().self_test.passed
    assert outcomes == {"done", "refused"}
