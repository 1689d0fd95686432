"""Arbiters: round robin starves nobody; shares of flits are equal to within a few packets."""

import random

import pytest

from hdl.transport.arbiter import DeficitRoundRobin, LinkArbiter, RoundRobin
from tests.lib.simulate import run

LONGEST = 33


@pytest.mark.parametrize("count", range(1, 6))
def test_round_robin_grants_one_of_those_that_ask(count):
    dut = RoundRobin(count)
    draw = random.Random(count)

    async def bench(ctx):
        for _ in range(200):
            requests = draw.getrandbits(count)
            ctx.set(dut.requests, requests)
            grant = ctx.get(dut.grant)
            ctx.set(dut.used, grant if draw.randrange(2) else 0)
            assert grant.bit_count() == (requests != 0)
            assert grant & ~requests == 0
            await ctx.tick()

    run(dut, bench)


@pytest.mark.parametrize("count", range(2, 6))
def test_round_robin_waits_for_at_most_all_others(count):
    dut = RoundRobin(count)
    draw = random.Random(count)

    async def bench(ctx):
        waited = [0] * count
        for _ in range(400):
            requests = draw.getrandbits(count) | 1  # requester 0 never gives up
            ctx.set(dut.requests, requests)
            ctx.set(dut.used, ctx.get(dut.grant))
            grant = ctx.get(dut.grant).bit_length() - 1
            for index in range(count):
                asks = requests >> index & 1
                waited[index] = waited[index] + 1 if asks and index != grant else 0
            assert waited[0] <= count - 1
            await ctx.tick()

    run(dut, bench)


def share(by_flits, lengths, packets=300, asks=lambda core: True):
    """What is sent, packet by packet: (core's, flits, both wanted to, grant).

    `lengths` draws a packet's length, by side; `asks` says whether a side wants to send. As a
    transmitter does, each grant is taken in the last cycle of the packet before.
    """
    dut = LinkArbiter([True, True, False], longest=LONGEST, by_flits=by_flits)
    history = []

    async def bench(ctx):
        for _ in range(packets):
            wants = [asks(False), asks(True)]
            requests = (0b011 if wants[0] else 0) | (0b100 if wants[1] else 0)
            ctx.set(dut.requests, requests)
            grant = ctx.get(dut.grant)
            ctx.set(dut.taken, grant != 0)
            await ctx.tick()
            ctx.set(dut.taken, 0)
            ctx.set(dut.started, grant != 0)
            if grant:
                side = grant & 0b100 != 0
                flits = lengths[side]()
                ctx.set(dut.flits, flits)
                history.append((side, flits, all(wants), grant))
                if flits > 1:  # else the next one is granted as this one starts
                    await ctx.tick()
                    ctx.set(dut.started, 0)

    run(dut, bench)
    return history


@pytest.mark.parametrize(
    "lengths",
    [(33, 1), (1, 33), (33, 33), (9, 33), (2, 3), ("random", "random"), (33, "random")],
)
def test_flits_are_halved_to_within_a_packet_and_a_flit_at_every_moment(lengths):
    draw = random.Random(repr(lengths))
    drawn = [
        (lambda: draw.randint(1, LONGEST)) if length == "random" else (lambda n=length: n)
        for length in lengths
    ]
    sent = [0, 0]
    for side, flits, _, _ in share(True, drawn):
        sent[side] += flits
        assert abs(sent[0] - sent[1]) <= LONGEST + 1


def test_packets_alternate_when_weighted_by_packets():
    sides = [side for side, *_ in share(False, [lambda: 17, lambda: 33])]
    assert all(a != b for a, b in zip(sides, sides[1:], strict=False))


@pytest.mark.parametrize("steady_is_core", [False, True])
@pytest.mark.parametrize("by_flits", [True, False])
def test_a_side_that_keeps_asking_never_waits_for_two_packets_and_more(by_flits, steady_is_core):
    """Also where the other side comes and goes, which is what resets the balance."""
    draw = random.Random(5)
    history = share(
        by_flits,
        [lambda: LONGEST, lambda: LONGEST],
        packets=600,
        asks=lambda core: core == steady_is_core or draw.random() < 0.5,
    )
    waited = 0
    for core, flits, *_ in history:
        waited = 0 if core == steady_is_core else waited + flits
        assert waited <= 2 * LONGEST


def test_sources_of_a_side_alternate():
    grants = [g for side, *_, g in share(True, [lambda: 5, lambda: 5]) if not side]
    assert grants[:4] in ([1, 2, 1, 2], [2, 1, 2, 1])


@pytest.mark.parametrize("inc", [(True, True, False), (True, False, False)])
@pytest.mark.parametrize("core_by_flits", [False, True])
def test_sources_of_a_side_alternate_while_the_other_has_its_turns(inc, core_by_flits):
    """Grants of one side take no turn from a source of the other."""
    dut = LinkArbiter(inc, longest=LONGEST, by_flits=True, core_by_flits=core_by_flits)
    granted = []

    async def bench(ctx):
        ctx.set(dut.requests, 0b111)
        ctx.set(dut.flits, LONGEST)
        for _ in range(40):
            granted.append(ctx.get(dut.grant).bit_length() - 1)
            ctx.set(dut.taken, 1)
            await ctx.tick()
            ctx.set(dut.taken, 0)
            ctx.set(dut.started, 1)
            await ctx.tick()
            ctx.set(dut.started, 0)

    run(dut, bench)
    for side in (True, False):
        members = [index for index, mine in enumerate(inc) if mine == side]
        turns = [index for index in granted if index in members]
        assert len(turns) >= len(granted) // 2 - 1
        assert all(a != b or len(members) == 1 for a, b in zip(turns, turns[1:], strict=False)), (
            turns
        )


def test_one_side_alone_has_the_whole_link():
    dut = LinkArbiter([True, True], longest=LONGEST, by_flits=True)

    async def bench(ctx):
        for requests in (1, 2, 3, 0, 3):
            ctx.set(dut.requests, requests)
            assert (ctx.get(dut.grant) != 0) == (requests != 0)
            ctx.set(dut.taken, requests != 0)
            await ctx.tick()

    run(dut, bench)


def test_a_side_that_was_idle_has_no_claim_on_the_past():
    """Long use alone gives no debt: once both wait, shares are equal from there on."""
    begins = 100
    count = iter(range(10**6))
    history = share(
        True,
        [lambda: LONGEST, lambda: LONGEST],
        asks=lambda core: not core or next(count) >= begins,
    )
    both = [side for side, _, contended, _ in history if contended]
    assert abs(both.count(True) - both.count(False)) <= 1
    assert both[:2] in ([False, True], [True, False])


@pytest.mark.parametrize("by_flits", [True, False])
def test_the_balance_ends_when_one_side_is_alone(by_flits):
    """The accelerator is ahead, then the core has the link to itself: both start even again."""
    dut = LinkArbiter([True, False], longest=LONGEST, by_flits=by_flits)

    async def bench(ctx):
        ctx.set(dut.flits, LONGEST)
        for requests, grant in [(0b11, 0b01), (0b10, 0b10), (0b11, 0b01), (0b11, 0b10)]:
            ctx.set(dut.requests, requests)
            ctx.set(dut.taken, 1)
            assert ctx.get(dut.grant) == grant
            await ctx.tick()
            ctx.set(dut.taken, 0)
            ctx.set(dut.started, 1)
            await ctx.tick()
            ctx.set(dut.started, 0)

    run(dut, bench)


def deficit(lengths, *, late, packets=400, asks=lambda index: True):
    """What a `DeficitRoundRobin` grants, packet by packet: (requester, flits, who asked).

    `late`: a packet is charged in the cycle behind its grant, in which the next one is granted.
    """
    count = len(lengths)
    dut = DeficitRoundRobin(count, longest=LONGEST)
    history = []

    async def bench(ctx):
        before = (0, 0)
        for _ in range(packets):
            requests = sum(1 << index for index in range(count) if asks(index))
            ctx.set(dut.requests, requests)
            grant = ctx.get(dut.grant)
            assert grant.bit_count() == (requests != 0)
            assert grant & ~requests == 0
            ctx.set(dut.used, grant)
            charge = (0, 0)
            if grant:
                index = grant.bit_length() - 1
                flits = lengths[index]()
                history.append((index, flits, requests))
                charge = (grant, flits)
            if late:
                charge, before = before, charge
            ctx.set(dut.charged, charge[0])
            ctx.set(dut.flits, charge[1])
            await ctx.tick()

    run(dut, bench)
    return history


def drawers(lengths):
    draw = random.Random(repr(lengths))
    return [
        (lambda: draw.randint(1, LONGEST)) if length == "random" else (lambda n=length: n)
        for length in lengths
    ]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "lengths",
    [(1, LONGEST), (LONGEST, LONGEST), (9, LONGEST, 1), ("random",) * 4, (1, 2, LONGEST, "random")],
)
def test_deficit_round_robin_gives_equally_many_flits(lengths, late):
    """At every moment to within three packets, however long each requester's packets are."""
    sent = [0] * len(lengths)
    for index, flits, _ in deficit(drawers(lengths), late=late, packets=1200):
        sent[index] += flits
        assert max(sent) - min(sent) < 3 * LONGEST
    assert min(sent) > LONGEST


@pytest.mark.parametrize("late", [False, True])
def test_deficit_round_robin_makes_nobody_wait_for_more_than_two_packets_of_each_other(late):
    """Requester 0 always asks; the others come and go."""
    draw = random.Random(7)
    history = deficit(
        drawers(("random",) * 4),
        late=late,
        packets=1500,
        asks=lambda index: index == 0 or draw.random() < 0.6,
    )
    waited = 0
    for index, flits, _ in history:
        waited = 0 if index == 0 else waited + flits
        assert waited <= 3 * 2 * LONGEST


@pytest.mark.parametrize("late", [False, True])
def test_deficit_round_robin_gives_no_claim_to_who_was_idle(late):
    """One alone for long, then two: equal shares from there on."""
    count = iter(range(10**6))
    history = deficit(
        drawers((LONGEST, 1)),
        late=late,
        packets=2000,
        asks=lambda index: index == 1 or next(count) >= 200,
    )
    both = [(index, flits) for index, flits, requests in history if requests == 0b11]
    sent = [0, 0]
    for index, flits in both:
        sent[index] += flits
        assert abs(sent[0] - sent[1]) < 3 * LONGEST
    assert min(sent) > 5 * LONGEST


def test_ordinary_sources_share_their_side_by_flits():
    """In a link's arbiter, where a packet's flits are known a cycle late or more."""
    lengths = [1, LONGEST, 5]
    dut = LinkArbiter([True, False, False, False], longest=LONGEST, by_flits=True,
                      core_by_flits=True)  # fmt: skip
    sent = [0, 0, 0]

    async def bench(ctx):
        for _ in range(800):
            ctx.set(dut.requests, 0b1110)
            grant = ctx.get(dut.grant)
            ctx.set(dut.taken, 1)
            await ctx.tick()
            ctx.set(dut.taken, 0)
            ctx.set(dut.started, 1)
            source = grant.bit_length() - 2
            ctx.set(dut.flits, lengths[source])
            sent[source] += lengths[source]
            if lengths[source] > 1:
                await ctx.tick()
                ctx.set(dut.started, 0)

    run(dut, bench)
    assert max(sent) - min(sent) < 3 * LONGEST
    assert min(sent) > 10 * LONGEST
