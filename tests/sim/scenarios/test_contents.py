"""What may stand in the memories after each kind of ending, and what may not."""

import numpy as np
import pytest

from hdl.accelerator.layouts import Status
from sim.bench import Placement
from sim.plan import Plan
from sim.scenarios.configurations import configuration
from sim.scenarios.contents import settle
from sim.scenarios.endings import ABORTED, OK, Allowed, Ending
from sim.scenarios.work import Work, packets, waves

CONFIG = configuration("three")
SOURCES, RESULTS = [0x100] * 3, [0x1000, 0x1100, 0x1200]
EVERYONE = (0, 1, 2)
STOPPED = Ending(Status.WRITE_TIMEOUT, 1)
MAY_STOP = Allowed(frozenset({STOPPED}))


def work(kind="all-reduce", elements=500, destinations=EVERYONE, in_place=False) -> Work:
    plan = Plan(kind, "sum", EVERYONE, destinations)
    where = Placement(SOURCES, SOURCES if in_place else RESULTS, [])
    return Work(plan, "fp16", elements, where, "normal", 1)


class Memories:
    """What is expected before an operation, and what stands there after one that ended well."""

    def __init__(self, each: Work):
        rng = np.random.default_rng(2)
        shape = 3, CONFIG.memory_bytes
        self.before = list(rng.integers(0, 256, shape, np.uint8))
        for rank, numbers in enumerate(each.numbers(CONFIG)[0]):
            low = each.where.sources[rank]
            self.before[rank][low : low + each.length] = numbers.view(np.uint8)
        self.after = [memory.copy() for memory in self.before]
        assert settle(CONFIG, self.after, self.after, [each], [OK], [Allowed()]) is None

    def settle(self, each, held, ending, allowed=None, count=1):
        expected = [memory.copy() for memory in self.before]
        allowed = [allowed or Allowed()] * count
        complaint = settle(CONFIG, expected, held, [each] * count, [ending] * count, allowed)
        same = all(map(np.array_equal, expected, held))
        return complaint, same

    def written(self, each, count):
        """The memories with the first so many waves of the result."""
        held = [memory.copy() for memory in self.before]
        for wave in waves(CONFIG, each)[:count]:
            for rank in wave.destinations:
                low = each.where.destinations[rank]
                part = slice(low + wave.ranges[0].start, low + wave.ranges[0].stop)
                held[rank][part] = self.after[rank][part]
        return held


@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "all-gather"])
def test_a_good_ending_is_the_whole_result(kind):
    each = work(kind)
    memories = Memories(each)
    assert memories.settle(each, memories.after, OK) == (None, True)
    assert memories.settle(each, memories.before, OK) == (None, False)


def test_a_chain_in_place_goes_on_with_its_own_result():
    each = work(in_place=True)
    once = Memories(each)
    twice = [memory.copy() for memory in once.after]
    settle(CONFIG, twice, twice, [each], [OK], [Allowed()])
    assert once.settle(each, twice, OK, count=2) == (None, True)


@pytest.mark.parametrize("count", range(5))
def test_an_error_leaves_whole_waves_of_the_front(count):
    each = work()
    memories = Memories(each)
    assert len(waves(CONFIG, each)) == 4
    allowed = Allowed(frozenset(), written=(1, 3))
    ending = Ending(Status.READ_SLVERR, 1)
    complaint, _ = memories.settle(each, memories.written(each, count), ending, allowed)
    assert (complaint is None) == (1 <= count <= 3)


def test_waves_are_there_at_all_ranks_or_at_none():
    each = work()
    memories = Memories(each)
    held = memories.written(each, 2)
    held[1] = memories.written(each, 3)[1]
    allowed = Allowed(frozenset(), written=(0, 4))
    assert memories.settle(each, held, Ending(Status.WRITE_DECERR, 0), allowed)[0] is not None


@pytest.mark.parametrize("ending", [STOPPED, ABORTED, Ending(Status.READ_TIMEOUT, 2)])
def test_what_was_stopped_leaves_packets_old_or_new(ending):
    each = work()
    memories = Memories(each)
    rng = np.random.default_rng(3)
    held = [memory.copy() for memory in memories.before]
    for wave in waves(CONFIG, each):
        for piece in packets(CONFIG, wave.ranges[0]):
            for rank in EVERYONE:
                if rng.integers(2):
                    low = RESULTS[rank]
                    part = slice(low + piece.start, low + piece.stop)
                    held[rank][part] = memories.after[rank][part]
    assert memories.settle(each, held, ending, MAY_STOP) == (None, True)
    held[2][RESULTS[2] + 3] ^= 1
    complaint, _ = memories.settle(each, held, ending, MAY_STOP)
    assert complaint == f"rank 2 address {RESULTS[2]:#x}: bytes are neither old nor new"


@pytest.mark.parametrize("cut", [None, 1])
def test_only_a_rank_that_stood_still_may_have_half_a_packet(cut):
    each = work()
    memories = Memories(each)
    held = [memory.copy() for memory in memories.before]
    flit = slice(RESULTS[1], RESULTS[1] + CONFIG.flit_bytes)
    held[1][flit] = memories.after[1][flit]
    allowed = Allowed(frozenset({STOPPED}), cut=cut)
    complaint, same = memories.settle(each, held, STOPPED, allowed)
    assert same == (complaint is None) == (cut == 1)


@pytest.mark.parametrize("code", [Status.NOT_ARRIVED, Status.DISAGREES, Status.OUT_OF_WINDOW])
def test_what_never_began_leaves_nothing(code):
    each = work()
    memories = Memories(each)
    assert memories.settle(each, memories.before, Ending(code, 1)) == (None, True)
    assert memories.settle(each, memories.after, Ending(code, 1)) == (None, False)


def test_who_is_not_written_keeps_what_it_has():
    each = work("reduce", destinations=(1,))
    memories = Memories(each)
    assert np.array_equal(memories.after[0], memories.before[0])
    assert not np.array_equal(memories.after[1], memories.before[1])
