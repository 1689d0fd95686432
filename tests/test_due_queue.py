# amaranth: UnusedElaboratable=no
"""`DueQueue` against a deque with times: each cycle, any depth, waits around 0, wrapping time."""

import random
import re

import pytest

from hdl.due_queue import DueQueue
from tests.lib.simulate import run

TIME_BITS = 8


@pytest.mark.parametrize("depth", [1, 0, -1])
def test_depth_is_at_least_two(depth):
    with pytest.raises(ValueError, match=re.escape(f"depth must be at least 2, not {depth}")):
        DueQueue(8, depth=depth, time_bits=TIME_BITS)


def offers(dut, puts, *, ready=lambda _: True, limit):
    """Cycles of the transfers out, by item; each of `puts` is (cycle, item, wait)."""
    seen = {}

    async def bench(ctx):
        due = list(puts)
        for cycle in range(limit):
            ctx.set(dut.now, cycle % (1 << TIME_BITS))
            put = due.pop(0) if due and due[0][0] == cycle else None
            ctx.set(dut.i.valid, put is not None)
            if put is not None:
                assert ctx.get(dut.i.ready)
                ctx.set(dut.i.payload.item, put[1])
                ctx.set(dut.i.payload.wait, put[2])
            ctx.set(dut.o.ready, ready(cycle))
            if ctx.get(dut.o.valid) and ready(cycle):
                seen[ctx.get(dut.o.payload)] = cycle
            await ctx.tick()

    run(dut, bench)
    return seen


@pytest.mark.parametrize("wait", [-1, 0, 1, 2, 3, 50, 100])
def test_a_lone_item_is_offered_when_it_is_due(wait):
    dut = DueQueue(8, depth=2, time_bits=TIME_BITS)
    assert offers(dut, [(3, 7, wait)], limit=120) == {7: 3 + max(1, wait)}


@pytest.mark.parametrize("wait", [1, 2, 5])
def test_items_that_follow_each_other_are_offered_without_a_gap(wait):
    dut = DueQueue(8, depth=8, time_bits=TIME_BITS)
    puts = [(cycle, cycle, wait) for cycle in range(40)]
    assert offers(dut, puts, limit=60) == {cycle: cycle + wait for cycle in range(40)}


def test_a_younger_item_that_is_due_waits_for_the_oldest():
    dut = DueQueue(8, depth=4, time_bits=TIME_BITS)
    assert offers(dut, [(0, 1, 20), (1, 2, 1), (2, 3, 1)], limit=30) == {1: 20, 2: 21, 3: 22}


def test_an_offer_stays_past_the_range_of_its_time():
    """Who is not taken for longer than half the range of time is due all the same."""
    dut = DueQueue(8, depth=2, time_bits=TIME_BITS)
    assert offers(dut, [(0, 1, 5)], ready=lambda cycle: cycle == 400, limit=402) == {1: 400}


@pytest.mark.parametrize("depth", [2, 3, 4, 9])
@pytest.mark.parametrize("rates", [(0.6, 0.6), (0.95, 0.9), (0.3, 0.9), (1, 1)])
@pytest.mark.parametrize("longest", [0, 3, 20])
def test_every_cycle_against_a_model(depth, rates, longest):
    dut = DueQueue(8, depth=depth, time_bits=TIME_BITS)
    draw = random.Random(depth * 100 + longest)

    async def bench(ctx):
        held, offered, taken = [], False, 0  # (item, due); whether the oldest is being offered
        for cycle in range(1500):  # time wraps round several times
            valid, ready = (draw.random() < rate for rate in rates)
            item, wait = draw.randrange(256), draw.randint(-1, longest)
            ctx.set(dut.now, cycle % (1 << TIME_BITS))
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.i.payload.item, item)
            ctx.set(dut.i.payload.wait, wait)
            ctx.set(dut.o.ready, ready)
            room = len(held) < depth + 1
            offered = bool(held) and (offered or held[0][1] <= cycle)
            assert ctx.get(dut.i.ready) == room
            assert ctx.get(dut.o.valid) == offered
            assert ctx.get(dut.waits) == bool(held)
            if offered:
                assert ctx.get(dut.o.payload) == held[0][0]
            await ctx.tick()
            if offered and ready:
                held.pop(0)
                offered, taken = False, taken + 1
            if valid and room:
                held.append((item, cycle + wait))
        assert taken > 50

    run(dut, bench)
