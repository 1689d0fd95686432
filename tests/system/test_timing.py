"""Skew, latency, jitter, stalls, order of the ranks and size of the waves change no bit."""

import numpy as np
import pytest

from hdl.accelerator.layouts import ELEMENT_BYTES
from hdl.emulated_memory import STALL_CHANNELS
from sim.testbed import Placement

from .systems import (
    TINY,
    Operation,
    finite,
    random_bits,
    run_queue,
    signal_nan,
    system,
    tiny,
)

#: Chances, of 256, of a stall that leave some cycles free.
STALLS = (0, 0, 40, 128, 200)


def disturb(bed, rng):
    """Every run-time setting at random."""
    config = bed.config
    bed.set_links(int(rng.integers(2, config.link_latency_max + 1)))
    for rank in range(config.ranks):
        bed.set_memory(
            rank,
            latency=int(rng.integers(2, 60)),
            write_latency=int(rng.integers(1, 60)),
            jitter=int(rng.choice([0, 3, 50, 400])),
            stalls={channel: int(rng.choice(STALLS)) for channel in STALL_CHANNELS},
            seed=int(rng.integers(0, 1 << 32)),
        )
    return [int(rng.choice([0, 1, 30, 700])) for _ in range(config.ranks)]


def disturbed_runs(config, seeds, elements):
    """The same operands under each seed: the same bytes each time."""
    bed = system(config)
    operands = random_bits(np.random.default_rng(7), config.ranks, elements)
    results = set()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        delays = disturb(bed, rng)
        format = "fp16" if seed % 2 else "bf16"
        outcome = bed.all_reduce(operands, format, delays=delays, out_of_place=bool(seed % 4 < 2))
        assert outcome.status == "ok", f"seed {seed}: {outcome}"
        low = bed.placement(elements * ELEMENT_BYTES, out_of_place=bool(seed % 4 < 2))
        for rank in range(config.ranks):
            got = bed.engine.read(rank, low.destinations[rank], elements * ELEMENT_BYTES)
            results.add((format, got))
    assert len(results) == 2


def test_100_seeds_of_latency_jitter_stalls_and_skew_give_identical_bits():
    """As NVLS does not promise (NVIDIA/nccl #1497)."""
    disturbed_runs(TINY, range(100), 300)


@pytest.mark.long
@pytest.mark.parametrize("base", range(100, 1100, 100))
def test_1000_more_seeds(base):
    disturbed_runs(TINY, range(base, base + 100), 1500)


@pytest.mark.parametrize("latency", [2, 3, 4, 7, 8, 15, 16, 31, 32])
def test_every_link_latency_at_run_time(latency):
    """Also one after the other without a reset, up and down."""
    bed = system()
    operands = random_bits(np.random.default_rng(latency), 3, 300)
    bed.set_links(latency)
    outcome = bed.all_reduce(operands, "fp16")
    assert outcome.status == "ok"
    bed.set_links(2)
    shorter = bed.all_reduce(operands, "fp16")
    assert shorter.status == "ok"
    # Arrival, request, data, write, response, flag: six traversals.
    assert outcome.figures.arrive_to_flag >= shorter.figures.arrive_to_flag + 6 * (latency - 2)


@pytest.mark.parametrize(("asked", "used"), [(0, 2), (1, 2), (33, 32), (64, 32), (32767, 32)])
def test_a_link_latency_that_is_not_built_becomes_the_nearest(asked, used):
    bed = system()
    operands = random_bits(np.random.default_rng(asked), 3, 40)
    cycles = []
    for latency in (asked, used):
        bed.set_links(latency)
        outcome = bed.all_reduce(operands, "fp16")
        assert outcome.status == "ok"
        cycles.append(outcome.figures.arrive_to_flag)
    assert cycles[0] == cycles[1]


@pytest.mark.parametrize("late", range(3))
def test_each_rank_late_by_far(late):
    bed = system()
    delays = [3000 if rank == late else 0 for rank in range(3)]
    operands = random_bits(np.random.default_rng(late), 3, 200)
    outcome = bed.all_reduce(operands, "fp16", delays=delays)
    assert outcome.status == "ok"
    # An operation takes as long after the last arrival as if all had come together.
    together = bed.all_reduce(operands, "fp16")
    assert outcome.figures.arrive_to_flag == together.figures.arrive_to_flag


@pytest.mark.parametrize("format", ["fp16", "bf16"])
def test_any_permutation_of_the_ranks_gives_the_same_bytes(format):
    bed = system()
    rng = np.random.default_rng(11)
    operands = finite(rng, 3, 384, format)
    seen = set()
    for order in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]):
        assert bed.all_reduce(operands[order], format).status == "ok"
        seen |= {bed.engine.read(rank, 0, 768) for rank in range(3)}
    assert len(seen) == 1


@pytest.mark.long
@pytest.mark.parametrize("format", ["fp16", "bf16"])
def test_any_permutation_of_eight_ranks_gives_the_same_bytes(format):
    bed = system(tiny(ranks=8))
    rng = np.random.default_rng(12)
    operands = finite(rng, 8, 384, format)
    seen = set()
    for _ in range(100):
        assert bed.all_reduce(rng.permutation(operands), format).status == "ok"
        seen |= {bed.engine.read(rank, 0, 768) for rank in range(8)}
    assert len(seen) == 1


@pytest.mark.long
def test_any_wave_size_gives_the_same_bytes():
    operands = finite(np.random.default_rng(13), 2, 1000, "bf16")
    seen = set()
    for sizes in (
        dict(payload_bytes=24, wave_bytes=192),
        dict(payload_bytes=8, wave_bytes=64),
        dict(payload_bytes=64, wave_bytes=320),
        dict(payload_bytes=256, wave_bytes=2048),
    ):
        bed = system(tiny(ranks=2, **sizes))
        assert bed.all_reduce(operands, "bf16").status == "ok"
        seen.add(bed.engine.read(0, 0, 2000))
    assert len(seen) == 1


def test_ranks_whose_addresses_differ_mod_4_kib_and_stand_at_page_edges():
    """Each rank's packets cross its 4 KiB edge at another place, or begin or end exactly there."""
    bed = system()
    rng = np.random.default_rng(14)
    for elements in (40, 128, 300):
        size = elements * ELEMENT_BYTES
        for offset in range(-40, 41, 8):
            sources = [4096 + offset, 4096 - size // 16 * 8, 4096 - size // 8 * 8]
            destinations = [8192 + 4096 - offset, 8192 - 8, 12288 - size]
            for where in (
                Placement(sources, destinations, [0, 8, 16]),
                Placement(sources, sources, [0, 8, 16]),
            ):
                outcome = bed.all_reduce(
                    random_bits(rng, 3, elements), "fp16", where=where, guard=signal_nan.view("u1")
                )
                assert outcome.status == "ok", (elements, offset, outcome)


def test_repeats_of_different_sizes_and_formats_without_a_reset():
    """As `--repeat 5` does, with the formats mixed and an empty one between."""
    bed = system()
    rng = np.random.default_rng(15)
    for elements, format in ((500, "fp16"), (1, "bf16"), (0, "fp16"), (129, "bf16"), (64, "fp16")):
        outcome = bed.all_reduce(random_bits(rng, 3, elements), format)
        assert outcome.status == "ok", outcome
        assert outcome.figures.waves == -(-elements * ELEMENT_BYTES // 256)


@pytest.mark.parametrize("seed", range(3))
def test_queued_operations_of_mixed_sizes_formats_and_places(seed):
    """Four posted ahead; each operand is the one before's result or fresh, in or out of place."""
    print("seed", seed)
    bed = system()
    rng = np.random.default_rng(seed)
    delays = disturb(bed, rng)
    operations = []
    for number in range(4):
        elements = int(rng.integers(0, 500))
        low = 0x800 * number
        source = [low + 8 * int(rng.integers(0, 120)) for _ in range(3)]
        destination = source if rng.integers(2) else [0x2000 + address for address in source]
        format = str(rng.choice(["fp16", "bf16"]))
        operations.append(
            Operation(
                random_bits(rng, 3, min(elements, 500)),
                format,
                Placement(source, destination, [0x3FF8, 0x3FF0, 0x3FE8]),
            )
        )
    run_queue(bed, operations, delays=delays)
