"""`Barrier`: bits by rank, for this epoch and the next; whatever else arrives is refused."""

import random

import pytest

from hdl.accelerator.barrier import Barrier
from tests.lib.simulate import run

from .ports import small

RANKS = 3
EVERY = (1 << RANKS) - 1
WRAP = 1 << 32


class Model:
    """The barrier in Python."""

    def __init__(self, ranks, epoch=1):
        self.ranks, self.epoch = ranks, epoch
        self.current, self.early = set(), set()

    def refused(self, arrivals):
        """`arrivals`: epoch by rank."""
        result = set()
        for rank, epoch in arrivals.items():
            place = {self.epoch: self.current, (self.epoch + 1) % WRAP: self.early}.get(epoch)
            if place is None or rank in place:
                result.add(rank)
        return result

    def step(self, arrivals, take):
        bad = self.refused(arrivals)
        for rank, epoch in arrivals.items():
            if rank not in bad:
                (self.current if epoch == self.epoch else self.early).add(rank)
        if take:
            self.epoch = (self.epoch + 1) % WRAP
            self.current, self.early = self.early, set()

    @property
    def complete(self):
        return len(self.current) == self.ranks


class Bench:
    def __init__(self, ranks=RANKS, **parameters):
        self.dut = Barrier(small(ranks=ranks), **parameters)
        self.model = Model(ranks, epoch=parameters.get("first_epoch", 1))

    async def step(self, ctx, arrivals=None, take=False):
        """One cycle; the barrier must do what the model does. Which ranks were refused."""
        dut, model, arrivals = self.dut, self.model, arrivals or {}
        ctx.set(dut.arrive, sum(1 << rank for rank in arrivals))
        for rank, epoch in arrivals.items():
            ctx.set(dut.epochs[rank], epoch)
        ctx.set(dut.take, take)
        bad = model.refused(arrivals)
        assert ctx.get(dut.refused) == sum(1 << rank for rank in bad), arrivals
        await ctx.tick()
        model.step(arrivals, take)
        assert ctx.get(dut.epoch) == model.epoch
        assert ctx.get(dut.arrived) == sum(1 << rank for rank in model.current)
        assert ctx.get(dut.complete) == model.complete
        return bad


def play(bench, body):
    async def testbench(ctx):
        await body(ctx)

    run(bench.dut, testbench)


def test_every_rank_in_the_same_cycle():
    bench = Bench()

    async def body(ctx):
        assert not await bench.step(ctx, dict.fromkeys(range(RANKS), 1))
        assert ctx.get(bench.dut.complete)

    play(bench, body)


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_second_arrival_is_refused_and_releases_nobody(epoch):
    bench = Bench()

    async def body(ctx):
        assert not await bench.step(ctx, {0: epoch})
        for _ in range(3):
            assert await bench.step(ctx, {0: epoch}) == {0}
        assert await bench.step(ctx, {0: epoch, 1: epoch}) == {0}
        assert not ctx.get(bench.dut.complete)

    play(bench, body)


def test_too_early_and_stale_arrivals_are_refused():
    bench = Bench()

    async def body(ctx):
        for epoch in (0, 3, 4, WRAP - 1, 1 << 31, (1 << 31) + 1):
            assert await bench.step(ctx, {1: epoch}) == {1}
        await bench.step(ctx, {0: 1, 1: 1, 2: 1})
        await bench.step(ctx, take=True)
        assert await bench.step(ctx, {1: 1}) == {1}
        assert ctx.get(bench.dut.arrived) == 0

    play(bench, body)


def test_an_early_arrival_counts_for_the_next_epoch_only():
    bench = Bench()

    async def body(ctx):
        await bench.step(ctx, {0: 2})
        await bench.step(ctx, {1: 1, 2: 1})
        assert not ctx.get(bench.dut.complete)  # rank 0 has not arrived for epoch 1
        await bench.step(ctx, {0: 1})
        assert ctx.get(bench.dut.complete)
        await bench.step(ctx, take=True)
        assert ctx.get(bench.dut.arrived) == 0b001

    play(bench, body)


def test_arrivals_in_the_cycle_of_a_take_are_for_the_next_epoch():
    bench = Bench()

    async def body(ctx):
        await bench.step(ctx, {0: 1, 1: 1, 2: 1})
        await bench.step(ctx, {0: 2})
        # A second one for either epoch, one in time, and one that is too early by one cycle.
        assert await bench.step(ctx, {0: 2, 1: 2, 2: 3}, take=True) == {0, 2}
        assert ctx.get(bench.dut.arrived) == 0b011
        assert not await bench.step(ctx, {2: 2, 0: 3})
        assert ctx.get(bench.dut.complete)

    play(bench, body)


def test_a_whole_next_epoch_before_the_take():
    bench = Bench()

    async def body(ctx):
        await bench.step(ctx, {0: 1, 1: 1, 2: 1})
        await bench.step(ctx, {0: 2, 1: 2, 2: 2})
        await bench.step(ctx, take=True)
        assert ctx.get(bench.dut.complete)
        await bench.step(ctx, {0: 3, 1: 3, 2: 3}, take=True)
        assert ctx.get(bench.dut.complete)

    play(bench, body)


def test_epochs_wrap():
    bench = Bench(first_epoch=WRAP - 2)

    async def body(ctx):
        for _ in range(5):
            epoch = bench.model.epoch
            after, beyond = (epoch + 1) % WRAP, (epoch + 2) % WRAP
            arrived = ctx.get(bench.dut.arrived)
            assert await bench.step(ctx, {0: beyond}) == {0}
            await bench.step(ctx, {rank: epoch for rank in range(RANKS) if not arrived >> rank & 1})
            assert ctx.get(bench.dut.complete)
            assert not await bench.step(ctx, {1: after})
            await bench.step(ctx, take=True)
            assert ctx.get(bench.dut.arrived) == 0b010
        assert bench.model.epoch == 3

    play(bench, body)


@pytest.mark.parametrize("ranks", [2, 3, 16])
def test_random_arrivals_against_the_model(ranks):
    print("seed", ranks)
    draw = random.Random(ranks)
    bench = Bench(ranks, first_epoch=WRAP - 20)
    taken = 0

    async def body(ctx):
        nonlocal taken
        while taken < 60:
            chance = draw.choice([0.1, 0.5, 0.9])
            arrivals = {
                rank: (bench.model.epoch + draw.choice([-1, 0, 0, 0, 0, 1, 1, 2])) % WRAP
                for rank in range(ranks)
                if draw.random() < chance
            }
            take = bench.model.complete and draw.random() < 0.5
            taken += take
            await bench.step(ctx, arrivals, take)

    play(bench, body)
