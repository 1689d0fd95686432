"""`Chunks`: whose chunk each wave is of, where it ends, and what is left for the last."""

import random

import pytest

from hdl.accelerator.chunks import Chunks
from hdl.interfaces import Collective
from sim.golden.collectives import chunk_of
from tests.lib.simulate import run

from .ports import small

SEED = 41
RANKS = 5
WAVE_BYTES = 64


def config():
    return small(ranks=RANKS, wave_bytes=WAVE_BYTES, collectives="all")


def mask(ranks):
    return sum(1 << rank for rank in ranks)


def waves(length, chunk, collective, sources, destinations):
    """(size, sources, destinations) of each wave, the last one marked, as golden cuts."""
    if collective is Collective.WHOLE:
        parts = [(length, sources, destinations)]
    else:
        owners = sources if collective is Collective.GATHER else destinations
        parts = []
        for number, owner in enumerate(owners):
            part = chunk_of(length, len(owners), number, chunk)
            gathers = collective is Collective.GATHER
            ranks = ([owner], destinations) if gathers else (sources, [owner])
            parts.append((part.stop - part.start, *ranks))
    found = []
    for size, read, written in parts:
        while size:
            found.append((min(size, WAVE_BYTES), mask(read), mask(written)))
            size -= min(size, WAVE_BYTES)
    return found


async def cut(ctx, dut, operation, gaps):
    """The waves that come out for one operation; some cycles have none."""
    ctx.set(dut.launch, operation)
    ctx.set(dut.take, 1)
    await ctx.tick()
    ctx.set(dut.take, 0)
    ctx.set(dut.operation, operation)
    remaining, found, last = operation["length"], [], 0
    while not last:
        ctx.set(dut.remaining, remaining)
        size, last = ctx.get(dut.wave_bytes), ctx.get(dut.ends_operation)
        found.append((size, ctx.get(dut.sources), ctx.get(dut.destinations)))
        for issue in (*[0] * gaps.randrange(3), 1):
            ctx.set(dut.issue, issue)
            ctx.set(dut.size, size)
            await ctx.tick()
        ctx.set(dut.issue, 0)
        remaining -= size
    return found


def subset(draw):
    return sorted(draw.sample(range(RANKS), draw.randrange(1, RANKS + 1)))


def test_every_cut_is_goldens():
    draw = random.Random(SEED)
    dut = Chunks(config())
    flit = config().flit_bytes
    cases = []
    for _ in range(120):
        chunk = flit * draw.choice([1, 2, 7, 8, 9, 16, 30])
        cases.append((draw.randrange(1, 700), chunk, draw.choice(list(Collective)), subset(draw),
                      subset(draw)))  # fmt: skip
    # Chunks that end with the vector, before it, and behind it; and one byte more.
    everyone = list(range(RANKS))
    for collective in (Collective.GATHER, Collective.SCATTER):
        for length in (1, 64, 65, 5 * 64, 5 * 64 + 1, 5 * 64 - 1, 2 * 64):
            cases.append((length, 64, collective, everyone, everyone))

    async def bench(ctx):
        for length, chunk, collective, sources, destinations in cases:
            operation = {
                "length": length, "chunk": chunk, "collective": collective,
                "sources": mask(sources), "destinations": mask(destinations),
            }  # fmt: skip
            want = waves(length, chunk, collective, sources, destinations)
            got = await cut(ctx, dut, operation, draw)
            assert got == want, f"seed {SEED}: {length} bytes, chunk {chunk}, {collective}"

    run(dut, bench)


@pytest.mark.parametrize("collective", list(Collective))
def test_nothing_is_one_empty_wave(collective):
    """So an operation without bytes ends as any other does: a barrier."""
    dut = Chunks(config())
    operation = {"length": 0, "chunk": 8, "collective": collective, "sources": 6, "destinations": 5}

    async def bench(ctx):
        got = await cut(ctx, dut, operation, random.Random(SEED))
        assert [size for size, _, _ in got] == [0]

    run(dut, bench)
