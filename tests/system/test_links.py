"""A link that goes down and comes back ends what needs it with a code, and nothing else."""

import itertools
import random

import numpy as np
import pytest

from hdl.accelerator.layouts import Status
from hdl.interfaces import LinkState
from sim import traffic
from sim.tenants import Tenant, flag_word
from sim.traffic import Traffic

from .tenancy import BAD, CONFIG, CONTEXTS, FORWARDING, RANKS, accept, hold, pair, run, values
from .test_member_posts import end_with, members_post
from .test_recovery import adopt, begin, ended, flag, run_beside

EVERYONE = (1 << RANKS) - 1
#: Cycles within which a link is up again, and what was missed is sent.
COMES_BACK = 4000
#: Cycles between the outages of one test and the next.
PHASE = 80
#: Where ordinary slots begin, in the second half of each memory, behind the first tenant's.
READS, WRITES, SLOTS = 0x2800, 0x3000, 4


def two(**how) -> list[Tenant]:
    """Two tenants without watchdogs, every link up, no traffic."""
    tenants = pair(**{"watchdogs": (0, 0)} | how)
    assert up(tenants[0].bed)
    return tenants


def carry(bed, ranks: int):
    bed.host.write("system", "links_up", ranks)


def cut(bed, rank: int):
    carry(bed, EVERYONE & ~(1 << rank))


def states(bed) -> list[LinkState]:
    return [LinkState(bed.host.read("ports", f"link_state_{rank}")) for rank in range(RANKS)]


def up(bed) -> bool:
    return all(state is LinkState.UP for state in states(bed))


def mend(*tenants: Tenant):
    """Let every link carry, and wait until all are up and every rank has been told."""
    bed = tenants[0].bed
    carry(bed, EVERYONE)
    end = bed.cycle + COMES_BACK
    while not up(bed) or any(t.read("unreachable") or t.read("failing") for t in tenants):
        assert bed.cycle < end, bed.state()
        bed.host.wait(20)
    bed.host.wait(60)  # flags are on their way


def told(tenant: Tenant, operation, aborts: int):
    """The operation is over: every rank has the same word, and each packet is old or new."""
    tenant.posted.clear()
    adopt(tenant, operation, cut=BAD)
    words = {flag(tenant, rank) for rank in tenant.members}
    failed = tenant.read("aborts") != aborts
    code = (Status.LINK_DOWN, BAD) if failed else (Status.OK, 0)
    assert words == {flag_word(operation.epoch, *code, context=tenant.context)}
    if failed:
        assert (Status(tenant.read("abort_code")), tenant.read("abort_rank")) == code
    for rank in tenant.members:
        tenant.expect_flag(rank, operation.epoch, *code)
    assert not tenant.bed.differences()
    return failed


def outage(after: int, cycles: int, **how) -> bool:
    """The link is down from so many cycles after the arrivals on; whether that ended anything."""
    tenant, other = two(first=after // PHASE % CONTEXTS)
    bed = tenant.bed
    operation, aborts = begin(tenant, after, **how)
    bed.host.wait(after)
    cut(bed, BAD)
    bed.host.wait(cycles)
    if cycles > 200:
        assert ended(tenant, tenant.read("aborts")), bed.state()
        assert tenant.post(tenant.operation(values(1))) == (Status.LINK_DOWN, BAD)
        # Without the rank at once, and whoever shares the switch.
        tenant.set_members((0, 1))
        other.set_members((0, 1))
        run_beside(other, after + 1)
        tenant.set_members(range(RANKS))
    mend(tenant, other)
    failed = told(tenant, operation, aborts)
    other.set_members(range(RANKS))
    run(tenant, other, seed=after + 2)
    return failed


@pytest.mark.parametrize("cycles", [1, 400])
@pytest.mark.parametrize("after", range(0, 640, PHASE))
def test_a_link_that_goes_down_in_any_phase(after, cycles):
    """PORT SYNC ENG: who needs it is told at once, others notice nothing; when it is back it works
    as ever, and the rank has its flag. No watchdog, no reset, no host.
    """
    outage(after, cycles)


@pytest.mark.long
@pytest.mark.parametrize("cycles", [1, 30, 400])
@pytest.mark.parametrize("after", range(0, 720, 3))
def test_a_link_that_goes_down_in_any_cycle(after, cycles):
    outage(after, cycles)


@pytest.mark.parametrize("late", range(RANKS))
def test_a_link_that_goes_down_amid_arrivals(late):
    """SYNC: an arrival that the link has lost is waited for by nobody."""
    delays = [100] * RANKS
    delays[late] = 1000
    tenant, other = two()
    operation = accept(tenant, late, in_place=False)
    tenant.program(delays=delays)
    aborts = tenant.read("aborts")
    tenant.bed.host.go([tenant.context])
    tenant.bed.host.wait(300)
    cut(tenant.bed, BAD)
    tenant.bed.host.wait(300)
    assert tenant.read("aborts") == aborts + 1
    mend(tenant, other)
    tenant.bed.host.wait(1000)
    assert told(tenant, operation, aborts)
    run(tenant, other, seed=late)


def test_an_arrival_that_the_link_has_lost_is_answered_with_an_error():
    """PORT: the rank does not wait for ever for its answer, and arrives again when it can."""
    tenant, other = two()
    bed = tenant.bed
    bed.set_links(CONFIG.link_latency_max)  # long enough to be cut between arrival and answer
    mend(tenant, other)
    refused = bed.host.read(f"rank{BAD}", "refused")
    tenant.program(count=1, ranks=(BAD,))
    bed.host.go([tenant.context])
    cut(bed, BAD)
    bed.host.wait(100)
    assert bed.host.read(f"rank{BAD}", "refused") == refused + 1
    assert tenant.read("arrived") == 0
    mend(tenant, other)
    bed.host.wait(100)
    assert tenant.read("arrived") == 1 << BAD
    operation = accept(tenant, 1)
    bed.host.epochs[0] -= 1
    tenant.program(ranks=(0, 1))
    bed.host.go([tenant.context])
    assert tenant.wait(), bed.state()
    assert tenant.read("last_code") == Status.OK.value
    tenant.expect()
    assert operation.epoch == tenant.read("last_epoch")
    assert not bed.differences()
    bed.set_links(CONFIG.link_latency)
    mend(tenant, other)


def test_what_is_queued_behind_the_operation_ends_too():
    tenant, other = two()
    operations = [accept(tenant, seed, in_place=False) for seed in range(3)]
    tenant.program()
    aborts, before = tenant.read("aborts"), tenant.read("operations")
    tenant.bed.host.go([tenant.context])
    tenant.bed.host.wait(100)
    cut(tenant.bed, BAD)
    assert ended(tenant, aborts + 1)
    assert tenant.read("operations") == before + 3
    assert Status(tenant.read("abort_code")) is Status.LINK_DOWN
    mend(tenant, other)
    adopt(tenant, operations[-1], cut=BAD)  # whose operands were loaded last
    for rank in range(RANKS):
        tenant.expect_flag(rank, operations[-1].epoch, Status.ABORTED, 0)
    assert not tenant.bed.differences()
    run(tenant, other, seed=4)


def test_several_outages_in_a_row():
    """Each shorter than the link takes to come back, some behind one another."""
    tenant, other = two()
    operation, aborts = begin(tenant, 1)
    for pause in (5, 60, 1, 20, 1, 1, 90, 10):
        tenant.bed.host.wait(pause)
        cut(tenant.bed, BAD)
        carry(tenant.bed, EVERYONE)
    mend(tenant, other)
    assert told(tenant, operation, aborts)
    assert tenant.bed.host.read("ports", f"links_lost_{BAD}") >= 2
    assert tenant.bed.host.read("ports", "links_lost_0") == 0
    run(tenant, other, seed=2)


def test_all_links_at_once():
    tenant, other = two()
    operation, aborts = begin(tenant, 1)
    tenant.bed.host.wait(150)
    carry(tenant.bed, 0)
    assert ended(tenant, aborts + 1)
    assert (Status(tenant.read("abort_code")), tenant.read("abort_rank")) == (Status.LINK_DOWN, 0)
    mend(tenant, other)
    adopt(tenant, operation)
    for rank in range(RANKS):
        tenant.expect_flag(rank, operation.epoch, Status.LINK_DOWN, 0)
    run(tenant, other, seed=2)


def test_an_idle_link_that_goes_down_ends_nothing():
    """Queues have been empty, so nothing is lost; afterwards it is as quick as before."""
    tenant, other = two()

    def took():
        run(tenant, seed=9)
        flags = [tenant.rank_register(rank, "flag_time") for rank in range(RANKS)]
        return max(flags) - min(tenant.rank_register(r, "arrive_time") for r in range(RANKS))

    before, aborts = took(), tenant.read("aborts")
    for _ in range(6):
        cut(tenant.bed, BAD)
        tenant.bed.host.wait(50)
        mend(tenant, other)
    assert tenant.read("aborts") == aborts
    assert took() == before


@pytest.mark.parametrize("channel", ["r", "b", "ar", "aw", "w"])
def test_a_link_is_up_only_when_the_memory_has_answered(channel):
    """PORT: no burst is cut. What the memory owes is waited for at the rank, while the operation is
    over and the others are told.
    """
    tenant, other = two()
    operation, aborts = begin(tenant, 3)
    tenant.bed.host.wait(120)
    hold(tenant, BAD, channel)
    tenant.bed.host.wait(200)
    cut(tenant.bed, BAD)
    assert ended(tenant, aborts + 1)
    carry(tenant.bed, EVERYONE)
    tenant.bed.host.wait(1000)
    assert states(tenant.bed)[BAD] is not LinkState.UP
    assert tenant.post(tenant.operation(values(1))) == (Status.LINK_DOWN, BAD)
    for rank in (0, 1):
        word = flag_word(operation.epoch, Status.LINK_DOWN, BAD)
        assert flag(tenant, rank) == word
    tenant.bed.host.write(f"rank{BAD}", "hold", 0)
    mend(tenant, other)
    assert told(tenant, operation, aborts)
    run(tenant, other, seed=4)


def test_a_draining_rank_ends_draining_when_its_link_is_reset():
    tenant, other = two(watchdogs=(500, 500))
    operation, aborts = begin(tenant, 5)
    tenant.bed.host.wait(90)
    hold(tenant, BAD, "r")
    assert ended(tenant, aborts + 1)
    assert tenant.read("draining") == 1 << BAD
    cut(tenant.bed, BAD)
    tenant.bed.host.wait(20)
    assert tenant.read("draining") == 0
    assert tenant.post(tenant.operation(values(1))) == (Status.LINK_DOWN, BAD)
    tenant.bed.host.write(f"rank{BAD}", "hold", 0)
    mend(tenant, other)
    assert (tenant.read("owed_reads_2"), tenant.read("owed_writes_2")) == (0, 0)
    adopt(tenant, operation)
    for rank in range(RANKS):
        tenant.expect_flag(rank, operation.epoch, Status.READ_TIMEOUT, BAD)
    assert not tenant.bed.differences()
    run(tenant, other, seed=6)


@pytest.mark.parametrize("who", range(CONTEXTS))
def test_a_rank_may_be_named_again_when_its_flag_has_left(who):
    """SYNC: a flag that the link has lost goes once more, and nothing overtakes it.

    Posts at each cycle around the link's coming back: LINK_DOWN, then DRAINING, then OK.
    """
    tenant, other = two(first=who)
    bed, codes = tenant.bed, []
    bed.set_memory(BAD, latency=2, write_latency=200, jitter=0, stalls={})  # lost unanswered
    for delay in range(80, 110):
        operation, aborts = begin(tenant, delay, elements=40)
        word = flag_word(operation.epoch, Status.OK, 0, context=tenant.context)
        end = bed.cycle + COMES_BACK
        while flag(tenant, BAD) != word:
            assert bed.cycle < end, bed.state()
            bed.host.wait(5)
        bed.host.wait(20)
        cut(bed, BAD)
        bed.host.wait(5)
        carry(bed, EVERYONE)
        assert tenant.wait(), bed.state()
        bed.host.wait(delay)
        codes.append(tenant.post(tenant.operation(values(1)))[0])
        mend(tenant, other)
        assert flag(tenant, BAD) == word
        assert tenant.read("aborts") == aborts
        if codes[-1] is Status.OK:
            tenant.write("abort", 1)
            assert ended(tenant, aborts + 1)
        tenant.posted.clear()
        bed.host.epochs[tenant.context] = tenant.read("epoch")
    order = (Status.LINK_DOWN, Status.DRAINING, Status.OK)
    assert [code for code, _ in itertools.groupby(codes)] == list(order), codes


def test_members_that_post_are_told_at_once():
    """SYNC: those who have arrived, though the one whose link is down never does."""
    tenant, other = two()
    cut(tenant.bed, BAD)
    tenant.bed.host.wait(50)
    operation = members_post(tenant, 5, ranks=(0, 1))
    end_with(tenant, operation, Status.LINK_DOWN, BAD, told=(0, 1))
    tenant.set_in_band(False)
    mend(tenant, other)
    run(tenant, other, seed=7)


def settings(**fields):
    return [
        Traffic(**{"slots": SLOTS, "read_base": READS, "write_base": WRITES, "seed": 77 + rank,
                   "bytes": 32, "writes": 128, "pattern": "all_to_all"} | fields)
        for rank in range(RANKS)
    ]  # fmt: skip


def ordinary(bed, rank: int) -> dict[str, int]:
    names = ("asked", "answered", "errors", "mismatches", "strays", "lost", "timeouts")
    return {name: bed.host.read(f"rank{rank}", f"traffic_{name}") for name in names}


@pytest.mark.long
@pytest.mark.parametrize("after", range(0, 120, 20))
def test_ordinary_traffic_across_an_outage(after):
    """XBAR: a request is answered, refused, or counted as lost or given up; neither waits for ever,
    no answer is taken for another one's, and memories hold what was written or what was there.
    """
    tenant, other = two(config=FORWARDING)
    bed = tenant.bed
    traffics = settings(count=120)
    traffic.prepare(bed, traffics)
    for rank in range(RANKS):
        bed.host.write(f"rank{rank}", "traffic_timeout", 400)
    before = [each.copy() for each in bed.expected]
    traffic.expect(bed, traffics)
    traffic.start(bed)
    bed.host.wait(after)
    cut(bed, BAD)
    tenant.set_members((0, 1))
    operation = accept(tenant, after)
    tenant.program()
    bed.host.go([tenant.context])
    assert tenant.wait(), bed.state()
    assert tenant.read("last_code") == Status.OK.value
    for rank in tenant.members:
        assert bed.engine.read(rank, tenant.base, operation.length) == operation.result.tobytes()
    bed.host.wait(300)
    tenant.set_members(range(RANKS))
    mend(tenant, other)
    assert bed.engine.run_until("traffic_done", 100_000), bed.state()
    counts = [ordinary(bed, rank) for rank in range(RANKS)]
    for rank, count in enumerate(counts):
        assert count["asked"] == 120
        assert count["asked"] == count["answered"] + count["lost"] + count["timeouts"]
        assert count["mismatches"] == 0
        assert rank == BAD or count["lost"] == 0
    assert counts[BAD]["lost"] > 0
    assert counts[0]["errors"] + counts[1]["errors"] > 0
    start, stop = WRITES, FORWARDING.memory_bytes
    for rank in range(RANKS):
        held = np.frombuffer(bed.engine.read(rank, 0, stop), np.uint8)
        either = (held == bed.expected[rank]) | (held == before[rank])
        assert either[start:].all()
        bed.expected[rank][start:] = held[start:]
    again = settings(count=60)
    traffic.prepare(bed, again)
    traffic.expect(bed, again)
    traffic.start(bed)
    assert bed.engine.run_until("traffic_done", 100_000), bed.state()
    for rank in range(RANKS):
        count = ordinary(bed, rank)
        assert (count["answered"], count["errors"], count["mismatches"]) == (60, 0, 0)
        assert (count["lost"], count["timeouts"]) == (0, 0)
        bed.host.write(f"rank{rank}", "traffic_timeout", 0)


def random_outages(seed: int, rounds: int):
    """Outages of any rank at any time and length, both tenants at work."""
    print("seed", seed)
    draw = random.Random(seed)
    tenants = two()
    bed = tenants[0].bed
    for number in range(rounds):
        rank = draw.randrange(RANKS)
        begun = [begin(t, seed + number, draw.choice([1, 30, 300, 700])) for t in tenants]
        for _ in range(draw.choice([1, 1, 2, 3])):
            bed.host.wait(draw.randrange(300))
            cut(bed, rank)
            bed.host.wait(draw.choice([0, 0, 30, 600]))
            carry(bed, EVERYONE)
        mend(*tenants)
        for tenant, (operation, aborts) in zip(tenants, begun, strict=True):
            if tenant.read("aborts") == aborts:
                assert tenant.wait(), bed.state()
            bed.host.wait(100)
            tenant.posted.clear()
            adopt(tenant, operation, cut=rank)
            (word,) = {flag(tenant, each) for each in range(RANKS)}
            code = Status(word >> 32 & 0xFF)
            assert code in (Status.OK, Status.LINK_DOWN)
            assert (code is Status.OK) == (tenant.read("aborts") == aborts)
            for each in range(RANKS):
                named = 0 if code is Status.OK else rank
                tenant.expect_flag(each, operation.epoch, code, named)
        assert not bed.differences()
    run(*tenants, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_random_outages(seed):
    random_outages(seed, 6)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
def test_more_random_outages(seed):
    random_outages(seed, 20)
