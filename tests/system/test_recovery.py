"""A rank that fails ends its operation with a code, and nothing else: the tenants go on.

SYNC, ENG, CSR and PORT are the parts of docs/field-reports.md that such failures were reported of.
"""

import random

import numpy as np
import pytest

from hdl.accelerator.layouts import Status
from hdl.interfaces import Response
from sim.tenants import Tenant, flag_word
from sim.testbed import Testbed

from .tenancy import (
    BAD,
    CONFIG,
    CONTEXTS,
    FORWARDING,
    RANKS,
    WATCHDOG,
    accept,
    hold,
    pair,
    release,
    run,
    values,
)

#: Code by the channel that stands still.
CODES = {
    "ar": Status.READ_TIMEOUT,
    "r": Status.READ_TIMEOUT,
    "aw": Status.WRITE_TIMEOUT,
    "w": Status.WRITE_TIMEOUT,
    "b": Status.WRITE_TIMEOUT,
}
#: Codes beside which no rank is named.
NAMES_NOBODY = (Status.OK, Status.ABORTED)


def adopt(tenant: Tenant, operation, *, cut: int | None = None, whole: bool = False):
    """Check that each packet of a result is old or new at each rank, and take it as it is.

    A memory that stands still may do so within a packet: that is rank `cut`. Of an operation that
    has ended well, the `whole` result is there.
    """
    bed, size = tenant.bed, tenant.bed.config.payload_bytes
    result = operation.result.view(np.uint8)
    for rank in operation.destinations:
        start = operation.where.destinations[rank]
        held = np.frombuffer(bed.engine.read(rank, start, len(result)), np.uint8)
        old = bed.expected[rank][start : start + len(result)]
        for low in range(0, len(result), size):
            piece = slice(low, low + size)
            allowed = (result,) if whole else (old, result)
            assert (rank == cut and not whole) or any(
                np.array_equal(held[piece], bytes_[piece]) for bytes_ in allowed
            ), f"rank {rank} bytes from {low} are neither old nor new"
        old[:] = held


def flag(tenant: Tenant, rank: int) -> int:
    return int.from_bytes(tenant.bed.engine.read(rank, tenant.flags[rank], 8), "little")


def common_code(tenant: Tenant, operation, allowed, rank: int = 0) -> Status:
    """The code, one of `allowed`, that every member has been told of the operation.

    With a code that names a rank it is `rank`.
    """
    (word,) = {flag(tenant, each) for each in tenant.members}
    for code in allowed:
        named = 0 if code in NAMES_NOBODY else rank
        if word == flag_word(operation.epoch, code, named, tenant.context):
            return code
    raise AssertionError(f"{word:#x} is none of {allowed} for epoch {operation.epoch}")


def ended(tenant: Tenant, aborts: int = 1, max_cycles: int = 20_000) -> bool:
    """Run until so many aborts are over since `pair`."""
    end = tenant.bed.cycle + max_cycles
    while tenant.read("aborts") % (1 << 16) != aborts or tenant.read("failing"):
        if tenant.bed.cycle > end:
            return False
        tenant.bed.host.wait(20)
    return True


def begin(tenant: Tenant, seed: int, elements: int = 700, ranks=None, **how):
    """Post and let arrive; the operation and how often the context has aborted before."""
    operation = accept(tenant, seed, elements, in_place=False, **how)
    tenant.program(ranks=ranks)
    aborts = tenant.read("aborts")
    tenant.bed.host.go([tenant.context])
    return operation, aborts


@pytest.mark.parametrize("channel", CODES)
@pytest.mark.parametrize("after", [0, 90, 250])
@pytest.mark.parametrize("who", range(CONTEXTS))
def test_a_rank_that_stops_answering_is_named_and_left_behind(channel, after, who):
    """SYNC ENG: one rank is gone, the others are told; the next operation works without it at once,
    and with it once it has answered what it owes; nothing is reset.
    """
    tenant, other = pair(first=who)
    host = tenant.bed.host
    operation, aborts = begin(tenant, after)
    host.wait(after)
    hold(tenant, BAD, channel)
    assert ended(tenant, aborts + 1), tenant.bed.state()
    code = Status(tenant.read("abort_code"))
    assert (code, tenant.read("abort_rank")) == (CODES[channel], BAD)
    assert (tenant.read("last_code"), tenant.read("last_rank")) == (code.value, BAD)
    adopt(tenant, operation, cut=BAD)
    for rank in range(RANKS):
        if rank != BAD:
            assert flag(tenant, rank) == flag_word(operation.epoch, code, BAD, who)
            tenant.expect_flag(rank, operation.epoch, code, BAD)
    assert tenant.read("draining") == 1 << BAD
    assert tenant.post(tenant.operation(values(1))) == (Status.DRAINING, BAD)
    # Without the rank at once; and whoever shares the switch, if he does not need it.
    tenant.set_members((0, 1))
    other.set_members((0, 1))
    run(tenant, other, seed=after + 1)
    # Late answers are recognized, dropped and counted; then the rank has its flag, too.
    dropped = tenant.read("total_late_data") + tenant.read("total_late_responses")
    release(tenant, BAD)
    late = tenant.read("total_late_data") + tenant.read("total_late_responses") - dropped
    assert late > 0
    host.wait(100)
    held = np.frombuffer(tenant.bed.engine.read(BAD, 0, tenant.bed.config.memory_bytes), "u1")
    changed = np.flatnonzero(held != tenant.bed.expected[BAD])
    where, length = operation.where, operation.length
    inside = (changed >= where.destinations[BAD]) & (changed < where.destinations[BAD] + length)
    at_flag = (changed >= tenant.flags[BAD]) & (changed < tenant.flags[BAD] + 8)
    assert (inside | at_flag).all()
    tenant.bed.expected[BAD][:] = held
    assert flag(tenant, BAD) == flag_word(operation.epoch, code, BAD, who)
    tenant.set_members(range(RANKS))
    other.set_members(range(RANKS))
    run(tenant, other, seed=after + 2)


@pytest.mark.large
@pytest.mark.parametrize("elements", [1, 16, 17, 32, 33, 48, 49, 200])
def test_what_a_rank_owes_is_counted_in_packets(elements):
    """Of requests that are answered with two, too; nothing is owed when all has come."""
    tenant, other = pair(config=FORWARDING, watchdogs=(0, 0), first=elements % CONTEXTS)
    hold(tenant, BAD, "r")
    operation, aborts = begin(tenant, elements, elements)
    tenant.bed.host.wait(300)
    owed = [tenant.read(f"owed_reads_{rank}") for rank in range(RANKS)]
    assert owed == [0, 0, FORWARDING.packets(operation.length)]
    assert [other.read(f"owed_reads_{rank}") for rank in range(RANKS)] == [0] * RANKS
    tenant.write("abort", 1)
    assert ended(tenant, aborts + 1), tenant.bed.state()
    release(tenant, BAD)
    assert [tenant.read(f"owed_reads_{rank}") for rank in range(RANKS)] == [0] * RANKS
    tenant.bed.host.wait(100)
    adopt(tenant, operation, cut=BAD)
    for rank in range(RANKS):
        tenant.expect_flag(rank, operation.epoch, Status.ABORTED, 0)
    assert not tenant.bed.differences()
    run(tenant, other, seed=elements)


def test_a_rank_that_never_arrives_is_named():
    """SYNC: it is well, so it is told like the others, and takes part in the next one."""
    tenant, other = pair()
    operation, aborts = begin(tenant, 1, ranks=(0, 2))
    run(other, seed=2)
    assert ended(tenant, aborts + 1)
    for rank in range(RANKS):
        tenant.expect_flag(rank, operation.epoch, Status.NOT_ARRIVED, 1)
    assert not tenant.bed.differences()
    assert tenant.read("unreachable") == 0
    # What comes for that epoch now is late.
    refused = tenant.bed.host.read("rank1", "refused")
    tenant.bed.host.epochs[tenant.context] -= 1
    tenant.program(count=1, ranks=(1,))
    tenant.bed.host.go([tenant.context])
    tenant.bed.host.wait(60)
    assert tenant.bed.host.read("rank1", "refused") == refused + 1
    run(tenant, other, seed=3)


@pytest.mark.parametrize("channel", ["r", "b"])
def test_a_rank_that_dies_is_found_while_shares_change(channel):
    """The change waits for entries that the dead rank's waves have taken: only the watchdog frees
    them, and then both tenants go on.
    """
    tenant, other = pair()
    host = tenant.bed.host
    other.disable()
    host.wait(50)
    operation, aborts = begin(tenant, 8, 1300)
    host.wait(150)
    hold(tenant, BAD, channel)
    host.wait(100)
    other.enable()
    assert ended(tenant, aborts + 1), tenant.bed.state()
    assert (tenant.read("abort_code"), tenant.read("abort_rank")) == (CODES[channel].value, BAD)
    other.set_members((0, 1))
    run_beside(other, 9)
    release(tenant, BAD)
    host.wait(200)
    adopt(tenant, operation, cut=BAD)
    for rank in range(RANKS):
        tenant.expect_flag(rank, operation.epoch, CODES[channel], BAD)
    assert not tenant.bed.differences()
    other.set_members(range(RANKS))
    run(tenant, other, seed=10)


def stall_without_a_watchdog(cycles: int):
    tenant, other = pair(watchdogs=(0, WATCHDOG))
    begin(tenant, 1)
    tenant.bed.host.wait(100)
    hold(tenant, BAD, "r", "b")
    tenant.bed.host.wait(cycles)
    assert not tenant.done
    tenant.bed.host.write(f"rank{BAD}", "hold", 0)
    assert tenant.wait()
    tenant.expect()
    assert not tenant.bed.differences()
    run(tenant, other, seed=2)


def test_without_a_watchdog_an_operation_waits():
    stall_without_a_watchdog(20_000)


@pytest.mark.long
def test_a_port_that_stalls_for_a_million_cycles():
    stall_without_a_watchdog(1_000_000)


def test_what_is_queued_behind_a_failure_ends_aborted():
    tenant, other = pair()
    operations = [accept(tenant, seed, in_place=False) for seed in range(3)]
    tenant.program()
    aborts = tenant.read("aborts")
    hold(tenant, BAD, "r")
    tenant.bed.host.go([tenant.context])
    before = tenant.read("operations")
    assert ended(tenant, aborts + 1)
    assert tenant.read("operations") == before + 3
    assert tenant.read("abort_code") == Status.READ_TIMEOUT.value
    for rank in (0, 1):
        tenant.expect_flag(rank, operations[-1].epoch, Status.ABORTED, 0)
    assert not tenant.bed.differences()
    release(tenant, BAD)
    tenant.bed.host.wait(50)
    tenant.expect_flag(BAD, operations[-1].epoch, Status.ABORTED, 0)
    assert not tenant.bed.differences()
    run(tenant, other, seed=4)


def abort_after(cycles: int, seed: int):
    """A host ends an operation so many cycles after its arrivals; the next ones work."""
    tenant, other = pair(watchdogs=(0, 0), first=seed % CONTEXTS)
    operation, aborts = begin(tenant, seed)
    tenant.bed.host.wait(cycles)
    was_over = tenant.done
    tenant.write("abort", 1)
    assert ended(tenant, aborts + 1), tenant.bed.state()
    tenant.bed.host.wait(100)  # flags are on their way
    tenant.posted.clear()
    # Where it was not over, it may have been just about to be.
    code = common_code(tenant, operation, (Status.OK,) if was_over else (Status.OK, Status.ABORTED))
    adopt(tenant, operation, whole=code is Status.OK)
    for rank in range(RANKS):
        tenant.expect_flag(rank, operation.epoch, code, 0)
    assert not tenant.bed.differences()
    assert tenant.read("unreachable") == 0
    run(tenant, other, seed=seed + 1)


@pytest.mark.parametrize("cycles", range(0, 720, 45))
def test_an_abort_in_any_state_returns_to_idle(cycles):
    """ENG CSR: the state of an operation that failed does not outlive it."""
    abort_after(cycles, cycles)


@pytest.mark.long
@pytest.mark.parametrize("cycles", range(720))
def test_an_abort_in_any_cycle_returns_to_idle(cycles):
    abort_after(cycles, cycles)


def test_a_soft_reset_ends_what_every_context_does():
    """Epochs go on, and nothing else is left."""
    tenants = pair(watchdogs=(0, 0))
    host = tenants[0].bed.host
    begun = [begin(tenant, seed) for seed, tenant in enumerate(tenants)]
    host.wait(150)
    host.write("switch", "soft_reset", 1)
    for tenant, (operation, aborts) in zip(tenants, begun, strict=True):
        assert ended(tenant, aborts + 1)
        host.wait(100)
        adopt(tenant, operation)
        for rank in range(RANKS):
            tenant.expect_flag(rank, operation.epoch, Status.ABORTED, 0)
        assert tenant.read("unreachable") == 0
    assert not tenants[0].bed.differences()
    run(*tenants, seed=5)


def test_a_rank_whose_link_was_reset_owes_nothing():
    """It need not drain; and what comes all the same is dropped."""
    tenant, other = pair()
    host = tenant.bed.host
    operation, aborts = begin(tenant, 6)
    host.wait(90)
    hold(tenant, BAD, "r")
    assert ended(tenant, aborts + 1)
    assert tenant.read("draining") == 1 << BAD
    host.write("switch", "forget", 1 << BAD)
    host.wait(200)  # and it has the flag that it has missed
    assert (tenant.read("draining"), tenant.read("unreachable")) == (0, 0)
    adopt(tenant, operation)
    for rank in range(RANKS):
        tenant.expect_flag(rank, operation.epoch, Status.READ_TIMEOUT, BAD)
    assert not tenant.bed.differences()
    release(tenant, BAD)
    host.wait(300)
    assert tenant.read("total_late_data") > 0
    run(tenant, other, seed=7)


@pytest.mark.parametrize("gap", [1, 2, 7, 30, 100])
def test_a_neighbour_that_is_disabled_for_a_moment_costs_a_pause(gap):
    """Entries that are in use are not taken again, though their division did not change."""
    tenant, other = pair()
    host = tenant.bed.host
    for after in range(20, 500, 24):
        operation = accept(tenant, after, 1200, in_place=False)
        tenant.program()
        host.go([tenant.context])
        host.wait(after)
        other.write("enable", 0)
        host.wait(gap)
        other.write("enable", 1)
        assert tenant.wait(20_000), (after, tenant.bed.state())
        assert tenant.read("last_code") == Status.OK.value, (after, operation)
        tenant.expect()
        assert not tenant.bed.differences()
    run(tenant, other, seed=6)


@pytest.mark.parametrize("channel", ["r", "b"])
def test_a_context_that_hangs_ends_when_it_is_disabled(channel):
    """Without a watchdog; the others go on."""
    tenant, other = pair(watchdogs=(0, WATCHDOG))
    operation, aborts = begin(tenant, 3, 1300)
    tenant.bed.host.wait(150)
    hold(tenant, BAD, channel)
    other.set_members((0, 1))
    run_beside(other, 4)
    tenant.write("enable", 0)
    run_beside(other, 5)
    assert ended(tenant, aborts + 1)
    release(tenant, BAD)
    tenant.bed.host.wait(200)
    adopt(tenant, operation, cut=BAD)
    for rank in range(RANKS):
        tenant.expect_flag(rank, operation.epoch, Status.DISABLED, 0)
    assert not tenant.bed.differences()
    tenant.posted.clear()
    tenant.enable()
    other.set_members(range(RANKS))
    run(tenant, other, seed=6)


@pytest.mark.long
def test_a_tenant_that_joins_beside_one_that_hangs_stops_nobody_else():
    """Nothing ends what hangs, so the newcomer waits for its share; the others run in theirs."""
    config = CONFIG.replace(contexts=3)
    bed = Testbed(config)
    third = config.memory_bytes // 3 // 64 * 64
    hanging, running, joining = (
        Tenant(bed, context, range(RANKS), context * third, (context + 1) * third)
        for context in range(3)
    )
    for tenant in (hanging, running):
        tenant.enable()
    running.set_members((0, 1))
    joining.set_members((0, 1))
    begin(hanging, 1, 1300)
    bed.host.wait(150)
    hold(hanging, BAD, "r")
    run_beside(running, 2)
    joining.enable()
    accept(joining, 3)
    joining.program()
    bed.host.go([joining.context])
    for seed in range(4, 9):
        run_beside(running, seed)
    assert not joining.done
    aborts = hanging.read("aborts")
    hanging.write("abort", 1)
    assert ended(hanging, aborts + 1)
    assert joining.wait()
    assert joining.read("last_code") == Status.OK.value
    joining.expect()
    run_beside(running, 9)


def test_an_abort_of_nothing_is_nothing():
    tenant, other = pair()
    epoch, operations = tenant.read("epoch"), tenant.read("operations")
    tenant.write("abort", 1)
    tenant.bed.host.wait(50)
    assert (tenant.read("epoch"), tenant.read("operations")) == (epoch, operations)
    assert tenant.read("failing") == 0
    run(tenant, other, seed=1)


@pytest.mark.parametrize("response", [Response.SLVERR, Response.DECERR])
@pytest.mark.parametrize("kind", ["read", "write"])
def test_an_error_response_is_counted_by_kind_beside_its_code(kind, response):
    tenant, other = pair()
    host = tenant.bed.host
    bad = (tenant.base if kind == "read" else tenant.base + 1400) + 400
    host.write(f"rank{BAD}", f"bad_{kind}", bad)
    host.write(f"rank{BAD}", f"{kind}_error", response.value)
    operation, _ = begin(tenant, 7)
    assert tenant.wait()
    code = Status[f"{kind.upper()}_{response.name}"]
    adopt(tenant, operation)
    for rank in range(RANKS):
        tenant.expect_flag(rank, operation.epoch, code, BAD)
    assert not tenant.bed.differences()
    for rank in range(RANKS):
        count = host.read("ports", f"{kind}_{response.name.lower()}_{rank}")
        assert count == (rank == BAD)
    host.write(f"rank{BAD}", f"{kind}_error", 0)
    run(tenant, other, seed=8)


def test_errors_of_both_kinds_hide_nothing():
    """A SLVERR and a DECERR in one operation, at two ranks: both count, the lower rank is named."""
    tenant, other = pair()
    host = tenant.bed.host
    for rank, response in ((1, Response.SLVERR), (2, Response.DECERR)):
        host.write(f"rank{rank}", "bad_read", tenant.base + 100)
        host.write(f"rank{rank}", "read_error", response.value)
    operation, _ = begin(tenant, 9)
    assert tenant.wait()
    adopt(tenant, operation)
    for rank in range(RANKS):
        tenant.expect_flag(rank, operation.epoch, Status.READ_SLVERR, 1)
    assert not tenant.bed.differences()
    assert host.read("ports", "read_slverr_1") == 1
    assert host.read("ports", "read_decerr_2") == 1
    for rank in (1, 2):
        host.write(f"rank{rank}", "read_error", 0)
    run(tenant, other, seed=10)


def random_failures(seed: int, rounds: int):
    """A failing tenant beside one that works: who fails, how, when and for how long at random."""
    print("seed", seed)
    draw = random.Random(seed)
    tenant, other = pair(first=draw.randrange(CONTEXTS))
    for number in range(rounds):
        rank = draw.randrange(RANKS)
        channels = draw.sample(sorted(CODES), draw.randrange(1, 4))
        operation, aborts = begin(tenant, seed + number, draw.choice([1, 30, 300, 700]))
        tenant.bed.host.wait(draw.randrange(400))
        hold(tenant, rank, *channels)
        tenant.bed.host.wait(draw.choice([0, 100, 2000]))
        if draw.random() < 0.3:
            tenant.write("abort", 1)
        tenant.bed.host.wait(draw.choice([0, 300, 1200]))
        others = tuple(r for r in range(RANKS) if r != rank)
        other.set_members(others)
        run_beside(other, seed + number)
        release(tenant, rank)
        end = tenant.bed.cycle + 20_000
        while tenant.read("failing") or tenant.read("unreachable") or not tenant.done:
            assert tenant.bed.cycle < end, tenant.bed.state()
            tenant.bed.host.wait(20)
        tenant.posted.clear()
        failed = tenant.read("aborts") != aborts
        # The host's abort may come to nothing, or come first.
        late = {Status.ABORTED, *CODES.values()} if failed else ()
        code = common_code(tenant, operation, (Status.OK, *late), rank)
        adopt(tenant, operation, cut=rank, whole=code is Status.OK)
        for each in range(RANKS):
            named = 0 if code in NAMES_NOBODY else rank
            tenant.expect_flag(each, operation.epoch, code, named)
        assert not tenant.bed.differences()
    other.set_members(range(RANKS))
    run(tenant, other, seed=seed)


def run_beside(other: Tenant, seed: int):
    """An operation of the tenant that is well, its own memory compared."""
    operation = accept(other, seed)
    other.program()
    other.bed.host.go([other.context])
    assert other.wait(), other.bed.state()
    assert other.read("last_code") == Status.OK.value
    for rank in other.members:
        got = other.bed.engine.read(rank, other.base, operation.length)
        assert got == operation.result.tobytes()
    other.expect()


@pytest.mark.parametrize("seed", range(3))
def test_random_failures(seed):
    random_failures(seed, 6)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
def test_more_random_failures(seed):
    random_failures(seed, 20)
