"""Every length from one element to three waves, bit for bit, in every memory."""

import numpy as np
import pytest

from hdl.accelerator.layouts import ELEMENT_BYTES
from sim.testbed import Placement

from .systems import AWKWARD, TINY, random_bits, signal_nan, system, tiny

WAVES = 3


def lengths(config):
    """Elements of one element to three waves."""
    return range(1, WAVES * config.wave_bytes // ELEMENT_BYTES + 1)


def placement(config, rng, elements, *, in_place):
    """Addresses that differ between the ranks, also mod 4 KiB, with room for guard bytes."""
    size = -(-elements * ELEMENT_BYTES // config.flit_bytes) * config.flit_bytes
    half = config.memory_bytes // 2
    sources, destinations = [], []
    for _ in range(config.ranks):
        low, high = sorted(int(rng.integers(0, (half - size) // config.flit_bytes)) for _ in "ab")
        first, second = low * config.flit_bytes, half + high * config.flit_bytes
        if rng.integers(2):
            first, second = second, first
        sources.append(first)
        destinations.append(first if in_place else second)
    free = [
        {address for address in range(0, config.memory_bytes, 8)
         if not any(start <= address < start + size for start in (source, destination))}
        for source, destination in zip(sources, destinations, strict=True)
    ]  # fmt: skip
    flags = [sorted(places)[int(rng.integers(len(places)))] for places in free]
    return Placement(sources, destinations, flags)


def sweep(bed, format, in_place, elements):
    """One All-Reduce of random bits at random addresses; NaN stands around it."""
    config = bed.config
    seed = [elements, in_place, format == "bf16"]
    rng = np.random.default_rng(seed)
    where = placement(config, rng, elements, in_place=in_place)
    outcome = bed.all_reduce(
        random_bits(rng, config.ranks, elements), format, where=where, guard=signal_nan.view("u1")
    )
    assert outcome.status == "ok", (seed, where, outcome)
    whole = -(-elements * ELEMENT_BYTES // config.wave_bytes)
    assert outcome.figures.waves == whole, seed


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "out of place"])
@pytest.mark.parametrize("format", ["fp16", "bf16"])
@pytest.mark.parametrize("config", [TINY, AWKWARD], ids=["tiny", "awkward"])
def test_every_length_to_three_waves(config, format, in_place):
    print("seed: elements, in place, bf16")
    bed = system(config)
    for elements in lengths(config):
        sweep(bed, format, in_place, elements)


@pytest.mark.parametrize("format", ["fp16", pytest.param("bf16", marks=pytest.mark.large)])
def test_a_sample_of_lengths_in_amaranths_simulator(format):
    print("seed: elements, in place, bf16")
    bed = system(TINY, "pysim")
    for number, elements in enumerate((1, 5, 129, 250)):
        sweep(bed, format, bool(number % 2), elements)


#: Shapes of links and waves: flits of each width, requests of several packets, waves and payloads
#: that are no powers of two, a wave of one packet, entries and write slots of one.
SHAPES = {
    "flit 16": dict(flit_bytes=16, payload_bytes=48, wave_bytes=384, ranks=2),
    "flit 32": dict(flit_bytes=32, payload_bytes=96, wave_bytes=192, ranks=2, waves=2),
    "flit 64": dict(flit_bytes=64, payload_bytes=64, wave_bytes=64, ranks=2, waves=8),
    "flit 64, wave of nine packets": dict(
        flit_bytes=64, payload_bytes=64, wave_bytes=576, ranks=2, read_request_bytes=192
    ),
    "one packet a wave": dict(payload_bytes=256, wave_bytes=256, ranks=2),
    "one flit a packet": dict(payload_bytes=8, wave_bytes=64, ranks=2, waves=2),
    "a request a wave": dict(read_request_bytes=256, ranks=2),
    "one entry, one slot": dict(waves=1, write_waves=1, ranks=2),
    "more slots than entries": dict(waves=1, write_waves=16, ranks=2),
    "packet share": dict(link_share="packets", ranks=2),
    "fp16 alone": dict(formats=("fp16",), ranks=2),
    "bf16 alone": dict(formats=("bf16",), ranks=2),
}


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_every_length_in_other_shapes(shape):
    print("seed: elements, in place, bf16")
    bed = system(tiny(**SHAPES[shape]))
    for elements in lengths(bed.config):
        for number, format in enumerate(bed.config.formats):
            sweep(bed, format, bool((elements + number) % 2), elements)


@pytest.mark.parametrize(
    "ranks", [2, pytest.param(5, marks=pytest.mark.large), pytest.param(8, marks=pytest.mark.long)]
)
def test_bit_exact_for_a_number_of_ranks_in_amaranths_simulator(ranks):
    """A sample for every change; all of them in CXXRTL are long."""
    print("seed: elements, in place, bf16")
    bed = system(tiny(ranks=ranks), "pysim")
    for number, format in enumerate(("fp16", "bf16")):
        sweep(bed, format, bool(number), 140 + ranks)


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 4, 5, 6, 7, 8, 9, 16])
def test_bit_exact_for_every_number_of_ranks(ranks):
    print("seed: elements, in place, bf16")
    bed = system(tiny(ranks=ranks))
    for elements in (*range(1, 40), 127, 128, 129, 255, 256, 257, 383, 384, 1000):
        for format in ("fp16", "bf16"):
            for in_place in (True, False):
                sweep(bed, format, in_place, elements)
