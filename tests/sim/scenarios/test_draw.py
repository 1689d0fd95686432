"""Scenarios as they are drawn: of their seed alone, inside the rules, and of every kind."""

import os
import subprocess
import sys
from collections import Counter
from itertools import combinations, pairwise

import pytest

from sim.scenarios.configurations import CONFIGURATIONS, configuration
from sim.scenarios.draw import FAULT_CHANCES, FAULTS, configuration_of, draw
from sim.scenarios.expectation import expectation
from sim.scenarios.flags import flag_address
from sim.scenarios.kinds import describe, kinds
from sim.scenarios.work import packets, touched_waves, waves
from sim.tenants import FLAG_BYTES

SEEDS = range(1, 200)
#: What a thousand scenarios must have of, beside what is drawn from a configuration.
WANTED = {
    "all-reduce", "reduce", "broadcast", "all-gather", "reduce-scatter", "barrier",
    "operation sum", "operation max", "operation min", "operation average",
    "format fp16", "format bf16", "format int32", "format inq8",
    "posted by a host", "posted by members", "contexts at once", "operations back to back",
    "some members are read", "some members are written", "some ranks are members",
    "uneven chunks", "no element", "one element", "many waves", "in place", "out of place",
    "skew", "latency jitter", "stalls", "single-port memory", "ordinary traffic",
    "ordinary traffic across an outage",
    "rank stands still for good", "rank stands still for a time", "rank stops in the middle",
    *(f"channel {channel} stands still" for channel in ("ar", "r", "aw", "w", "b")),
    *(f"SLVERR on a {what}" for what in ("read", "write", "flag")),
    *(f"DECERR on a {what}" for what in ("read", "write", "flag")),
    "several error responses", "slow write responses", "soft reset", "abort by the host",
    "rank never arrives", "rank arrives twice", "rank arrives early",
    "rank arrives for another epoch", "members disagree", "going on without a rank",
    "disabled in the middle", "idle context disabled for a time",
    "context enabled in the middle",
    *(f"refused: {code}" for code in ("UNALIGNED", "OUT_OF_WINDOW", "OVERLAP", "BAD_LENGTH",
                                      "BAD_FORMAT", "BAD_RANKS", "BAD_CHUNK", "QUEUE_FULL")),
}  # fmt: skip


@pytest.fixture(scope="module")
def drawn():
    return [draw(seed) for seed in SEEDS]


def test_at_most_eight_configurations_of_two_tenants_at_least():
    built = [configuration(name) for name in CONFIGURATIONS]
    assert len(built) <= 8
    assert len({config.digest for config in built}) == len(built)
    assert all(2 <= config.contexts <= 4 for config in built)
    assert max(config.ranks for config in built) > 4


def test_a_seed_is_one_scenario_in_any_process():
    """Whatever was drawn before, and whatever hash seed Python has."""
    code = "from sim.scenarios.draw import draw; print([draw(seed) for seed in (7, 8)])"
    texts = set()
    for hash_seed in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        texts.add(run.stdout.strip())
    draw(1)
    assert texts == {str([draw(7), draw(8)])}


def test_the_configuration_is_known_before_the_rest(drawn):
    assert [each.name for each in drawn] == [configuration_of(seed) for seed in SEEDS]


def test_a_thousand_scenarios_have_every_kind(drawn):
    counted = Counter(kind for each in drawn for kind in kinds(each))
    counted.update(kind for seed in range(200, 1001) for kind in kinds(draw(seed)))
    assert not WANTED - set(counted)
    assert {f"configuration {name}" for name in CONFIGURATIONS} <= set(counted)
    assert set(FAULTS) == set(FAULT_CHANCES)


def test_whoever_reads_a_description_knows_the_seed(drawn):
    for each in drawn[:20]:
        lines = list(describe(each))
        assert f"seed {each.seed}:" in lines[0]
        assert sum(line.startswith("round") for line in lines) == len(each.rounds)


def ranges(config, work, rank):
    """What an operation may touch at a rank; once where it is in place."""
    starts = work.where.operands + (() if work.where.in_place else work.where.results)
    sizes = work.sizes(config) * (1 if work.where.in_place else 2)
    flit = config.flit_bytes
    for addresses, size in zip(starts, sizes, strict=True):
        assert addresses[rank] % flit == 0
        yield addresses[rank], addresses[rank] + -(-size // flit) * flit


def test_operations_lie_apart_in_their_windows(drawn):
    for each in drawn:
        config, windows = each.config, each.windows
        assert all(one.limit <= other.base for one, other in pairwise(windows))
        for round_ in each.rounds:
            for part in round_.parts:
                window = windows[part.context]
                after = [round_.after[part.context]] if part.context in round_.after else []
                for rank in range(config.ranks):
                    flag = flag_address(config, window)
                    taken = [(flag, flag + FLAG_BYTES)]
                    for work in (*part.works, *after):
                        taken += ranges(config, work, rank)
                    assert all(window.base <= low <= high <= window.limit for low, high in taken)
                    for (low, high), (other_low, other_high) in combinations(sorted(taken), 2):
                        assert high <= other_low or low == high or other_low == other_high


def test_traffic_lies_outside_the_windows(drawn):
    for each in drawn:
        for traffic in each.traffics:
            assert min(traffic.write_base, traffic.read_base) >= each.windows[-1].limit


def test_waves_and_packets_are_every_byte_once(drawn):
    for each in drawn:
        config = each.config
        for work in [work for r in each.rounds for part in r.parts for work in part.works]:
            cut = waves(config, work)
            for piece, size in enumerate(work.sizes(config)):
                covered = [wave.ranges[piece] for wave in cut]
                ends = [part.stop for part in covered]
                assert [part.start for part in covered] == [0, *ends[:-1]][: len(covered)]
                assert ends[-1:] == ([size] if size else [])
                for part in covered:
                    steps = list(packets(config, part))
                    assert steps[0].start == part.start
                    assert steps[-1].stop == part.stop


def test_a_flit_of_a_wave_is_touched_by_it_alone(drawn):
    for each in drawn[:100]:
        config = each.config
        for work in [work for r in each.rounds for part in r.parts for work in part.works]:
            for number, wave in enumerate(waves(config, work)):
                for rank in wave.sources:
                    address = work.where.sources[rank] + wave.ranges[0].start
                    assert number in touched_waves(config, work, rank, address, "read")


def test_each_operation_has_an_ending_that_it_must_or_may_have(drawn):
    for each in drawn:
        for round_ in each.rounds:
            for part in round_.parts:
                expected = expectation(each.config, round_, part)
                assert len(expected.orders) == len(part.orders)
                assert all(allowed.every for allowed in expected.orders)
