"""What goes wrong by somebody's mistake or will, in one tenant's part of a round.

A new kind is a class here and an entry in `sim.scenarios.draw.TROUBLES`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hdl.accelerator.layouts import Status
from hdl.accelerator.window import WINDOW_WORDS
from hdl.config import KNOWN_FORMATS, SwitchConfig
from sim.quantized import QUANTIZED
from sim.register_host import Instruction

from .endings import ABORTED, DISABLED, Allowed, Ending

if TYPE_CHECKING:
    from .part_run import PartRun
    from .scenario import Part

__all__ = [
    "NO_TROUBLE",
    "REFUSALS",
    "Abort",
    "ArrivesEarly",
    "ArrivesTwice",
    "Disabled",
    "Disagrees",
    "FullQueue",
    "NeverArrives",
    "Refused",
    "Trouble",
    "WrongEpoch",
]

#: Words of a window, all but the arrival: at most so many writes to a locked one are refused.
WINDOW_WRITES = len(WINDOW_WORDS) - 1
#: Cycles that an arrival takes to be answered, at most.
ARRIVAL_CYCLES = 300


@dataclass(frozen=True)
class Trouble:
    """None."""

    #: A host ends operations: who is slow then may not come to rest in time, and lack a flag.
    stops = False

    @property
    def kinds(self) -> Iterable[str]:
        """What a scenario has of ingredients for it."""
        return ()

    def fits(self, config: SwitchConfig, part: Part) -> bool:
        """Whether a part can have it."""
        return True

    def instruction(self, run: PartRun, number: int, rank: int) -> Instruction:
        """What member `rank` stages for the operation, where members post."""
        return run.instructions[number]

    def count(self, part: Part, rank: int) -> int:
        """Operations that a member arrives for."""
        return len(part.orders)

    def prepare(self, run: PartRun):
        """Before the first arrival."""

    def events(self, run: PartRun):
        """Cycles after the start, and what happens then."""
        return ()

    def relieve(self, run: PartRun):
        """When every operation has ended."""

    def allows(self, config: SwitchConfig, part: Part) -> list[Allowed]:
        """How each operation may end for it."""
        return [Allowed()] * len(part.orders)

    def astray(self, part: Part) -> frozenset[Ending]:
        """See `Expectation`."""
        return frozenset()

    def absent(self, part: Part) -> frozenset[int]:
        """Members that may lack flags."""
        return frozenset()

    def disturbs(self) -> bool:
        """Whether ranks may come out of step for it, so that arrivals are refused."""
        return False

    def refusals(self, part: Part, rank: int) -> tuple[int, int]:
        """The fewest and the most writes to the accelerator that are refused a rank for it."""
        return 0, 0


#: Everything is as it should be.
NO_TROUBLE = Trouble()


@dataclass(frozen=True)
class NeverArrives(Trouble):
    """A member arrives for `number` operations and for no other."""

    rank: int
    number: int

    @property
    def kinds(self):
        yield "rank never arrives"

    def fits(self, config, part):
        return len(part.members) > 1 and part.watchdog > 0 and self.number < len(part.orders)

    def count(self, part, rank):
        return self.number if rank == self.rank else super().count(part, rank)

    def allows(self, config, part):
        lacks = Allowed(frozenset({self._ending}), well=False)
        return [Allowed() if number < self.number else lacks for number in range(len(part.orders))]

    @property
    def _ending(self):
        return Ending(Status.NOT_ARRIVED, self.rank)

    def astray(self, part):
        return frozenset({self._ending})

    def absent(self, part):
        return frozenset({self.rank}) if part.in_band else frozenset()

    def disturbs(self):
        return True


@dataclass(frozen=True)
class ArrivesTwice(Trouble):
    """A member arrives once more, so many cycles after the start, before or after its flag."""

    rank: int
    cycles: int

    @property
    def kinds(self):
        yield "rank arrives twice"

    def fits(self, config, part):
        return len(part.orders) == 1 and part.delays[self.rank] == 0

    def prepare(self, run):
        run.set_hasty(self.rank, True)

    def events(self, run):
        yield self.cycles, lambda bed: self._again(run)

    def _again(self, run):
        for rank in run.part.members:
            run.set_program(rank, "count", rank == self.rank)
        run.set_program(self.rank, "posts", 0)
        run.go()

    def relieve(self, run):
        run.set_hasty(self.rank, False)

    def refusals(self, part, rank):
        return (1, 1) if rank == self.rank else (0, 0)


@dataclass(frozen=True)
class ArrivesEarly(Trouble):
    """A member arrives for two operations without waiting for its flag between them."""

    rank: int

    @property
    def kinds(self):
        yield "rank arrives early"

    def fits(self, config, part):
        return len(part.orders) == 2

    def prepare(self, run):
        run.set_hasty(self.rank, True)

    def relieve(self, run):
        run.set_hasty(self.rank, False)

    def refusals(self, part, rank):
        words = WINDOW_WRITES if part.in_band and rank == self.rank else 0
        return 0, words


@dataclass(frozen=True)
class WrongEpoch(Trouble):
    """A member arrives for another epoch first, `distance` from the current one."""

    rank: int
    distance: int

    @property
    def kinds(self):
        yield "rank arrives for another epoch"

    def prepare(self, run):
        part = run.part
        epochs = run.first, run.first + self.distance
        run.set_hasty(self.rank, True)
        for rank in part.members:
            run.set_program(rank, "count", rank == self.rank)
        for name, value in (("epoch", epochs[1] & 0xFFFFFFFF), ("delay", 0), ("posts", 0)):
            run.set_program(self.rank, name, value)
        run.go()
        run.bed.host.wait(ARRIVAL_CYCLES)
        run.set_hasty(self.rank, False)
        for name, value in (
            ("epoch", epochs[0]),
            ("delay", part.delays[self.rank]),
            ("posts", part.in_band),
        ):
            run.set_program(self.rank, name, value)
        for rank in part.members:
            run.set_program(rank, "count", self.count(part, rank))

    def refusals(self, part, rank):
        return (1, 1) if rank == self.rank else (0, 0)


@dataclass(frozen=True)
class Abort(Trouble):
    """A host ends what the context does, so many cycles after the start."""

    cycles: int

    stops = True

    @property
    def kinds(self):
        yield "abort by the host"

    def fits(self, config, part):
        return part.watchdog > 0 or not part.in_band

    def events(self, run):
        yield self.cycles, lambda bed: run.tenant.write("abort", 1)

    def allows(self, config, part):
        return [Allowed(frozenset({ABORTED}))] * len(part.orders)

    def astray(self, part):
        return frozenset(Ending(Status.NOT_ARRIVED, rank) for rank in part.members)

    def absent(self, part):
        return frozenset(part.members) if part.in_band else frozenset()

    def disturbs(self):
        return True


@dataclass(frozen=True)
class Disabled(Abort):
    """A host disables the context, and enables it again so many cycles later."""

    gap: int

    @property
    def kinds(self):
        yield "disabled in the middle"

    def events(self, run):
        yield self.cycles, lambda bed: run.tenant.write("enable", 0)
        yield self.cycles + self.gap, lambda bed: run.tenant.write("enable", 1)

    def allows(self, config, part):
        return [Allowed(frozenset({DISABLED}))] * len(part.orders)

    def astray(self, part):
        return super().astray(part) | {DISABLED}


@dataclass(frozen=True)
class Disagrees(Trouble):
    """A member posts another length, chunk or other ranks than the others."""

    rank: int
    field: str

    @property
    def kinds(self):
        yield "members disagree"

    def fits(self, config, part):
        return part.in_band and len(part.members) > 1

    def instruction(self, run, number, rank):
        right = run.instructions[number]
        if rank != self.rank:
            return right
        return replace(right, **{self.field: getattr(right, self.field) ^ 1 << 1})

    def allows(self, config, part):
        # Of two the one that is not the lowest differs.
        odd = self.rank if len(part.members) > 2 else max(part.members)
        ending = Ending(Status.DISAGREES, odd)
        return [Allowed(frozenset({ending}), well=False)] * len(part.orders)


def _unaligned(config, instruction, rank):
    return "sources", instruction.sources[rank] + 2


def _outside(config, instruction, rank):
    return "destinations", 0


def _overlapping(config, instruction, rank):
    return "destinations", instruction.sources[rank] + config.flit_bytes


#: Instructions that break one rule: its code, whether it names a rank, and what is wrong with it.
REFUSALS = {
    "unaligned": (Status.UNALIGNED, _unaligned),
    "outside": (Status.OUT_OF_WINDOW, _outside),
    "overlapping": (Status.OVERLAP, _overlapping),
    "length": (Status.BAD_LENGTH, None),
    "format": (Status.BAD_FORMAT, None),
    "ranks": (Status.BAD_RANKS, None),
    "chunk": (Status.BAD_CHUNK, None),
}


@dataclass(frozen=True)
class Refused(Trouble):
    """An instruction that breaks a rule is posted: by a host before the others, or by members."""

    rule: str
    rank: int

    @property
    def kinds(self):
        yield f"refused: {REFUSALS[self.rule][0].name}"

    def fits(self, config, part):
        work = part.works[0]
        plan = work.plan
        if not part.in_band and len(part.works) == config.queue_depth:
            return False  # it would be refused for that
        if self.rule == "chunk":
            return plan.cuts
        if self.rule == "length":
            return work.format != QUANTIZED
        if self.rule in ("format", "ranks"):
            return True
        # An address is looked at where the rank is named for it, over the whole length.
        named = self.rank in plan.source_ranks(config) and self.rank in plan.destination_ranks(
            config
        )
        return named and work.length > config.flit_bytes

    def broken(self, config: SwitchConfig, instruction: Instruction) -> Instruction:
        """`instruction`, with its rule broken."""
        _, wrong = REFUSALS[self.rule]
        if wrong is not None:
            name, address = wrong(config, instruction, self.rank)
            addresses = list(getattr(instruction, name))
            addresses[self.rank] = address
            return replace(instruction, **{name: addresses})
        if self.rule == "length":
            return replace(instruction, length=instruction.length + 1)
        if self.rule == "ranks":
            return replace(instruction, destination_ranks=0)
        if self.rule == "chunk":
            return replace(instruction, chunk=instruction.chunk + 2)
        other = next(name for name in KNOWN_FORMATS if name not in config.formats)
        return replace(instruction, format=other)

    @property
    def ending(self) -> Ending:
        code, wrong = REFUSALS[self.rule]
        return Ending(code, self.rank if wrong else 0)

    def instruction(self, run, number, rank):
        return self.broken(run.bed.config, run.instructions[number])

    def prepare(self, run):
        if not run.part.in_band:
            run.try_post(self.broken(run.bed.config, run.instructions[0]), self.ending)

    def allows(self, config, part):
        if not part.in_band:
            return super().allows(config, part)
        return [Allowed(frozenset({self.ending}), well=False)] * len(part.orders)


@dataclass(frozen=True)
class FullQueue(Trouble):
    """One instruction more is posted than the queue holds."""

    @property
    def kinds(self):
        yield f"refused: {Status.QUEUE_FULL.name}"

    def fits(self, config, part):
        return not part.in_band and len(part.works) == config.queue_depth

    def prepare(self, run):
        run.try_post(run.instructions[0], Ending(Status.QUEUE_FULL))
