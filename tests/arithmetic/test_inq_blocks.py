# amaranth: UnusedElaboratable=no
"""The blocks of in-network quantization, each alone."""

from fractions import Fraction

import numpy as np
import pytest
from amaranth import Module, Signal
from amaranth.sim import Simulator

from hdl.arithmetic.align_scales import AlignScales
from hdl.arithmetic.block_maximum import BlockMaximum
from hdl.arithmetic.block_scale import BlockScale
from hdl.arithmetic.delay_line import DelayLine
from hdl.arithmetic.dot_product import DotProduct
from hdl.arithmetic.new_scale import NewScale
from hdl.arithmetic.quantize import Quantize
from hdl.arithmetic.reciprocal import reciprocal
from hdl.arithmetic.scale_formats import SCALE_FORMATS
from sim.golden.scales import SCALE_FORMATS as GOLDEN_FORMATS
from sim.golden.scales import decode_scales, round_up_scale
from tests.arithmetic.inq_operands import BAD, DTYPE, operands

SEED = 6
FORMATS = ("fp16", "bf16", "e8m0")


def clocked(dut, bench):
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


# Delay line


@pytest.mark.parametrize("width", [8, 1300])
@pytest.mark.parametrize("cycles", [1, 2, 3, 5, 8, 9])
def test_delay_line(cycles, width):
    dut = DelayLine(width, cycles)
    random = np.random.default_rng([SEED, cycles])
    words = [int.from_bytes(random.bytes(width // 8 + 1)) & ((1 << width) - 1) for _ in range(40)]

    async def bench(ctx):
        for now, word in enumerate(words):
            ctx.set(dut.i, word)
            if now >= cycles:
                assert ctx.get(dut.o) == words[now - cycles], f"cycle {now}"
            await ctx.tick()

    clocked(dut, bench)


def test_delay_line_takes_no_negative_delay():
    with pytest.raises(ValueError, match=r"^cycles: must be 0 or more, not -1$"):
        DelayLine(8, -1)


# Aligned scales


def aligned(scales, name):
    """Integers of one block's scales, their reference; fp16's unit is its smallest number."""
    decoded = decode_scales(scales, GOLDEN_FORMATS[name])
    layout = SCALE_FORMATS[name]
    reference = layout.fixed_reference or int(decoded.exponent.max())
    return [
        (int(significand) << layout.guard_bits) >> (reference - int(exponent))
        for significand, exponent in zip(decoded.significand, decoded.exponent, strict=True)
    ], reference


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_aligned_scales(ranks, name):
    random = np.random.default_rng([SEED, ranks])
    dut = AlignScales(ranks, name)
    _, scales = operands(random, ranks, 300 * 2, 2, name)
    blocks = scales.T
    sources = random.random(blocks.shape) < 0.8

    def value(rank):
        bits = int(dut_values[rank])
        return bits if name != "e8m0" else (1 << (bits >> 1)) * (bits & 1)

    dut_values = {}

    async def bench(ctx):
        for now in range(len(blocks) + dut.delay + ranks):
            block = min(now, len(blocks) - 1)
            for rank in range(ranks):
                ctx.set(dut.scales[rank], int(blocks[block][rank]))
            ctx.set(dut.sources, int(sum(1 << r for r in range(ranks) if sources[block][r])))
            for rank in range(ranks):
                then = now - dut.delay - rank
                if 0 <= then < len(blocks):
                    present = sources[then]
                    bad = decode_scales(blocks[then], GOLDEN_FORMATS[name]).bad & present
                    if rank == 0:
                        assert ctx.get(dut.bad) == bad.any(), blocks[then]
                    if bad.any():
                        continue
                    dut_values[rank] = ctx.get(dut.aligned[rank])
                    want, reference = aligned(np.where(present, blocks[then], 0), name)
                    if rank == 0:
                        assert ctx.get(dut.reference) == reference
                    want = want[rank] if present[rank] else 0
                    assert value(rank) == want, f"rank {rank} of {blocks[then]}, {present}"
            await ctx.tick()

    clocked(dut, bench)


# Dot product


@pytest.mark.parametrize(
    ("name", "part_bits"), [("fp16", 24), ("fp16", 17), ("fp16", 40), ("bf16", 24), ("e8m0", 24)]
)
@pytest.mark.parametrize("ranks", [2, 5, 16])
def test_dot_products_are_exact(ranks, name, part_bits):
    random = np.random.default_rng([SEED, ranks])
    layout, lanes, flits = SCALE_FORMATS[name], 2, 60
    dut = DotProduct(ranks, lanes, name, part_bits)
    codes = random.choice([-128, -127, -1, 0, 1, 127, 77], (flits, ranks, lanes))
    keep = random.random((flits, lanes)) < 0.8
    if name == "e8m0":
        places = random.integers(0, layout.window_bits, (flits, ranks))
        present = random.integers(0, 2, (flits, ranks))
        factors, given = present << places, places << 1 | present
    else:
        top = (1 << layout.window_bits) - 1
        factors = random.integers(0, top + 1, (flits, ranks))
        factors = given = np.where(random.random((flits, ranks)) < 0.3, top, factors)
    codes[0], given[0] = -128, given.max()
    factors[0] = factors.max() if name != "e8m0" else 1 << (int(given.max()) >> 1)
    if name == "e8m0":
        given[0] |= 1

    async def bench(ctx):
        for now in range(flits + dut.delay):
            for rank in range(ranks):
                flit = min(max(now - rank, 0), flits - 1)
                word = sum((int(code) & 255) << 8 * k for k, code in enumerate(codes[flit][rank]))
                ctx.set(dut.codes[rank], word)
                ctx.set(dut.aligned[rank], int(given[flit][rank]))
            flit = min(max(now - ranks + 1, 0), flits - 1)
            ctx.set(dut.keep, int(keep[flit][0]) | int(keep[flit][1]) << 1)
            if now >= dut.delay:
                flit = now - dut.delay
                for lane in range(lanes):
                    want = sum(
                        int(code) * int(factor)
                        for code, factor in zip(codes[flit, :, lane], factors[flit], strict=True)
                    )
                    assert ctx.get(dut.sums[lane]) == (want if keep[flit][lane] else 0)
            await ctx.tick()

    clocked(dut, bench)


# Maximum


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_maximum_of_blocks_of_any_length(lanes):
    random = np.random.default_rng([SEED, lanes])
    width = 12
    dut = BlockMaximum(lanes, width)
    limit = (1 << width - 1) - 1
    cycles = []  # (sums or None, first, last, largest or None)
    for _ in range(120):
        length = int(random.choice([1, 1, 2, 3, 7]))
        scale = int(random.choice([1, 3, 40, limit]))
        sums = random.integers(-scale, scale + 1, (length, lanes))
        if random.random() < 0.5:  # next to one another, of both signs
            sums = random.choice([scale, -scale, scale - 1, 1 - scale], (length, lanes))
        for k, flit in enumerate(sums):
            last = k == length - 1
            cycles.append((flit, k == 0, last, int(np.abs(sums).max()) if last else None))
            cycles += [(None, 0, 0, None)] * int(random.choice([0, 0, 0, 2]))

    async def bench(ctx):
        for now in range(len(cycles) + dut.delay):
            sums, first, last, _ = cycles[now] if now < len(cycles) else (None, 0, 0, None)
            ctx.set(dut.valid, sums is not None)
            ctx.set(dut.first, int(first))
            ctx.set(dut.last, int(last))
            if sums is not None:
                for lane, total in enumerate(sums):
                    ctx.set(dut.sums[lane], int(total))
            if now >= dut.delay:
                largest = cycles[now - dut.delay][3]
                assert ctx.get(dut.done) == (largest is not None)
                if largest is not None:
                    assert ctx.get(dut.largest) == largest
            await ctx.tick()

    clocked(dut, bench)


# New scale


def unit_exponent(name, reference):
    """log2 of the unit that sums count."""
    layout = SCALE_FORMATS[name]
    return reference - GOLDEN_FORMATS[name].offset(8) - layout.guard_bits


def telling_magnitudes(random, name, ranks, count):
    """Magnitudes around 127 times a scale, of every length, and powers of two."""
    bits = SCALE_FORMATS[name].magnitude_bits(ranks)
    top = 1 << SCALE_FORMATS[name].significand_bits
    magnitudes = [0, 1, 2, (1 << bits) - 1]
    while len(magnitudes) < count:
        place = int(random.integers(0, bits))
        kind = random.integers(3)
        if kind == 0:
            value = 1 << place
        elif kind == 1:
            value = 127 * int(random.integers(1, top)) << place >> int(random.integers(0, 8))
        else:
            value = int(random.integers(0, 1 << place))
        value += int(random.choice([-1, 0, 0, 1]))
        if 0 <= value < 1 << bits:
            magnitudes.append(value)
    return magnitudes


@pytest.mark.parametrize(
    ("name", "floor"), [("fp16", False), ("bf16", False), ("e8m0", False), ("e8m0", True)]
)
@pytest.mark.parametrize("ranks", [2, 8])
def test_new_scale(ranks, name, floor):
    random = np.random.default_rng([SEED, ranks])
    layout = SCALE_FORMATS[name]
    dut = NewScale(ranks, name, floor)
    magnitudes = telling_magnitudes(random, name, ranks, 1500)
    highest = (1 << layout.exponent_bits) - 2
    references = random.integers(layout.smallest_exponent, highest + 1, len(magnitudes))
    references[::3] = random.choice(
        [layout.smallest_exponent, 20, 35, highest], len(references[::3])
    )
    if layout.fixed_reference:
        references[:] = layout.fixed_reference
    bad = random.random(len(magnitudes)) < 0.02
    units = unit_exponent(name, references)
    want, overflow = round_up_scale(np.array(magnitudes), units, GOLDEN_FORMATS[name], floor=floor)
    want = np.where(bad, layout.nan, want)
    assert overflow.any()

    async def bench(ctx):
        for now in range(len(magnitudes) + dut.delay):
            k = min(now, len(magnitudes) - 1)
            ctx.set(dut.largest, magnitudes[k])
            ctx.set(dut.reference, int(references[k]))
            ctx.set(dut.bad, int(bad[k]))
            if now >= dut.delay:
                k = now - dut.delay
                case = f"{magnitudes[k]:#x}, reference {references[k]}"
                assert ctx.get(dut.scale) == want[k], case
                assert ctx.get(dut.overflow) == (overflow[k] and not bad[k]), case
            await ctx.tick()

    clocked(dut, bench)


# Quotients


@pytest.mark.parametrize("bits", [8, 11])
def test_candidates_are_right_or_one_less(bits):
    """Every significand, and the first and last dividend of every quotient."""
    significand, entry = Signal(bits), Signal(11)
    m = Module()
    m.d.comb += entry.eq(reciprocal(significand))
    unused = max(bits + 9 - 18, 0)

    async def bench(ctx):
        for s in range(1 << bits - 1, 1 << bits):
            ctx.set(significand, s)
            value = ctx.get(entry)
            for q in range(-129, 130):
                for y in (2 * s * q - s, 2 * s * q + s - 1):
                    if -(1 << bits + 8) <= y < 1 << bits + 8:
                        assert ((y >> unused) * value) >> (11 + bits - unused) in (q - 1, q)

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


def step_in_units(name, scale, reference):
    """A finite scale, as a fraction of the unit that sums count."""
    layout = GOLDEN_FORMATS[name]
    decoded = decode_scales(np.array([scale]), layout)
    places = int(decoded.exponent[0]) - layout.offset(8) - unit_exponent(name, reference)
    return int(decoded.significand[0]) * Fraction(2) ** places


def telling_sums(random, step, largest, lanes):
    """Sums at and next to whole and half quotients by `step`; none is beyond the largest."""
    sums = []
    for _ in range(lanes):
        most = min(2 * largest / step, 600)
        halves = int(random.integers(-int(most), int(most) + 1))
        edge = int(random.choice([253, 254, 255, 256, 257, 509, 510, 511, 512, 513]))
        if edge <= most and random.random() < 0.3:
            halves = int(random.choice([-1, 1])) * edge
        quotient = Fraction(halves, 2)
        total = int(quotient * step) + int(random.choice([-1, 0, 0, 0, 1]))
        sums.append(max(-largest, min(largest, total)))
    return sums


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("ranks", [2, 8])
def test_codes_are_nearest_and_ties_even(ranks, name):
    random = np.random.default_rng([SEED, ranks])
    layout, lanes = SCALE_FORMATS[name], 4
    quantize, block_scale = Quantize(ranks, lanes, name), BlockScale(name)
    m = Module()
    m.submodules.block_scale, m.submodules.quantize = block_scale, quantize
    m.d.comb += [
        quantize.places.eq(block_scale.places),
        quantize.negated.eq(block_scale.negated),
        quantize.reciprocal.eq(block_scale.reciprocal),
    ]
    blocks, clamped, ties = [], 0, 0
    largest_sum = (1 << layout.magnitude_bits(ranks)) - 1
    for largest in [largest_sum] * 20 + telling_magnitudes(random, name, ranks, 500):
        largest = max(largest, 1)
        highest = (1 << layout.exponent_bits) - 2
        reference = layout.fixed_reference or highest
        if layout.fixed_reference is None and largest != largest_sum:
            reference = int(random.choice([1, 20, 35, highest, random.integers(1, highest)]))
        unit = np.array([unit_exponent(name, reference)])
        scale, overflow = round_up_scale(np.array([largest]), unit, GOLDEN_FORMATS[name])
        step = step_in_units(name, scale[0], reference)
        sums = telling_sums(random, step, largest, lanes)
        keep = int(random.integers(0, 16)) | 5
        quotients = [total / step for total in sums]
        ties += sum(quotient.denominator == 2 for quotient in quotients)
        clamped += overflow[0] and max(map(abs, quotients)) > 128
        codes = [
            max(-127, min(127, round(quotient))) if keep >> lane & 1 else 0
            for lane, quotient in enumerate(quotients)
        ]
        blocks.append((int(scale[0]), reference, sums, keep, codes))
    assert ties > 100
    assert clamped > 0

    async def bench(ctx):
        for now in range(len(blocks) + block_scale.delay + quantize.delay):
            scale, reference, *_ = blocks[min(now, len(blocks) - 1)]
            ctx.set(block_scale.valid, 1)
            ctx.set(block_scale.scale, scale)
            ctx.set(block_scale.reference, reference)
            summed = now - block_scale.delay
            if 0 <= summed < len(blocks):
                _, _, sums, keep, _ = blocks[summed]
                for lane, total in enumerate(sums):
                    ctx.set(quantize.sums[lane], total)
                ctx.set(quantize.keep, keep)
            coded = summed - quantize.delay
            if coded >= 0:
                *_, codes = blocks[coded]
                got = ctx.get(quantize.codes)
                want = sum((code & 255) << 8 * lane for lane, code in enumerate(codes))
                assert got == want, f"{got:#x} for {blocks[coded]}"
            await ctx.tick()

    clocked(m, bench)


def test_bad_scales_are_what_golden_calls_bad():
    for name, values in BAD.items():
        bits = np.array(values, DTYPE[name])
        assert decode_scales(bits, GOLDEN_FORMATS[name]).bad.all()
