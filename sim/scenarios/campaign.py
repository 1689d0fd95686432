"""Runs many scenarios, configuration after configuration, in one process or in several."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from queue import Empty

from .configurations import CONFIGURATIONS
from .draw import configuration_of, draw
from .running import Outcome, Runner

__all__ = ["MOST_SEED", "campaign", "chosen_seeds"]

MOST_SEED = (1 << 32) - 1
#: Seconds between two looks at whether the processes live.
LOOK_SECONDS = 5.0


def chosen_seeds(count: int, first: int, names: Sequence[str]) -> list[int]:
    """The first `count` seeds from `first` on whose scenarios run in configurations of `names`.

    Fewer where there are no more.
    """
    fitting = (seed for seed in range(first, MOST_SEED + 1) if configuration_of(seed) in names)
    return list(islice(fitting, count))


def campaign(
    seeds: Iterable[int],
    *,
    jobs: int = 1,
    phases: Callable[[str], None] = lambda phase: None,
) -> Iterator[Outcome]:
    """What came of every seed, as they end.

    Parameters
    ----------
    jobs
        Processes; each takes configurations as a whole, so that none is compiled twice.
    phases
        Called with the name of each phase of a build as it begins, where there is one process.
    """
    by_name = {name: [] for name in CONFIGURATIONS}
    for seed in seeds:
        by_name[configuration_of(seed)].append(seed)
    groups = [(name, each) for name, each in by_name.items() if each]
    if jobs == 1:
        yield from _outcomes(groups, phases)
    else:
        yield from _side_by_side(groups, jobs)


def _outcomes(groups, phases=lambda phase: None) -> Iterator[Outcome]:
    for name, seeds in groups:
        runner = Runner(name, phases=phases)
        for seed in seeds:
            phases("run")
            yield runner.run(draw(seed))
        runner.bed.close()


def _work(groups, outcomes):
    """A process."""
    for outcome in _outcomes(groups):
        outcomes.put(outcome)


def _side_by_side(groups, jobs: int) -> Iterator[Outcome]:
    context = multiprocessing.get_context("spawn")
    outcomes = context.Queue()
    shares = [groups[number::jobs] for number in range(jobs)]
    workers = [
        context.Process(target=_work, args=(share, outcomes), daemon=True)
        for share in shares
        if share
    ]
    for worker in workers:
        worker.start()
    left = sum(len(seeds) for _, seeds in groups)
    while left:
        try:
            yield outcomes.get(timeout=LOOK_SECONDS)
            left -= 1
        except Empty:
            if any(worker.exitcode for worker in workers):
                raise RuntimeError("a process of the scenarios has ended early") from None
    for worker in workers:
        worker.join()
