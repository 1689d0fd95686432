"""What a scenario is: settings and orders, all decided before anything runs.

A scenario goes in rounds. In each some tenants run operations at once, beside ordinary traffic and
whatever goes wrong; a round ends when nothing is under way, and every byte is compared then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hdl.config import SwitchConfig
from sim.traffic import Traffic

from .configurations import configuration
from .faults import Fault
from .troubles import NO_TROUBLE, Trouble
from .work import Work

__all__ = ["MemorySettings", "Part", "Round", "Scenario", "Window"]


@dataclass(frozen=True)
class Window:
    """Bytes from base to limit, in every member's memory: a tenant's, or ordinary traffic's."""

    base: int
    limit: int


@dataclass(frozen=True)
class MemorySettings:
    """How one rank's memory behaves; see `Bench.set_memory`. ``read_first``: it has one port."""

    latency: int
    write_latency: int
    jitter: int
    stalls: dict[str, int]
    seed: int
    read_first: bool = False


@dataclass(frozen=True)
class Part:
    """What one tenant does in a round.

    Parameters
    ----------
    context, members
        The tenant, and who belongs to it in this round.
    works
        Operations in the order in which they are posted; of members that post it is one.
    in_band
        Members post.
    repeat
        How often members run what they post.
    delays
        Cycles by rank before each arrival.
    watchdog
        Cycles; 0 is none.
    trouble
        What goes wrong by somebody's mistake or will, if anything does.
    """

    context: int
    members: tuple[int, ...]
    works: tuple[Work, ...]
    in_band: bool
    repeat: int
    delays: tuple[int, ...]
    watchdog: int
    trouble: Trouble = NO_TROUBLE

    @cached_property
    def orders(self) -> tuple[Work, ...]:
        """Every operation that members take part in, in order."""
        return self.works * self.repeat


@dataclass(frozen=True)
class Round:
    """What goes on at once.

    Parameters
    ----------
    parts
        Of tenants, each of another context.
    faults
        Of ranks' memories, or of all contexts.
    cycles
        About how long it takes if nothing goes wrong.
    after
        By context: what is run without a rank that a fault has left behind, before that is over.
    joins
        A context that is enabled, and so takes a share, so many cycles after the start; or None.
    """

    parts: tuple[Part, ...]
    faults: tuple[Fault, ...]
    cycles: int
    after: dict[int, Work]
    joins: tuple[int, int] | None = None


@dataclass(frozen=True)
class Scenario:
    """All of it.

    Parameters
    ----------
    seed
        From which it was drawn.
    name
        Of the configuration.
    link_latency
        Cycles.
    memories
        By rank.
    windows
        By context.
    traffics
        By rank, of each round; none in a switch that does not forward, and sometimes.
    rounds
        One after the other.
    last
        The All-Reduce of all ranks at the end, of context 0.
    """

    seed: int
    name: str
    link_latency: int
    memories: tuple[MemorySettings, ...]
    windows: tuple[Window, ...]
    traffics: tuple[Traffic, ...]
    rounds: tuple[Round, ...]
    last: Part

    @property
    def config(self) -> SwitchConfig:
        return configuration(self.name)

    @property
    def contexts(self) -> Sequence[int]:
        """Contexts that have a part in it."""
        return sorted({part.context for each in self.rounds for part in each.parts})
