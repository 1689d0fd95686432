"""Runs scenarios, each in a system as after power-on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hdl.accelerator.layouts import Status
from sim import traffic
from sim.host import HostError
from sim.tenants import mask
from sim.testbed import Testbed

from .checks import Checks, late_answers
from .configurations import configuration
from .endings import Ending
from .failure import ScenarioFailure, summary
from .faults import Fault
from .ordinary import start_traffic
from .part_run import PartRun
from .scenario import Part, Round, Scenario

__all__ = ["LIMIT_CYCLES", "Outcome", "Runner"]

#: Cycles that anything may take until it counts as hung.
LIMIT_CYCLES = 200_000
#: Cycles between two looks at whether something has ended.
LOOK_CYCLES = 40
#: Cycles after the last answer in which nothing may happen any more.
QUIET_CYCLES = 300
#: Cycles in which ranks that are out of step find the flags that they have, beside their delays.
CATCH_UP_CYCLES = 4000
#: Bytes of noise are drawn from the scenario's seed and this.
NOISE = 0x6A7D


@dataclass(frozen=True)
class Outcome:
    """What came of a scenario.

    Parameters
    ----------
    seed
        Its own.
    reason
        None, or one line that says what is wrong.
    cycles
        How long it ran.
    digest
        Of every byte of every memory at its end.
    state
        Every register of one that failed.
    """

    seed: int
    reason: str | None
    cycles: int
    digest: str = ""
    state: dict = field(default_factory=dict)


class Runner:
    """Runs scenarios of one configuration.

    Parameters
    ----------
    name
        Of the configuration.
    vcd
        Whether waveforms will be asked for.
    phases
        See `Testbed`.
    """

    def __init__(
        self,
        name: str,
        *,
        vcd: bool = False,
        phases: Callable[[str], None] = lambda phase: None,
    ):
        self.bed = Testbed(configuration(name), vcd=vcd, phases=phases)
        self._fresh = True

    def run(
        self,
        scenario: Scenario,
        *,
        told: Scenario | None = None,
        spoil: Callable[[Testbed], None] = lambda bed: None,
        vcd: Path | None = None,
        window: tuple[int, int] | None = None,
    ) -> Outcome:
        """Run a scenario of this configuration; nothing of those before it is left.

        Parameters
        ----------
        told
            The scenario that results are expected of, where that is another one.
        spoil
            Called before the memories are compared, at the end of each round.
        vcd, window
            Waveform file, and (first, last) cycle of it.
        """
        if not self._fresh:
            self.bed.restart()
        self._fresh = False
        reason, state = None, {}
        with self.bed.engine.vcd(vcd, window) if vcd else nullcontext():
            try:
                _Run(self.bed, scenario, told or scenario, spoil).run()
            except (ScenarioFailure, HostError) as failure:
                cycles, state = self.bed.cycle, self.bed.state()
                reason = f"{failure}; {summary(state)}"
            else:
                cycles = self.bed.cycle
        return Outcome(scenario.seed, reason, cycles, self._digest(), state)

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for rank in range(self.bed.config.ranks):
            digest.update(self.bed.engine.read(rank, 0, self.bed.config.memory_bytes))
        return digest.hexdigest()[:16]


class _Run:
    """One scenario in a fresh system."""

    def __init__(self, bed: Testbed, scenario: Scenario, told: Scenario, spoil):
        self._bed, self._scenario, self._told, self._spoil = bed, scenario, told, spoil
        self._config, self._host = bed.config, bed.host
        self._checks = Checks(bed, scenario)

    def run(self):
        """All rounds, and the All-Reduce of all ranks."""
        self._settle_world()
        rounds = (*self._scenario.rounds, self._last(self._scenario))
        told = (*self._told.rounds, self._last(self._told))
        for number, each in enumerate(rounds):
            where = "last All-Reduce" if each is rounds[-1] else f"round {number}"
            try:
                self._round(each, told[number])
            except ScenarioFailure as failure:
                raise ScenarioFailure(f"{where}: {failure}") from None

    @staticmethod
    def _last(scenario: Scenario) -> Round:
        return Round((scenario.last,), (), 0, {})

    def _settle_world(self):
        """Links, memories full of noise, and what ordinary traffic reads."""
        bed, scenario = self._bed, self._scenario
        rng = np.random.default_rng([scenario.seed, NOISE])
        bed.set_links(scenario.link_latency)
        for rank, memory in enumerate(scenario.memories):
            bed.fill(rank, 0, rng.integers(0, 256, self._config.memory_bytes, np.uint8))
            bed.set_memory(
                rank,
                latency=memory.latency,
                write_latency=memory.write_latency,
                jitter=memory.jitter,
                stalls=memory.stalls,
                seed=memory.seed,
            )
            if self._config.forwards:
                self._host.write(f"rank{rank}", "read_first", memory.read_first)
        if scenario.traffics:
            traffic.prepare(bed, scenario.traffics)

    # -- a round --------------------------------------------------------------------------------

    def _round(self, each: Round, told: Round):
        windows = self._scenario.windows
        runs = [PartRun(self._bed, windows[part.context], part) for part in each.parts]
        self._checks.begin()
        self._start(each, runs)
        self._wait(lambda: all(run.ended for run in runs), "operations do not end")
        for run in runs:
            run.keep_last()
        after = self._go_on_without(each, runs)
        self._relieve(each, runs)
        repaired = self._repair(runs)
        self._rest(each)
        for fault in each.faults:
            fault.relieve(self._bed)
        self._checks.end(told, runs, after, repaired, self._has_traffic(each))
        self._spoil(self._bed)
        self._checks.compare()

    def _start(self, each: Round, runs: Sequence[PartRun]):
        """Post, let go, and let happen what is to happen."""
        for run in runs:
            run.prepare()
        for fault in each.faults:
            fault.prepare(self._bed)
        if self._has_traffic(each):
            start_traffic(self._bed, each)
        events = [event for fault in each.faults for event in fault.events()]
        events += [event for run in runs for event in run.part.trouble.events(run)]
        if each.joins:
            context, cycles = each.joins
            events.append((cycles, lambda bed: bed.host.write(f"context{context}", "enable", 1)))
        self._host.go([run.part.context for run in runs])
        start = self._bed.cycle
        for cycles, act in sorted(events, key=lambda event: event[0]):
            self._host.wait(max(start + cycles - self._bed.cycle, 0))
            act(self._bed)

    def _has_traffic(self, each: Round) -> bool:
        """The last All-Reduce has none beside it."""
        return bool(self._scenario.traffics) and each.cycles > 0

    def _wait(self, condition: Callable[[], bool], what: str):
        end = self._bed.cycle + LIMIT_CYCLES
        while not condition():
            if self._bed.cycle > end:
                raise ScenarioFailure(f"hung: {what} within {LIMIT_CYCLES} cycles")
            self._host.wait(LOOK_CYCLES)

    def _contexts(self, name: str) -> list[int]:
        """A register of every context."""
        return [
            self._host.read(f"context{context}", name) for context in range(self._config.contexts)
        ]

    # -- after a failure ------------------------------------------------------------------------

    def _go_on_without(self, each: Round, runs: Sequence[PartRun]) -> list[PartRun]:
        """Where a rank is left behind: it is refused, and the next operation works without it."""
        went_on = []
        for fault in each.faults:
            for run in runs:
                if fault.lasting and run.part.context in each.after:
                    went_on += self._without(fault, run, each)
        for run in went_on:
            run.prepare()
        self._host.go([run.part.context for run in went_on])
        self._wait(lambda: all(run.ended for run in went_on), "what goes on does not end")
        for run in went_on:
            run.keep_last()
        return went_on

    def _without(self, fault: Fault, run: PartRun, each: Round) -> list[PartRun]:
        if not run.tenant.read("unreachable") >> fault.rank & 1:
            return []
        others = tuple(rank for rank in run.part.members if rank != fault.rank)
        if not self._caught_up(run, others):
            return []  # one waits for a flag that does not come
        run.tenant.set_in_band(False)
        run.try_post(run.instructions[0], Ending(Status.DRAINING, fault.rank))
        part = Part(
            run.part.context, others, (each.after[run.part.context],), False, 1,
            (0,) * self._config.ranks, run.part.watchdog,
        )  # fmt: skip
        return [PartRun(self._bed, self._scenario.windows[part.context], part)]

    def _relieve(self, each: Round, runs: Sequence[PartRun]):
        """What lasted ends, and ranks that were left behind answer all that they owe."""
        lasting = [fault for fault in each.faults if fault.lasting]
        owed, before = self._owed_by_draining(), late_answers(self._bed)
        for fault in lasting:
            fault.relieve(self._bed)
        self._wait(
            lambda: not any(self._contexts("unreachable") + self._contexts("failing")),
            "ranks do not drain",
        )
        for run in runs:
            run.part.trouble.relieve(run)
        if lasting:
            self._check_late(runs, owed, before)

    def _check_late(self, runs, owed, before):
        """What came late was recognized, dropped and counted: all that was owed."""
        for (context, kind), late in late_answers(self._bed).items():
            came, most = late - before[context, kind], owed[context, kind]
            # Among writes are flags, whose answers end nothing and so are never late.
            orders = sum(len(run.part.orders) for run in runs if run.part.context == context)
            fewest = most if kind == "reads" else max(most - orders, 0)
            if not fewest <= came <= most:
                raise ScenarioFailure(
                    f"context {context}: {came} late {kind} were counted of {most} that were owed"
                )

    def _owed_by_draining(self) -> dict[tuple[int, str], int]:
        """By context and kind, what ranks owe that are left behind."""
        return {
            (context, kind): sum(
                self._host.read(f"context{context}", f"owed_{kind}_{rank}")
                for rank in range(self._config.ranks)
                if draining >> rank & 1
            )
            for context, draining in enumerate(self._contexts("draining"))
            for kind in ("reads", "writes")
        }

    def _caught_up(self, run: PartRun, ranks: Sequence[int]) -> bool:
        """Wait for programs that are behind their flags; whether they have ended."""
        end = self._bed.cycle + CATCH_UP_CYCLES + max(run.part.delays) * len(run.part.orders)
        wanted = mask(ranks)
        while self._host.read("system", "done") & wanted != wanted:
            if self._bed.cycle > end:
                return False
            self._host.wait(LOOK_CYCLES)
        return True

    def _repair(self, runs: Sequence[PartRun]) -> list[PartRun]:
        """Members that wait for a flag of an operation that was ended without them get a later one,
        of an empty operation that a host ends.
        """
        delays = max(max(run.part.delays) * len(run.part.orders) for run in runs)
        end = self._bed.cycle + CATCH_UP_CYCLES + delays
        while self._waiting(runs) and self._bed.cycle < end:
            self._host.wait(LOOK_CYCLES)
        repaired = self._waiting(runs)
        for run in repaired:
            if not run.part.in_band:
                raise ScenarioFailure(f"hung: a program of context {run.part.context}")
            run.end_an_empty_one()
        self._wait(lambda: all(run.ended for run in repaired), "an empty operation does not end")
        self._wait(lambda: not self._waiting(runs), "programs do not end")
        return repaired

    def _waiting(self, runs: Sequence[PartRun]) -> list[PartRun]:
        """Parts whose members' programs still wait."""
        done = self._host.read("system", "context_done")
        return [run for run in runs if not done >> run.part.context & 1]

    def _rest(self, each: Round):
        """Until nothing is owed or under way."""
        if self._has_traffic(each):
            everyone = (1 << self._config.ranks) - 1
            self._wait(
                lambda: self._host.read("system", "traffic_done") == everyone,
                "ordinary traffic is not answered",
            )
        self._wait(lambda: not any(self._owed()), "ranks do not answer what they owe")
        self._host.wait(QUIET_CYCLES)

    def _owed(self) -> Iterator[int]:
        """What every rank owes every context."""
        for context in range(self._config.contexts):
            for kind in ("reads", "writes"):
                for rank in range(self._config.ranks):
                    yield self._host.read(f"context{context}", f"owed_{kind}_{rank}")
