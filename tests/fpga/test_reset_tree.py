"""A design behind a reset tree: what it does, and what synthesis leaves of the tree."""

import json
import re
from collections import Counter

import pytest
from amaranth import Module, Signal
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator
from amaranth_boards.arty_a7 import ArtyA7_35Platform
from amaranth_boards.ulx3s import ULX3S_85F_Platform

from fpga.reset_tree import LEVELS, RESET_DELAY, ResetTree
from hdl.building.tools import YOSYS

WIDTH = 8
#: Parts of `Nested`, and itself.
PARTS = LEVELS + 1


class Nested(wiring.Component):
    """A counter, and the same below it, `levels` deep; a memory that counts with it."""

    def __init__(self, levels: int = PARTS):
        self._levels = levels
        super().__init__({"counts": Out(WIDTH).array(levels + 1)})

    def elaborate(self, platform):
        m = Module()
        count = Signal(WIDTH, init=self._levels)
        m.d.sync += count.eq(count + 1)
        m.d.comb += self.counts[self._levels].eq(count)
        m.submodules.memory = memory = Memory(shape=WIDTH, depth=4, init=[])
        memory.read_port()
        if self._levels:
            m.submodules.inner = inner = Nested(self._levels - 1)
            for number, value in enumerate(inner.counts):
                m.d.comb += self.counts[number].eq(value)
        return m


@pytest.mark.parametrize("cycles", [1, 2, 5])
def test_all_parts_are_reset_in_the_same_cycles(cycles):
    design = Nested()
    tree = ResetTree(design)
    simulator = Simulator(tree)
    simulator.add_clock(1e-6)
    init = list(range(PARTS + 1))
    seen = []

    async def bench(ctx):
        for cycle in range(40):
            ctx.set(tree.reset, 20 <= cycle < 20 + cycles)
            seen.append([ctx.get(count) for count in design.counts])
            await ctx.tick()

    simulator.add_testbench(bench)
    simulator.run()
    # After power-up, and RESET_DELAY cycles behind the reset, from the next cycle on.
    held = {*range(RESET_DELAY + 1), *range(20 + RESET_DELAY + 1, 20 + RESET_DELAY + cycles + 1)}
    value = 0
    for cycle, counts in enumerate(seen):
        value = 0 if cycle in held else value + 1
        assert counts == [each + value for each in init], cycle


@pytest.mark.parametrize(
    ("platform", "synthesis", "register", "ports"),
    [
        (ULX3S_85F_Platform, "synth_ecp5", "TRELLIS_FF", ("LSR", "Q")),
        (ArtyA7_35Platform, "synth_xilinx -flatten -noiopad", "FD[RS]E", ("[RS]", "Q")),
    ],
)
def test_synthesis_leaves_a_register_a_part(tmp_path, platform, synthesis, register, ports):
    design = Nested()
    tree = ResetTree(design)
    text = rtlil.convert(tree, ports=[tree.reset, *design.counts], platform=platform())
    (tmp_path / "top.il").write_text(text)
    script = f"read_rtlil top.il; {synthesis} -top top; write_json top.json"
    YOSYS.run(["-q", "-p", script], tmp_path)
    cells = json.loads((tmp_path / "top.json").read_text())["modules"]["top"]["cells"].values()
    reset, output = ports
    users, outputs = Counter(), set()
    for cell in cells:
        if re.fullmatch(register, cell["type"]):
            for port, (bit,) in cell["connections"].items():
                if re.fullmatch(reset, port):
                    users[bit] += 1
                elif port == output:
                    outputs.add(bit)
    resets = {bit: count for bit, count in users.items() if bit in outputs}
    # Parts above the lowest have their own counter alone, that one has one more.
    assert sorted(resets.values()) == [WIDTH] * LEVELS + [2 * WIDTH], users
