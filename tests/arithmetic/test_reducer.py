# amaranth: UnusedElaboratable=no
"""The reducer against golden, bit for bit and cycle by cycle."""

from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
import pytest
from amaranth import ResetInserter, Signal
from amaranth.sim import Simulator

from hdl.arithmetic.reducer import Reducer
from hdl.config import SwitchConfig
from hdl.interfaces import Format
from sim.golden import all_reduce_sum
from tests.arithmetic.operands import operands
from tests.golden.test_allreduce import VECTORS

SEED = 2
BOTH = ("fp16", "bf16")
#: Of each format: signalling NaN, infinity, largest number; what may stand where nothing counts.
GARBAGE = (0x7C01, 0x7F81, 0x7C00, 0xFF80, 0x7BFF, 0x8000)


@dataclass
class Flit:
    """One cycle's input, and what must come of it."""

    operands: np.ndarray  # (ranks, lanes), garbage included
    format: str
    keep: np.ndarray  # bool (lanes,)
    sources: np.ndarray  # bool (ranks,)
    data: int = field(init=False)
    nan: int = field(init=False)
    overflow: int = field(init=False)

    def __post_init__(self):
        sums, status = all_reduce_sum(self.operands[self.sources], self.format)
        self.data = as_int(np.where(self.keep, sums, 0).astype(np.uint16))
        self.nan = int((status.nan & self.keep).any())
        self.overflow = int((status.overflow & self.keep).any())

    @property
    def output(self):
        return self.data, self.nan, self.overflow

    def payload(self, config):
        return {
            "operands": as_int(self.operands),
            "keep": bits(self.keep),
            "sources": bits(self.sources),
            "format": Format[self.format.upper()],
        }


def as_int(words: np.ndarray) -> int:
    return int.from_bytes(words.astype("<u2").tobytes(), "little")


def bits(flags: np.ndarray) -> int:
    return sum(1 << k for k, flag in enumerate(flags) if flag)


def make(ranks, formats=BOTH):
    return SwitchConfig(ranks=ranks, flit_bytes=8, payload_bytes=64, formats=formats)


def random_flit(random, config, name=None):
    """A flit of troublesome operands, often with lanes masked and ranks absent."""
    name = name or str(random.choice(config.formats))
    shape = config.ranks, config.lanes
    values = operands(random, *shape, name)
    keep, sources = np.ones(config.lanes, bool), np.ones(config.ranks, bool)
    if random.random() < 0.3:
        keep = np.arange(config.lanes) < random.integers(0, config.lanes + 1)
    if random.random() < 0.3:
        sources = random.random(config.ranks) < 0.6
        sources[random.integers(config.ranks)] = True
    counts = sources[:, None] & keep[None, :]
    values = np.where(counts, values, random.choice(GARBAGE, shape)).astype(np.uint16)
    return Flit(values, name, keep, sources)


def run(config, cycles):
    """See `check_every_cycle`."""
    check_every_cycle(Reducer(config), config, cycles)


def check_every_cycle(dut, config, cycles):
    """Sends one flit, or none, in each cycle; checks the output of every cycle."""
    idle = {"operands": as_int(np.full(config.ranks * config.lanes, 0x7C01))}
    failures = []

    async def bench(ctx):
        for now in range(len(cycles) + dut.delay):
            flit = cycles[now] if now < len(cycles) else None
            ctx.set(dut.i.valid, flit is not None)
            ctx.set(dut.i.payload, flit.payload(config) if flit else idle)
            await ctx.delay(1e-9)
            want = cycles[now - dut.delay] if now >= dut.delay else None
            assert ctx.get(dut.o.valid) == (want is not None), f"o.valid in cycle {now}"
            if want:
                got = ctx.get(dut.o.payload)
                if (got.data, got.nan, got.overflow) != want.output:
                    failures.append((now - dut.delay, want, got))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert not failures, f"{len(failures)} flits differ; the first: {failures[0]}"


def with_bubbles(random, flits, share):
    cycles = []
    for flit in flits:
        cycles += [None] * int(random.geometric(1 - share) - 1)
        cycles.append(flit)
    return cycles


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 7, 8, 9, 16])
def test_mixed_formats_back_to_back(ranks):
    random = np.random.default_rng([SEED, ranks])
    config = make(ranks)
    run(config, [random_flit(random, config) for _ in range(max(100, 1200 // ranks))])


@pytest.mark.parametrize("ranks", [2, 4, 5, 16])
@pytest.mark.parametrize("formats", [("fp16",), ("bf16",), ("bf16", "fp16")], ids="+".join)
def test_built_formats_with_bubbles(ranks, formats):
    random = np.random.default_rng([SEED, ranks])
    config = make(ranks, formats)
    flits = [random_flit(random, config) for _ in range(max(60, 600 // ranks))]
    run(config, with_bubbles(random, flits, share=0.5))


@pytest.mark.parametrize("formats", [("fp16",), ("bf16",), BOTH], ids="+".join)
def test_vectors_by_hand(formats):
    """Golden's, in every order: ties that the last bit kept breaks and the first cut does not."""
    config = make(4, formats)
    flits = []
    for name, numbers, want in VECTORS:
        if name not in formats:
            continue
        for order in permutations(numbers):
            values = np.full((config.ranks, config.lanes), GARBAGE[0], np.uint16)
            values[: len(numbers)] = np.array(order, np.uint16)[:, None]
            sources = np.arange(config.ranks) < len(numbers)
            flits.append(Flit(values, name, np.ones(config.lanes, bool), sources))
            assert flits[-1].data == as_int(np.full(config.lanes, want))
    run(config, flits)


@pytest.mark.parametrize("name", BOTH)
def test_every_exponent_passes_alone(name):
    """A number beside zeros comes out as it went in: every sign and field, some fractions."""
    config = make(2)
    _, fraction_bits = {"fp16": (5, 10), "bf16": (8, 7)}[name]
    fractions = [0, 1, (1 << fraction_bits) - 1, 1 << (fraction_bits - 1)]
    values = [top << fraction_bits | f for top in range(1 << 16 - fraction_bits) for f in fractions]
    values = np.array(values, np.uint16).reshape(-1, 1, config.lanes)
    pairs = np.concatenate([values, np.zeros_like(values)], axis=1)
    all_lanes, all_ranks = np.ones(config.lanes, bool), np.ones(2, bool)
    run(config, [Flit(pair, name, all_lanes, all_ranks) for pair in pairs])


@pytest.mark.parametrize("name", BOTH)
def test_masked_lanes_and_absent_ranks_count_nowhere(name):
    """NaN and infinities there change neither a sum nor a status; an absent rank is no +0."""
    config = make(3)
    values = np.full((3, 4), 0x7F81, np.uint16)
    values[0, :2] = 0x8000
    values[2, :2] = 0x8000
    flit = Flit(values, name, np.arange(4) < 2, np.array([True, False, True]))
    assert flit.output == (0x8000_8000, 0, 0)
    run(config, [flit])


@pytest.mark.parametrize("formats", [("fp16",), BOTH], ids="+".join)
def test_no_source_gives_zeros(formats):
    config = make(4, formats)
    flit = Flit(np.full((4, 4), 0xFF81, np.uint16), "fp16", np.ones(4, bool), np.ones(4, bool))
    flit.sources = np.zeros(4, bool)
    flit.data = flit.nan = flit.overflow = 0
    run(config, [flit])


def test_reset_clears_what_is_under_way():
    """Only `valid` is reset: a flit that was in the pipeline does not come out."""
    config = make(2)
    dut = Reducer(config)

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        for _ in range(2 * dut.delay):
            assert not ctx.get(dut.o.valid)
            await ctx.tick()

    reset = Signal()
    simulator = Simulator(ResetInserter(reset)(dut))
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


#: docs/components/reducer.md: two levels of a tree a cycle; bf16 looks for its exponent first.
DELAYS = [(2, 5, 6), (3, 5, 6), (4, 5, 6), (5, 6, 8), (8, 6, 8), (9, 6, 8), (16, 6, 8)]


@pytest.mark.parametrize(("ranks", "fp16_alone", "with_bf16"), DELAYS)
def test_delay(ranks, fp16_alone, with_bf16):
    assert Reducer(make(ranks, ("fp16",))).delay == fp16_alone
    assert Reducer(make(ranks, ("bf16",))).delay == with_bf16
    assert Reducer(make(ranks)).delay == with_bf16
