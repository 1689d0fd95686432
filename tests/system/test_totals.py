"""What is counted of each tenant: every total by itself, and of nobody else."""

import pytest

from hdl.accelerator.totals import CONTEXT_TOTALS
from sim.tenants import Tenant

from .tenancy import BAD, CONFIG, CONTEXTS, RANKS, accept, hold, pair, run

#: Bytes of an element.
ELEMENT = 2
#: Operations that need more waves than there are entries, and room that no write-back has.
LONG = 1500
#: Cycles in which all that can go on while a rank stands still has come to its end.
SETTLES = 1500
#: By how much one run is longer than the other.
MORE = 137
#: What grows while one thing is waited for, and who waits.
STALLS = tuple(total.name for total in CONTEXT_TOTALS if total.name.startswith("stall_"))


def of_tenant(tenant: Tenant) -> dict[str, int]:
    return {total.name: tenant.read(f"total_{total.name}") for total in CONTEXT_TOTALS}


@pytest.mark.parametrize("who", range(CONTEXTS))
@pytest.mark.parametrize("elements", [1, 1000, LONG])
def test_waves_are_those_of_the_tenant(who, elements):
    tenants = pair()
    run(tenants[who], seed=elements, elements=elements)
    waves = -(-ELEMENT * elements // CONFIG.wave_bytes)
    assert of_tenant(tenants[who])["waves"] == waves
    assert set(of_tenant(tenants[1 - who]).values()) == {0}


def after(who: int, *, late: int = 0, channel: str = "", cycles: int = 0) -> list[dict]:
    """Totals of both tenants after an operation of one, in which a rank comes late, or its memory
    stands still for a while.
    """
    tenants = pair(watchdogs=(0, 0))
    tenant, bed = tenants[who], tenants[0].bed
    accept(tenant, 1, LONG)
    delays = [0] * RANKS
    delays[BAD] = late
    tenant.program(delays=delays)
    if channel:
        hold(tenant, BAD, channel)
    bed.host.go([tenant.context])
    bed.host.wait(SETTLES + cycles)
    if channel:
        bed.host.write(f"rank{BAD}", "hold", 0)
    assert tenant.wait(), bed.state()
    tenant.expect()
    assert not bed.differences()
    return [of_tenant(tenant) for tenant in tenants]


@pytest.mark.parametrize("who", range(CONTEXTS))
@pytest.mark.parametrize(
    ("cause", "grown"),
    [
        # An operation is under way from its barrier on.
        ("late", {"stall_barrier"}),
        ("r", {"stall_data", "stall_entries", "busy"}),
        # Read-out waits for room, and waves behind it for their entries.
        ("w", {"stall_write_room", "stall_entries", "busy"}),
        # Every slot of the write phase waits for its answers, and so does read-out.
        ("b", {"stall_write_room", "stall_entries", "busy"}),
    ],
    ids=["a member that is late", "read data", "write data", "write responses"],
)
def test_each_stall_is_counted_of_its_cause_and_its_tenant(cause, grown, who):
    """To the cycle: what is waited for longer grows by so much, and nothing else at all."""
    if cause == "late":
        first, second = (after(who, late=SETTLES // 2 + more) for more in (0, MORE))
    else:
        first, second = (after(who, channel=cause, cycles=more) for more in (0, MORE))
    expected = [dict(totals) for totals in first]
    for name in grown:
        expected[who][name] += MORE
    assert second == expected
    assert {name for name in STALLS if first[1 - who][name]} == set()


@pytest.mark.parametrize("who", range(CONTEXTS))
def test_refused_arrivals_are_the_tenants(who):
    """Of two ranks that come once more for an epoch that is over."""
    tenant, other = pair(first=who)
    run(tenant, seed=3)
    host = tenant.bed.host
    expected = [of_tenant(each) for each in (tenant, other)]
    expected[0]["refused_arrivals"] += 2
    host.epochs[who] -= 1
    tenant.program(count=1, ranks=(1, BAD))
    host.go([who])
    host.wait(200)
    assert [of_tenant(each) for each in (tenant, other)] == expected
    run(tenant, other, seed=4)


@pytest.mark.parametrize("who", range(CONTEXTS))
@pytest.mark.parametrize("late", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
@pytest.mark.parametrize("channel", ["r", "b"])
def test_what_comes_late_is_counted_by_the_packet(channel, late, who):
    """As many as were owed when the operation was given up, of every rank at once."""
    tenant, other = pair(watchdogs=(0, 0), first=who)
    accept(tenant, 5, 300, in_place=False)
    tenant.program()
    for rank in late:
        hold(tenant, rank, channel)
    tenant.bed.host.go([who])
    tenant.bed.host.wait(SETTLES)
    kind, total = {"r": ("reads", "late_data"), "b": ("writes", "late_responses")}[channel]
    owed = [tenant.read(f"owed_{kind}_{rank}") for rank in range(RANKS)]
    assert [rank for rank in range(RANKS) if owed[rank]] == list(late)
    tenant.write("abort", 1)
    tenant.bed.host.wait(SETTLES)
    expected = of_tenant(tenant), of_tenant(other)
    for rank in late:
        tenant.bed.host.write(f"rank{rank}", "hold", 0)
    tenant.bed.host.wait(SETTLES)
    expected[0][total] += sum(owed)
    expected[0]["busy"] = of_tenant(tenant)["busy"]  # until every rank is told
    assert (of_tenant(tenant), of_tenant(other)) == expected
    assert [tenant.read(f"owed_{kind}_{rank}") for rank in range(RANKS)] == [0] * RANKS
