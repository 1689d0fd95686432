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
    """The barrier in Python; who is no member any more has arrived all the same."""

    def __init__(self, ranks, epoch=1):
        self.members, self.epoch = set(range(ranks)), epoch
        self.current, self.early = set(), set()

    def refused(self, arrivals):
        """`arrivals`: epoch by rank."""
        result = set()
        for rank, epoch in arrivals.items():
            place = {self.epoch: self.current, (self.epoch + 1) % WRAP: self.early}.get(epoch)
            if place is None or rank in place or rank not in self.members:
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
        return bool(self.members) and self.members <= self.current


def bits(ranks):
    return sum(1 << rank for rank in ranks)


class Bench:
    """A barrier beside its model; with `contexts` above 1 some of the ranks may be members."""

    def __init__(self, ranks=RANKS, *, contexts=1, **parameters):
        self.subsets = contexts > 1
        self.dut = Barrier(small(ranks=ranks, contexts=contexts), **parameters)
        self.model = Model(ranks, epoch=parameters.get("first_epoch", 1))

    async def step(self, ctx, arrivals=None, take=False, members=None):
        """One cycle; the barrier must do what the model does. Which ranks were refused.

        Ranks in `members` are those from this cycle on.
        """
        dut, model, arrivals = self.dut, self.model, arrivals or {}
        if members is not None:
            model.members = set(members)
        if self.subsets:
            ctx.set(dut.members, bits(model.members))
            assert ctx.get(dut.complete) == model.complete, model.members
        ctx.set(dut.arrive, sum(1 << rank for rank in arrivals))
        for rank, epoch in arrivals.items():
            ctx.set(dut.epochs[rank], epoch)
        ctx.set(dut.take, take)
        bad = model.refused(arrivals)
        assert ctx.get(dut.refused) == bits(bad), arrivals
        await ctx.tick()
        model.step(arrivals, take)
        assert ctx.get(dut.epoch) == model.epoch
        assert ctx.get(dut.arrived) == bits(model.current)
        if self.subsets:
            assert ctx.get(dut.early) == bits(model.early)
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


@pytest.mark.parametrize("members", [{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}], ids=str)
def test_members_are_waited_for_and_others_refused(members):
    """Each member is the last one once; who is no member changes nothing."""
    bench = Bench(contexts=2)

    async def body(ctx):
        for last in sorted(members):
            epoch, others = bench.model.epoch, set(range(RANKS)) - members
            early = dict.fromkeys(members - {last} | others, epoch)
            assert await bench.step(ctx, early, members=members) == others
            assert await bench.step(ctx, dict.fromkeys(others, epoch + 1)) == others
            assert not ctx.get(bench.dut.complete)
            assert not await bench.step(ctx, {last: epoch})
            assert ctx.get(bench.dut.complete)
            await bench.step(ctx, take=True)

    play(bench, body)


def test_a_barrier_without_members_is_never_complete():
    bench = Bench(contexts=2)

    async def body(ctx):
        assert await bench.step(ctx, dict.fromkeys(range(RANKS), 1), members=()) == {0, 1, 2}
        for _ in range(3):
            await bench.step(ctx)
            assert not ctx.get(bench.dut.complete)
        assert not await bench.step(ctx, {1: 1}, members={1})
        assert ctx.get(bench.dut.complete)

    play(bench, body)


def test_members_change_between_epochs():
    """An early arrival counts while its rank is a member of the epoch, and is kept beside it."""
    bench = Bench(contexts=2)

    async def body(ctx):
        await bench.step(ctx, {0: 1, 1: 1}, members={0, 1})
        await bench.step(ctx, {0: 2, 1: 2})
        await bench.step(ctx, take=True)
        await bench.step(ctx, members={1, 2})
        assert not ctx.get(bench.dut.complete)  # rank 2 is one now, and has not arrived
        assert not await bench.step(ctx, {2: 2})
        assert ctx.get(bench.dut.complete)
        await bench.step(ctx, take=True)
        assert ctx.get(bench.dut.arrived) == 0

    play(bench, body)


@pytest.mark.parametrize("ranks", [2, 3, 16])
def test_random_members_against_the_model(ranks):
    """Masks of any ranks, others from epoch to epoch, now and then also within one."""
    print("seed", ranks)
    draw = random.Random(ranks)
    bench = Bench(ranks, contexts=2, first_epoch=WRAP - 20)
    taken = 0

    def mask():
        count = draw.choice([0, 1, 1, ranks - 1, ranks, draw.randint(1, ranks)])
        return draw.sample(range(ranks), count)

    async def body(ctx):
        nonlocal taken
        changes = True
        while taken < 120:
            members = mask() if changes else None
            chance = draw.choice([0.1, 0.5, 0.9])
            arrivals = {
                rank: (bench.model.epoch + draw.choice([-1, 0, 0, 0, 0, 1, 1, 2])) % WRAP
                for rank in range(ranks)
                if draw.random() < chance
            }
            take = bench.model.complete and members is None and draw.random() < 0.5
            taken += take
            await bench.step(ctx, arrivals, take, members)
            changes = draw.random() < (0.7 if take else 0.05)

    play(bench, body)
