"""The host in hardware against a register file that answers when it likes."""

import random

import pytest
from amaranth.sim import Simulator

from fpga.pattern import Pattern
from fpga.register_program import Access, RegisterPlayer, Step, all_reduce
from hdl.config import SwitchConfig
from hdl.interfaces import Response

TIME_OUT = 400


class Registers:
    """An AXI4-Lite subordinate with words by address, and a log of what was written."""

    def __init__(self, words, *, seed=0, errors=()):
        self.words, self.errors, self.written = dict(words), set(errors), []
        self.reads = []
        self._random = random.Random(seed)

    def after(self, ctx):
        """A random wait, most often none."""
        return ctx.tick().repeat(1 + self._random.choice((0, 0, 0, 1, 2, 5)))

    async def write_side(self, ctx, axil):
        while True:
            beats = {}
            for channel in self._random.sample(["aw", "w"], 2):  # in either order
                await self.after(ctx)
                while not ctx.get(getattr(axil, f"{channel}valid")):
                    await ctx.tick()
                name = "awaddr" if channel == "aw" else "wdata"
                beats[channel] = ctx.get(getattr(axil, name))
                ctx.set(getattr(axil, f"{channel}ready"), 1)
                await ctx.tick()
                ctx.set(getattr(axil, f"{channel}ready"), 0)
            self.words[beats["aw"]] = beats["w"]
            self.written.append((beats["aw"], beats["w"]))
            await self.after(ctx)
            await self.answer(ctx, axil, "b", beats["aw"])

    async def read_side(self, ctx, axil):
        while True:
            await self.after(ctx)
            while not ctx.get(axil.arvalid):
                await ctx.tick()
            address = ctx.get(axil.araddr)
            self.reads.append(address)
            ctx.set(axil.arready, 1)
            await ctx.tick()
            ctx.set(axil.arready, 0)
            await self.after(ctx)
            value = self.words[address]
            ctx.set(axil.rdata, value(len(self.reads)) if callable(value) else value)
            await self.answer(ctx, axil, "r", address)

    async def answer(self, ctx, axil, channel, address):
        code = Response.DECERR if address in self.errors else Response.OKAY
        ctx.set(getattr(axil, f"{channel}resp"), code.value)
        ctx.set(getattr(axil, f"{channel}valid"), 1)
        await ctx.tick().until(getattr(axil, f"{channel}ready"))
        ctx.set(getattr(axil, f"{channel}valid"), 0)


def play(steps, registers) -> str:
    """How the player ends: done, wrong or late."""
    dut = RegisterPlayer(steps, time_out=TIME_OUT)
    ended = []

    async def bench(ctx):
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        for _ in range(2 * TIME_OUT):
            _, _, done, failed, late = await ctx.tick().sample(dut.done, dut.failed, dut.late)
            if done or failed:
                ended.append("done" if done else "late" if late else "wrong")

    async def write_side(ctx):
        await registers.write_side(ctx, dut.axil)

    async def read_side(ctx):
        await registers.read_side(ctx, dut.axil)

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.add_testbench(write_side, background=True)
    simulator.add_testbench(read_side, background=True)
    simulator.run()
    (end,) = ended
    return end


@pytest.mark.parametrize("seed", range(8))
def test_steps_are_played_in_order(seed):
    registers = Registers({0x10: 0xDEADBEEF, 0x20: lambda reads: reads >= 4, 0x24: 7}, seed=seed)
    steps = [
        Step(Access.KEEP, 0x10),
        Step(Access.WRITE, 0x400, 0x12345678),
        Step(Access.WRITE_KEPT, 0x404),
        Step(Access.AWAIT, 0x20, 1),
        Step(Access.EXPECT, 0x24, 7),
        Step(Access.EXPECT_KEPT, 0x404),
        Step(Access.WRITE, 0x4408, 0),
    ]
    assert play(steps, registers) == "done"
    assert registers.written == [(0x400, 0x12345678), (0x404, 0xDEADBEEF), (0x4408, 0)]
    assert registers.reads == [0x10, 0x20, 0x20, 0x20, 0x24, 0x404]


@pytest.mark.parametrize(
    "step",
    [Step(Access.EXPECT, 0x24, 8), Step(Access.EXPECT_KEPT, 0x24)],
    ids=["value", "kept value"],
)
def test_a_wrong_value_ends_the_program(step):
    registers = Registers({0x10: 1, 0x24: 7})
    steps = [Step(Access.KEEP, 0x10), step, Step(Access.WRITE, 0x400, 1)]
    assert play(steps, registers) == "wrong"
    assert registers.written == []


@pytest.mark.parametrize("access", list(Access))
def test_an_error_response_ends_the_program(access):
    registers = Registers({0x24: 0}, errors=[0x24])
    assert play([Step(access, 0x24, 0), Step(Access.WRITE, 0x400, 1)], registers) == "wrong"
    assert (0x400, 1) not in registers.written


def test_waiting_for_ever_is_late():
    registers = Registers({0x24: 0})
    assert play([Step(Access.AWAIT, 0x24, 1)], registers) == "late"


def test_the_program_names_every_rank():
    config = SwitchConfig.preset("tiny", ranks=5)
    steps = all_reduce(config, Pattern(config))
    values = [step.value for step in steps if step.access is Access.WRITE]
    for rank in range(5):
        assert values.count(Pattern(config).address(rank)) == 2  # source and destination
    assert sum(step.access is Access.WRITE_KEPT for step in steps) == 5
    assert sum(step.access is Access.EXPECT_KEPT for step in steps) == 5
