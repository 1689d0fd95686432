# amaranth: UnusedElaboratable=no
"""`Arithmetic`: sums and codes against golden, in order, each in its cycle, scales in flits."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from hdl.accelerator.arithmetic import Arithmetic
from hdl.interfaces import Format
from sim.golden import all_reduce_inq, all_reduce_sum
from tests.arithmetic.inq_operands import operands as inq_operands
from tests.arithmetic.operands import operands as plain_operands
from tests.lib.simulate import run

from .ports import quantizing, small

SEED = 5
CONFIGS = {
    "sums only": small(formats=("fp16", "bf16"), ranks=3),
    "codes only": quantizing(formats=("inq8",), ranks=3),
    "separate": quantizing(),
    "separate, all formats, scales of bf16": quantizing(
        formats=("fp16", "bf16", "inq8"), scale_format="bf16"
    ),
    "separate, scales of a byte": quantizing(
        flit_bytes=16, scale_format="e8m0", e8m0_rule="floor", wave_bytes=512
    ),
    "a flit a block": quantizing(
        formats=("inq8",), flit_bytes=32, payload_bytes=32, wave_bytes=512
    ),
    "two blocks a flit": quantizing(
        formats=("inq8",), flit_bytes=64, payload_bytes=64, wave_bytes=2048, scale_format="e8m0"
    ),
    "shared": quantizing(inq_reducer="shared", ranks=3),
    "shared, a flit a block": quantizing(
        inq_reducer="shared", flit_bytes=32, payload_bytes=32, wave_bytes=512
    ),
}


@dataclass
class Flit:
    """What goes in, and what must come out."""

    given: dict
    result: int
    status: dict = field(default_factory=dict)  # outputs beside the result
    scales: tuple | None = None  # (bytes, last) of the flit of scales that it completes
    free: bool = True  # there may be a gap before it


def word(array) -> int:
    return int.from_bytes(array.tobytes(), "little")


def flits_of_sums(random, config, name, size):
    """An operation of plain numbers."""
    bits = plain_operands(random, config.ranks, size // 2, name)
    sums, status = all_reduce_sum(bits, name)
    for start in range(0, size // 2, config.lanes):
        part = slice(start, start + config.lanes)
        count = len(sums[part])
        # Garbage in the lanes behind the last number.
        padded = random.integers(0, 1 << 16, (config.ranks, config.lanes), dtype=np.uint16)
        padded[:, :count] = bits[:, part]
        lanes = (1 << 2 * count) - 1 if config.quantizes else (1 << count) - 1
        given = dict(format=Format[name.upper()], keep=lanes, operands=word(padded))
        flags = {"nan": int(status.nan[part].any()), "overflow": int(status.overflow[part].any())}
        yield Flit(given, word(sums[part]), flags)


def flits_of_codes(random, config, size):
    """An operation of codes, wave by wave."""
    block, width = config.block, config.flit_bytes
    codes, scales = inq_operands(random, config.ranks, size, block, config.scale_format)
    sums, new, status = all_reduce_inq(
        codes, scales, block=block, scale_format=config.scale_format, e8m0_rule=config.e8m0_rule
    )
    for wave in range(0, size, config.wave_bytes):
        end = min(wave + config.wave_bytes, size)
        packed = 0  # blocks of the wave whose scales have gone out
        for start in range(wave, end, width):
            stop = min(start + width, end)
            begins = [b for b in range(start // block, -(-stop // block)) if b * block >= start]
            # A block's flits have all its scales beside them, one of several blocks each its own.
            blocks = slice(start // block, start // block + max(1, width // block))
            beside = np.zeros((config.ranks, max(1, width // block)), scales.dtype)
            beside[:, : scales[:, blocks].shape[1]] = scales[:, blocks]
            padded = random.integers(-128, 128, (config.ranks, width), dtype=np.int8)
            padded[:, : stop - start] = codes[:, start:stop]
            ends_blocks = start + width > (end - 1) // block * block
            given = dict(
                format=Format.INQ8, keep=(1 << stop - start) - 1, operands=word(padded),
                scales=word(beside), ends_wave=int(stop == end), ends_blocks=int(ends_blocks),
            )  # fmt: skip
            flags = {
                "result_ends": int(stop == end),
                "blocks_nan": sum(int(status.nan[b]) << i for i, b in enumerate(begins)),
                "blocks_overflow": sum(int(status.overflow[b]) << i for i, b in enumerate(begins)),
            }
            first = wave // block + packed // config.scale_bytes
            done = new[first : begins[-1] + 1].tobytes() if begins else b""
            whole = None
            if begins and (ends_blocks or len(done) == width):
                whole = done, int(ends_blocks)
                packed += len(done)
            free = bool(begins)
            yield Flit(given, word(sums[start:stop]), flags, whole, free)


class Bench:
    """Gives flits as read-out does, and checks every output in every cycle.

    Parameters
    ----------
    gap : cycles, called where there may be some before a flit
    """

    def __init__(self, config, flits, gap=lambda: 0):
        self.config, self.flits, self.gap, self.dut = config, flits, gap, Arithmetic(config)
        self.due, self.scales_due = {}, {}
        self.now = 0

    def run(self):
        run(self.dut, self.bench, limit=20_000)
        assert not self.due
        assert not self.scales_due

    async def bench(self, ctx):
        dut, draw = self.dut, random.Random(SEED)
        inputs = ["operands", "keep", "format"]
        if self.config.quantizes:
            inputs += ["scales", "ends_wave", "ends_blocks"]
        codes_until = None  # the cycle of the last codes
        for flit in self.flits:
            quantized = flit.given["format"] == Format.INQ8
            wait = self.gap() if flit.free else 0
            if not quantized and codes_until is not None:
                wait = max(wait, codes_until + dut.inq_lead + 1 - self.now)
            for _ in range(wait):
                self.garbage(ctx, draw, inputs)
                await self.step(ctx)
            self.garbage(ctx, draw, inputs)
            for name, value in flit.given.items():
                ctx.set(getattr(dut, name), value)
            ctx.set(dut.valid, 1)
            comes = self.now + (dut.inq_delay if quantized else dut.delay)
            assert comes > max(self.due, default=-1), "a result overtakes another one"
            self.due[comes] = flit
            if flit.scales:
                self.scales_due[comes + 1] = (*flit.scales, flit.given.get("places"))
            if quantized:
                codes_until = self.now
            await self.step(ctx)
            if quantized and self.config.inq_reducer == "shared":
                await self.step(ctx)  # it stands for two cycles
            ctx.set(dut.valid, 0)
        while self.due or self.scales_due:
            self.garbage(ctx, draw, inputs)
            await self.step(ctx)
        for _ in range(5):
            await self.step(ctx)

    def garbage(self, ctx, draw, inputs):
        """What is not looked at may be anything."""
        for name in inputs:
            signal = getattr(self.dut, name)
            value = Format(draw.randrange(3)) if name == "format" else draw.getrandbits(len(signal))
            ctx.set(signal, value)

    async def step(self, ctx):
        dut = self.dut
        flags = ["nan", "overflow"]
        scales = []
        if self.config.quantizes:
            flags += ["result_ends", "blocks_nan", "blocks_overflow"]
            scales = [dut.scales_valid, dut.new_scales]
        await ctx.delay(0)
        flit = self.due.pop(self.now, None)
        assert ctx.get(dut.result_valid) == (flit is not None), self.now
        if flit:
            assert ctx.get(dut.result) == flit.result, self.now
            if "places" in flit.given:
                assert ctx.get(dut.result_places) == flit.given["places"], self.now
        wanted = dict.fromkeys(flags, 0) | (flit.status if flit else {})
        assert {name: ctx.get(getattr(dut, name)) for name in flags} == wanted, self.now
        if scales:
            due = self.scales_due.pop(self.now, None)
            assert ctx.get(dut.scales_valid) == (due is not None), self.now
            if due:
                content, last, places = due
                if places is not None:
                    assert ctx.get(dut.scales_places) == places, self.now
                got = ctx.get(dut.new_scales)
                assert got.data.to_bytes(64, "little").startswith(content), self.now
                assert got.last == last
        await ctx.tick()
        self.now += 1


def operations(config, random, count):
    """Operations of every format that there is, in random order, short and of several waves."""
    for _ in range(count):
        name = random.choice(config.formats)
        most = random.choice([config.block, 2 * config.wave_bytes + config.block])
        size = int(random.integers(1, most + 1))
        if name == "inq8":
            yield from flits_of_codes(random, config, size)
        else:
            yield from flits_of_sums(random, config, name, size + size % 2)


@pytest.mark.parametrize("name", CONFIGS)
def test_operations_against_golden(name):
    config = CONFIGS[name]
    flits = list(operations(config, np.random.default_rng(SEED), 6))
    # Blocks mostly at once; gaps up to longer than codes take longer than sums.
    draw = random.Random(SEED)
    Bench(config, flits, lambda: draw.choice([0] * 10 + [1, 2, draw.randrange(50)])).run()


@pytest.mark.parametrize("name", ["codes only", "separate, scales of a byte", "shared"])
def test_waves_of_every_number_of_blocks(name):
    """One code in a wave's last block, or all but one, for each number of blocks, at once."""
    config = CONFIGS[name]
    generator = np.random.default_rng(SEED)
    blocks = config.wave_bytes // config.block
    blocks = {0, 1, 2, 3, blocks // 2, blocks - 1}
    flits = []
    for number in sorted(blocks):
        for more in (1, config.block - 1):
            flits += flits_of_codes(generator, config, number * config.block + more)
    Bench(config, flits).run()


def of_context(config, context, flits):
    """Runs of flits that may not be parted, for some rank of a context."""
    runs = []
    for number, flit in enumerate(flits):
        place = 1 << context * config.ranks + number % config.ranks
        flit.given |= {"places": place, "sources": (1 << config.ranks) - 1}
        if flit.free:
            runs.append([])
        runs[-1].append(flit)
    return runs


@pytest.mark.parametrize("name", ["codes only", "separate", "two blocks a flit", "shared"])
def test_blocks_of_several_contexts_take_turns(name):
    """In the midst of waves, whose new scales are not all there: each context's stay its own."""
    config = CONFIGS[name].replace(contexts=2)
    generator, draw = np.random.default_rng(SEED), random.Random(SEED)
    waiting = [
        of_context(config, context, list(operations(config, generator, 3)))
        for context in range(config.contexts)
    ]
    flits = []
    while any(waiting):
        flits += draw.choice([runs for runs in waiting if runs]).pop(0)
    Bench(config, flits, lambda: draw.choice([0] * 10 + [1, 2])).run()


@pytest.mark.parametrize("name", ["separate", "shared"])
def test_sums_as_soon_behind_codes_as_may_be(name):
    """Codes, sums, codes, sums, each at once: no two results in one cycle, none out of order."""
    config = CONFIGS[name]
    generator = np.random.default_rng(SEED)
    flits = []
    for size in (1, config.block, config.block + 1, config.wave_bytes):
        flits += flits_of_codes(generator, config, size)
        flits += flits_of_sums(generator, config, "fp16", size + size % 2)
    Bench(config, flits).run()


def test_delays_of_what_is_not_built():
    sums, codes = Arithmetic(CONFIGS["sums only"]), Arithmetic(CONFIGS["codes only"])
    assert (sums.inq_delay, sums.inq_lead) == (None, 0)
    assert (codes.delay, codes.inq_lead) == (None, 0)
    for name in ("separate", "shared"):
        both = Arithmetic(CONFIGS[name])
        assert both.inq_lead == both.inq_delay - both.delay > 0
