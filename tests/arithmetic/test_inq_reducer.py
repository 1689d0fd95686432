# amaranth: UnusedElaboratable=no
"""The quantizing reducer against golden, bit for bit and cycle by cycle."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from amaranth.sim import Simulator

from hdl.arithmetic.inq_reducer import InqReducer, blocks_per_flit
from sim.golden import all_reduce_inq
from tests.arithmetic.inq_operands import BAD, DTYPE, operands

SEED = 5
FORMATS = ("fp16", "bf16", "e8m0")


@dataclass
class Build:
    """A reducer's parameters."""

    ranks: int = 2
    flit_bytes: int = 8
    block: int = 32
    scale_format: str = "fp16"
    e8m0_floor: bool = False

    def make(self):
        return InqReducer(
            self.ranks, self.flit_bytes, self.block, self.scale_format, self.e8m0_floor
        )

    @property
    def blocks(self):
        return blocks_per_flit(self.flit_bytes, self.block)

    @property
    def scale_bits(self):
        return 8 * np.dtype(DTYPE[self.scale_format]).itemsize


@dataclass
class Message:
    """Operands of every rank, and what must come of them."""

    build: Build
    codes: np.ndarray  # (ranks, n) int8
    scales: np.ndarray  # (ranks, blocks)
    sources: np.ndarray = None  # bool (ranks,)
    gaps: list = field(default_factory=list)  # idle cycles before each block

    def __post_init__(self):
        build = self.build
        if self.sources is None:
            self.sources = np.ones(build.ranks, bool)
        present = self.codes[self.sources], self.scales[self.sources]
        self.new_codes, self.new_scales, self.status = all_reduce_inq(
            *present,
            block=build.block,
            scale_format=build.scale_format,
            e8m0_rule="floor" if build.e8m0_floor else "ceil",
        )

    def cycles(self, random):
        """Each cycle's input and output as dictionaries; None for an idle one."""
        build, n = self.build, self.codes.shape[1]
        flit, flits = build.flit_bytes, -(-n // build.flit_bytes)
        in_block = max(1, build.block // flit)
        for k in range(flits):
            if k % in_block == 0:
                gap = self.gaps[k // in_block] if self.gaps else 0
                yield from [(None, None)] * gap
            lanes = np.arange(k * flit, (k + 1) * flit)
            first = k * flit // build.block
            yield (
                self._input(random, lanes, first, last=k == flits - 1),
                self._output(lanes, first, begins=k % in_block == 0),
            )

    def _input(self, random, lanes, first, last):
        """Garbage in masked lanes, in absent ranks and in scales of blocks that there are not."""
        build, n = self.build, self.codes.shape[1]
        codes = random.integers(-128, 128, (build.ranks, build.flit_bytes))
        kept = lanes < n
        codes[:, kept] = np.where(self.sources[:, None], self.codes[:, lanes[kept]], codes[:, kept])
        scales = random.choice(BAD[build.scale_format], (build.ranks, build.blocks))
        there = self.scales[:, first : first + build.blocks]
        scales[self.sources, : there.shape[1]] = there[self.sources]
        return {
            "codes": packed(codes, 8),
            "scales": packed(scales, build.scale_bits),
            "keep": packed(kept, 1),
            "sources": packed(self.sources, 1),
            "last": last,
        }

    def _output(self, lanes, first, begins):
        build, n = self.build, self.codes.shape[1]
        codes = np.where(lanes < n, self.new_codes[np.minimum(lanes, n - 1)], 0)
        blocks = slice(first, first + build.blocks)
        there = len(self.new_scales[blocks]) if begins else 0
        return {
            "data": packed(codes, 8),
            "blocks": (1 << there) - 1,
            "scales": packed(self.new_scales[blocks], build.scale_bits) if begins else None,
            "nan": packed(self.status.nan[blocks], 1) if begins else 0,
            "overflow": packed(self.status.overflow[blocks], 1) if begins else 0,
        }


def packed(values, bits):
    """Numbers side by side, the first at bit 0."""
    total = 0
    for k, value in enumerate(np.asarray(values).reshape(-1)):
        total |= (int(value) & ((1 << bits) - 1)) << (k * bits)
    return total


def run(build, messages, random, idle=0):
    """Sends messages one after the other; checks the output of every cycle."""
    dut = build.make()
    cycles = [cycle for message in messages for cycle in message.cycles(random)]
    failures = []

    def check(got, want, now):
        there = want["blocks"]
        if want["scales"] is not None:
            mask = packed([-1 if there >> k & 1 else 0 for k in range(build.blocks)],
                          build.scale_bits)  # fmt: skip
            if got.scales & mask != want["scales"]:
                failures.append((now, "scales", hex(got.scales), hex(want["scales"])))
        for name in ("data", "blocks", "nan", "overflow"):
            if got[name] != want[name]:
                failures.append((now, name, hex(got[name]), hex(want[name])))

    async def bench(ctx):
        for now in range(len(cycles) + dut.delay):
            given = cycles[now][0] if now < len(cycles) else None
            ctx.set(dut.i.valid, given is not None)
            if given:
                ctx.set(dut.i.payload, given)
            want = cycles[now - dut.delay][1] if now >= dut.delay else None
            assert ctx.get(dut.o.valid) == (want is not None), f"o.valid in cycle {now}"
            if want:
                check(ctx.get(dut.o.payload), want, now - dut.delay)
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert not failures, f"{build}: {len(failures)} differ; the first: {failures[0]}"


def random_message(random, build, blocks, gaps=False, absent=False):
    """Whole blocks, or a short last one."""
    n = build.block * blocks - (random.integers(build.block) if random.random() < 0.6 else 0)
    codes, scales = operands(random, build.ranks, n, build.block, build.scale_format)
    sources = np.ones(build.ranks, bool)
    if absent and random.random() < 0.5:
        sources = random.random(build.ranks) < 0.6
        sources[random.integers(build.ranks)] = True
    pauses = random.integers(0, 6, blocks) * (random.random(blocks) < 0.4) if gaps else []
    return Message(build, codes, scales, sources, [int(pause) for pause in pauses])


@pytest.mark.parametrize("scale_format", FORMATS)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_back_to_back(ranks, scale_format):
    random = np.random.default_rng([SEED, ranks])
    build = Build(ranks=ranks, block=32, scale_format=scale_format)
    run(build, [random_message(random, build, 3) for _ in range(4)], random)
