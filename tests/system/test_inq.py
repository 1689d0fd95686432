"""Quantized operations through the whole path: codes, scales, counts, and all around them."""

import numpy as np
import pytest

from hdl.config import SwitchConfig
from sim.quantized import Quantized
from sim.testbed import Placement
from tests.arithmetic.inq_operands import BAD, LARGEST

from .quantized import any_codes, block_counts, places, sweep
from .systems import Operation, random_bits, run_queue, system, tiny, variant

#: Three ranks, four blocks of 64 codes a wave, whose four scales are one flit.
INQ = tiny(formats=("fp16", "bf16", "inq8"))
#: Requests of two packets, payloads of three flits, scales of six flits; few entries and slots.
AWKWARD = tiny(
    ranks=2, payload_bytes=24, wave_bytes=768, read_request_bytes=48, waves=2, write_waves=1,
    block=32, scale_format="bf16", formats=("inq8",),
)  # fmt: skip
WAVES = 3


def lengths(config: SwitchConfig) -> list[int]:
    """Around flits, blocks, packets and waves, to three waves and a code."""
    grid = {config.flit_bytes, config.block, config.payload_bytes}
    edges = {step * times for step in grid for times in (1, 2)}
    edges |= {config.wave_bytes * waves for waves in range(1, WAVES + 1)}
    return sorted({edge + offset for edge in edges for offset in (-1, 0, 1)} | {1, 2})


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(INQ, id="tiny"),
        pytest.param(AWKWARD, id="awkward", marks=pytest.mark.long),
    ],
)
def test_awkward_lengths(config):
    print("seed: codes, repetition")
    bed = system(config)
    for n in lengths(config):
        for repetition in range(4):
            sweep(bed, [n, repetition], n)


@pytest.mark.long
@pytest.mark.parametrize("config", [INQ, AWKWARD], ids=["tiny", "awkward"])
def test_every_length_to_three_waves(config):
    print("seed: codes, repetition")
    bed = system(config)
    for n in range(1, WAVES * config.wave_bytes + 2):
        sweep(bed, [n, 4], n)


@pytest.mark.large
def test_a_sample_of_lengths_in_amaranths_simulator():
    print("seed: codes, repetition")
    bed = system(INQ, "pysim")
    for n in (1, 65, 257):
        sweep(bed, [n, 5], n)


def test_no_codes_end_without_a_beat():
    bed = system(INQ)
    outcome = bed.all_reduce(Quantized(np.zeros((3, 0), np.int8), np.zeros((3, 0), "u2")), "inq8")
    assert (outcome.status, outcome.figures.waves, outcome.figures.data) == ("ok", 0, 0)


# -- places -------------------------------------------------------------------------------------


@pytest.mark.parametrize("codes", [True, False], ids=["codes in place", "codes out of place"])
@pytest.mark.parametrize("scales", [True, False], ids=["scales in place", "scales out of place"])
def test_codes_and_scales_each_in_place_or_not(codes, scales):
    bed = system(INQ)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 1000))
        where = places(rng, INQ, n, codes=codes, scales=scales)
        outcome = bed.all_reduce(any_codes(rng, INQ, n), "inq8", where=where)
        assert outcome.status == "ok", (seed, n, outcome)


@pytest.mark.parametrize("out_of_place", [False, True])
def test_the_default_places(out_of_place):
    bed = system(INQ)
    for n in (1, 64, 65, 1000):
        given = any_codes(np.random.default_rng(n), INQ, n)
        assert bed.all_reduce(given, "inq8", out_of_place=out_of_place).status == "ok"


def test_regions_back_to_back():
    """Nothing lies between codes, scales, their results and the flag: any byte too far shows."""
    bed = system(INQ)
    n = 65  # nine flits, of which the last has one code; scales: four bytes of a flit
    where = Placement([0] * 3, [72 + 16] * 3, [72 + 16 + 72] * 3, [72] * 3, [72 + 8] * 3)
    assert bed.all_reduce(
        any_codes(np.random.default_rng(1), INQ, n), "inq8", where=where
    ).bit_exact


# -- values -------------------------------------------------------------------------------------


def blocks(*rows) -> Quantized:
    """Of (codes at every rank, scales by rank) a block of 64."""
    codes = np.stack([np.broadcast_to(codes, (3, 64)) for codes, _ in rows], axis=1)
    scales = np.array([scales for _, scales in rows], np.uint16).T
    return Quantized(codes.reshape(3, -1).astype(np.int8), scales)


ONE = 0x3C00
#: What a block holds, and the scale it must get where that is fixed.
SPECIAL = [
    (1, (ONE, ONE, ONE), None),
    (0, (ONE, ONE, ONE), 0),  # codes of 0
    (5, (0, 0, 0x8000), 0),  # scales of 0, of either sign
    (0, (0x7E00, ONE, ONE), 0x7E00),  # a bad scale counts whatever its codes
    (1, (ONE, 0x7C00, ONE), 0x7E00),
    (1, (ONE, ONE, 0xBC00), 0x7E00),
    (127, (0x7BFF, 0x7BFF, 0x7BFF), 0x7BFF),  # overflow
    (-128, (0x7BFF, 0, 0), 0x7BFF),
    (1, (1, 0, 0), None),  # the smallest subnormal
    (np.array([[127], [-127], [0]]), (0x7BFF, 0x7BFF, 1), 0),  # cancels
    (-128, (ONE, ONE, ONE), None),
]  # fmt: skip


def test_special_blocks_and_their_neighbours():
    bed = system(INQ)
    given = blocks(*[(codes, scales) for codes, scales, _ in SPECIAL])
    before = block_counts(bed)
    assert bed.all_reduce(given, "inq8", out_of_place=True).status == "ok"
    where = bed.placement(given.codes.shape[1], "inq8", out_of_place=True)
    for rank in range(3):
        got = bed.engine.read(rank, where.scale_destinations[rank], 2 * len(SPECIAL))
        for scale, (_, _, want) in zip(np.frombuffer(got, "<u2"), SPECIAL, strict=True):
            assert want is None or scale == want
    nan, overflow = (new - old for new, old in zip(block_counts(bed), before, strict=True))
    assert (nan, overflow) == (3, 2)


@pytest.mark.parametrize("bad", BAD["fp16"])
def test_a_bad_scale_spoils_its_block_alone(bad):
    bed = system(INQ)
    given = blocks(*[(7, (ONE, ONE, ONE))] * 9)
    for block, rank in ((0, 0), (4, 1), (8, 2)):
        scales = given.scales.copy()
        scales[rank, block] = bad
        before = block_counts(bed)
        assert bed.all_reduce(Quantized(given.codes, scales), "inq8").status == "ok"
        got = np.frombuffer(bed.engine.read(1, 0, 9 * 64), np.int8).reshape(9, 64)
        assert np.flatnonzero((got == 0).all(axis=1)).tolist() == [block]
        assert block_counts(bed) == (before[0] + 1, before[1])


@pytest.mark.parametrize("n", [1, 7, 63, 65, 193, 257])
def test_what_lies_behind_the_end_has_no_influence(n):
    """Codes in the last flit and block, scales in the last flit."""
    bed = system(INQ)
    rng = np.random.default_rng(n)
    codes = rng.integers(-3, 4, (3, n)).astype(np.int8)
    given = Quantized(codes, np.full((3, -(-n // 64)), ONE, np.uint16))
    before = block_counts(bed)
    for guard in ([0x7F], [0x80], [0xFF], [LARGEST["fp16"] & 0xFF, LARGEST["fp16"] >> 8]):
        outcome = bed.all_reduce(given, "inq8", guard=np.array(guard, np.uint8), out_of_place=True)
        assert outcome.status == "ok", outcome
    assert block_counts(bed) == before


def test_sticky_bits_say_what_happened_since_they_were_cleared():
    bed = system(INQ)
    calm, special = (ONE, ONE, ONE), LARGEST["fp16"]
    for scales, want in (
        (calm, 0b0000),
        ((0x7E00, ONE, ONE), 0b0100),
        ((special, special, special), 0b1000),
        (calm, 0b0000),
    ):
        assert bed.all_reduce(blocks((127, scales)), "inq8").status == "ok"
        assert bed.host.read("switch", "sticky") == want


# -- timing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_neither_timing_nor_order_changes_a_bit(seed):
    """Skew, latency, jitter, reordering and stalls, of other kinds at every rank."""
    print("seed", seed)
    bed = system(INQ)
    rng = np.random.default_rng(seed)
    for repetition in range(4):
        bed.set_links(int(rng.integers(2, 33)))
        for rank in range(3):
            stalls = {
                channel: int(rng.choice([0, 32, 128, 230]))
                for channel in ("ar", "r", "aw", "w", "b")
            }
            bed.set_memory(
                rank, latency=int(rng.integers(2, 60)), write_latency=int(rng.integers(1, 60)),
                jitter=int(rng.choice([0, 5, 90])), stalls=stalls, seed=seed + rank,
            )  # fmt: skip
        n = int(rng.integers(1, 5 * INQ.wave_bytes))
        delays = [int(each) for each in rng.integers(0, 400, 3)]
        sweep(bed, [seed, repetition], n, delays=delays)


# -- one after another --------------------------------------------------------------------------


def mixed(rng, config, sizes, formats) -> list[Operation]:
    """Operations out of place, each with a place of its own from address 0 up."""
    result, low = [], 0
    flag = config.memory_bytes - 64

    def take(size):
        nonlocal low
        low += -(-size // config.flit_bytes) * config.flit_bytes
        assert low <= flag
        return [low - -(-size // config.flit_bytes) * config.flit_bytes] * config.ranks

    for size, format in zip(sizes, formats, strict=True):
        flags = [flag] * config.ranks
        if format == "inq8":
            given = any_codes(rng, config, size)
            scales = config.scales_bytes(size)
            where = Placement(take(size), take(size), flags, take(scales), take(scales))
        else:
            given = random_bits(rng, config.ranks, size)
            where = Placement(take(2 * size), take(2 * size), flags)
        result.append(Operation(given, format, where))
    return result


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "ahead",
    [False, pytest.param(True, marks=pytest.mark.large)], ids=["in turn", "arriving ahead"],
)  # fmt: skip
def test_formats_in_any_order_without_a_reset(seed, ahead):
    """Also empty ones, and ones of a wave and less, whose reads overlap the writes before them."""
    print("seed", seed)
    bed = variant(INQ) if ahead else system(INQ)
    rng = np.random.default_rng(seed)
    for rank in range(3):
        bed.set_memory(
            rank, latency=int(rng.integers(2, 40)), write_latency=int(rng.integers(1, 200)),
            jitter=int(rng.choice([0, 40])), seed=seed + rank,
        )  # fmt: skip
    for _ in range(5):
        sizes = [int(rng.choice([0, 1, 3, 64, 65, 130, 256, 300, 513])) for _ in range(4)]
        formats = [str(rng.choice(["fp16", "bf16", "inq8", "inq8"])) for _ in range(4)]
        run_queue(bed, mixed(rng, INQ, sizes, formats))


def test_the_same_memory_again_and_again():
    """Results of one operation are the operands of the next; nothing is loaded between."""
    bed = system(INQ)
    given = any_codes(np.random.default_rng(3), INQ, 300)
    for _ in range(6):
        assert bed.all_reduce(given, "inq8").status == "ok"
        codes, scales = given.reduced(INQ)
        given = Quantized(np.stack([codes] * 3), np.stack([scales] * 3))
