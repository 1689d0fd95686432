"""Tenants of one switch: what each may do, and that they take nothing from each other."""

import dataclasses

import pytest

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from sim.register_host import Instruction
from sim.tenants import Tenant, mask
from sim.testbed import Testbed

from .tenancy import CONTEXTS, RANKS, WATCHDOG, accept, hold, pair, run, values

#: Cycles of a link in whose round trip half of the entries' requests do not fill it.
LONG_LINK = 32
#: Registers of a context that its own operations change, and nobody else's may.
OWN = ("operations", "last_code", "last_epoch", "epoch", "arrived", "post_code", "aborts")


def last_flag(tenant: Tenant) -> int:
    return tenant.bed.host.latest("flag_time", tenant.context)


def first_arrival(tenant: Tenant) -> int:
    return min(tenant.rank_register(rank, "arrive_time") for rank in tenant.members)


def took(tenant: Tenant, seed: int) -> int:
    """Cycles from an operation's first arrival to its last flag."""
    run(tenant, seed=seed, elements=1500)
    return last_flag(tenant) - first_arrival(tenant)


@pytest.mark.parametrize("in_place", [True, False])
def test_tenants_run_at_once(in_place):
    run(*pair(), seed=3, elements=700, in_place=in_place)


def test_operations_of_both_follow_each_other():
    first, second = pair()
    run(first, second, seed=20, elements=500, count=3)


@pytest.mark.parametrize(
    ("sources", "destinations"),
    [
        ((0, 1, 2), (1,)),  # Reduce
        ((2,), (0, 1, 2)),  # Broadcast
        ((0, 2), (1, 2)),
        ((1,), (1,)),
    ],
)
def test_some_ranks_are_read_and_some_written(sources, destinations):
    tenant, other = pair()
    accept(tenant, 5, in_place=False, sources=sources, destinations=destinations)
    tenant.program()
    accept(other, 6)
    other.program()
    tenant.bed.host.go([0, 1])
    for each in (tenant, other):
        assert each.wait()
        each.expect()
    assert not tenant.bed.differences()


def test_members_that_differ():
    first, second = pair(members=((0, 1), (1, 2)))
    run(first, second, seed=8, elements=600)


@pytest.mark.parametrize("kind", ["sources", "destinations", "flags"])
@pytest.mark.parametrize("rank", range(RANKS))
def test_what_is_outside_a_window_is_refused_before_a_beat(kind, rank):
    tenant, other = pair()
    for one, address in (
        (tenant, tenant.limit),
        (tenant, other.base + 0x100),
        (tenant, tenant.limit - 8 if kind != "flags" else tenant.limit),
        (other, other.base - 8),
        (other, 0),
    ):
        operation = one.operation(values(1), in_place=False)
        addresses = list(getattr(operation.where, kind))
        addresses[rank] = address
        operation.where = dataclasses.replace(operation.where, **{kind: addresses})
        assert one.post(operation) == (Status.OUT_OF_WINDOW, rank)
    host = tenant.bed.host
    for port in range(RANKS):
        for count in ("read_packets", "write_packets"):
            assert host.read("ports", f"{count}_{port}") == 0
    run(tenant, other, seed=9)


def test_others_than_members_are_refused():
    tenant, _ = pair(members=((0, 1), (0, 1, 2)))
    for sources, destinations in (((0, 2), (0, 1)), ((0,), (1, 2)), ((), (0,)), ((0,), ())):
        operation = tenant.operation(values(1), sources=sources, destinations=destinations)
        assert tenant.post(operation) == (Status.BAD_RANKS, 0)
    run(tenant, seed=11)


def test_a_context_that_is_not_enabled_takes_nothing():
    tenant, other = pair()
    other.disable()
    assert other.post(other.operation(values(1))) == (Status.DISABLED, 0)
    run(tenant, seed=12)
    other.enable()
    run(tenant, other, seed=13)


@pytest.mark.parametrize("who", range(CONTEXTS))
def test_a_rank_is_done_when_its_programs_for_every_tenant_are(who):
    quick, slow = pair(watchdogs=(0, 0), first=who)
    bed = quick.bed

    def done():
        by_rank, by_tenant = (bed.host.read("system", name) for name in ("done", "context_done"))
        return by_rank, by_tenant, bed.engine.get("done")

    for tenant, delays in ((quick, [0, 0, 0]), (slow, [3000, 0, 3000])):
        accept(tenant, 16)
        tenant.program(delays=delays)
    assert done() == (0b111, 0b11, 1)
    bed.host.go([0, 1])
    assert done() == (0, 0, 0)
    assert quick.wait()
    assert done() == (0, 1 << who, 0)
    assert slow.wait()
    assert done() == (0b111, 0b11, 1)
    for tenant in (quick, slow):
        tenant.expect()
    assert not bed.differences()


def test_one_tenants_operations_change_nothing_of_the_others():
    tenant, other = pair()
    run(other, seed=14)
    before = {name: other.read(name) for name in OWN}
    run(tenant, seed=15)
    tenant.post(tenant.operation(values(1), sources=()))
    tenant.write("abort", 1)
    tenant.bed.host.wait(50)
    assert {name: other.read(name) for name in OWN} == before


def test_a_single_tenant_has_all_entries_and_two_have_half_each():
    tenant, other = pair()
    tenant.bed.set_links(LONG_LINK)  # so that entries are what limits
    shared = took(tenant, 30)
    other.disable()
    tenant.bed.host.wait(50)
    assert took(tenant, 31) < 0.9 * shared
    other.enable()
    tenant.bed.host.wait(50)
    assert took(tenant, 32) == shared


def test_tenants_that_run_at_once_end_together():
    """Same work, same ranks: a share each, to within a wave."""
    first, second = pair()
    run(first, second, seed=33, elements=1500, in_place=True)
    times = [last_flag(tenant) - first_arrival(tenant) for tenant in (first, second)]
    assert abs(times[0] - times[1]) < 0.05 * max(times), times


@pytest.mark.long
def test_sums_beside_codes_wait_for_a_run_at_a_time_and_not_for_the_operation():
    """A small operation of fp16 beside a long one that is quantized: both take their turns."""
    # Links of which the quantized operation does not fill every cycle of the arithmetic.
    config = SwitchConfig(
        ranks=2, flit_bytes=16, payload_bytes=64, wave_bytes=512, contexts=2, block=64,
        formats=("fp16", "inq8"), memory_bytes=1 << 17, link_latency=4, memory_latency=4,
    )  # fmt: skip
    bed = Testbed(config)
    half = config.memory_bytes // 2
    long, short = (Tenant(bed, n, range(2), n * half, (n + 1) * half) for n in range(2))
    size, flag = 16384, [half - 64] * 2
    for tenant in (long, short):
        tenant.enable()
    codes = Instruction(
        size, [0] * 2, [size] * 2, flag, "inq8", source_ranks=3, destination_ranks=3,
        scale_sources=[2 * size] * 2, scale_destinations=[2 * size + 4096] * 2,
    )  # fmt: skip
    assert bed.host.post(codes, 0) == (Status.OK, 0)
    small = short.operation(values(7, 128)[:2])
    short.load(small)
    assert short.post(small) == (Status.OK, 0)
    for tenant, flags in ((long, flag), (short, small.where.flags)):
        bed.host.program(flags=flags, count=1, context=tenant.context, ranks=(0, 1))
    bed.host.go([0])
    bed.host.wait(500)
    bed.host.go([1])
    start = bed.cycle
    bed.host.wait(20_000)
    ends = [bed.host.latest("flag_time", tenant.context) - start for tenant in (long, short)]
    short.expect()
    assert 0 < 3 * ends[1] < ends[0], ends


@pytest.mark.parametrize("channel", ["ar", "r", "aw", "w", "b"])
def test_a_tenant_whose_rank_stalls_holds_up_no_other(channel):
    """SYNC: rank 2 answers no more; who does not use it takes exactly as long as before."""
    stalled, other = pair(members=((0, 1, 2), (0, 1)), watchdogs=(0, WATCHDOG))
    alone = took(other, 40)
    hold(stalled, 2, channel)
    accept(stalled, 41, 700)
    stalled.program()
    stalled.bed.host.go([0])
    stalled.bed.host.wait(400)
    operands = other.operation(values(42, 1500))
    other.load(operands)
    assert other.post(operands) == (Status.OK, 0)
    other.program()
    other.bed.host.go([1])
    assert other.wait()
    assert last_flag(other) - first_arrival(other) <= 1.01 * alone
    assert not stalled.done
    stalled.bed.host.write("rank2", "hold", 0)
    assert stalled.wait()
    stalled.expect()
    other.expect()
    assert not stalled.bed.differences()


def test_a_rank_that_never_arrives_holds_up_no_other():
    waiting, other = pair(watchdogs=(0, WATCHDOG))
    alone = took(other, 50)
    accept(waiting, 51)
    waiting.program(ranks=(0, 1))
    waiting.bed.host.go([0])
    waiting.bed.host.wait(100)
    assert waiting.read("arrived") == mask((0, 1))
    accept(other, 52, 1500)
    other.program()
    other.bed.host.go([1])
    assert other.wait()
    assert last_flag(other) - first_arrival(other) == alone
    waiting.write("abort", 1)
