"""`Totals`: each adds up its own events, since the last time that all were cleared."""

import random

import pytest

from hdl.accelerator.totals import CONTEXT_TOTALS, Total, Totals, port_totals
from hdl.config import SwitchConfig
from tests.lib.simulate import run

#: Cycles from an event to its total, and those that a total of so few bits takes to come round.
LATENCY = 2
NARROW = (Total("few", "come round", width=3, bits=5), Total("one", "stays behind"))


def count(totals, seed, cycles=400):
    """Random events, and a clear now and then; the totals of every cycle beside the model's."""
    print("seed", seed)
    draw = random.Random(seed)
    dut = Totals(totals)
    model = dict.fromkeys((total.name for total in totals), 0)
    due = [model] * LATENCY

    async def bench(ctx):
        nonlocal model
        for _ in range(cycles):
            for total in totals:
                shown = ctx.get(getattr(dut, f"total_{total.name}"))
                assert shown == due[0][total.name], total.name
            clear = draw.random() < 0.02
            ctx.set(dut.clear, clear)
            added = {}
            for total in totals:
                most = (1 << total.width) - 1
                added[total.name] = draw.choice([0, 1, most, draw.randint(0, most)])
                ctx.set(getattr(dut, total.name), added[total.name])
            await ctx.tick()
            if clear:
                model = dict.fromkeys(model, 0)
                due[1:] = [model] * (LATENCY - 1)
            else:
                bits = {total.name: total.bits for total in totals}
                model = {
                    name: (value + added[name]) % (1 << bits[name]) for name, value in model.items()
                }
            due.append(model)
            due.pop(0)

    run(dut, bench)
    return model


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "totals",
    [CONTEXT_TOTALS, port_totals(SwitchConfig.preset("tiny", contexts=2)), NARROW],
    ids=["of a context", "of a port", "narrow"],
)
def test_each_adds_up_its_own_events(totals, seed):
    model = count(totals, seed)
    assert len(set(model.values())) > len(totals) // 2
