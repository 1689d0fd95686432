"""Scenarios that run: they pass, each of its seed alone, and what is wrong is found."""

import functools
from dataclasses import replace

import pytest

from sim.scenarios import running
from sim.scenarios.campaign import chosen_seeds
from sim.scenarios.draw import draw
from sim.scenarios.endings import OK
from sim.scenarios.expectation import expectation
from sim.scenarios.faults import BadFlits, Hold
from sim.scenarios.running import Runner
from sim.scenarios.troubles import NO_TROUBLE, Abort, NeverArrives
from tests.sim.small_run import needs_compiler

pytestmark = needs_compiler

#: A configuration whose model other tests have, too.
QUICK = ("plain",)


@functools.cache
def runner(name: str) -> Runner:
    return Runner(name)


def run(scenario, **options):
    print("seed", scenario.seed)
    return runner(scenario.name).run(scenario, **options)


@pytest.mark.parametrize("seed", chosen_seeds(20, 1, QUICK))
def test_scenarios_pass(seed):
    assert run(draw(seed)).reason is None


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 1001))
def test_a_thousand_scenarios_pass(seed):
    """In all configurations."""
    assert run(draw(seed)).reason is None


def test_an_outcome_depends_on_its_seed_alone():
    """Whatever ran before in the same model, to the cycle and to the byte."""
    first, second, *_ = chosen_seeds(3, 1, ["plain"])
    one = runner("plain")
    found = [one.run(draw(seed)) for seed in (first, second, first, second)]
    assert found[:2] == found[2:]


@pytest.mark.long
def test_an_outcome_is_that_of_a_new_model():
    seeds = chosen_seeds(3, 1, ["plain"])
    alone = [Runner("plain").run(draw(seed)) for seed in seeds]
    assert [runner("plain").run(draw(seed)) for seed in reversed(seeds)] == alone[::-1]


# -- what is wrong is found ------------------------------------------------------------------------


def first_scenario(condition):
    """The first that a condition holds for, of the small ones."""
    seeds = chosen_seeds(300, 1, QUICK)
    return next(scenario for scenario in map(draw, seeds) if condition(scenario))


def parts(scenario):
    return [(each, part) for each in scenario.rounds for part in each.parts]


def calm(scenario):
    """Nothing goes wrong, and something is written."""
    return all(not each.faults and part.trouble == NO_TROUBLE for each, part in parts(scenario))


def with_rounds(scenario, change):
    """The scenario with every round changed."""
    return replace(scenario, rounds=tuple(change(each) for each in scenario.rounds))


def test_a_wrong_bit_in_the_golden_result(monkeypatch):
    from sim import plan

    right = plan.collective

    def wrong(*arguments, **options):
        result = right(*arguments, **options)
        rank = options["destination_ranks"][0]
        if result.shape[1]:
            result[rank, -1] ^= 1
        return result

    monkeypatch.setattr(plan, "collective", wrong)
    scenario = first_scenario(calm)
    reason = run(scenario).reason
    assert "must be" in reason
    assert "address" in reason


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("place", ["below", "behind", "in a gap"])
def test_a_guard_byte_that_was_overwritten(rank, place):
    scenario = first_scenario(calm)
    window = scenario.windows[0]
    work = scenario.last.works[0]
    where = {
        "below": 3,
        "behind": window.limit - 1,
        "in a gap": work.where.destinations[rank] + work.length,
    }[place]

    def spoil(bed):
        byte = bed.engine.read(rank, where, 1)[0]
        bed.engine.load(rank, where, bytes([byte ^ 0x10]))

    reason = run(scenario, spoil=spoil).reason
    assert f"rank {rank} address {where:#x}: is" in reason


def must_stop(kind):
    """A scenario with a fault of this kind for which an operation cannot end well."""

    def condition(scenario):
        return any(
            any(isinstance(fault, kind) for fault in each.faults)
            and part.trouble == NO_TROUBLE
            and OK not in expectation(scenario.config, each, part).orders[0].every
            for each, part in parts(scenario)
        )

    return condition


@pytest.mark.parametrize("kind", [Hold, BadFlits])
def test_a_fault_that_the_expectation_does_not_know(kind):
    scenario = first_scenario(must_stop(kind))
    told = with_rounds(scenario, lambda each: replace(each, faults=()))
    assert run(scenario).reason is None
    reason = run(scenario, told=told).reason
    assert "ended with" in reason
    assert "and may with OK" in reason


@pytest.mark.parametrize("kind", [NeverArrives])
def test_a_trouble_that_the_expectation_does_not_know(kind):
    scenario = first_scenario(
        lambda each: any(isinstance(part.trouble, kind) for _, part in parts(each))
    )

    def calmed(each):
        return replace(each, parts=tuple(map(without_it, each.parts)))

    def without_it(part):
        return replace(part, trouble=NO_TROUBLE) if isinstance(part.trouble, kind) else part

    assert run(scenario).reason is None
    assert "NOT_ARRIVED" in run(scenario, told=with_rounds(scenario, calmed)).reason


@pytest.mark.parametrize("kind", [Hold, BadFlits])
def test_a_fault_that_is_expected_and_does_not_come(kind):
    scenario = first_scenario(must_stop(kind))
    healthy = with_rounds(scenario, lambda each: replace(each, faults=(), after={}))
    reason = run(healthy, told=scenario).reason
    assert "ended with OK" in reason


def test_what_hangs_is_told_with_its_state(monkeypatch):
    """A rank stands still and nobody watches."""
    monkeypatch.setattr(running, "LIMIT_CYCLES", 3000)
    scenario = first_scenario(must_stop(Hold))

    def unwatched(each):
        return replace(each, parts=tuple(replace(part, watchdog=0) for part in each.parts))

    outcome = run(with_rounds(scenario, unwatched))
    assert "hung: operations do not end within 3000 cycles" in outcome.reason
    assert "hold=" in outcome.reason
    assert any(state.get("hold") for state in outcome.state.values())


def test_an_abort_is_not_taken_for_a_good_ending():
    scenario = first_scenario(
        lambda each: any(
            isinstance(part.trouble, Abort) and not part.in_band for _, part in parts(each)
        )
    )
    assert run(scenario).reason is None
