"""Amaranth's simulator for unit tests: a time-out with a state dump, streams under patterns."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence

from amaranth.sim import Simulator

__all__ = ["SHAPES", "always", "idle", "pattern", "run", "stream_get", "stream_put", "until"]

PERIOD = 1e-8
#: Lines of state that a time-out prints.
DUMP_LINES = 120

#: How often a side of a handshake is willing: each cycle, at random half or a quarter of them, or
#: in bursts with long pauses.
SHAPES = ("always", "half", "quarter", "bursts")


def always() -> Iterator[bool]:
    """Willing in every cycle."""
    return itertools.repeat(True)


def pattern(shape: str, seed) -> Iterator[bool]:
    """Whether a side is willing, cycle by cycle; the same for the same shape and seed."""
    if shape == "always":
        return always()
    draw = random.Random(f"{shape} {seed}")
    if shape == "bursts":
        return _bursts(draw)
    chance = {"half": 0.5, "quarter": 0.25}[shape]
    return (draw.random() < chance for _ in itertools.count())


def _bursts(draw: random.Random) -> Iterator[bool]:
    while True:
        yield from itertools.repeat(False, draw.randrange(1, 20))
        yield from itertools.repeat(True, draw.randrange(1, 20))


def _state(simulator: Simulator, ctx) -> str:
    """The signals that are not zero, by hierarchical name."""
    lines = []
    for info in simulator._design.fragments.values():
        for signal, name in info.signal_names.items():
            value = ctx.get(signal)
            if value:
                lines.append(f"  {'.'.join((*info.name, name))} = {value!r}")
    left_out = len(lines) - DUMP_LINES
    return "\n".join(lines[:DUMP_LINES] + ([f"  ... {left_out} more"] if left_out > 0 else []))


def run(
    dut,
    *benches: Callable,
    background: Sequence[Callable] = (),
    limit: int = 3000,
) -> int:
    """Run until every bench has ended; the cycles that it took.

    Raises
    ------
    AssertionError
        They have not ended within `limit` cycles; the message holds every signal that is not zero.
    """
    simulator = Simulator(dut)
    simulator.add_clock(PERIOD)
    cycles = 0

    async def time_out(ctx):
        nonlocal cycles
        async for _ in ctx.tick():
            cycles += 1
            if cycles > limit:
                raise AssertionError(f"no end within {limit} cycles\n{_state(simulator, ctx)}")

    simulator.add_testbench(time_out, background=True)
    for bench in background:
        simulator.add_testbench(bench, background=True)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()
    return cycles


async def idle(ctx, cycles: int):
    """Let so many cycles pass.

    Unlike `TickTrigger.repeat` it may be left half done, so background benches can use it.
    """
    for _ in range(cycles):
        await ctx.tick()


async def until(ctx, condition, *values) -> list:
    """Tick through the first edge at which `condition` holds; `values` sampled at that edge.

    Unlike `TickTrigger.until` it may be left half done, so background benches can use it.
    """
    while True:
        _, _, met, *sampled = await ctx.tick().sample(condition, *values)
        if met:
            return sampled


async def stream_put(ctx, stream, values, willing: Iterator[bool] | None = None):
    """Offer `values` in order, each from a cycle in which `willing` says so until it is taken."""
    willing = willing or always()
    for value in values:
        while not next(willing):
            await ctx.tick()
        ctx.set(stream.payload, value)
        ctx.set(stream.valid, 1)
        await until(ctx, stream.ready)
        ctx.set(stream.valid, 0)


async def stream_get(ctx, stream, count: int, willing: Iterator[bool] | None = None) -> list:
    """Take `count` transfers, ready where `willing` says so.

    Checks the stream rule on the way: what is offered stays, unchanged, until it is taken.
    """
    willing = willing or always()
    taken, offered = [], None
    while len(taken) < count:
        ready = next(willing)
        ctx.set(stream.ready, ready)
        _, _, valid, payload = await ctx.tick().sample(stream.valid, stream.payload)
        if offered is not None:
            assert valid, "an offer was withdrawn"
            assert payload == offered, "an offer changed before it was taken"
        if valid and ready:
            taken.append(payload)
        offered = payload if valid and not ready else None
    ctx.set(stream.ready, 0)
    return taken
