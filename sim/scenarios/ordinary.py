"""Ordinary traffic in a round: what is counted of it, and what memories hold afterwards."""

from __future__ import annotations

import numpy as np

from hdl.config import SwitchConfig
from sim import traffic
from sim.bench import Bench
from sim.golden.traffic import Traffic, moved_by, requests

from .failure import ScenarioFailure
from .scenario import Round

__all__ = ["GIVE_UP_CYCLES", "check_traffic", "start_traffic"]

#: Cycles after which an answer is given up where a link may have lost it: longer than a rank takes
#: that is only slow.
GIVE_UP_CYCLES = 30_000


def start_traffic(bed: Bench, each: Round):
    """Start every rank's traffic. Answers are given up only where a link may lose them."""
    cycles = GIVE_UP_CYCLES if _cut(each) else 0
    for rank in range(bed.config.ranks):
        bed.host.write(f"rank{rank}", "traffic_timeout", cycles)
    traffic.start(bed)


def check_traffic(bed: Bench, traffics: tuple[Traffic, ...], told: Round):
    """Compare counts, and note in `bed.expected` what memories must hold.

    Where no link went down every request is answered, and well. Where one did, each is answered,
    or counted as lost or as given up; only those from or to that rank may fail. What a rank wrote
    is there if all its requests were answered well, and byte by byte new or old if not.

    Raises
    ------
    ScenarioFailure
        A count is not as it must be.
    """
    cut = _cut(told)
    alone = len(told.faults) == 1
    before = [memory.copy() for memory in bed.expected]
    traffic.expect(bed, traffics)
    for rank, total in enumerate(traffic.totals(bed)):
        asked = traffics[rank]
        count = _count(asked, rank)
        right = (count, count, count * asked.bytes, 0, 0, 0, 0, 0)
        found = _counts(bed, rank, total)
        if found == right:
            continue
        if not cut:
            raise ScenarioFailure(f"traffic of rank {rank}: counted {found}, must be {right}")
        to_cut = _to(bed.config, asked, rank, cut) if alone else count
        _check_accounts(rank, count, asked.bytes, total, _lost(bed, rank), rank in cut, to_cut)
        _settle(bed, asked, rank, before)


def _cut(each: Round) -> frozenset[int]:
    """Ranks whose link goes down."""
    return frozenset().union(*(fault.cut for fault in each.faults))


def _count(asked: Traffic, rank: int) -> int:
    """Requests of a rank."""
    return 0 if asked.pattern == "hot_spot" and asked.target == rank else asked.count


def _to(config: SwitchConfig, asked: Traffic, rank: int, ranks: frozenset[int]) -> int:
    """How many of a rank's requests go to some ranks."""
    made = requests(traffic.shape_of(config), asked, rank)
    return sum(request.destination in ranks for request in made)


def _lost(bed: Bench, rank: int) -> tuple[int, int]:
    """Requests that a rank has lost with its link, and those given up."""
    page = f"rank{rank}"
    return bed.host.read(page, "traffic_lost"), bed.host.read(page, "traffic_timeouts")


def _counts(bed: Bench, rank: int, total: traffic.Totals) -> tuple[int, ...]:
    return (
        total.asked, total.answered, total.moved, total.errors, total.mismatches, total.strays,
        *_lost(bed, rank),
    )  # fmt: skip


def _check_accounts(rank, count, size, total, lost, own, to_cut):
    """The books of a rank beside a link that went down; its `own` one, or another's."""
    gone, given_up = lost
    rules = {
        f"must ask {count} times": total.asked == count,
        "must answer, lose or give up each": total.asked == total.answered + gone + given_up,
        "must move what was answered well": total.moved == (total.answered - total.errors) * size,
        "must read what is there": total.mismatches == 0,
        "must not lose behind a link that is up": own or gone == 0,
        f"must fail at most {to_cut} times": own or total.errors + given_up <= to_cut,
        "must take no other one's answer": total.strays <= gone + given_up,
    }
    for rule, holds in rules.items():
        if not holds:
            raise ScenarioFailure(
                f"traffic of rank {rank}: {rule}: {total}, lost {gone}, given up {given_up}"
            )


def _settle(bed: Bench, asked: Traffic, rank: int, before):
    """What `rank` wrote may be there or not, each byte by itself: expect what is there."""
    shape = traffic.shape_of(bed.config)
    for owner, address, content in moved_by(shape, asked, rank, writes=True):
        place = slice(address, address + len(content))
        held = np.frombuffer(bed.engine.read(owner, address, len(content)), np.uint8)
        old = before[owner][place]
        if not ((held == content) | (held == old)).all():
            raise ScenarioFailure(
                f"traffic of rank {rank}: {len(content)} bytes at rank {owner} address "
                f"{address:#x} are neither old nor new"
            )
        bed.expected[owner][place] = held
