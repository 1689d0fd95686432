"""Instructions that break a rule touch no memory, and the next one works."""

import numpy as np
import pytest

from hdl.accelerator.layouts import Status
from sim.host import Instruction
from sim.testbed import Placement

from .systems import AWKWARD, TINY, random_bits, signal_nan, system

#: Addresses of the good instruction that each of these spoils.
GOOD = dict(sources=[0x100] * 3, destinations=[0x800] * 3, flags=[0x3FC0] * 3)

BAD = {
    "length odd": (dict(length=101), Status.BAD_LENGTH, 0),
    "length 2^40": (dict(length=1 << 40), Status.BAD_LENGTH, 0),
    "length 2^40 and some": (dict(length=(1 << 40) + 64), Status.BAD_LENGTH, 0),
    "length near 2^40": (dict(length=(1 << 40) - 8), Status.OUT_OF_RANGE, 0),
    "length near 2^32": (dict(length=(1 << 32) - 8), Status.OUT_OF_RANGE, 0),
    "length 2^32 and some": (dict(length=(1 << 32) + 64), Status.OUT_OF_RANGE, 0),
    "length 2^31": (dict(length=1 << 31), Status.OUT_OF_RANGE, 0),
    "length more than the memory": (dict(length=16384), Status.OUT_OF_RANGE, 0),
    "source off the flit grid": (dict(sources=[0x100, 0x100, 0x104]), Status.UNALIGNED, 2),
    "source at an odd byte": (dict(sources=[0x101, 0x100, 0x100]), Status.UNALIGNED, 0),
    "destination off the flit grid": (dict(destinations=[0x800, 0x802, 0x800]),
                                      Status.UNALIGNED, 1),
    "flag off 8 bytes": (dict(flags=[0x3FC0, 0x3FC4, 0x3FC0]), Status.UNALIGNED, 1),
    "source past the memory": (dict(sources=[0x100, 0x100, 0x3FE0]), Status.OUT_OF_RANGE, 2),
    "source at 2^32": (dict(sources=[0x100, 1 << 32, 0x100]), Status.OUT_OF_RANGE, 1),
    "source past 2^48": (dict(sources=[0x100, (1 << 48) - 8, 0x100]), Status.OUT_OF_RANGE, 1),
    "source 2^48": (dict(sources=[0x100, (1 << 48) + 0x100, 0x100]), Status.OUT_OF_RANGE, 1),
    "destination 2^63": (dict(destinations=[0x800, 1 << 63, 0x800]), Status.OUT_OF_RANGE, 1),
    "flag at 2^48": (dict(flags=[1 << 48, 0x3FC0, 0x3FC0]), Status.OUT_OF_RANGE, 0),
    "flag past the memory": (dict(flags=[0x3FC0, 0x3FC0, 0x4000]), Status.OUT_OF_RANGE, 2),
    "destination inside the source": (dict(destinations=[0x108, 0x800, 0x800]),
                                      Status.OVERLAP, 0),
    "source inside the destination": (dict(sources=[0x100, 0x100, 0x808]), Status.OVERLAP, 2),
    "in place but at one rank": (dict(destinations=[0x100, 0x100, 0x108]), Status.OVERLAP, 2),
    "flag in the source": (dict(flags=[0x3FC0, 0x140, 0x3FC0]), Status.OVERLAP, 1),
    "flag in the destination": (dict(flags=[0x3FC0, 0x3FC0, 0x878]), Status.OVERLAP, 2),
}  # fmt: skip


@pytest.mark.parametrize("rule", BAD)
def test_an_instruction_that_breaks_a_rule_touches_nothing(rule):
    """Every byte of every memory stays, and the same words mended run."""
    spoiled, code, rank = BAD[rule]
    bed = system()
    rng = np.random.default_rng(len(rule))
    for each in range(3):
        bed.fill(each, 0, rng.integers(0, 256, TINY.memory_bytes).astype(np.uint8))
    fields = {"length": 128, **GOOD, **spoiled}
    assert bed.host.post(Instruction(format="fp16", **fields)) == (code, rank)
    before = bed.host.read("switch", "operations")
    bed.engine.step(500)
    assert not bed.differences()
    assert bed.host.read("switch", "operations") == before
    outcome = bed.all_reduce(random_bits(rng, 3, 64), "fp16", where=Placement(**GOOD))
    assert outcome.status == "ok", outcome


@pytest.mark.parametrize("number", [2, 3, 4, 7, 1 << 31])
def test_a_format_that_is_not_built_is_refused(number):
    bed = system()
    bed.host.post(Instruction(0, **GOOD))  # stages good words; ends at once below
    bed.host.write("switch", "format", number)
    bed.host.write("switch", "post", 1)
    bed.engine.step(100)
    assert bed.host.read("switch", "post_code") == Status.BAD_FORMAT.value
    outcome_of_the_empty_one(bed)


def outcome_of_the_empty_one(bed):
    """Lets the operation of length 0 that is queued end."""
    epoch = bed.host.epoch
    bed.host.program(flags=GOOD["flags"])
    assert bed.host.run(2000)
    for rank in range(3):
        bed.expected[rank][0x3FC0:0x3FC8] = np.array([epoch], "<u8").view("u1")
    assert not bed.differences()


def test_a_full_queue_refuses_and_keeps_what_it_holds():
    bed = system()
    rng = np.random.default_rng(1)
    for rank in range(3):
        bed.fill(rank, 0, rng.integers(0, 256, TINY.memory_bytes).astype(np.uint8))
    for _ in range(TINY.queue_depth):
        assert bed.host.post(Instruction(0, **GOOD))[0] is Status.OK
    assert bed.host.post(Instruction(64, **GOOD)) == (Status.QUEUE_FULL, 0)
    first = bed.host.epoch
    bed.host.program(flags=GOOD["flags"], count=TINY.queue_depth)
    assert bed.host.run(5000)
    for rank in range(3):
        last = np.array([first + TINY.queue_depth - 1], "<u8").view("u1")
        bed.expected[rank][0x3FC0:0x3FC8] = last
    assert not bed.differences()
    assert bed.all_reduce(random_bits(rng, 3, 64), "fp16").status == "ok"


@pytest.mark.parametrize("config", [TINY, AWKWARD], ids=["tiny", "awkward"])
def test_ranges_that_touch_are_no_overlap(config):
    """Result right behind and right before the operand, the flag right behind and right before."""
    bed = system(config)
    rng = np.random.default_rng(2)
    ranks = config.ranks
    for elements in (4, 100, 384):
        size = elements * 2
        for source, destination, flag in (
            (0x800, 0x800 + size, 0x800 + 2 * size),
            (0x800, 0x800 - size, 0x800 + size),
            (0x800, 0x800, 0x800 + size),
            (0x800, 0x800, 0x7F8),
            (0x800, 0x800 + size, 0x7F8),
            (config.memory_bytes - size, config.memory_bytes - 2 * size, 0),
            (0, size, config.memory_bytes - 8),
        ):
            where = Placement([source] * ranks, [destination] * ranks, [flag] * ranks)
            outcome = bed.all_reduce(
                random_bits(rng, ranks, elements), "bf16", where=where, guard=signal_nan.view("u1")
            )
            assert outcome.status == "ok", (where, outcome)
