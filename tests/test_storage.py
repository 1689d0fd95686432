"""The two faces of a rank's memory: block RAM in the design, and bytes that an engine owns."""

import random

import pytest

import hdl.system
from hdl.config import SwitchConfig
from hdl.storage import BlockStorage
from hdl.system import System
from sim.engines import create
from sim.engines.sparse import SparseMemory
from sim.host import Host, Instruction
from tests.lib.simulate import run

CONFIG = SwitchConfig.preset("tiny", ranks=2, memory_bytes=4096)
SIZE = CONFIG.flit_bytes


def test_a_port_against_a_model():
    """Strobes; a read gives the old word one cycle later, and holds it; both ports in one cycle."""
    dut = BlockStorage(CONFIG)
    draw = random.Random(0)
    port = dut.port

    async def bench(ctx):
        model, held = SparseMemory(CONFIG.memory_bytes), 0
        for _ in range(1500):
            # Few addresses, so that reads and writes often meet.
            addresses = [draw.choice([0, 1, 2, CONFIG.memory_flits - 1]) for _ in range(2)]
            reads, writes = draw.random() < 0.6, draw.random() < 0.6
            data, strobe = draw.getrandbits(8 * SIZE), draw.getrandbits(SIZE)
            ctx.set(port.read_enable, reads)
            ctx.set(port.read_address, addresses[0])
            ctx.set(port.write_enable, writes)
            ctx.set(port.write_address, addresses[1])
            ctx.set(port.write_data, data)
            ctx.set(port.write_strobe, strobe)
            if reads:
                held = int.from_bytes(model.read(addresses[0] * SIZE, SIZE), "little")
            if writes:
                model.write_strobed(addresses[1] * SIZE, data.to_bytes(SIZE, "little"), strobe)
            await ctx.tick()
            assert ctx.get(port.read_data) == held
        for number in range(CONFIG.memory_flits):
            word = int.from_bytes(model.read(number * SIZE, SIZE), "little")
            assert ctx.get(dut.array.data[number]) == word

    run(dut, bench)


class Face:
    """A system with one face of its memories, whatever the face loaded and looked at alike."""

    def __init__(self, block_storage, monkeypatch):
        self.arrays = []

        def remembered(config):
            storage = BlockStorage(config)
            self.arrays.append(storage.array)
            return storage

        with monkeypatch.context() as patch:
            patch.setattr(hdl.system, "BlockStorage", remembered)
            self.engine = create("pysim", lambda: System(CONFIG, block_storage=block_storage))
        outputs = [
            name
            for name, port in self.engine.ports.items()
            if not port.is_input and not name.startswith("storage__")
        ]
        self.engine.record(outputs, outputs)
        self.host = Host(self.engine, CONFIG)

    def load(self, rank, data):
        if not self.arrays:
            self.engine.load(rank, 0, data)
        for number in range(len(data) // SIZE if self.arrays else 0):
            word = int.from_bytes(data[number * SIZE :][:SIZE], "little")
            self.engine._context.set(self.arrays[rank].data[number], word)

    def contents(self, rank):
        if not self.arrays:
            return self.engine.read(rank, 0, CONFIG.memory_bytes)
        words = [self.engine._context.get(word) for word in self.arrays[rank].data]
        return b"".join(word.to_bytes(SIZE, "little") for word in words)


def operate(face, seed):
    """Two All-Reduces, out of place and in place, under stalls and jitter."""
    draw = random.Random(seed)
    ranks = range(CONFIG.ranks)
    flags = [CONFIG.memory_bytes - 64 + 8 * rank for rank in ranks]
    for rank in ranks:
        face.load(rank, draw.randbytes(CONFIG.memory_bytes))
        face.host.write(f"rank{rank}", "jitter", 5)
        face.host.write(f"rank{rank}", "stalls", draw.getrandbits(40) & 0x3F3F3F3F3F)
        face.host.write(f"rank{rank}", "seed", draw.getrandbits(32))
    for length, sources, destinations in (
        (298, [0, 1024], [2048, 512]),
        (64, [2048, 512], [2048, 512]),
    ):
        code, _ = face.host.post(Instruction(length, sources, destinations, flags))
        assert code.name == "OK"
        face.host.program(flags=flags, delays=[draw.randrange(20) for _ in ranks])
        assert face.host.run(4000)
        assert face.host.figures().code == "OK"
    return [face.contents(rank) for rank in ranks]


@pytest.mark.parametrize("seed", [1])
def test_both_faces_are_equal_cycle_by_cycle(seed, monkeypatch):
    """Every output of the system in every cycle, traces and registers too, and every byte."""
    inside, outside = Face(True, monkeypatch), Face(False, monkeypatch)
    assert (len(inside.arrays), len(outside.arrays)) == (CONFIG.ranks, 0)
    assert operate(inside, seed) == operate(outside, seed)
    first, second = inside.engine.recording(), outside.engine.recording()
    assert first.ports == second.ports
    assert len(first) > 500
    assert sum(1 for _, row in first.rows() if row["trace__issue"]) > 0
    assert first.cycles == second.cycles
    assert first.values == second.values
