"""What may be counted of ordinary traffic, and stand in the memories after it, and what may not."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sim.golden.traffic import Traffic, moved_by, requests
from sim.scenarios.configurations import configuration
from sim.scenarios.failure import ScenarioFailure
from sim.scenarios.faults import LinkOutage, SlowResponses
from sim.scenarios.ordinary import GIVE_UP_CYCLES, check_traffic, start_traffic
from sim.scenarios.scenario import MemorySettings, Round
from sim.traffic import shape_of

CONFIG = configuration("forwarding")
SHAPE = shape_of(CONFIG)
CUT = 1
TRAFFICS = tuple(
    Traffic("all_to_all", bytes=32, writes=128, count=40, slots=2, write_base=0x400,
            read_base=0x800, seed=rank)
    for rank in range(CONFIG.ranks)
)  # fmt: skip
CALM = Round((), (), 500, {})
OUTAGE = replace(CALM, faults=(LinkOutage(CUT, 10, 40),))


class Bed:
    """Registers and memories after a round in which every request was answered well."""

    def __init__(self):
        rng = np.random.default_rng(3)
        self.config, self.host, self.engine = CONFIG, self, self
        self.expected = list(rng.integers(0, 256, (CONFIG.ranks, CONFIG.memory_bytes), np.uint8))
        self.before = [memory.copy() for memory in self.expected]
        self.memories = [memory.copy() for memory in self.expected]
        self.registers = {}
        for rank, each in enumerate(TRAFFICS):
            self.count(rank, asked=each.count, answered=each.count, moved=each.count * each.bytes)
            for owner, address, content in moved_by(SHAPE, each, rank, writes=True):
                self.memories[owner][address : address + len(content)] = content

    def count(self, rank, **totals):
        for name, value in totals.items():
            self.registers[f"rank{rank}", f"traffic_{name}"] = value

    def lose(self, rank, lost=0, timeouts=0, errors=0):
        """Fewer of a rank's requests were answered, or answered well."""
        asked, size = TRAFFICS[rank].count, TRAFFICS[rank].bytes
        answered = asked - lost - timeouts
        self.count(
            rank, answered=answered, moved=(answered - errors) * size, lost=lost,
            timeouts=timeouts, errors=errors,
        )  # fmt: skip

    # -- what a bench has

    def read(self, *place):
        if isinstance(place[0], str):
            return self.registers.get(place, 0)
        rank, address, size = place
        return self.memories[rank][address : address + size].tobytes()

    def write(self, page, name, value):
        self.registers[page, name] = value

    def as_expected(self) -> bool:
        return all(map(np.array_equal, self.expected, self.memories))


@pytest.fixture
def bed():
    return Bed()


def place_of(rank):
    """Where `rank` writes first."""
    return next(moved_by(SHAPE, TRAFFICS[rank], rank, writes=True))


@pytest.mark.parametrize("told", [CALM, OUTAGE])
def test_what_is_answered_well_is_there(bed, told):
    check_traffic(bed, TRAFFICS, told)
    assert bed.as_expected()
    owner, address, _ = place_of(0)
    bed.memories[owner][address] ^= 1
    assert not bed.as_expected()


@pytest.mark.parametrize("name", ["asked", "answered", "moved", "errors", "mismatches", "strays"])
def test_nothing_may_fail_where_no_link_goes_down(bed, name):
    bed.registers["rank2", f"traffic_{name}"] = bed.read("rank2", f"traffic_{name}") + 1
    with pytest.raises(ScenarioFailure, match=r"^traffic of rank 2: counted \(.*\), must be \("):
        check_traffic(bed, TRAFFICS, CALM)


def test_a_link_that_goes_down_loses_requests_of_its_rank_and_fails_those_to_it(bed):
    bed.lose(CUT, lost=7)
    bed.lose(0, timeouts=2, errors=3)
    check_traffic(bed, TRAFFICS, OUTAGE)
    assert bed.as_expected()


def test_what_failed_is_old_or_new_byte_by_byte(bed):
    bed.lose(0, timeouts=1)
    owner, address, content = place_of(0)
    half = slice(address, address + len(content) // 2)
    bed.memories[owner][half] = bed.before[owner][half]
    check_traffic(bed, TRAFFICS, OUTAGE)
    assert bed.as_expected()


def test_nothing_else_may_be_there(bed):
    bed.lose(0, timeouts=1)
    owner, address, content = place_of(0)
    taken = {int(content[3]), int(bed.before[owner][address + 3])}
    bed.memories[owner][address + 3] = next(value for value in range(3) if value not in taken)
    with pytest.raises(ScenarioFailure, match="rank 0: 32 bytes .* neither old nor new"):
        check_traffic(bed, TRAFFICS, OUTAGE)


def test_a_rank_that_lost_nothing_has_written_all(bed):
    bed.lose(0, timeouts=1)
    owner, address, _ = place_of(2)
    bed.memories[owner][address] ^= 0x5A
    check_traffic(bed, TRAFFICS, OUTAGE)
    assert not bed.as_expected()


@pytest.mark.parametrize(
    ("rank", "totals", "message"),
    [
        (0, dict(asked=39), "must ask 40 times"),
        (0, dict(answered=39), "must answer, lose or give up each"),
        (0, dict(moved=31), "must move what was answered well"),
        (CUT, dict(mismatches=1), "must read what is there"),
        (2, dict(answered=39, moved=39 * 32, lost=1), "must not lose behind a link that is up"),
        (0, dict(strays=1), "must take no other one's answer"),
    ],
)
def test_books_must_balance(bed, rank, totals, message):
    bed.count(rank, **totals)
    with pytest.raises(ScenarioFailure, match=f"^traffic of rank {rank}: {message}: "):
        check_traffic(bed, TRAFFICS, OUTAGE)


def test_no_more_fails_than_goes_to_the_rank_behind_the_link(bed):
    most = sum(each.destination == CUT for each in requests(SHAPE, TRAFFICS[0], 0))
    assert 0 < most < TRAFFICS[0].count
    bed.lose(0, timeouts=1, errors=most - 1)
    check_traffic(bed, TRAFFICS, OUTAGE)
    bed.lose(0, timeouts=1, errors=most)
    with pytest.raises(ScenarioFailure, match=f"must fail at most {most} times"):
        check_traffic(bed, TRAFFICS, OUTAGE)
    # A rank that is slow beside it may be given up by anybody.
    slow = SlowResponses(2, 400, MemorySettings(1, 1, 0, {}, 0, False))
    check_traffic(bed, TRAFFICS, replace(OUTAGE, faults=(*OUTAGE.faults, slow)))


@pytest.mark.parametrize(("each", "cycles"), [(CALM, 0), (OUTAGE, GIVE_UP_CYCLES)])
def test_answers_are_given_up_where_a_link_may_lose_them(bed, each, cycles):
    bed.host = SimpleNamespace(write=bed.write)
    start_traffic(bed, each)
    for rank in range(CONFIG.ranks):
        assert bed.registers[f"rank{rank}", "traffic_timeout"] == cycles
    assert bed.registers["system", "traffic_go"] == 1
