"""What others have reported of groups, and of ranks that fail; each test is named after its report.

The table in docs/field-reports.md has them all.
"""

import random

import pytest

from hdl.accelerator.layouts import Status

from .tenancy import BAD, RANKS, WATCHDOG, accept, hold, pair, release, run
from .test_recovery import abort_after, adopt, begin, ended, flag

ALL_CHANNELS = ("ar", "r", "aw", "w", "b")


def test_nccl_2385_groups_smaller_than_the_switch_and_a_member_that_is_absent():
    """Setup of a group stalled if its size was not the number of ports, or a member was absent."""
    for members in ((0, 1), (1, 2), (0, 2), (1,), (0, 1, 2)):
        tenant, other = pair(members=(members, (0, 1, 2)))
        run(tenant, other, seed=sum(members), elements=400)
    tenant, other = pair(members=((0, 1), (0, 1, 2)))
    aborts = tenant.read("aborts")
    accept(tenant, 1)
    tenant.program(ranks=(0,))
    tenant.bed.host.go([0])
    assert ended(tenant, aborts + 1)
    assert (tenant.read("abort_code"), tenant.read("abort_rank")) == (Status.NOT_ARRIVED.value, 1)
    tenant.posted.clear()
    tenant.bed.host.wait(100)
    for rank in (0, 1):
        tenant.expect_flag(rank, tenant.read("last_epoch"), Status.NOT_ARRIVED, 1)
    run(tenant, other, seed=2)


def test_nccl_585_one_rank_is_killed_and_the_others_neither_spin_nor_hang_in_abort():
    """The other ranks spun for ever, and so did the abort."""
    tenant, other = pair()
    operation, aborts = begin(tenant, 3)
    tenant.bed.host.wait(120)
    hold(tenant, BAD, *ALL_CHANNELS)
    assert ended(tenant, aborts + 1)
    tenant.bed.host.wait(100)
    for rank in range(RANKS):
        told = flag(tenant, rank) >> 32 & 0xFF
        assert (told == tenant.read("abort_code")) == (rank != BAD)
    adopt(tenant, operation, cut=BAD)
    for rank in (0, 1):
        tenant.expect_flag(rank, operation.epoch, Status(tenant.read("abort_code")), BAD)
    # It stays dead; an abort of what waits for nobody ends at once, and the others work on.
    tenant.write("abort", 1)
    assert ended(tenant, aborts + 2, max_cycles=200)
    tenant.set_members((0, 1))
    other.set_members((0, 1))
    for seed in range(5):
        run(tenant, other, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_accl_200_any_operation_behind_any_other_in_any_group(seed):
    """An All-Reduce hung if another kind of operation had run before."""
    print("seed", seed)
    draw = random.Random(seed)
    tenant, other = pair()

    def some():
        return tuple(sorted(draw.sample(range(RANKS), draw.randrange(1, RANKS + 1))))

    for number in range(12):
        operations = []
        for each in (tenant, other):
            group = some()
            each.set_members(group)
            kinds = [
                dict(sources=group, destinations=group),
                dict(sources=group, destinations=group[:1]),
                dict(sources=group[-1:], destinations=group),
                dict(sources=group[:2], destinations=group[-2:]),
            ]
            accept(each, seed + number, draw.choice([1, 5, 128, 333]), in_place=False,
                   **draw.choice(kinds))  # fmt: skip
            delays = [draw.choice([0, 0, 40, 300]) for _ in range(RANKS)]
            each.program(delays=delays)
            operations.append(each)
        tenant.bed.host.go([0, 1])
        for each in operations:
            assert each.wait(), tenant.bed.state()
            each.expect()
        assert not tenant.bed.differences(), number


def test_100g_rdma_allreduce_a_failed_round_leaves_no_state():
    """The state of a failed round survived until the device was configured anew."""
    for number, cycles in enumerate((60, 130, 200, 270)):
        abort_after(cycles, number)


def test_sgl_kernel_npu_69_a_rank_with_an_empty_contribution_still_counts():
    """Ranks without data skipped the barrier, and the others waited for them."""
    tenant, other = pair(watchdogs=(0, WATCHDOG))
    accept(tenant, 4, in_place=False, sources=(0, 1), destinations=(0, 1))
    tenant.program(delays=[0, 0, 600])
    tenant.bed.host.go([0])
    tenant.bed.host.wait(400)
    assert not tenant.done
    assert tenant.read("total_waves") == 0
    assert tenant.wait()
    tenant.expect()
    assert not tenant.bed.differences()
    accept(tenant, 5, elements=0)
    tenant.program()
    tenant.bed.host.go([0])
    assert tenant.wait()
    tenant.expect()
    assert not tenant.bed.differences()
    run(tenant, other, seed=6)


def test_idma_193_a_refusal_is_held_until_the_next_post():
    """A response was lost if nobody was looking in its cycle."""
    tenant, other = pair()
    refused = tenant.operation(accept(other, 7).operands, sources=())
    assert tenant.post(refused) == (Status.BAD_RANKS, 0)
    other.program()
    other.bed.host.go([1])
    assert other.wait()
    other.expect()
    tenant.write("abort", 1)
    tenant.bed.host.wait(3000)
    assert Status(tenant.read("post_code")) is Status.BAD_RANKS
    assert tenant.read("post_busy") == 0
    run(tenant, other, seed=8)


def test_cheby_86_errors_while_nobody_takes_responses():
    """An error pulsed for a cycle, and the channel stood still if it was not taken in that."""
    tenant, other = pair()
    host = tenant.bed.host
    host.write(f"rank{BAD}", "bad_read", tenant.base + 256)
    host.write(f"rank{BAD}", "read_error", 2)
    for rank in range(RANKS):
        tenant.bed.set_memory(rank, stalls={"r": 200, "b": 200, "ar": 100}, jitter=20, seed=rank)
    operation, _ = begin(tenant, 9)
    assert tenant.wait()
    adopt(tenant, operation)
    for rank in range(RANKS):
        tenant.expect_flag(rank, operation.epoch, Status.READ_SLVERR, BAD)
    assert not tenant.bed.differences()
    host.write(f"rank{BAD}", "read_error", 0)
    for rank in range(RANKS):
        tenant.bed.set_memory(rank, stalls={}, jitter=0)
    release(tenant, BAD)
    run(tenant, other, seed=10)
