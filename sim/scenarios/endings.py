"""How operations may end: the codes that each cause allows, and their order in a context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from hdl.accelerator.layouts import Status

__all__ = ["ABORTED", "OK", "STOPPING", "Allowed", "Ending", "Expectation", "together"]


class Ending(NamedTuple):
    """A status code, and the rank that it speaks of."""

    code: Status
    rank: int = 0

    def __str__(self):
        return f"{self.code.name} of rank {self.rank}" if self.rank else self.code.name


OK = Ending(Status.OK)
ABORTED = Ending(Status.ABORTED)
DISABLED = Ending(Status.DISABLED)

#: Codes of what a watchdog, a link that is down, or a host has ended: operations queued behind it
#: end ABORTED.
STOPPING = frozenset(
    {
        Status.NOT_ARRIVED,
        Status.READ_TIMEOUT,
        Status.WRITE_TIMEOUT,
        Status.FLAG_TIMEOUT,
        Status.LINK_DOWN,
        Status.DISABLED,
        Status.ABORTED,
    }
)


@dataclass(frozen=True)
class Allowed:
    """How one operation may end, as far as one cause has to do with it; by itself: well.

    Parameters
    ----------
    endings
        Codes that it may end with instead.
    well
        It may end well all the same.
    written
        The fewest and the most of its waves that are written if it ends with an error of memory.
    cut
        The rank whose memory may stand still in the middle of a packet.
    """

    endings: frozenset[Ending] = frozenset()
    well: bool = True
    written: tuple[int, int] | None = None
    cut: int | None = None

    @property
    def stops(self) -> bool:
        """Whether a watchdog or a host may end it."""
        return any(ending.code in STOPPING for ending in self.endings)

    @property
    def every(self) -> frozenset[Ending]:
        """Every ending, the good one among them."""
        return self.endings | {OK} if self.well else self.endings


def together(causes: Iterable[Allowed]) -> Allowed:
    """What several causes allow of one operation."""
    result = Allowed()
    for cause in causes:
        written = cause.written or result.written
        result = replace(
            result,
            endings=result.endings | cause.endings,
            well=result.well and cause.well,
            written=written,
            cut=result.cut if cause.cut is None else cause.cut,
        )
    return result


@dataclass(frozen=True)
class Expectation:
    """How the operations of one tenant may end, one after the other.

    Parameters
    ----------
    orders
        Of each, as long as none has been stopped.
    in_band
        Members post: what is stopped leaves those behind it to be posted yet.
    astray
        What those may end with then besides, where ranks are out of step.
    absent
        Members that may lack flags, since an operation was ended without them.
    again
        Members to which a flag may be written again.
    """

    orders: tuple[Allowed, ...]
    in_band: bool = False
    astray: frozenset[Ending] = frozenset()
    absent: frozenset[int] = frozenset()
    again: frozenset[int] = frozenset()

    def complaint(self, endings: Sequence[Ending]) -> str | None:
        """What is wrong with these endings; None where nothing is."""
        stopped = False
        for number, (allowed, ending) in enumerate(zip(self.orders, endings, strict=True)):
            every = allowed.every
            if stopped:
                every = every | self.astray if self.in_band else frozenset({ABORTED})
            if ending not in every:
                names = ", ".join(sorted(map(str, every)))
                return f"operation {number} ended with {ending}, and may with {names}"
            stopped = stopped or ending.code in STOPPING
        return None
