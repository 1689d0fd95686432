"""Quantized operations in other shapes: every pair of two parameters' values; long: all of them."""

import itertools

import pytest

from hdl.config import INQ_BLOCKS, SCALE_BYTES, SwitchConfig
from sim.testbed import Testbed

from .quantized import sweep
from .systems import tiny

#: Scale formats with their rules.
SCALES = (("fp16", "ceil"), ("bf16", "ceil"), ("e8m0", "ceil"), ("e8m0", "floor"))
#: Ranks of the sample: an adder tree of one level, two and three, whole or not. The last, with
#: wider flits than the first, takes Amaranth's simulator too long.
SAMPLED_RANKS = (2, 3, 5)
#: Two blocks of 32 codes are in a flit of 64 bytes.
FLITS = (8, 16, 64)
#: Flits of a wave's scales: in one packet, and in two.
SCALE_FLITS = (1, 3)
PAYLOAD_FLITS = 2
#: Longer waves take Amaranth's simulator too long.
MOST_WAVE_BYTES = 4 << 10
MOST_BUILDS = 24
#: Of a longer wave the sample's runs fill half, and have no second one: at 400 cycles a second they
#: were a tenth of all tests' time. Blocks and scale formats of each have two waves in other rows,
#: or in `test_every_combination`.
LONG_WAVE_BYTES = 2 << 10

VALUES = (INQ_BLOCKS, SCALES, SAMPLED_RANKS, FLITS, SCALE_FLITS)


def wave_bytes(block: int, scales: tuple[str, str], flit: int, scale_flits: int) -> int:
    """Codes whose scales fill so many flits."""
    return scale_flits * flit // SCALE_BYTES[scales[0]] * block


def shape(block, scales, ranks, flit, scale_flits) -> SwitchConfig:
    wave = wave_bytes(block, scales, flit, scale_flits)
    scale_format, rule = scales
    return tiny(
        ranks=ranks, flit_bytes=flit, payload_bytes=PAYLOAD_FLITS * flit, wave_bytes=wave, waves=2,
        block=block, scale_format=scale_format, e8m0_rule=rule, formats=("inq8",),
        memory_bytes=1 << (8 * wave).bit_length(),
    )  # fmt: skip


def cost(row) -> int:
    """What a row's runs take, about: their bytes."""
    block, scales, ranks, flit, scale_flits = row
    return ranks * wave_bytes(block, scales, flit, scale_flits)


POSSIBLE = [
    (block, scales, ranks, flit, scale_flits)
    for block, scales, ranks, flit, scale_flits in itertools.product(*VALUES)
    if wave_bytes(block, scales, flit, scale_flits) <= MOST_WAVE_BYTES
    and (ranks, flit) not in itertools.product(SAMPLED_RANKS[-1:], FLITS[1:])
]


def pairs(*rows) -> set:
    """Pairs of values of two parameters, with the parameters' numbers."""
    return {pair for row in rows for pair in itertools.combinations(enumerate(row), 2)}


def sample() -> list[tuple]:
    """Rows with all pairs that can be: always the one with most new pairs, of these the cheapest.

    The greedy rule of pairwise testing, over all rows, since so few are possible.
    """
    missing, rows = pairs(*POSSIBLE), []
    while missing:
        rows.append(max(POSSIBLE, key=lambda row: (len(pairs(row) & missing), -cost(row))))
        missing -= pairs(rows[-1])
    return rows


def name(row) -> str:
    block, (scale_format, rule), ranks, flit, scale_flits = row
    return f"block{block}-{scale_format}-{rule}-{ranks}ranks-flit{flit}x{scale_flits}"


def check(config: SwitchConfig, engine: str, lengths):
    print("seed: codes, repetition")
    with Testbed(config, engine) as bed:
        for n in lengths:
            sweep(bed, [n, 0], n)


SAMPLE = sample()
#: All rows but those whose runs cost least.
COSTLY = sorted(SAMPLE, key=cost)[6:]


def test_the_sample_has_every_value_and_is_small():
    assert len(SAMPLE) <= MOST_BUILDS
    for number, values in enumerate(VALUES):
        assert {row[number] for row in SAMPLE} == set(values)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=[pytest.mark.large] * (row in COSTLY), id=name(row))
        for row in SAMPLE
    ],
)
def test_every_pair(row):
    """In Amaranth's simulator: a compiler would take longer than these short runs."""
    config = shape(*row)
    whole = config.wave_bytes
    if whole > LONG_WAVE_BYTES:
        whole //= 2
    check(config, "pysim", (1, whole + config.block // 2 + 3))


@pytest.mark.long
@pytest.mark.parametrize(
    "row", [*itertools.product(INQ_BLOCKS, SCALES, range(2, 9), (8,), (1,))], ids=name
)
def test_every_combination(row):
    config = shape(*row)
    block, wave = config.block, config.wave_bytes
    rest = 2 * wave + block // 2 + 3
    check(config, "cxxrtl", (1, block - 1, block + 1, wave - 1, wave, wave + 1, rest))
