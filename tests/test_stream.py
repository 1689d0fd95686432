# amaranth: UnusedElaboratable=no
"""`Queue` and `Slice` against a deque: any depth, idle and back-pressure; latency, rate, reads."""

import random
import re

import pytest
from amaranth import Module
from amaranth.hdl import Fragment
from amaranth.hdl._mem import MemoryInstance
from amaranth.lib import wiring

from hdl.stream import BLOCK_RAM_BITS, Queue, Slice
from tests.lib.simulate import SHAPES, pattern, run, stream_get, stream_put

DEPTHS = range(1, 10)


@pytest.mark.parametrize("depth", [0, -1])
def test_depth_is_at_least_one(depth):
    with pytest.raises(ValueError, match=re.escape(f"depth must be at least 1, not {depth}")):
        Queue(8, depth=depth)


@pytest.mark.parametrize("back", SHAPES)
@pytest.mark.parametrize("idle", SHAPES)
@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_order_is_kept(depth, idle, back):
    draw = random.Random(depth)
    values = [draw.randrange(256) for _ in range(60)]
    dut = Queue(8, depth=depth)

    async def put(ctx):
        await stream_put(ctx, dut.i, values, pattern(idle, "put"))

    async def get(ctx):
        assert await stream_get(ctx, dut.o, len(values), pattern(back, "get")) == values
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.o.valid)
        assert ctx.get(dut.level) == 0

    run(dut, put, get)


#: A width at which every depth here is LUT RAM, and one at which it is block RAM.
WIDTHS = {"distributed": 8, "block": BLOCK_RAM_BITS}


@pytest.mark.parametrize("style", WIDTHS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("rates", [(0.6, 0.6), (0.95, 0.9), (0.3, 0.9)])
def test_every_cycle_against_a_model(depth, style, rates):
    """Ready, valid, payload and level of each cycle are those of a deque behind one register."""
    dut = Queue(WIDTHS[style], depth=depth)
    draw = random.Random(depth)

    async def bench(ctx):
        stored, offered = [], None
        for _ in range(400):
            valid, ready = (draw.random() < rate for rate in rates)
            value = draw.randrange(256)
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.i.payload, value)
            ctx.set(dut.o.ready, ready)
            room = len(stored) < depth
            assert ctx.get(dut.i.ready) == room
            assert ctx.get(dut.o.valid) == (offered is not None)
            assert ctx.get(dut.level) == len(stored) + (offered is not None)
            if offered is not None:
                assert ctx.get(dut.o.payload) == offered
            await ctx.tick()
            if valid and room:
                stored.append(value)
            if offered is None or ready:
                offered = stored.pop(0) if stored else None

    run(dut, bench)


@pytest.mark.parametrize("style", WIDTHS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_latency_is_one_and_rate_is_one(depth, style):
    dut = Queue(WIDTHS[style], depth=depth)

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.i.valid, 1)
        for value in range(30):
            ctx.set(dut.i.payload, value)
            assert ctx.get(dut.i.ready)
            await ctx.tick()
            assert ctx.get(dut.o.valid)
            assert ctx.get(dut.o.payload) == value

    run(dut, bench)


@pytest.mark.parametrize("style", WIDTHS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_it_holds_depth_and_one_more(depth, style):
    dut = Queue(WIDTHS[style], depth=depth)

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        taken = 0
        for _ in range(depth + 4):
            taken += ctx.get(dut.i.ready)
            await ctx.tick()
        assert taken == depth + 1
        assert ctx.get(dut.level) == depth + 1

    run(dut, bench)


def memories(dut):
    """Every memory inside, as what Amaranth elaborates it to."""
    pending, found = [Fragment.get(dut, None)], []
    while pending:
        fragment = pending.pop()
        found += [fragment] if isinstance(fragment, MemoryInstance) else []
        pending += [inner for inner, *_ in fragment.subfragments]
    return found


@pytest.mark.parametrize("style", WIDTHS)
@pytest.mark.parametrize("depth", [1, 2, 5, 8])
def test_no_read_is_transparent(depth, style):
    """Neither declared, nor needed: the word read is never written in the same cycle."""
    dut = Queue(WIDTHS[style], depth=depth)
    (memory,) = memories(dut)
    (read,), (write,) = memory._read_ports, memory._write_ports
    assert not read._transparent_for
    assert memory._attrs == {"ram_style": style}

    top = Module()
    top.submodules.dut = dut = Queue(WIDTHS[style], depth=depth)
    fragment = Fragment.get(top, None)
    (memory,) = memories(fragment)
    (read,), (write,) = memory._read_ports, memory._write_ports
    draw = random.Random(1)

    async def bench(ctx):
        both = 0
        for _ in range(500):
            ctx.set(dut.i.valid, draw.random() < 0.7)
            ctx.set(dut.o.ready, draw.random() < 0.7)
            # Block RAM is read ahead of the output, LUT RAM at it, where only valid words count.
            reads = ctx.get(read._en) if style == "block" else ctx.get(dut.o.valid)
            if reads and ctx.get(write._en):
                both += 1
                assert ctx.get(read._addr) != ctx.get(write._addr)
            await ctx.tick()
        # One stored word is never replaced as it is read: two more are in registers by then.
        assert both or depth <= (2 if style == "block" else 1)

    run(fragment, bench)


def test_a_queue_cuts_the_ready_path():
    """`i.ready` does not move with `o.ready` within a cycle, also when full."""
    dut = Queue(8, depth=2)

    async def bench(ctx):
        ctx.set(dut.i.valid, 1)
        await ctx.tick().repeat(4)
        for ready in (0, 1, 0):
            ctx.set(dut.o.ready, ready)
            assert not ctx.get(dut.i.ready)

    run(dut, bench)


def test_two_queues_connect():
    first, second = Queue(8, depth=1), Queue(8, depth=3)
    top = Module()
    top.submodules.first, top.submodules.second = first, second
    wiring.connect(top, first.o, second.i)
    values = list(range(40))

    async def put(ctx):
        await stream_put(ctx, first.i, values, pattern("half", 1))

    async def get(ctx):
        assert await stream_get(ctx, second.o, len(values), pattern("half", 2)) == values

    run(top, put, get)


@pytest.mark.parametrize("back", SHAPES)
@pytest.mark.parametrize("idle", SHAPES)
def test_a_slice_keeps_order(idle, back):
    values = [random.Random(1).randrange(256) for _ in range(60)]
    dut = Slice(8)

    async def put(ctx):
        await stream_put(ctx, dut.i, values, pattern(idle, "put"))

    async def get(ctx):
        assert await stream_get(ctx, dut.o, len(values), pattern(back, "get")) == values
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.o.valid)

    run(dut, put, get)


@pytest.mark.parametrize("rates", [(0.6, 0.6), (0.95, 0.9), (0.3, 0.9), (1, 1)])
def test_every_cycle_of_a_slice_against_a_model(rates):
    """It is a deque of two: ready unless both are there, offered from the next cycle on."""
    dut = Slice(8)
    draw = random.Random(2)

    async def bench(ctx):
        held = []
        for _ in range(400):
            valid, ready = (draw.random() < rate for rate in rates)
            value = draw.randrange(256)
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.i.payload, value)
            ctx.set(dut.o.ready, ready)
            takes = len(held) < 2
            assert ctx.get(dut.i.ready) == takes
            assert ctx.get(dut.o.valid) == bool(held)
            if held:
                assert ctx.get(dut.o.payload) == held[0]
            await ctx.tick()
            if held and ready:
                held.pop(0)
            if valid and takes:
                held.append(value)

    run(dut, bench)


def test_a_slice_cuts_both_ways():
    """Neither handshake signal moves within a cycle, whether it is empty, half full or full."""
    dut = Slice(8)

    async def bench(ctx):
        for held in range(3):
            for valid in (0, 1):
                for ready in (0, 1):
                    ctx.set(dut.i.valid, valid)
                    ctx.set(dut.o.ready, ready)
                    assert ctx.get(dut.o.valid) == (held > 0)
                    assert ctx.get(dut.i.ready) == (held < 2)
            ctx.set(dut.i.valid, 1)
            ctx.set(dut.o.ready, 0)
            await ctx.tick()

    run(dut, bench)
