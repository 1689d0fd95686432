"""`Link`: the latency is exact, credits travel with it, and a change replays nothing."""

import random

import pytest
from amaranth import ResetInserter, Signal

from hdl.config import SwitchConfig
from hdl.interfaces import LinkState
from hdl.transport.link import Link
from tests.lib.simulate import run

CONFIG = SwitchConfig(
    ranks=2, flit_bytes=8, payload_bytes=32, wave_bytes=256, memory_bytes=4096,
    link_latency=2, link_latency_max=16, memory_latency=2,
)  # fmt: skip


def drive(ctx, link, draw):
    """Random signals at the sending end, and what they are."""
    sent = (draw.randrange(2), draw.getrandbits(len(link.i.flit.as_value())), draw.randrange(256))
    ctx.set(link.i.valid, sent[0])
    ctx.set(link.i.flit.as_value(), sent[1])
    ctx.set(link.i.credit, sent[2])
    return sent


def receive(ctx, link):
    return ctx.get(link.o.valid), ctx.get(link.o.flit.as_value()), ctx.get(link.o.credit)


def idle(ctx, link):
    ctx.set(link.i.valid, 0)
    ctx.set(link.i.credit, 0)


@pytest.mark.parametrize("latency", range(2, CONFIG.link_latency_max + 1))
def test_latency_is_exact(latency):
    """From the first cycle on, every flit and credit bit comes `latency` cycles later, in order."""
    link = Link(CONFIG)
    draw = random.Random(latency)

    async def bench(ctx):
        ctx.set(link.latency, latency)
        sent = []
        for cycle in range(3 * CONFIG.link_latency_max):
            sent.append(drive(ctx, link, draw))
            valid, flit, credit = receive(ctx, link)
            if cycle < latency:
                assert (valid, credit) == (0, 0)
            else:
                assert (valid, flit, credit) == sent[cycle - latency]
            await ctx.tick()

    run(link, bench)


@pytest.mark.parametrize("gap", [0, 1, 5])
@pytest.mark.parametrize(("before", "after"), [(2, 16), (3, 4), (16, 2), (7, 15), (5, 5)])
def test_a_change_while_idle_replays_and_loses_nothing(before, after, gap):
    """The delay line still holds what it delivered; a longer latency must not deliver it again."""
    link = Link(CONFIG)
    draw = random.Random(gap)

    async def bench(ctx):
        ctx.set(link.latency, before)
        sent = []
        for _ in range(6):
            sent.append(drive(ctx, link, draw))
            await ctx.tick()
        idle(ctx, link)
        await ctx.tick().repeat(before + gap)
        ctx.set(link.latency, after)
        for _ in range(gap):
            assert receive(ctx, link)[::2] == (0, 0)
            await ctx.tick()
        sent = []
        for cycle in range(40):
            sent.append(drive(ctx, link, draw))
            valid, flit, credit = receive(ctx, link)
            if cycle < after:
                assert (valid, credit) == (0, 0)
            else:
                assert (valid, flit, credit) == sent[cycle - after]
            await ctx.tick()

    run(link, bench)


@pytest.mark.parametrize(("before", "after"), [(2, 16), (3, 4), (16, 2), (7, 15), (9, 10)])
def test_what_is_under_way_at_a_change_is_lost_and_nothing_else(before, after):
    """Traffic goes on through the change: not one flit or credit comes at a wrong time."""
    link = Link(CONFIG)
    draw = random.Random(before)

    async def bench(ctx):
        ctx.set(link.latency, before)
        for _ in range(30):
            drive(ctx, link, draw)
            await ctx.tick()
        ctx.set(link.latency, after)
        sent = []
        for cycle in range(40):
            sent.append(drive(ctx, link, draw))
            valid, flit, credit = receive(ctx, link)
            if cycle >= after:
                assert (valid, flit, credit) == sent[cycle - after]
            elif cycle > 0:  # in the cycle of the change, what was due in it
                assert (valid, credit) == (0, 0)
            await ctx.tick()

    run(link, bench)


@pytest.mark.parametrize("latency", [2, 3, 8, 16])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_from_before_a_reset_arrives_behind_it(latency, seed):
    """A reset clears registers, not the line: what was in flight must not come out afterwards."""
    link, reset = Link(CONFIG), Signal()
    draw = random.Random(seed)

    async def bench(ctx):
        ctx.set(link.latency, latency)
        for _ in range(draw.randrange(1, 40)):
            drive(ctx, link, draw)
            await ctx.tick()
        ctx.set(reset, 1)
        drive(ctx, link, draw)
        await ctx.tick()
        ctx.set(reset, 0)
        sent = []
        for cycle in range(3 * CONFIG.link_latency_max):
            sent.append(drive(ctx, link, draw))
            valid, flit, credit = receive(ctx, link)
            if cycle < latency:
                assert (valid, credit) == (0, 0), cycle
            else:
                assert (valid, flit, credit) == sent[cycle - latency]
            await ctx.tick()

    run(ResetInserter(reset)(link), bench)


GOES_DOWN = CONFIG.replace(contexts=2)


@pytest.mark.parametrize("latency", [2, 3, 7, 16])
@pytest.mark.parametrize("seed", range(2))
def test_while_it_is_down_all_is_lost_and_nothing_else(latency, seed):
    """What is sent arrives if the link is up from then on; else the receiving end hears SILENT."""
    link = Link(GOES_DOWN)
    draw = random.Random(f"{latency} {seed}")

    async def bench(ctx):
        ctx.set(link.latency, latency)
        sent, broken = [], -1  # the last cycle in which it was not up
        up = 1
        for cycle in range(400):
            if draw.randrange(12) == 0:
                up = draw.randrange(2)
            ctx.set(link.up, up)
            state = LinkState(draw.randrange(3))
            ctx.set(link.i.state, state)
            sent.append((*drive(ctx, link, draw), state))
            if not up:
                broken = cycle
            heard = (*receive(ctx, link), ctx.get(link.o.state))
            begun = cycle - latency
            if begun > broken and begun >= 0:
                assert heard == sent[begun]
            else:
                assert (heard[0], heard[2]) == (0, 0)
                # Behind a reset it is as idle links that are up are.
                assert heard[3] == (LinkState.UP if broken < 0 else LinkState.SILENT)
            await ctx.tick()

    run(link, bench)


def test_a_change_of_latency_is_heard_as_silence():
    link = Link(GOES_DOWN)

    async def bench(ctx):
        ctx.set(link.latency, 5)
        await ctx.tick().repeat(20)
        ctx.set(link.latency, 9)
        await ctx.tick()
        for _ in range(8):
            assert ctx.get(link.o.state) == LinkState.SILENT
            await ctx.tick()
        assert ctx.get(link.o.state) == LinkState.UP

    run(link, bench)
