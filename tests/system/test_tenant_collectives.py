"""Collectives of two tenants at once, posted by a host or by the members, every byte compared."""

import pytest

from hdl.accelerator.layouts import Status
from hdl.config import KNOWN_OPERATIONS, SwitchConfig
from sim.plan import Plan

from .tenancy import CONTEXTS, RANKS, pair, values

CONFIG = SwitchConfig.preset(
    "tiny", contexts=CONTEXTS, operations=",".join(KNOWN_OPERATIONS), collectives="all"
)
#: Every collective and operation; even chunks, and others that leave ranks without any.
PLANS = (
    Plan("reduce-scatter", "average"),
    Plan("all-gather"),
    Plan("all-reduce", "max"),
    Plan("broadcast", sources=(1,), destinations=(0, 2)),
    Plan("reduce", "min", sources=(0, 2), destinations=(1,)),
    Plan("all-gather", sources=(0, 2), chunk=1024),
    Plan("reduce-scatter", destinations=(1, 2), chunk=64),
    Plan("all-reduce", "average", sources=(1, 2)),
)
#: The collective's code in the word ``format`` of a window, and the operation's.
COLLECTIVE_SHIFT, OPERATION_SHIFT = 48, 8


def load(tenant, plan, seed, in_place=False):
    operation = tenant.operation(values(seed), in_place=in_place, plan=plan)
    tenant.load(operation)
    return operation


def host_posts(tenant, plan, seed, in_place=False):
    assert tenant.post(load(tenant, plan, seed, in_place)) == (Status.OK, 0)
    tenant.program()


def members_post(tenant, plan, seed, **words):
    """Every member stages its part."""
    tenant.set_in_band(True)
    operation = load(tenant, plan, seed)
    for rank in range(RANKS):
        tenant.stage(operation, rank, **words)
    tenant.posted = [operation]
    tenant.program()
    return operation


def finish(*tenants):
    tenants[0].bed.host.go([tenant.context for tenant in tenants])
    for tenant in tenants:
        assert tenant.wait(), tenant.bed.state()
        assert tenant.read("last_code") == Status.OK.value
        tenant.expect()
    assert not tenants[0].bed.differences()


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "out of place"])
def test_each_beside_another(in_place):
    first, second = pair(config=CONFIG)
    for number, (plan, other) in enumerate(zip(PLANS, reversed(PLANS), strict=True)):
        host_posts(first, plan, 10 + number, in_place)
        host_posts(second, other, 30 + number, in_place)
        finish(first, second)


def test_members_post_each_beside_a_host():
    first, second = pair(config=CONFIG)
    for number, plan in enumerate(PLANS):
        members_post(first, plan, 50 + number)
        host_posts(second, PLANS[(number + 1) % len(PLANS)], 70 + number)
        finish(first, second)


@pytest.mark.parametrize("odd", range(RANKS))
def test_a_chunk_that_disagrees_names_the_odd_rank(odd):
    """Of what the host has staged nothing counts."""
    tenant, other = pair(config=CONFIG)
    tenant.write("chunk", 8)
    plan = PLANS[0]
    posted = members_post(tenant, plan, 95)
    tenant.stage(posted, odd, chunk=plan.chunk_bytes(CONFIG, posted.length) + CONFIG.flit_bytes)
    tenant.bed.host.go([tenant.context])
    assert tenant.wait(), tenant.bed.state()
    tenant.bed.host.wait(100)
    for rank in range(RANKS):
        tenant.expect_flag(rank, posted.epoch, Status.DISAGREES, odd)
    assert not tenant.bed.differences()
    members_post(tenant, plan, 96)
    host_posts(other, PLANS[1], 97)
    finish(tenant, other)


@pytest.mark.parametrize(
    ("operation", "collective", "chunk", "code"),
    [
        (5, 0, 0, Status.BAD_OPERATION),  # none has this code
        (0, 3, 8, Status.BAD_OPERATION),
        (0, 1, 8, Status.BAD_OPERATION),  # what is gathered is copied
        (4, 1, 0, Status.BAD_CHUNK),
        (1, 2, CONFIG.flit_bytes + 2, Status.BAD_CHUNK),
        (4, 0, 0, Status.BAD_RANKS),  # of several sources
    ],
)
def test_what_members_post_and_is_refused_ends_with_that_code(operation, collective, chunk, code):
    tenant, other = pair(config=CONFIG)
    everyone = (1 << RANKS) - 1
    word = everyone << 16 | everyone << 32
    word |= operation << OPERATION_SHIFT | collective << COLLECTIVE_SHIFT
    posted = members_post(tenant, Plan(), 90, format=word, chunk=chunk)
    tenant.bed.host.go([tenant.context])
    assert tenant.wait(), tenant.bed.state()
    tenant.bed.host.wait(100)
    assert (Status(tenant.read("last_code")), tenant.read("last_rank")) == (code, 0)
    for rank in range(RANKS):
        tenant.expect_flag(rank, posted.epoch, code, 0)
    assert not tenant.bed.differences()
    members_post(tenant, PLANS[0], 91)
    host_posts(other, PLANS[1], 92)
    finish(tenant, other)
