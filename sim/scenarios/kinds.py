"""The kinds of ingredients that a scenario has, by the names that reports count them under."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hdl.config import SwitchConfig

from .scenario import Part, Round, Scenario
from .work import Work, waves

__all__ = ["describe", "kinds"]

#: Operations of so many waves are of many.
MANY_WAVES = 4


def kinds(scenario: Scenario) -> set[str]:
    """Every kind of ingredient of a scenario, its last All-Reduce left out."""
    return {
        f"configuration {scenario.name}",
        f"contexts in use: {len(scenario.contexts)}",
        *_world(scenario),
        *(kind for each in scenario.rounds for kind in _of_round(scenario, each)),
    }


def _world(scenario: Scenario) -> Iterator[str]:
    memories = scenario.memories
    if any(memory.jitter for memory in memories):
        yield "latency jitter"
    if any(any(memory.stalls.values()) for memory in memories):
        yield "stalls"
    if any(memory.read_first for memory in memories):
        yield "single-port memory"
    if scenario.traffics:
        yield "ordinary traffic"
        yield from (f"traffic {traffic.pattern}" for traffic in scenario.traffics)


def _of_round(scenario: Scenario, each: Round) -> Iterator[str]:
    if len(each.parts) > 1:
        yield "contexts at once"
    if each.joins:
        yield "context enabled in the middle"
    if each.after:
        yield "going on without a rank"
    for fault in each.faults:
        yield from fault.kinds
    if scenario.traffics and any(fault.cut for fault in each.faults):
        yield "ordinary traffic across an outage"
    for part in each.parts:
        yield from _of_part(scenario.config, part)


def _of_part(config: SwitchConfig, part: Part) -> Iterator[str]:
    yield "posted by members" if part.in_band else "posted by a host"
    if len(part.members) < config.ranks:
        yield "some ranks are members"
    if any(part.delays):
        yield "skew"
    if len(part.orders) > 1:
        yield "operations back to back"
    yield "watched" if part.watchdog else "not watched"
    yield from part.trouble.kinds
    for work in part.works:
        yield from _of_work(config, part, work)


def _of_work(config: SwitchConfig, part: Part, work: Work) -> Iterator[str]:
    plan = work.plan
    yield plan.kind
    if plan.kind == "barrier":
        return
    if not plan.copies:
        yield f"operation {plan.operation}"
    yield f"format {work.format}"
    yield "in place" if work.where.in_place else "out of place"
    if len(plan.sources) < len(part.members):
        yield "some members are read"
    if len(plan.destinations) < len(part.members):
        yield "some members are written"
    if plan.chunk:
        yield "uneven chunks"
    count = len(waves(config, work))
    yield {0: "no element", 1: "one element"}.get(work.elements, "several elements")
    yield {0: "no wave", 1: "one wave"}.get(count, "several waves")
    if count >= MANY_WAVES:
        yield "many waves"


def describe(scenario: Scenario) -> Iterable[str]:
    """Lines that say what happens in a scenario."""
    yield (
        f"seed {scenario.seed}: configuration {scenario.name}, links of {scenario.link_latency} "
        "cycles"
    )
    for rank, memory in enumerate(scenario.memories):
        yield f"  rank {rank}: {memory}"
    for rank, traffic in enumerate(scenario.traffics):
        yield f"  rank {rank}: {traffic}"
    for number, each in enumerate(scenario.rounds):
        yield f"round {number}, about {each.cycles} cycles"
        yield from (f"  {fault}" for fault in each.faults)
        if each.joins:
            yield f"  context {each.joins[0]} is enabled after {each.joins[1]} cycles"
        for part in each.parts:
            yield from _lines(part)
        for context, work in each.after.items():
            yield f"  context {context} goes on with {_line(work)}"


def _lines(part: Part) -> Iterator[str]:
    poster = f"members, {part.repeat} times" if part.in_band else "the host"
    yield (
        f"  context {part.context}: members {part.members}, posted by {poster}, delays "
        f"{part.delays}, watchdog {part.watchdog}"
    )
    if part.trouble.kinds:
        yield f"    {part.trouble}"
    yield from (f"    {_line(work)}" for work in part.works)


def _line(work: Work) -> str:
    plan, where = work.plan, work.where
    addresses = f"at {where.operands} to {where.results}"
    return (
        f"{plan.kind} {plan.operation} of {work.elements} {work.format} ({work.values}), "
        f"{plan.sources} to {plan.destinations}, chunk {plan.chunk}, {addresses}"
    )
