"""Ordinary traffic through a whole system, alone and beside All-Reduces: every byte, and shares.

Named after public reports where a test is one's trigger.
"""

import dataclasses

import numpy as np
import pytest

from hdl.emulated_memory import STALL_CHANNELS
from sim import traffic
from sim.contention import contend, saturating
from sim.golden.traffic import PATTERNS
from sim.testbed import Placement, Testbed
from sim.traffic import Traffic, TrafficError

from .systems import TINY, random_bits, system, tiny

#: Ranks with generators; fewer formats, as these tests need one, and it builds quicker.
FORWARD = tiny(core="forward", traffic_requests=16, formats=("fp16",))
RANKS = range(FORWARD.ranks)
LIMIT = 200_000
#: Where slots begin: behind operands, in front of the flags; reads and writes 2 KiB each.
READS, WRITES = 0x2000, 0x3000
#: 4 slots x 4 x 32 bytes a destination.
SLOTS = 4
#: Bytes of an operand in front of the slots.
OPERAND = 0x1000


def forward():
    """A system without traffic, with ordinary memories."""
    bed = system(FORWARD)
    for rank in RANKS:
        bed.host.write(f"rank{rank}", "read_first", 0)
    return bed


def settings(**fields):
    return [
        Traffic(**{"slots": SLOTS, "read_base": READS, "write_base": WRITES, "seed": 77 + rank}
                | fields)
        for rank in RANKS
    ]  # fmt: skip


def begin(bed, traffics):
    """Memories filled, traffic begun, and what must be there afterwards."""
    traffic.prepare(bed, traffics)
    traffic.expect(bed, traffics)
    traffic.start(bed)


def end(bed, traffics):
    """Wait for the traffic; every request has its right answer, every byte is right."""
    assert bed.engine.run_until("traffic_done", LIMIT), bed.state()
    for rank, (each, total) in enumerate(zip(traffics, traffic.totals(bed), strict=True)):
        quiet = each.pattern == "hot_spot" and each.target == rank
        count = 0 if quiet else each.count
        assert (total.asked, total.answered, total.moved) == (count, count, count * each.bytes)
        assert (total.errors, total.mismatches, total.strays) == (0, 0, 0)
        if count:
            assert 0 < total.latency_min <= total.latency_mean <= total.latency_max
    assert bed.host.read("switch", "core_refused") == 0
    assert bed.host.read("switch", "core_dropped") == 0
    assert not bed.differences()


@pytest.mark.parametrize(
    ("pattern", "writes"),
    [(pattern, 128) for pattern in PATTERNS] + [("all_to_all", 0), ("all_to_all", 256)],
)
def test_each_pattern_alone(pattern, writes):
    """Reads, writes, and both."""
    bed = forward()
    traffics = settings(pattern=pattern, target=1, writes=writes, count=80, bytes=32)
    begin(bed, traffics)
    end(bed, traffics)


@pytest.mark.parametrize("size", [1, 8, 15, 31])
def test_any_size_and_its_neighbours_stay(size):
    """Bytes behind a short write are not touched: they are what was there."""
    bed = forward()
    for rank in RANKS:
        bed.fill(rank, WRITES, np.full(0x800, 0xA5, np.uint8))
    traffics = settings(pattern="all_to_all", writes=128, count=60, bytes=size)
    begin(bed, traffics)
    end(bed, traffics)


def test_verilog_axi_12_slots_around_a_page():
    """From 0x0FF0: requests whose bytes lie in two pages, read and written."""
    bed = forward()
    traffics = settings(writes=128, count=80, bytes=32, read_base=0x0FF0, write_base=0x1FF0)
    begin(bed, traffics)
    end(bed, traffics)


def disturb(bed, rng, *, read_first=False):
    """Links and memories at random."""
    bed.set_links(int(rng.integers(2, 17)))
    for rank in RANKS:
        bed.set_memory(
            rank,
            latency=int(rng.integers(2, 40)),
            write_latency=int(rng.integers(1, 40)),
            jitter=int(rng.choice([0, 3, 60])),
            stalls={channel: int(rng.choice([0, 0, 40, 160])) for channel in STALL_CHANNELS},
            seed=int(rng.integers(0, 1 << 32)),
        )
        bed.host.write(f"rank{rank}", "read_first", int(read_first and rng.integers(0, 4) != 0))


def beside(seed, count=150):
    """All-Reduces beside ordinary traffic, everything at random; both bit exact."""
    rng = np.random.default_rng(seed)
    bed = forward()
    disturb(bed, rng, read_first=True)
    traffics = [
        Traffic(
            pattern=str(rng.choice(PATTERNS)), target=int(rng.integers(0, 3)), slots=SLOTS,
            rate=int(rng.choice([20, 100, 0xFFFF])), bytes=int(rng.integers(1, 33)),
            writes=int(rng.choice([0, 60, 128, 256])), count=count, read_base=READS,
            write_base=WRITES, seed=int(rng.integers(0, 1 << 32)),
        )
        for _ in RANKS
    ]  # fmt: skip
    begin(bed, traffics)
    for _ in range(2):
        operands = random_bits(rng, 3, int(rng.integers(1, OPERAND // 2)))
        finished = bed.all_reduce(operands, "fp16", where=Placement([0] * 3, [0] * 3, [0x3FC0] * 3))
        assert finished.figures, f"seed {seed}: {finished}"
        assert finished.figures.code == "OK"
    end(bed, traffics)


@pytest.mark.parametrize("seed", range(6))
def test_beside_all_reduces_with_everything_at_random(seed):
    """Patterns, rates, sizes, kinds, latencies, jitter, stalls, and memories that prefer reads."""
    beside(seed)


@pytest.mark.long
@pytest.mark.parametrize("base", range(100, 600, 100))
def test_500_more_seeds(base):
    for seed in range(base, base + 100):
        beside(seed)


@pytest.mark.parametrize("pattern", ["all_to_all", "neighbour"])
def test_axi_423_snitch_176_all_ranks_saturated_both_ways_where_reads_shut_out_writes(pattern):
    """Reads of a single-port memory had priority over its writes, and the circle closed; every
    cluster read its neighbour while it was written. With All-Reduces, whose reads and writes
    meet in the same memories.
    """
    bed = forward()
    for rank in RANKS:
        bed.host.write(f"rank{rank}", "read_first", 1)
    rng = np.random.default_rng(1)
    traffics = settings(pattern=pattern, writes=128, count=800, bytes=32)
    begin(bed, traffics)
    for _ in range(3):
        operands = random_bits(rng, 3, OPERAND // 2)
        outcome = bed.all_reduce(operands, "fp16", where=Placement([0] * 3, [0] * 3, [0x3FC0] * 3))
        assert outcome.figures, outcome
        assert outcome.figures.code == "OK"
    end(bed, traffics)


#: Ordinary traffic at saturation: bytes of a request, writes or reads.
CONTENDERS = {
    "full-size writes": (32, True),
    "single-flit writes": (8, True),
    "single-flit requests": (8, False),
    "full-size reads": (32, False),
}


@pytest.mark.parametrize(("size", "writes"), CONTENDERS.values(), ids=CONTENDERS)
def test_half_of_a_contended_link_each(size, writes):
    """Within 2 % on every link, both ways; no link idle; both bit exact."""
    bed = forward()
    operands = random_bits(np.random.default_rng(0), 3, 0x1800 // 2)
    traffics = saturating(bed, bytes=size, writes=writes, base=READS)
    found = contend(bed, operands, traffics, ramp=300, window=2000)
    shares = [share for way in found.shares.values() for share in way]
    assert all(abs(share - 0.5) <= 0.01 for share in shares), found
    assert all(busy > 0.99 for way in found.busy.values() for busy in way), found


def test_idle_ordinary_traffic_costs_an_all_reduce_nothing():
    """At most one cycle more than in a switch without a core, before traffic and after it.

    Turns of round robin stand as the traffic left them, so it may also be one less.
    """
    operands = random_bits(np.random.default_rng(3), 3, 1000)
    where = Placement([0] * 3, [0] * 3, [0x3FC0] * 3)
    alone = system(TINY).all_reduce(operands, "fp16", where=where)
    bed = forward()
    for _ in range(2):
        outcome = bed.all_reduce(operands, "fp16", where=where)
        assert (alone.status, outcome.status) == ("ok", "ok")
        assert outcome.figures.data <= alone.figures.data + 1
        assert outcome.figures.arrive_to_flag <= alone.figures.arrive_to_flag + 1
        traffics = settings(writes=128, count=60)
        begin(bed, traffics)
        end(bed, traffics)


def test_an_idle_accelerator_leaves_the_whole_link():
    """Writes to the next rank: its link and ours carry a flit in every cycle."""
    bed = forward()
    traffics = settings(pattern="neighbour", writes=256, count=3000, bytes=32)
    begin(bed, traffics)
    bed.engine.step(300)
    names = [f"sent_ordinary_{rank}" for rank in RANKS]
    before = [bed.host.read("switch", name) for name in names]
    start = bed.engine.cycle
    bed.engine.step(4000)
    cycles = bed.engine.cycle - start
    flits = [bed.host.read("switch", name) - b for name, b in zip(names, before, strict=True)]
    assert all(0.99 * cycles <= each <= 1.01 * cycles + 20 for each in flits), (flits, cycles)
    end(bed, traffics)


@pytest.mark.large
@pytest.mark.parametrize("writes", [0, 256], ids=["a read", "a write"])
def test_an_idle_accelerator_costs_a_request_nothing(writes):
    """At most a cycle more than where it has never been used, whatever it has done before."""
    operands = random_bits(np.random.default_rng(4), 3, 1000)
    where = Placement([0] * 3, [0] * 3, [0x3FC0] * 3)

    def latencies(bed):
        traffics = settings(pattern="neighbour", writes=writes, count=1)
        begin(bed, traffics)
        end(bed, traffics)
        return [total.latency_max for total in traffic.totals(bed)]

    with Testbed(FORWARD) as fresh:
        never = latencies(fresh)
    bed = forward()
    for _ in range(3):
        assert bed.all_reduce(operands, "fp16", where=where).status == "ok"
        found = latencies(bed)
        assert all(now <= then + 1 for now, then in zip(found, never, strict=True)), (found, never)


def test_a_rate_is_kept():
    """A quarter of a link, asked for by each rank."""
    bed = forward()
    count = 400
    traffics = settings(pattern="neighbour", writes=256, count=count, bytes=32, rate=64)
    begin(bed, traffics)
    start = bed.engine.cycle
    end(bed, traffics)
    flits = count * FORWARD.packet_flits
    assert flits / (bed.engine.cycle - start) == pytest.approx(0.25, rel=0.1)


def test_one_seed_gives_the_same_run():
    """But for latencies, which depend on whose turn it was when it began."""
    bed = forward()
    results = []
    for _ in range(2):
        traffics = settings(pattern="random", writes=100, count=100)
        begin(bed, traffics)
        end(bed, traffics)
        counted = [dataclasses.asdict(total) for total in traffic.totals(bed)]
        results.append(
            [{k: v for k, v in c.items() if not k.startswith("latency")} for c in counted]
        )
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(pattern="star"), "pattern: must be one of all_to_all, neighbour, hot_spot, random, "
         "itself, not 'star'"),
        (dict(target=3), "target: must be 0..2, not 3"),
        (dict(bytes=33), "bytes: must be 1..32, not 33"),
        (dict(writes=257), "writes: must be 0..256, not 257"),
        (dict(slots=3), "slots: must be a power of two, not 3"),
        (dict(read_base=4), "read_base: must be a multiple of flit_bytes (8), not 4"),
        (dict(write_base=0x3F00), "write_base: must leave room for 512 bytes of slots in 16384, "
         "not 16128"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused(fields, message):
    with pytest.raises(TrafficError) as caught:
        traffic.check(FORWARD, settings(**fields)[0])
    assert str(caught.value) == message


def test_traffic_needs_a_core_that_forwards():
    with pytest.raises(TrafficError, match="core: must be forward for ordinary traffic"):
        traffic.check(TINY, Traffic())
