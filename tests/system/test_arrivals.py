"""Arrivals that break the rules, through a whole system: refused, answered, and without effect."""

import numpy as np
import pytest

from hdl.accelerator.layouts import Status
from sim.golden import all_reduce_sum
from sim.host import Instruction
from sim.testbed import Placement

from .systems import expect, flag_word, random_bits, system

FLAGS = [0x3FC0] * 3
WHERE = Placement([0x100] * 3, [0x800] * 3, FLAGS)


def arrive(bed, epochs):
    """Let each rank arrive for an epoch (None: not at all), without waiting for its flag."""
    for rank, epoch in enumerate(epochs):
        bed.host.write(f"rank{rank}", "count", epoch is not None)
        bed.host.write(f"rank{rank}", "epoch", epoch or 0)
        bed.host.write(f"rank{rank}", "flag_address", FLAGS[rank])
        bed.host.write(f"rank{rank}", "delay", 0)
    bed.host.write("system", "go", 1)
    bed.engine.step(100)


def refused(bed):
    return [bed.host.read(f"rank{rank}", "refused") for rank in range(3)]


@pytest.mark.parametrize("rank", range(3))
def test_a_rank_that_arrives_for_a_past_epoch_is_refused(rank):
    """It finds its flag there already; the arrival is answered with an error and has no effect."""
    bed = system()
    bed.all_reduce(random_bits(np.random.default_rng(1), 3, 10), "fp16", where=WHERE)
    bed.all_reduce(random_bits(np.random.default_rng(2), 3, 10), "fp16", where=WHERE)
    before, total = refused(bed), bed.host.read("switch", "refused_arrivals")
    for past in (1, 2):
        arrive(bed, [bed.host.epoch - past if each == rank else None for each in range(3)])
        assert refused(bed) == [count + past * (each == rank) for each, count in enumerate(before)]
        assert bed.host.read("switch", "refused_arrivals") == total + past
        assert bed.host.read("switch", "arrived") == 0
    outcome = bed.all_reduce(random_bits(np.random.default_rng(3), 3, 10), "fp16", where=WHERE)
    assert outcome.status == "ok"


def test_one_rank_alone_releases_nobody():
    """And all of them, once more for the epoch that is over, release nobody either."""
    bed = system()
    epoch = bed.host.epoch
    rng = np.random.default_rng(1)
    operands = random_bits(rng, 3, 64)
    for rank in range(3):
        bed.fill(rank, 0x100, operands[rank])
    posted = Instruction(128, WHERE.sources, WHERE.destinations, FLAGS)
    assert bed.host.post(posted)[0] is Status.OK
    arrive(bed, [epoch, None, None])
    assert bed.host.read("switch", "arrived") == 0b001
    bed.engine.step(1000)
    assert not bed.differences()
    arrive(bed, [None, epoch, epoch])
    bed.engine.step(1000)
    bed.host.epoch += 1
    result, _ = all_reduce_sum(operands, "fp16")
    for rank in range(3):
        expect(bed, rank, 0x800, result)
        expect(bed, rank, FLAGS[rank], flag_word(epoch))
    assert not bed.differences()
    assert bed.host.read("system", "done") == 0b111
    before = refused(bed)
    arrive(bed, [epoch] * 3)
    assert refused(bed) == [count + 1 for count in before]
    bed.engine.step(500)
    assert not bed.differences()
