# amaranth: UnusedElaboratable=no
"""The quantizing reducer against golden, bit for bit and cycle by cycle."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from amaranth import ResetInserter, Signal
from amaranth.sim import Simulator

from hdl.arithmetic.inq_reducer import InqReducer, blocks_per_flit
from hdl.arithmetic.product_chain import PART_BITS
from hdl.arithmetic.reducer import Reducer
from hdl.config import SwitchConfig
from sim.golden import all_reduce_inq
from tests.arithmetic.inq_operands import BAD, DTYPE, LARGEST, operands

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
    part_bits: int = PART_BITS

    def make(self):
        return InqReducer(
            self.ranks,
            self.flit_bytes,
            self.block,
            self.scale_format,
            self.e8m0_floor,
            self.part_bits,
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


def run(build, messages, random):
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
    build = Build(ranks=ranks, scale_format=scale_format)
    run(build, [random_message(random, build, 3) for _ in range(max(4, 20 // ranks))], random)


@pytest.mark.parametrize("scale_format", FORMATS)
@pytest.mark.parametrize(("flit_bytes", "block"), [(8, 64), (8, 128), (16, 64), (4, 32)])
def test_blocks_of_many_flits(flit_bytes, block, scale_format):
    random = np.random.default_rng([SEED, block])
    build = Build(ranks=3, flit_bytes=flit_bytes, block=block, scale_format=scale_format)
    messages = [random_message(random, build, 2, gaps=True, absent=True) for _ in range(5)]
    run(build, messages, random)


@pytest.mark.parametrize("scale_format", FORMATS)
@pytest.mark.parametrize(("flit_bytes", "block"), [(32, 32), (64, 32)])
def test_blocks_of_a_flit_or_less(flit_bytes, block, scale_format):
    random = np.random.default_rng([SEED, flit_bytes])
    build = Build(flit_bytes=flit_bytes, block=block, scale_format=scale_format)
    messages = [random_message(random, build, 5, absent=True) for _ in range(6)]
    run(build, messages, random)


@pytest.mark.parametrize("scale_format", FORMATS)
@pytest.mark.parametrize(("flit_bytes", "block"), [(8, 64), (64, 32)])
def test_narrow_multipliers(flit_bytes, block, scale_format):
    """Scales in three parts, as on ECP5; a block of many flits, and several in one."""
    random = np.random.default_rng([SEED, flit_bytes])
    build = Build(3, flit_bytes, block, scale_format, part_bits=17)
    assert build.make().delay == Build(3, flit_bytes, block, scale_format).make().delay
    run(build, [random_message(random, build, 2, absent=True) for _ in range(3)], random)


def test_short_messages_between_long_ones():
    """Each block knows its scale before those ahead have left, if it is shorter than they are."""
    random = np.random.default_rng(SEED)
    build = Build(block=128)
    lengths = [128, 1, 1, 8, 9, 1, 256, 3, 127, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 128]
    messages = [Message(build, *operands(random, 2, n, 128, "fp16")) for n in lengths]
    run(build, messages, random)


def test_floor_rule():
    random = np.random.default_rng(SEED)
    build = Build(ranks=4, scale_format="e8m0", e8m0_floor=True)
    run(build, [random_message(random, build, 3, gaps=True) for _ in range(10)], random)


@pytest.mark.parametrize("scale_format", FORMATS)
def test_specials_leave_their_neighbours_alone(scale_format):
    """Blocks: one, bad, zero, too large, one; alone in a message, and all in one."""
    build = Build(ranks=2, scale_format=scale_format)
    one = {"fp16": 0x3C00, "bf16": 0x3F80, "e8m0": 127}[scale_format]
    largest = LARGEST[scale_format]
    codes = np.full((2, 5 * 32), 100, np.int8)
    codes[:, 64:96] = 0
    for bad in BAD[scale_format]:
        scales = np.array([[one, bad, one, largest, one]] * 2, DTYPE[scale_format])
        scales[0, 1] = one
        message = Message(build, codes, scales)
        assert message.status.nan.tolist() == [False, True, False, False, False]
        assert message.status.overflow.tolist() == [False, False, False, True, False]
        assert not message.new_codes[32:96].any()
        alone = [
            Message(build, codes[:, 32 * k : 32 * k + 32], scales[:, k : k + 1]) for k in range(5)
        ]
        run(build, [message, *alone], np.random.default_rng(SEED))


def test_no_source_gives_zeros():
    build = Build(ranks=3)
    codes, scales = operands(np.random.default_rng(SEED), 3, 32, 32, "fp16")
    message = Message(build, codes, scales, np.array([True, False, False]))
    message.sources = np.zeros(3, bool)
    message.new_codes[:] = 0
    message.new_scales[:] = 0
    message.status.nan[:] = message.status.overflow[:] = False
    run(build, [message], np.random.default_rng(SEED))


def test_reset_clears_what_is_under_way():
    """A flit that was in the pipeline does not come out, and the next one begins a block."""
    build = Build()
    random = np.random.default_rng(SEED)
    message = Message(build, *operands(random, 2, 64, 32, "fp16"))
    cycles = list(message.cycles(random))
    dut, reset = build.make(), Signal()

    async def bench(ctx):
        for given, _ in cycles[:6]:  # into the second block
            ctx.set(dut.i.valid, 1)
            ctx.set(dut.i.payload, given)
            await ctx.tick()
        ctx.set(dut.i.valid, 0)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        for now in range(len(cycles) + dut.delay):
            ctx.set(dut.i.valid, now < len(cycles))
            if now < len(cycles):
                ctx.set(dut.i.payload, cycles[now][0])
            assert ctx.get(dut.o.valid) == (now >= dut.delay)
            if now >= dut.delay:
                want, got = cycles[now - dut.delay][1], ctx.get(dut.o.payload)
                assert (got.data, got.blocks) == (want["data"], want["blocks"])
            await ctx.tick()

    simulator = Simulator(ResetInserter(reset)(dut))
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.long
@pytest.mark.parametrize("scale_format", FORMATS)
@pytest.mark.parametrize("block", [32, 64, 128, 256, 512])
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 7, 8, 16])
def test_long_runs(ranks, block, scale_format):
    random = np.random.default_rng([SEED, ranks, block])
    flit_bytes = int(random.choice([8, 16, 32, 64]))
    print(f"flit_bytes {flit_bytes}")
    build = Build(ranks, flit_bytes, block, scale_format)
    messages = [random_message(random, build, 6, gaps=True, absent=True) for _ in range(12)]
    run(build, messages, random)


#: ranks, flit, block, then the delay with fp16, bf16 and E8M0 scales.
DELAYS = [(2, 8, 64, 33, 34, 28), (4, 8, 64, 35, 36, 30), (8, 16, 64, 36, 38, 32)]


@pytest.mark.parametrize(("ranks", "flit_bytes", "block", "fp16", "bf16", "e8m0"), DELAYS)
def test_delay(ranks, flit_bytes, block, fp16, bf16, e8m0):
    for name, want in (("fp16", fp16), ("bf16", bf16), ("e8m0", e8m0)):
        dut = InqReducer(ranks, flit_bytes, block, name)
        assert dut.delay == want
        assert dut.block_wait == block // flit_bytes - 1


@pytest.mark.parametrize("scale_format", FORMATS)
def test_at_most_40_cycles_longer_than_a_plain_sum(scale_format):
    """Apart from the wait for the block's last flit."""
    for ranks in range(2, 17):
        plain = Reducer(SwitchConfig(ranks=ranks, flit_bytes=8, formats=("fp16",)))
        for flit_bytes in (8, 16, 32, 64):
            dut = InqReducer(ranks, flit_bytes, 64, scale_format)
            assert dut.delay - dut.block_wait - plain.delay <= 40


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (dict(ranks=1), "ranks: must be 2..16, not 1"),
        (dict(ranks=17), "ranks: must be 2..16, not 17"),
        (dict(flit_bytes=12), "flit_bytes: must be a power of two, 2..64, not 12"),
        (dict(flit_bytes=128), "flit_bytes: must be a power of two, 2..64, not 128"),
        (dict(block=48), "block: must be one of 32, 64, 128, 256, 512, not 48"),
        (dict(scale_format="fp8"), "scale_format: must be one of fp16, bf16, e8m0, not 'fp8'"),
    ],
)
def test_parameters_out_of_range(parameters, message):
    with pytest.raises(ValueError, match=rf"^{message}$"):
        Build(**parameters).make()
