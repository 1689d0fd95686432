"""The testbed without hardware: what it loads, where, and which bytes it finds wrong."""

from dataclasses import asdict, replace

import numpy as np
import pytest

import sim.testbed
from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from sim.golden import all_reduce_inq, all_reduce_sum
from sim.host import Figures
from sim.quantized import QUANTIZED, Quantized
from sim.testbed import Placement, Testbed, place

CONFIG = SwitchConfig.preset("tiny", ranks=2, formats=("fp16", "bf16", "inq8"))
GUARD = np.array([0xA5], np.uint8)
EPOCH = 7


# -- placement ----------------------------------------------------------------------------------


def regions(config, where, length, format):
    """(start, bytes) of all that a rank's part of an operation takes, in whole flits."""
    sizes = [length] + ([config.scales_bytes(length)] if format == QUANTIZED else [])
    flit = config.flit_bytes
    pairs = zip(where.operands + where.results, sizes * 2, strict=True)
    taken = {(addresses[0], -(-size // flit) * flit) for addresses, size in pairs}
    return sorted(taken | {(where.flags[0], 8)})


@pytest.mark.parametrize("out_of_place", [False, True])
@pytest.mark.parametrize("format", ["fp16", "inq8"])
@pytest.mark.parametrize("length", [0, 2, 64, 130, 4096])
@pytest.mark.parametrize("scale_format", ["fp16", "e8m0"])
def test_regions_are_on_the_grid_and_apart(length, format, out_of_place, scale_format):
    config = CONFIG.replace(scale_format=scale_format, wave_bytes=512)
    where = place(config, length, format, out_of_place=out_of_place)
    assert where.in_place == (not out_of_place or length == 0)
    assert (where.scale_sources is None) == (format == "fp16")
    taken = regions(config, where, length, format)
    for (start, size), (following, _) in zip(taken, taken[1:], strict=False):
        assert start % config.flit_bytes == 0
        assert start + size <= following
    assert taken[-1][0] + 8 <= config.memory_bytes
    for addresses in (*where.operands, *where.results, where.flags):
        assert addresses == [addresses[0]] * config.ranks


@pytest.mark.parametrize("out_of_place", [False, True])
@pytest.mark.parametrize("format", ["fp16", "inq8"])
def test_the_most_that_fits_is_told_and_fits(format, out_of_place):
    with pytest.raises(ValueError, match=r"^bytes: must be at most \d+, so that operand") as error:
        place(CONFIG, CONFIG.memory_bytes, format, out_of_place=out_of_place)
    assert (" with scales" in str(error.value)) == (format == "inq8")
    most = int(str(error.value).split(",")[0].split()[-1])
    place(CONFIG, most, format, out_of_place=out_of_place)
    with pytest.raises(ValueError, match=f"must be at most {most},"):
        place(CONFIG, most + 1, format, out_of_place=out_of_place)


# -- memories -----------------------------------------------------------------------------------


class Memories:
    """An engine of memories alone."""

    def __init__(self, config):
        self.cycle = 0
        self.bytes = [np.zeros(config.memory_bytes, np.uint8) for _ in range(config.ranks)]

    def load(self, rank, address, data):
        self.bytes[rank][address : address + len(data)] = np.frombuffer(data, np.uint8)

    def read(self, rank, address, size):
        return self.bytes[rank][address : address + size].tobytes()


class GoldenHost:
    """Does an instruction by its addresses alone, then `fault`, which is given the memories."""

    fault = staticmethod(lambda memories: None)

    def __init__(self, engine, config):
        self.engine, self.config, self.epoch = engine, config, EPOCH
        self.registers = {"blocks_nan": 0, "blocks_overflow": 0}

    def read(self, bank, register):
        assert bank == "switch"
        return self.registers[register]

    def post(self, instruction):
        self.instruction = instruction
        return Status.OK, 0

    def program(self, *, flags, delays):
        self.flags = flags

    def _gather(self, addresses, count, dtype):
        size = count * np.dtype(dtype).itemsize
        return np.stack(
            [np.frombuffer(self.engine.read(r, a, size), dtype) for r, a in enumerate(addresses)]
        )

    def _scatter(self, addresses, data):
        for rank, address in enumerate(addresses):
            self.engine.load(rank, address, data.tobytes())

    def run(self, limit, watch):
        asked, config = self.instruction, self.config
        if asked.format == "inq8":
            rules = dict(block=config.block, scale_format=config.scale_format)
            dtype = np.uint8 if config.scale_format == "e8m0" else np.uint16
            blocks = -(-asked.length // config.block)
            codes, scales, status = all_reduce_inq(
                self._gather(asked.sources, asked.length, np.int8),
                self._gather(asked.scale_sources, blocks, dtype),
                e8m0_rule=config.e8m0_rule,
                **rules,
            )
            self._scatter(asked.scale_destinations, scales)
            self.registers["blocks_nan"] += status.nan_blocks
            self.registers["blocks_overflow"] += status.overflow_blocks
        else:
            operands = self._gather(asked.sources, asked.length // 2, np.uint16)
            codes, _ = all_reduce_sum(operands, asked.format)
        self._scatter(asked.destinations, codes)
        self._scatter(self.flags, np.array([EPOCH], "<u8"))
        self.fault(self.engine.bytes)
        return True

    def figures(self):
        return Figures(1, 1, 1, 1.0, 1, 1.0)


@pytest.fixture
def bed(monkeypatch):
    """A function that makes a testbed without hardware, whose runs end with a fault."""

    def make(config=CONFIG, fault=lambda memories: None):
        monkeypatch.setattr(sim.testbed, "create", lambda *_, **__: Memories(config))
        host = type("Host", (GoldenHost,), {"fault": staticmethod(fault)})
        monkeypatch.setattr(sim.testbed, "Host", host)
        return Testbed(config)

    return make


def operands(config=CONFIG, n=130):
    values = np.random.default_rng(n).standard_normal((config.ranks, n))
    return Quantized.of(values, config)


#: Unlike at the two ranks, also mod 4 KiB.
WHERE = Placement(
    [0x100, 0x2108], [0x1010, 0x2108], [0x3F00, 0x3E80], [0x800, 0x3210], [0x800, 0x3008]
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        dict(block=32),
        dict(scale_format="bf16"),
        dict(scale_format="e8m0", wave_bytes=512),
        dict(scale_format="e8m0", e8m0_rule="floor", wave_bytes=512),
    ],
)
@pytest.mark.parametrize("where", [None, WHERE])
def test_a_result_as_golden_says_is_ok(bed, changes, where):
    config = CONFIG.replace(**changes)
    for out_of_place in (False, True):
        for n in (0, 1, 63, 64, 65, 130, 1000):
            outcome = bed(config).all_reduce(
                operands(config, n), "inq8", where=where, out_of_place=out_of_place, guard=GUARD
            )
            assert (outcome.status, outcome.bytes) == ("ok", n), outcome
    numbers = np.arange(130, dtype=np.uint16).reshape(2, 65)
    plain = replace(where, scale_sources=None, scale_destinations=None) if where else None
    assert bed(config).all_reduce(numbers, "fp16", where=plain, guard=GUARD).status == "ok"


def test_guards_begin_right_behind_the_last_code_and_the_last_scale(bed):
    found = []

    def look(memories):
        found.append([memory.copy() for memory in memories])

    given = operands(n=130)  # 130 codes and 3 scales, 6 bytes: both end inside a flit
    bed(fault=look).all_reduce(given, "inq8", where=WHERE, guard=GUARD)
    for rank, memory in enumerate(found[0]):
        for addresses in (WHERE.sources, WHERE.destinations):
            around = memory[addresses[rank] - 8 : addresses[rank] + 144]
            assert (around[:8] == GUARD).all()
            assert (around[8 + 130 :] == GUARD).all()
        for addresses in (WHERE.scale_sources, WHERE.scale_destinations):
            around = memory[addresses[rank] - 8 : addresses[rank] + 16]
            assert (around[:8] == GUARD).all()
            assert (around[8 + 6 :] == GUARD).all()


@pytest.mark.parametrize(
    ("rank", "address"),
    [
        (0, WHERE.destinations[0] + 129),  # the last code
        (0, WHERE.destinations[0] + 130),  # behind it, in its flit
        (0, WHERE.destinations[0] + 136),  # and in the next
        (1, WHERE.scale_destinations[1] - 1),
        (1, WHERE.scale_destinations[1] + 5),  # the last scale
        (1, WHERE.scale_destinations[1] + 6),  # behind it
        (1, WHERE.scale_destinations[1] + 8),
        (0, WHERE.sources[0]),  # operands out of place stay
        (1, WHERE.scale_sources[1] + 2),
        (1, WHERE.flags[1]),
        (0, 0),
        (1, CONFIG.memory_bytes - 1),
    ],
)
def test_one_wrong_bit_is_found(bed, rank, address):
    def flip(memories):
        memories[rank][address] ^= 0x10

    outcome = bed(fault=flip).all_reduce(operands(), "inq8", where=WHERE, guard=GUARD)
    assert (outcome.status, outcome.bit_exact) == ("mismatch", False)
    assert len(outcome.differences) == 1
    assert outcome.differences[0].startswith(f"rank {rank} address {address:#x}: is ")


def test_operands_must_be_of_the_format(bed):
    with pytest.raises(TypeError, match="operands: must be Quantized for inq8"):
        bed().all_reduce(operands(), "fp16")
    with pytest.raises(TypeError, match="not ndarray for inq8"):
        bed().all_reduce(np.zeros((2, 8), np.uint16), "inq8")


def test_an_instruction_has_scale_addresses_for_quantized_operands_alone(bed):
    testbed = bed()
    testbed.all_reduce(operands(), "inq8", where=WHERE)
    posted = asdict(testbed.host.instruction)
    assert (posted["length"], posted["format"]) == (130, "inq8")
    assert posted["scale_sources"] == WHERE.scale_sources
    assert posted["scale_destinations"] == WHERE.scale_destinations
    testbed.all_reduce(np.zeros((2, 8), np.uint16), "fp16")
    assert testbed.host.instruction.scale_sources is None
