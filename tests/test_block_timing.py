"""Blocks between scan chains: nothing is left out, and what is wrong is said in one line."""

import random

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from hdl.building.block_timing import ScanHarness, block_timing
from scripts.block_timing import main


class Inverter(wiring.Component):
    """Gives each bit back, inverted: every input shows at an output."""

    def __init__(self, width):
        super().__init__({"i": In(width), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(~self.i)
        return m


def test_every_port_is_in_a_chain():
    """What is scanned in comes out, folded: a model of both chains says what and when."""
    width = 5
    harness = ScanHarness(Inverter(width))
    draw = random.Random(1)
    mask = (1 << width) - 1

    drive = kept = chain = 0

    async def bench(ctx):
        nonlocal drive, kept, chain
        for _ in range(60):
            bit = draw.randrange(2)
            ctx.set(harness.scan_in, bit)
            ctx.set(harness.clk, 1)
            await ctx.delay(1e-9)
            chain = ((chain << 1 | bit) ^ kept) & mask
            kept = ~drive & mask
            drive = (drive << 1 | bit) & mask
            ctx.set(harness.clk, 0)
            await ctx.delay(1e-9)
            assert ctx.get(harness.scan_out) == chain >> (width - 1)

    simulator = Simulator(harness)
    simulator.add_testbench(bench)
    simulator.run()


def test_bad_names_are_one_line(capsys):
    assert main(["no-such-block"]) == 2
    assert main(["barrier", "--config", "nowhere"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "no-such-block" in lines[0]
    assert "nowhere" in lines[1]


@pytest.mark.long
def test_a_block_is_placed_and_routed():
    timing = block_timing(Inverter(8))
    assert timing.fmax_mhz > 100
    assert timing.resources.ff >= 3 * 8 - 1
    assert timing.latest[0].arrival_ns < 1e3 / timing.fmax_mhz + 1
