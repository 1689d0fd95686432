"""Frames over a line that corrupts, loses, repeats and adds: no wrong byte, no hang."""

import itertools
import random
import shutil
from types import SimpleNamespace

import pytest

from fpga.host.client import Client
from fpga.host.frames import Identity, SelfTestState
from fpga.twin import SimulatedBoard
from hdl.config import SwitchConfig
from sim.register_host import Instruction
from tests.fpga.bridge_model import Board, BridgeModel
from tests.fpga.line import Trouble, TroubledLine
from tests.fpga.test_prototype import RUN_CYCLES, ClientHost

CONFIG = SwitchConfig.preset("tiny")
#: Frames that set out, both ways.
SHORT, WHOLE = 1500, 10_000
#: Chance that all of so many attempts fail is below 1e-9 a request.
RETRIES = 30

#: One a session: with the nonce of the last one, no new one is opened.
NONCES = itertools.count(1)

#: What a modelled board says that it is.
IDENTITY = Identity(0, 64, 1, 8, 1000, 0, (0, 1, 0), 0, 0, SelfTestState.unpack(0))

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="needs a C++ compiler"
)


@pytest.fixture(scope="module")
def board():
    made = SimulatedBoard(CONFIG)
    while made.active:  # the self-test of power-up
        made.run(10_000)
    yield made
    made.close()


class User:
    """Writes and reads at random, and knows what must be there."""

    def __init__(self, board: SimulatedBoard, client: Client, draw: random.Random):
        self._board, self._client, self._draw = board, client, draw
        client.reset()
        self._host = ClientHost(client, board, CONFIG)
        self._memories = [bytearray(CONFIG.memory_bytes) for _ in range(CONFIG.ranks)]
        for rank in range(CONFIG.ranks):
            board.engine.load(rank, 0, bytes(CONFIG.memory_bytes))
        self._operations = 0

    def act(self):
        self._draw.choices([self._write, self._read, self._register, self._operation],
                           [8, 8, 2, 1])[0]()  # fmt: skip

    def _region(self) -> tuple[int, int, int]:
        size = self._draw.choice((1, 5, 8, 30, 30, 100, 1100))
        rank = self._draw.randrange(CONFIG.ranks)
        return rank, self._draw.randrange(CONFIG.memory_bytes - 64 - size), size

    def _write(self):
        rank, address, size = self._region()
        data = self._draw.randbytes(size)
        self._memories[rank][address : address + size] = data
        self._client.write_memory(rank, address, data)

    def _read(self):
        rank, address, size = self._region()
        data = self._client.read_memory(rank, address, size)
        assert data == self._memories[rank][address : address + size]

    def _register(self):
        value = self._draw.getrandbits(32)
        where = f"rank{self._draw.randrange(CONFIG.ranks)}"
        self._host.write(where, "delay", value)
        assert self._host.read(where, "delay") == value

    def _operation(self):
        """What must not be done twice: an instruction posted, and ranks started."""
        host = self._host
        flags = [CONFIG.memory_bytes - 8] * CONFIG.ranks
        zeros = [0] * CONFIG.ranks
        code, _ = host.post(Instruction(0, zeros, zeros, flags))
        assert code.name == "OK"
        epoch = host.epoch
        host.program(flags=flags)
        assert host.run(RUN_CYCLES)
        self._operations += 1
        for memory in self._memories:
            memory[-8:] = epoch.to_bytes(8, "little")

    def finish(self):
        """Everything, once more."""
        for rank, expected in enumerate(self._memories):
            assert self._board.engine.read(rank, 0, CONFIG.memory_bytes) == expected
        assert self._host.read("switch", "operations") == self._operations
        assert self._host.read("switch", "refused_arrivals") == 0
        assert [self._host.read(f"rank{rank}", "refused") for rank in range(CONFIG.ranks)] == [
            0
        ] * CONFIG.ranks


def fuzz(board: SimulatedBoard, seed: int, frames: int, trouble: Trouble | None = None):
    """Act until so many frames have set out; then nothing has gone astray."""
    print(f"seed {seed}")
    trouble = trouble or Trouble()
    line = TroubledLine(board, seed=seed, trouble=trouble)
    client = Client(line, retries=RETRIES, nonce=next(NONCES))
    client.identify()
    user = User(board, client, random.Random(f"user {seed}"))
    while line.frames < frames:
        user.act()
    user.finish()
    return client.statistics, trouble.happened


@needs_compiler
def test_what_is_read_is_what_was_written(board):
    statistics, happened = fuzz(board, 1, SHORT)
    assert set(happened) == {"flip", "cut", "lose", "twice", "late", "noise"}
    assert min(happened.values()) > 10
    assert statistics.retries > 50
    assert statistics.refused > 10
    assert statistics.damaged > 10


@needs_compiler
@pytest.mark.parametrize("what", ["flip", "cut", "lose", "twice", "late", "noise"])
def test_each_trouble_alone_often(board, what):
    none = dict.fromkeys(("flip", "cut", "lose", "twice", "late", "noise"), 0.0)
    statistics, happened = fuzz(board, 2, 150, Trouble(**none | {what: 0.4}))
    assert set(happened) == {what}


@needs_compiler
def test_a_clean_line_needs_no_retry(board):
    none = dict.fromkeys(("flip", "cut", "lose", "twice", "late", "noise"), 0.0)
    statistics, _ = fuzz(board, 3, 200, Trouble(**none))
    assert (statistics.retries, statistics.damaged, statistics.stale) == (0, 0, 0)


@needs_compiler
def test_noise_alone_does_nothing_and_ends(board):
    """Whatever comes, the bridge answers and rests; then a session opens as ever."""
    draw = random.Random(4)
    for _ in range(100):
        noise = bytes(draw.choice((0x7E, 0x7D, draw.randrange(256))) for _ in range(200))
        board.feed(noise)
        for _ in range(20):
            board.run(1000)
            if not board.active:
                break
        board.run(1000)
        assert not board.active
    client = Client(TroubledLine(board, seed=0, trouble=Trouble()))
    client.identify()


class ModelledBoard:
    """The bridge's model where a board would be."""

    engine = SimpleNamespace(cycle=0, get=lambda port: 0)
    active = False

    def __init__(self, board: Board):
        self._model = BridgeModel(board, 64, IDENTITY.pack()[4:])

    def feed(self, data: bytes) -> bytes:
        return self._model.feed(data)


@pytest.mark.parametrize("seed", range(3))
def test_the_model_acts_once(seed):
    """Ten thousand frames between client and model: each write is done once, in order."""
    draw, written = random.Random(f"model {seed}"), []
    board = Board(dict.fromkeys(range(0, 256, 4), 0), [bytearray(1000)])
    line = TroubledLine(ModelledBoard(board), seed=seed, trouble=Trouble())
    client = Client(line, retries=RETRIES, nonce=seed)
    memory = bytearray(1000)
    while line.frames < WHOLE:
        address, size = 4 * draw.randrange(32), draw.randrange(1, 32)
        values = [draw.getrandbits(32) for _ in range(size)]
        client.write_words(address, values)
        written += [(address + 4 * index, value) for index, value in enumerate(values)]
        assert client.read_words(address, size) == values
        at, data = draw.randrange(900), draw.randbytes(100)
        client.write_memory(0, at, data)
        memory[at : at + 100] = data
        assert client.read_memory(0, 0, 1000) == memory
    assert board.acts == written
    assert client.statistics.retries > 500


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_ten_thousand_frames(board, seed):
    fuzz(board, 100 + seed, WHOLE)
