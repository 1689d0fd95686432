"""`Counters`: each figure against what Python counts of the same events."""

import random

import pytest
from amaranth.lib import wiring

from hdl.accelerator.counters import Counters
from tests.lib.simulate import run

from .ports import small

RANKS = 3
SINGLE = {"barrier": "stall_barrier", "entries": "stall_entries"}
BY_RANK = ("data", "write_room", "request_credits")


@pytest.mark.parametrize("seed", range(3))
def test_counts_of_random_events(seed):
    print("seed", seed)
    draw = random.Random(seed)
    config = small(ranks=RANKS, waves=4, write_waves=8)
    dut = Counters(config)

    def expected(events):
        """Figures of the events since clear, the cycle of the clear itself left out."""
        requests = [e["now"] for e in events if e["request"]]
        responses = [e["now"] for e in events if e["response"]]
        result = {
            "first_request": requests[0] if requests else 0,
            "last_response": responses[-1] if responses else 0,
        }
        for what in ("reading", "writing"):
            result[f"{what}_max"] = max((e[what] for e in events), default=0)
            result[f"{what}_sum"] = sum(e[what] for e in events)
        for what, name in SINGLE.items():
            result[name] = sum(e[what] for e in events)
        for what in BY_RANK:
            for rank in range(RANKS):
                result[f"stall_{what}_{rank}"] = sum(e[what] >> rank & 1 for e in events)
        return result

    async def bench(ctx):
        now = 1000
        for turn in range(4):
            events = []
            for cycle in range(draw.randrange(5, 80)):
                event = {
                    "now": now,
                    "request": draw.random() < 0.2,
                    "response": draw.random() < 0.2,
                    "reading": draw.randrange(5),
                    "writing": draw.randrange(9),
                    "barrier": draw.random() < 0.5,
                    "entries": draw.random() < 0.5,
                } | {what: draw.randrange(1 << RANKS) for what in BY_RANK}
                for name, value in event.items():
                    ctx.set(getattr(dut, name), value)
                # Clear in the first cycle of a turn: what happens in it does not count.
                ctx.set(dut.clear, cycle == 0)
                await ctx.tick()
                now += 1
                if cycle:
                    events.append(event)
            # An event shows within two cycles.
            for name in ("request", "response", "reading", "writing", *SINGLE, *BY_RANK):
                ctx.set(getattr(dut, name), 0)
            await ctx.tick()
            assert {name: ctx.get(getattr(dut, name)) for name in expected(events)} == expected(
                events
            ), turn

    run(dut, bench)


def test_everything_is_zero_behind_a_clear():
    """Whatever was counted before, and where nothing happens then."""
    config = small(ranks=RANKS, waves=4, write_waves=8)
    dut = Counters(config)
    figures = [name for name, member in dut.signature.members.items() if member.flow is wiring.Out]
    events = {"request": 1, "response": 1, "reading": 3, "writing": 5, "barrier": 1, "entries": 1}
    events |= dict.fromkeys(BY_RANK, (1 << RANKS) - 1)

    async def bench(ctx):
        for value in events.items(), dict.fromkeys(events, 0).items():
            for name, event in value:
                ctx.set(getattr(dut, name), event)
            ctx.set(dut.now, 1000)
            await ctx.tick().repeat(4)
        assert all(ctx.get(getattr(dut, name)) for name in figures)
        ctx.set(dut.clear, 1)
        await ctx.tick()
        ctx.set(dut.clear, 0)
        await ctx.tick().repeat(4)
        assert {name: ctx.get(getattr(dut, name)) for name in figures} == dict.fromkeys(figures, 0)

    run(dut, bench)
