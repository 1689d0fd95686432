"""`OperationTable`: epochs, and the first error of each operation."""

import random

import pytest

from hdl.accelerator.layouts import Status, operation_slots
from hdl.accelerator.operation_table import OperationTable
from hdl.interfaces import Response
from tests.lib.simulate import run

from .ports import small

RANKS = 3


class Bench:
    def __init__(self):
        self.config = small(ranks=RANKS, queue_depth=2)
        self.dut = OperationTable(self.config)
        self.slots = operation_slots(self.config)

    async def step(self, ctx, *, launch=None, read=None, writes=None):
        """`launch`: (slot, epoch); `read`: (slot, rank, response); `writes`: the same by port."""
        dut = self.dut
        ctx.set(dut.launch, launch is not None)
        if launch:
            ctx.set(dut.launch_slot, launch[0])
            ctx.set(dut.epoch, launch[1])
        ctx.set(dut.read_error, read is not None)
        if read:
            ctx.set(dut.read_operation, read[0])
            ctx.set(dut.read_rank, read[1])
            ctx.set(dut.read_response, read[2])
        ctx.set(dut.write_error, sum(1 << port for port in writes or {}))
        for port, (slot, response) in (writes or {}).items():
            ctx.set(dut.write_operation[port], slot)
            ctx.set(dut.write_response[port], response)
        await ctx.tick()

    def ask(self, ctx, slot):
        ctx.set(self.dut.ask, slot)
        dut = self.dut
        return (ctx.get(dut.asked_epoch), Status(ctx.get(dut.asked_code)), ctx.get(dut.asked_rank))


@pytest.mark.parametrize(
    ("response", "read", "write"),
    [
        (Response.SLVERR, Status.READ_SLVERR, Status.WRITE_SLVERR),
        (Response.DECERR, Status.READ_DECERR, Status.WRITE_DECERR),
    ],
)
def test_codes(response, read, write):
    bench = Bench()

    async def body(ctx):
        await bench.step(ctx, launch=(1, 10))
        await bench.step(ctx, launch=(2, 11))
        assert bench.ask(ctx, 1) == (10, Status.OK, 0)
        await bench.step(ctx, read=(1, 2, response))
        await bench.step(ctx, writes={1: (2, response)})
        assert bench.ask(ctx, 1) == (10, read, 2)
        assert bench.ask(ctx, 2) == (11, write, 1)
        assert ctx.get(bench.dut.failed) == 0b110

    run(bench.dut, body)


def test_the_first_error_stays_until_the_slot_is_used_again():
    bench = Bench()

    async def body(ctx):
        await bench.step(ctx, launch=(0, 5))
        await bench.step(ctx, writes={2: (0, Response.SLVERR)})
        await bench.step(ctx, read=(0, 1, Response.DECERR), writes={0: (0, Response.DECERR)})
        assert bench.ask(ctx, 0) == (5, Status.WRITE_SLVERR, 2)
        await bench.step(ctx, launch=(0, 0xFFFF_FFFF))
        assert bench.ask(ctx, 0) == (0xFFFF_FFFF, Status.OK, 0)
        assert ctx.get(bench.dut.failed) == 0

    run(bench.dut, body)


def test_in_one_cycle_a_read_error_goes_first_then_the_lowest_port():
    bench = Bench()

    async def body(ctx):
        await bench.step(ctx, launch=(0, 1))
        await bench.step(ctx, launch=(1, 2))
        every = dict.fromkeys(range(RANKS), (0, Response.SLVERR))
        await bench.step(ctx, read=(0, 2, Response.DECERR), writes=every)
        assert bench.ask(ctx, 0) == (1, Status.READ_DECERR, 2)
        writes = {1: (1, Response.DECERR), 2: (1, Response.SLVERR)}
        await bench.step(ctx, writes=writes)
        assert bench.ask(ctx, 1) == (2, Status.WRITE_DECERR, 1)

    run(bench.dut, body)


def test_random_events_against_a_model():
    print("seed 1")
    draw = random.Random(1)
    bench = Bench()
    model = dict.fromkeys(range(bench.slots), (0, Status.OK, 0))

    async def body(ctx):
        for _ in range(400):
            launch = read = None
            writes = {}
            bad = [Response.SLVERR, Response.DECERR]
            if draw.random() < 0.3:
                launch = (draw.randrange(bench.slots), draw.getrandbits(32))
            others = [slot for slot in range(bench.slots) if not launch or slot != launch[0]]
            if draw.random() < 0.2:
                read = (draw.choice(others), draw.randrange(RANKS), draw.choice(bad))
            for port in range(RANKS):
                if draw.random() < 0.2:
                    writes[port] = (draw.choice(others), draw.choice(bad))
            await bench.step(ctx, launch=launch, read=read, writes=writes)
            failed_before = {slot for slot, (_, code, _) in model.items() if code is not Status.OK}
            events = []
            if read:
                events.append((read[0], 0x10 | read[2].value, read[1]))
            events += [(slot, 0x20 | r.value, port) for port, (slot, r) in sorted(writes.items())]
            for slot, code, rank in events:
                if slot not in failed_before:
                    failed_before.add(slot)
                    model[slot] = (model[slot][0], Status(code), rank)
            if launch:
                model[launch[0]] = (launch[1], Status.OK, 0)
            for slot in range(bench.slots):
                assert bench.ask(ctx, slot) == model[slot]

    run(bench.dut, body)
