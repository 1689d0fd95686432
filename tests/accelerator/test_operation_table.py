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
    def __init__(self, **overrides):
        self.config = small(ranks=RANKS, queue_depth=2, **overrides)
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


class Ring:
    """Operations of a context that outlives failures: each slot's code, and who is oldest."""

    def __init__(self, slots):
        self.slots = slots
        self.codes = [(Status.OK, 0)] * slots
        self.live, self.over = [], []  # oldest first; those that have only flags to send
        self.launched = 0

    def failed(self, slot):
        return self.codes[slot][0] is not Status.OK

    def step(self, *, launch, errors, over, end, abort, spare):
        """One cycle; `launch` and `abort` are a code and rank, `errors` have a slot before them."""
        failed = {slot for slot in range(self.slots) if self.failed(slot)}
        aborted = [slot for slot in self.live if slot not in failed]
        first = self.live[:1]
        if spare:
            spared = [*self.over, *self.live[len(self.over) :][:over]]
            aborted = [slot for slot in aborted if slot not in spared]
            first = self.live[len(spared) :][:1]
        for slot, *code in errors:
            if slot not in failed:
                failed.add(slot)
                self.codes[slot] = tuple(code)
        for slot in aborted if abort else ():
            self.codes[slot] = abort if [slot] == first else (Status.ABORTED, 0)
        self.over += self.live[len(self.over) :][:over]
        if end:
            self.live.pop(0)
            self.over.pop(0)
        if launch:
            slot = self.launched % self.slots
            self.launched += 1
            self.codes[slot] = launch
            self.live.append(slot)

    next = 0


@pytest.mark.parametrize("seed", range(4))
def test_operations_that_are_aborted_against_a_model(seed):
    """The oldest takes the code and the rank, the others are ABORTED; an error before stays, and
    where that is asked for, what has only flags to send.
    """
    bench = Bench(contexts=2)
    dut, draw, ring = bench.dut, random.Random(seed), Ring(bench.slots)
    codes = [Status.OK, Status.OK, Status.READ_SLVERR, Status.READ_TIMEOUT]

    async def body(ctx):
        for _ in range(1500):
            launch = None
            if len(ring.live) < bench.slots - 1 and draw.random() < 0.4:
                code = draw.choice(codes)
                launch = (code, draw.randrange(RANKS) if code is not Status.OK else 0)
            others = ring.live[len(ring.over) :]
            read = writes = None
            if others and draw.random() < 0.15:
                read = (draw.choice(others), draw.randrange(RANKS), Response.SLVERR)
            if others and draw.random() < 0.15:
                writes = {draw.randrange(RANKS): (draw.choice(others), Response.DECERR)}
            over = bool(others) and draw.random() < 0.3
            end = bool(ring.over) and draw.random() < 0.3
            abort = draw.random() < 0.1 and (draw.choice([Status.READ_TIMEOUT, Status.ABORTED]), 2)
            spare = draw.random() < 0.5
            ctx.set(dut.launch_code, launch[0] if launch else Status.OK)
            ctx.set(dut.launch_rank, launch[1] if launch else 0)
            ctx.set(dut.over, over)
            ctx.set(dut.over_slot, others[0] if over else draw.randrange(bench.slots))
            ctx.set(dut.end, end)
            ctx.set(dut.abort, bool(abort))
            ctx.set(dut.abort_code, abort[0] if abort else draw.choice(codes))
            ctx.set(dut.abort_rank, abort[1] if abort else draw.randrange(RANKS))
            ctx.set(dut.spare, spare)
            assert ctx.get(dut.live) == bool(ring.live)
            assert ctx.get(dut.unfinished) == bool(others)
            slot = ring.launched % bench.slots
            await bench.step(
                ctx, launch=(slot, ring.launched) if launch else None, read=read, writes=writes
            )
            errors = [(read[0], Status.READ_SLVERR, read[1])] if read else []
            errors += [
                (slot, Status.WRITE_DECERR, port) for port, (slot, _) in (writes or {}).items()
            ]
            ring.step(launch=launch, errors=errors, over=over, end=end, abort=abort, spare=spare)
            for slot in range(bench.slots):
                assert bench.ask(ctx, slot)[1:] == ring.codes[slot], slot

    run(dut, body, limit=3000)
    assert ring.launched > 4 * bench.slots
