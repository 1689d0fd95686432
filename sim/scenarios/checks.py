"""Compares what a round has left with what it must: codes, flags, counts, and every byte."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from hdl.accelerator.layouts import Status
from sim.bench import Bench
from sim.tenants import FLAG_BYTES, flag_word

from .contents import settle
from .endings import ABORTED, OK, Ending, Expectation
from .expectation import disturbed, expectation, refusals
from .failure import ScenarioFailure
from .faults import BadFlag
from .flags import Flag, FlagLog, flag_address
from .ordinary import check_traffic
from .part_run import PartRun
from .scenario import Round, Scenario

__all__ = ["Checks", "late_answers"]

#: What of a context counts answers that nobody waited for any more.
LATE = {"reads": "total_late_data", "writes": "total_late_responses"}


def late_answers(bed: Bench) -> dict[tuple[int, str], int]:
    """By context and kind, answers that came late, since the start."""
    return {
        (context, kind): bed.host.read(f"context{context}", name)
        for context in range(bed.config.contexts)
        for kind, name in LATE.items()
    }


class Checks:
    """The checks of one scenario.

    Parameters
    ----------
    bed
        The system; nothing is under way while something is checked.
    scenario
        Whose windows and traffic it has.
    """

    def __init__(self, bed: Bench, scenario: Scenario):
        self._bed, self._scenario = bed, scenario
        self._log = FlagLog(bed, scenario.windows)
        self._came_late = 0

    def begin(self):
        """A round begins: what is counted from here on is its own."""
        self._refused = self._refusals()
        self._flag_errors = self._read("flag_errors")
        self._log.begin()

    def end(
        self,
        told: Round,
        runs: Sequence[PartRun],
        after: Sequence[PartRun],
        repaired: Sequence[PartRun],
        traffic_ran: bool,
    ):
        """The round is over, and every byte but the last comparison's is known.

        Parameters
        ----------
        told
            The round that results are expected of.
        runs
            What was run of it.
        after
            What went on without a rank.
        repaired
            Parts that ended with an empty operation, which a host ended.
        traffic_ran
            Ordinary traffic did.

        Raises
        ------
        ScenarioFailure
            Something is not as it must be.
        """
        if traffic_ran:
            check_traffic(self._bed, self._scenario.traffics, told)
        flags = self._log.flags()
        held = self._memories()
        for run, part in zip(runs, told.parts, strict=True):
            self._check_part(run, expectation(self._bed.config, told, part), flags, held)
        for run in after:
            well = Expectation(tuple(run.part.trouble.allows(self._bed.config, run.part)))
            self._check_part(run, well, flags, held)
        for run in repaired:
            self._check_repaired(run, flags)
        self._expect_flags(flags)
        self._check_late(told)
        self._check_flag_errors(told, flags)
        self._check_refusals(told)

    def compare(self):
        """Every byte of every memory."""
        differences = self._bed.differences(most=2)
        if differences:
            raise ScenarioFailure("; ".join(differences))

    def _read(self, name: str) -> int:
        return self._bed.host.read("switch", name)

    def _memories(self) -> list[np.ndarray]:
        size = self._bed.config.memory_bytes
        return [
            np.frombuffer(self._bed.engine.read(rank, 0, size), np.uint8)
            for rank in range(self._bed.config.ranks)
        ]

    # -- a tenant's operations ------------------------------------------------------------------

    def _check_part(self, run: PartRun, expected: Expectation, flags, held):
        """Codes, flags and results of a part's operations."""
        context = run.part.context
        endings = self._endings(run, flags, expected.absent)
        complaint = expected.complaint(endings)
        if complaint is None and run.last != endings[-1]:
            complaint = f"registers say {run.last}, and flags {endings[-1]}"
        if complaint is None:
            complaint = settle(
                self._bed.config, self._bed.expected, held, run.part.orders, endings,
                expected.orders,
            )  # fmt: skip
        if complaint:
            raise ScenarioFailure(f"context {context}: {complaint}")
        for rank in run.part.members:
            self._check_seen(run, rank, flags[context, rank], expected)

    def _endings(self, run: PartRun, flags, absent: frozenset[int]) -> list[Ending]:
        """What operations have ended with, as their flags say.

        Where every member was left behind they are told of the last alone: of the first that they
        have not been told of the registers say it, and what was queued behind that was aborted.
        """
        endings, told = [], True
        for epoch in run.epochs:
            ending = self._ending(run, epoch, flags)
            if ending is None and absent.issuperset(run.part.members):
                ending = run.stopped if told else ABORTED
                told = False
            if ending is None:
                raise ScenarioFailure(f"context {run.part.context}: no flag has epoch {epoch}")
            endings.append(ending)
        return endings

    def _ending(self, run: PartRun, epoch: int, flags) -> Ending | None:
        """What an operation's flags say, which agree but where one was not taken; None where there
        is no flag.
        """
        context = run.part.context
        found = {
            flag.ending
            for rank in run.part.members
            for flag in flags[context, rank]
            if flag.epoch == epoch
        }
        if any(ending.code is Status.FLAG_TIMEOUT for ending in found):
            found.discard(OK)
        if len(found) > 1:
            names = ", ".join(sorted(map(str, found)))
            raise ScenarioFailure(f"context {context}: flags of epoch {epoch} say {names}")
        return found.pop() if found else None

    def _check_seen(self, run: PartRun, rank: int, seen: Sequence[Flag], expected: Expectation):
        """A member has the flag of each operation, in order, or of the last at least where it was
        left behind; those of members that post may lack any. One whose link was down may have a
        flag again, before the next one.
        """
        epochs = [flag.epoch for flag in seen if flag.epoch in run.epochs]
        if rank in expected.again:
            epochs = [epoch for epoch, _ in groupby(epochs)]
        right = epochs == list(run.epochs)
        if rank in expected.absent:
            ordered = epochs == sorted(set(epochs))
            right = ordered and (run.part.in_band or epochs[-1:] == [run.epochs[-1]])
        if not right:
            raise ScenarioFailure(
                f"context {run.part.context}: rank {rank} has flags of epochs {epochs}, of "
                f"{list(run.epochs)}"
            )

    def _check_repaired(self, run: PartRun, flags):
        """Every member has the flag of the empty operation."""
        context = run.part.context
        epoch = self._bed.host.epochs[context] - 1
        for rank in run.part.members:
            found = [flag.ending for flag in flags[context, rank] if flag.epoch == epoch]
            if found != [ABORTED]:
                raise ScenarioFailure(
                    f"context {context}: rank {rank} is told {found} of an empty operation"
                )

    def _expect_flags(self, flags):
        """No flag speaks of another context; the last of each stays where it is."""
        for (context, rank), seen in flags.items():
            for flag in seen:
                if flag.context != context or flag.rest:
                    raise ScenarioFailure(f"context {context}: rank {rank} has the flag {flag}")
            if seen:
                word = flag_word(seen[-1].epoch, *seen[-1].ending, context)
                address = flag_address(self._bed.config, self._scenario.windows[context])
                content = np.frombuffer(word.to_bytes(FLAG_BYTES, "little"), np.uint8)
                self._bed.expected[rank][address : address + FLAG_BYTES] = content

    # -- counts ---------------------------------------------------------------------------------

    def _check_late(self, told: Round):
        """What nobody waited for came late to a context whose operation was ended, and only so."""
        late, dropped = sum(late_answers(self._bed).values()), self._read("stray_responses")
        if late != dropped:
            raise ScenarioFailure(f"{dropped} answers were dropped, of which {late} were late")
        calm = not any(disturbed(told, part) for part in told.parts)
        if calm and late != self._came_late:
            raise ScenarioFailure(f"{late - self._came_late} answers were dropped")
        self._came_late = late

    def _check_flag_errors(self, told: Round, flags):
        right = sum(
            len(flags[fault.context, fault.flit.rank])
            for fault in told.faults
            if isinstance(fault, BadFlag)
        )
        found = self._read("flag_errors") - self._flag_errors
        if found != right:
            raise ScenarioFailure(f"{found} flags were answered with an error, must be {right}")

    def _refusals(self) -> list[int]:
        """By rank, arrivals and words that were refused."""
        ranks = range(self._bed.config.ranks)
        return [self._bed.host.read(f"rank{rank}", "refused") for rank in ranks]

    def _check_refusals(self, told: Round):
        for rank, (before, now) in enumerate(zip(self._refused, self._refusals(), strict=True)):
            bounds = refusals(told, rank)
            if bounds and not bounds[0] <= now - before <= bounds[1]:
                raise ScenarioFailure(
                    f"rank {rank}: {now - before} arrivals and words were refused, must be "
                    f"{bounds[0]}..{bounds[1]}"
                )
