"""What goes wrong at a rank, or ends what all contexts do, in one round of a scenario.

A new kind of fault is a class here, an entry in `sim.scenarios.draw.FAULTS`, and nothing else: it
says when it does what (`prepare`, `events`, `relieve`), and how operations may end for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from hdl.emulated_memory import STALL_CHANNELS
from hdl.interfaces import Response
from sim.bench import Bench

from .endings import ABORTED, Allowed, Ending
from .work import Work, touched_waves, waves

if TYPE_CHECKING:
    from .scenario import MemorySettings, Part

__all__ = [
    "BadFlag",
    "BadFlit",
    "BadFlits",
    "Fault",
    "Flicker",
    "Hold",
    "LinkOutage",
    "SlowResponses",
    "SoftReset",
]

#: A watchdog with so many cycles to spare does not find a rank that is only slow.
SLACK = 1200
#: A rank's write responses come one after the other, some for others before those for a context: it
#: may wait for its next one so many of their latencies.
RESPONSES_AHEAD = 12

#: Channels by what stands still with them.
READING, WRITING = frozenset({"ar", "r"}), frozenset({"aw", "w", "b"})

Event = tuple[int, Callable[[Bench], None]]


class Fault:
    """Something that goes wrong in a round; by itself nothing does."""

    #: Goes on until every operation has ended; then the fault's ``rank`` is left behind, others go
    #: on without it, and it comes back.
    lasting = False
    #: Ranks whose link goes down: ordinary traffic from and to them may be lost.
    cut: frozenset[int] = frozenset()

    @property
    def kinds(self) -> Iterable[str]:
        """What a scenario has of ingredients for it."""
        return ()

    def prepare(self, bed: Bench):
        """Before the first arrival."""

    def events(self) -> Iterable[Event]:
        """Cycles after the start, and what happens then."""
        return ()

    def relieve(self, bed: Bench):
        """When every operation has ended."""

    def allows(self, config: SwitchConfig, part: Part) -> list[Allowed]:
        """How each operation of a part may end for it."""
        return [Allowed()] * len(part.orders)

    def astray(self, part: Part) -> frozenset[Ending]:
        """See `Expectation`."""
        return frozenset()

    def absent(self, part: Part) -> frozenset[int]:
        """Members that may lack flags."""
        return frozenset()

    def again(self, part: Part) -> frozenset[int]:
        """Members to which a flag may be written again."""
        return frozenset()

    def disturbs(self, part: Part) -> bool:
        """Whether ranks may come out of step for it, so that arrivals are refused."""
        return False


def _sources(config: SwitchConfig, work: Work) -> set[int]:
    return {rank for wave in waves(config, work) for rank in wave.sources}


def _destinations(config: SwitchConfig, work: Work) -> set[int]:
    return {rank for wave in waves(config, work) for rank in wave.destinations}


def _may_lack_flags(fault: Hold | SlowResponses, part: Part) -> bool:
    """Whether its rank may: who is slow when a host ends an operation is told the last alone."""
    slow = part.trouble.stops and fault.rank in part.members
    return slow or fault.disturbs(part)


@dataclass(frozen=True)
class Hold(Fault):
    """Channels of a rank's memory stand still.

    Parameters
    ----------
    rank, channels
        Which.
    memory
        How that memory behaves else: with one port, what holds up its reads holds up its writes.
    begin
        Cycles after the start; 0 is before the first arrival.
    cycles
        For how long; None is until everything has ended.
    """

    rank: int
    channels: tuple[str, ...]
    memory: MemorySettings
    begin: int
    cycles: int | None

    @property
    def lasting(self) -> bool:
        return self.cycles is None

    @property
    def kinds(self):
        when = "for good" if self.lasting else "for a time"
        yield f"rank stands still {when}"
        yield from (f"channel {channel} stands still" for channel in self.channels)
        if self.begin:
            yield "rank stops in the middle"

    def prepare(self, bed):
        if self.begin == 0:
            self._set(bed, True)

    def events(self):
        if self.begin:
            yield self.begin, lambda bed: self._set(bed, True)
        if not self.lasting:
            yield self.begin + self.cycles, self.relieve

    def relieve(self, bed):
        self._set(bed, False)

    def _set(self, bed, on):
        bits = sum(1 << STALL_CHANNELS.index(channel) for channel in self.channels)
        bed.host.write(f"rank{self.rank}", "hold", bits if on else 0)

    def allows(self, config, part):
        if not self.disturbs(part):
            return super().allows(config, part)
        return [self._allowed(config, part, number) for number in range(len(part.orders))]

    def _allowed(self, config, part, number):
        work = part.orders[number]
        reads, writes = self._stand_still
        lacks_data = reads and self.rank in _sources(config, work)
        lacks_answers = writes and self.rank in _destinations(config, work)
        codes = set()
        if lacks_data:
            codes.add(Status.READ_TIMEOUT)
        if lacks_answers:
            codes.add(Status.WRITE_TIMEOUT)
        if writes:
            # Its endpoint may be full of writes that others have under way.
            codes.add(Status.FLAG_TIMEOUT)
            if number:
                codes.add(Status.NOT_ARRIVED)  # it has not seen the flag of the one before
        if "r" in self.channels and self.begin:
            # A burst that stops in the middle holds up all that its rank sends.
            codes.add(Status.NOT_ARRIVED)
        certain = self.lasting and self.begin == 0 and number == 0 and part.watchdog
        well = not (certain and self._stops_for_sure(lacks_data, lacks_answers))
        endings = frozenset(Ending(code, self.rank) for code in codes)
        return Allowed(endings if part.watchdog else frozenset(), well, cut=self.rank)

    @property
    def _stand_still(self) -> tuple[bool, bool]:
        """Whether reads and writes may."""
        reads = bool(READING & set(self.channels))
        writes = bool(WRITING & set(self.channels)) or (reads and self.memory.read_first)
        return reads, writes

    def _stops_for_sure(self, lacks_data, lacks_answers):
        return lacks_data or (lacks_answers and bool(WRITING & set(self.channels)))

    def astray(self, part):
        if not self.disturbs(part):
            return frozenset()
        return frozenset({Ending(Status.NOT_ARRIVED, self.rank)})

    def absent(self, part):
        return frozenset({self.rank}) if _may_lack_flags(self, part) else frozenset()

    def disturbs(self, part):
        if self.rank not in part.members:
            return False
        patient = part.watchdog == 0 or part.watchdog >= (self.cycles or 0) + SLACK
        return self.lasting or not patient


@dataclass(frozen=True)
class SlowResponses(Fault):
    """A rank's write responses take long."""

    rank: int
    cycles: int
    memory: MemorySettings

    @property
    def kinds(self):
        yield "slow write responses"

    def prepare(self, bed):
        bed.set_memory(self.rank, write_latency=self.cycles)

    def relieve(self, bed):
        bed.set_memory(self.rank, write_latency=self.memory.write_latency)

    def allows(self, config, part):
        if not self.disturbs(part):
            return super().allows(config, part)
        codes = Status.WRITE_TIMEOUT, Status.FLAG_TIMEOUT, Status.NOT_ARRIVED
        endings = frozenset(Ending(code, self.rank) for code in codes)
        return [Allowed(endings, cut=self.rank)] * len(part.orders)

    def astray(self, part):
        if not self.disturbs(part):
            return frozenset()
        return frozenset({Ending(Status.NOT_ARRIVED, self.rank)})

    def absent(self, part):
        return frozenset({self.rank}) if _may_lack_flags(self, part) else frozenset()

    def disturbs(self, part):
        patient = part.watchdog == 0 or part.watchdog >= RESPONSES_AHEAD * self.cycles + SLACK
        return self.rank in part.members and not patient


@dataclass(frozen=True)
class BadFlit:
    """A flit of a rank's memory whose reads (`kind` ``read``) or writes end with `response`."""

    rank: int
    kind: str
    address: int
    response: Response

    @property
    def ending(self) -> Ending:
        return Ending(Status[f"{self.kind.upper()}_{self.response.name}"], self.rank)

    def set(self, bed: Bench, on: bool):
        where = f"rank{self.rank}"
        bed.host.write(where, f"bad_{self.kind}", self.address)
        bed.host.write(where, f"{self.kind}_error", self.response.value if on else 0)


@dataclass(frozen=True)
class BadFlits(Fault):
    """Error responses to some flits of operands and results; at most one a rank and kind."""

    flits: tuple[BadFlit, ...]

    @property
    def kinds(self):
        for flit in self.flits:
            yield f"{flit.response.name} on a {flit.kind}"
        if len(self.flits) > 1:
            yield "several error responses"

    def prepare(self, bed):
        for flit in self.flits:
            flit.set(bed, True)

    def relieve(self, bed):
        for flit in self.flits:
            flit.set(bed, False)

    def allows(self, config, part):
        return [self._allowed(config, work) for work in part.orders]

    def _allowed(self, config, work):
        touched = [
            (wave, flit)
            for flit in self.flits
            for wave in touched_waves(config, work, flit.rank, flit.address, flit.kind)
        ]
        if not touched:
            return Allowed()
        reads = [(wave, flit.rank, flit) for wave, flit in touched if flit.kind == "read"]
        endings, most = set(), len(waves(config, work))
        if reads:
            # Waves are read out in order, and of a wave the lowest rank is named.
            most, _, first = min(reads, key=lambda read: read[:2])
            endings.add(first.ending)
        # What is behind a wave that could not be read is not written.
        writes = [(wave, flit) for wave, flit in touched if flit.kind == "write" and wave < most]
        endings |= {flit.ending for _, flit in writes}
        fewest = min((wave + 1 for wave, _ in writes), default=most)
        return Allowed(frozenset(endings), well=not endings, written=(fewest, most))


@dataclass(frozen=True)
class BadFlag(Fault):
    """Writes of a rank's flag end with an error: nobody can be told, and it is counted."""

    context: int
    flit: BadFlit

    @property
    def kinds(self):
        yield f"{self.flit.response.name} on a flag"

    def prepare(self, bed):
        self.flit.set(bed, True)

    def relieve(self, bed):
        self.flit.set(bed, False)


@dataclass(frozen=True)
class SoftReset(Fault):
    """A host ends what every context does, so many cycles after the start."""

    cycles: int

    @property
    def kinds(self):
        yield "soft reset"

    def events(self):
        yield self.cycles, lambda bed: bed.host.write("switch", "soft_reset", 1)

    def allows(self, config, part):
        return [Allowed(frozenset({ABORTED}))] * len(part.orders)

    def astray(self, part):
        return left_behind(part)

    def absent(self, part):
        return frozenset(part.members) if part.in_band else frozenset()

    def disturbs(self, part):
        return True


@dataclass(frozen=True)
class Flicker(Fault):
    """A context that has nothing to do is disabled, and enabled again so many cycles later."""

    context: int
    begin: int
    cycles: int

    @property
    def kinds(self):
        yield "idle context disabled for a time"

    def events(self):
        yield self.begin, lambda bed: bed.host.write(f"context{self.context}", "enable", 0)
        yield self.begin + self.cycles, self.relieve

    def relieve(self, bed):
        bed.host.write(f"context{self.context}", "enable", 1)


@dataclass(frozen=True)
class LinkOutage(Fault):
    """A rank's link carries nothing, from so many cycles after the start on, and for how long."""

    rank: int
    begin: int
    cycles: int

    @property
    def kinds(self):
        yield "link goes down"

    @property
    def cut(self):
        return frozenset({self.rank})

    def events(self):
        yield self.begin, lambda bed: self._carry(bed, False)
        yield self.begin + self.cycles, self.relieve

    def relieve(self, bed):
        self._carry(bed, True)

    def _carry(self, bed, on):
        everyone = (1 << bed.config.ranks) - 1
        bed.host.write("system", "links_up", everyone if on else everyone & ~(1 << self.rank))

    def allows(self, config, part):
        if not self.disturbs(part):
            return super().allows(config, part)
        ended = Ending(Status.LINK_DOWN, self.rank)
        return [Allowed(frozenset({ended}), cut=self.rank)] * len(part.orders)

    def astray(self, part):
        if not self.disturbs(part):
            return frozenset()
        return left_behind(part) | {Ending(Status.LINK_DOWN, self.rank)}

    def absent(self, part):
        if not self.disturbs(part):
            return frozenset()
        return frozenset(part.members) if part.in_band else frozenset({self.rank})

    def again(self, part):
        return frozenset({self.rank}) if self.disturbs(part) else frozenset()

    def disturbs(self, part):
        return self.rank in part.members


def left_behind(part: Part) -> frozenset[Ending]:
    """Members that had not arrived for what a host has ended wait for a flag that does not come."""
    return frozenset(Ending(Status.NOT_ARRIVED, rank) for rank in part.members)
