"""Instructions that members post themselves, by arriving: no host takes part."""

import pytest

from hdl.accelerator.layouts import Status
from sim.tenants import flag_word

from .tenancy import BAD, CONTEXTS, RANKS, accept, hold, pair, release, values
from .test_recovery import adopt, ended, flag, run_beside


def members_post(
    tenant, seed, *, ranks=None, odd=None, elements=300, count=1, delays=None, **words
):
    """Every member stages its part, `odd` with other `words`, and arrives; the operation."""
    tenant.set_in_band(True)
    operation = tenant.operation(values(seed, elements), in_place=False)
    tenant.load(operation)
    for rank in range(RANKS):
        tenant.stage(operation, rank, **(words if rank == odd else {}))
    tenant.posted = [operation]
    tenant.program(count=count, ranks=ranks, delays=delays)
    operation.epoch += count - 1
    tenant.bed.host.go([tenant.context])
    return operation


def finish(tenant):
    """The operation has ended well, and nothing else was touched."""
    assert tenant.wait(), tenant.bed.state()
    assert tenant.read("last_code") == Status.OK.value
    tenant.expect()
    assert not tenant.bed.differences()


def end_with(tenant, operation, code, rank, told=range(RANKS)):
    """It has ended with a code, which those of `told` have, and nothing else was touched."""
    epoch = operation.epoch
    end = tenant.bed.cycle + 20_000
    while tenant.read("last_epoch") != epoch or tenant.read("failing"):
        assert tenant.bed.cycle < end, tenant.bed.state()
        tenant.bed.host.wait(20)
    tenant.bed.host.wait(100)
    assert (Status(tenant.read("last_code")), tenant.read("last_rank")) == (code, rank)
    for each in told:
        tenant.expect_flag(each, epoch, code, rank)
    tenant.posted.clear()
    assert not tenant.bed.differences()


def test_members_post_without_a_host():
    tenant, other = pair()
    members_post(tenant, 1)
    finish(tenant)
    members_post(tenant, 2, elements=700)
    run_beside(other, 3)
    finish(tenant)


def test_operations_back_to_back():
    tenant, _ = pair()
    members_post(tenant, 4, count=5)
    finish(tenant)


@pytest.mark.parametrize("odd", range(RANKS))
@pytest.mark.parametrize(
    "words", [{"length": 602}, {"format": 7 << 16 | 7 << 32 | 1}, {"format": 3 << 16 | 7 << 32}]
)
def test_fields_that_disagree_name_the_odd_rank(odd, words):
    tenant, other = pair()
    operation = members_post(tenant, 5, odd=odd, **words)
    end_with(tenant, operation, Status.DISAGREES, odd)
    members_post(tenant, 6)
    run_beside(other, 7)
    finish(tenant)


@pytest.mark.parametrize("odd", range(RANKS))
def test_what_is_refused_ends_with_that_code(odd):
    tenant, other = pair()
    for words, code in (
        ({"source": other.base}, Status.OUT_OF_WINDOW),
        ({"destination": 3}, Status.UNALIGNED),
        ({"destination": 1 << 40}, Status.OUT_OF_RANGE),
    ):
        operation = members_post(tenant, 8, odd=odd, **words)
        end_with(tenant, operation, code, odd)
    finish_next(tenant, other)


def test_bits_without_a_meaning_are_refused():
    """Of ranks that the switch has not as ranks, all others as the format."""
    tenant, other = pair()
    for bit, code in (
        (8, Status.BAD_FORMAT),
        (16 + RANKS, Status.BAD_RANKS),
        (32 + RANKS, Status.BAD_RANKS),
        (48, Status.BAD_FORMAT),
        (63, Status.BAD_FORMAT),
    ):
        tenant.set_in_band(True)
        operation = tenant.operation(values(9), in_place=False)
        for rank in range(RANKS):
            tenant.stage(operation, rank, format=7 << 16 | 7 << 32 | 1 << bit)
        tenant.posted = [operation]
        tenant.program()
        tenant.bed.host.go([tenant.context])
        end_with(tenant, operation, code, 0)
    finish_next(tenant, other)


def finish_next(tenant, other):
    members_post(tenant, 90)
    run_beside(other, 91)
    finish(tenant)


@pytest.mark.parametrize("odd", range(RANKS))
@pytest.mark.parametrize("wrong", ["outside", "unaligned"])
def test_a_flag_that_may_not_be_written_is_not_and_the_others_are(odd, wrong):
    tenant, other = pair()
    address = other.base if wrong == "outside" else tenant.limit - 4
    code = Status.OUT_OF_WINDOW if wrong == "outside" else Status.UNALIGNED
    operation = members_post(tenant, 10, odd=odd, flag=address)
    told = tuple(rank for rank in range(RANKS) if rank != odd)
    end_with(tenant, operation, code, odd, told=told)
    tell_later(tenant, operation)
    finish_next(tenant, other)


def test_where_no_flag_may_be_written_the_epoch_goes_on():
    """Nobody can be told: the registers say so."""
    tenant, other = pair()
    tenant.set_in_band(True)
    operation = tenant.operation(values(10), in_place=False)
    tenant.load(operation)
    for rank in range(RANKS):
        tenant.stage(operation, rank, flag=other.base)
    tenant.posted = [operation]
    tenant.program()
    tenant.bed.host.go([tenant.context])
    tenant.bed.host.wait(400)
    assert tenant.read("epoch") == operation.epoch + 1
    assert tenant.read("post_code") == Status.OUT_OF_WINDOW.value
    assert not tenant.bed.differences()
    tell_later(tenant, operation)
    finish_next(tenant, other)


def tell_later(tenant, operation):
    """Whoever still waits for that flag takes a later one: a host ends another operation."""
    tenant.posted.clear()
    tenant.set_in_band(False)
    accept(tenant, 11)
    aborts = tenant.read("aborts")
    tenant.write("abort", 1)
    assert ended(tenant, aborts + 1)
    operation.epoch += 1
    end_with(tenant, operation, Status.ABORTED, 0)
    tenant.bed.host.epochs[tenant.context] += 1


@pytest.mark.parametrize("who", range(CONTEXTS))
def test_a_host_that_posts_while_members_do_is_told(who):
    """Not what it posted before has come to, and nothing is done of it."""
    tenant, other = pair(first=who)
    tenant.set_in_band(True)
    operation = tenant.operation(values(13), in_place=False)
    for _ in range(2):
        assert tenant.post(operation) == (Status.MEMBERS_POST, 0)
        members_post(tenant, 14)
        finish(tenant)
    tenant.set_in_band(False)
    tenant.posted.clear()
    accept(tenant, 15)
    tenant.program()
    tenant.bed.host.go([tenant.context])
    finish(tenant)
    finish_next(tenant, other)


@pytest.mark.parametrize("who", range(CONTEXTS))
@pytest.mark.parametrize("late", range(RANKS))
def test_members_of_one_tenant_wait_while_those_of_the_other_post(who, late):
    """What a rank has written for the one stays as it is, and holds up nothing of the other."""
    waits, goes = pair(first=who, watchdogs=(0, 0))
    delays = [0] * RANKS
    delays[late] = 3000
    members_post(waits, 21, delays=delays)
    waits.bed.host.wait(300)
    for elements in (120, 250):  # what was written before would not do
        members_post(goes, elements, elements=elements)
        finish(goes)
        assert not waits.done
    finish(waits)


@pytest.mark.parametrize("ranks", [(0, 1, 2), (0, 2)])
def test_members_of_a_context_that_is_not_enabled_are_told(ranks):
    """As soon as one of them is there: who comes later is refused."""
    tenant, other = pair()
    tenant.write("enable", 0)
    aborts = tenant.read("aborts")
    operation = members_post(tenant, 16, ranks=ranks)
    run_beside(other, 17)
    assert ended(tenant, aborts + 1)
    end_with(tenant, operation, Status.DISABLED, 0, told=ranks)
    tenant.write("enable", 1)
    finish_next(tenant, other)


def test_a_member_that_never_arrives():
    """Those who have are told; where the other one's flag would be, nobody has said."""
    tenant, other = pair()
    aborts = tenant.read("aborts")
    operation = members_post(tenant, 11, ranks=(0, 2))
    run_beside(other, 12)
    assert ended(tenant, aborts + 1)
    end_with(tenant, operation, Status.NOT_ARRIVED, 1, told=(0, 2))
    finish_next(tenant, other)


def test_an_abort_of_an_operation_that_is_not_complete():
    tenant, other = pair(watchdogs=(0, 0))
    aborts = tenant.read("aborts")
    operation = members_post(tenant, 13, ranks=(1,))
    tenant.bed.host.wait(150)
    tenant.write("abort", 1)
    assert ended(tenant, aborts + 1)
    end_with(tenant, operation, Status.ABORTED, 0, told=(1,))
    finish_next(tenant, other)


def test_a_rank_that_stops_answering():
    tenant, other = pair()
    aborts = tenant.read("aborts")
    operation = members_post(tenant, 14, elements=700)
    tenant.bed.host.wait(120)
    hold(tenant, BAD, "r")
    assert ended(tenant, aborts + 1)
    tenant.bed.host.wait(100)
    assert tenant.read("abort_code") == Status.READ_TIMEOUT.value
    adopt(tenant, operation, cut=BAD)
    word = flag_word(operation.epoch, Status.READ_TIMEOUT, BAD)
    for rank in range(RANKS):
        if rank != BAD:
            assert flag(tenant, rank) == word
    release(tenant, BAD)
    tenant.bed.host.wait(100)
    for rank in range(RANKS):
        tenant.expect_flag(rank, operation.epoch, Status.READ_TIMEOUT, BAD)
    assert not tenant.bed.differences()
    finish_next(tenant, other)
