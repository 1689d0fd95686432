"""How ordinary traffic and an All-Reduce share links while both have more than fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hdl.accelerator.layouts import Status

from . import traffic
from .golden.allreduce import all_reduce_sum
from .golden.traffic import CERTAIN, Traffic
from .host import Instruction
from .testbed import Testbed
from .traffic import Totals

__all__ = ["Contention", "ContentionError", "contend", "flits", "saturating"]

#: Requests that no measurement comes to the end of.
ENDLESS = 0xFFFFFFFF
#: Cycles that the end of a measured run may take.
END_CYCLES = 1_000_000
#: What passes a link, as the switch's registers count it.
WAYS = ("sent", "received")


class ContentionError(RuntimeError):
    """The run was not what was to be measured."""


@dataclass(frozen=True)
class Contention:
    """Flits in a window of cycles in which an All-Reduce and ordinary traffic ran.

    `accelerator` and `ordinary` are flits by way (``sent`` to a rank, ``received`` from it) and
    rank; `cycles` those of the window, `operation` those of the whole All-Reduce.
    """

    cycles: int
    operation: int
    accelerator: dict[str, list[int]]
    ordinary: dict[str, list[int]]
    totals: list[Totals]

    @property
    def shares(self) -> dict[str, list[float]]:
        """The accelerator's part of each link's flits."""
        return {
            way: [
                mine / (mine + theirs)
                for mine, theirs in zip(self.accelerator[way], self.ordinary[way], strict=True)
            ]
            for way in WAYS
        }

    @property
    def busy(self) -> dict[str, list[float]]:
        """Flits a cycle of each link."""
        return {
            way: [
                (mine + theirs) / self.cycles
                for mine, theirs in zip(self.accelerator[way], self.ordinary[way], strict=True)
            ]
            for way in WAYS
        }


def saturating(bed: Testbed, *, bytes: int, writes: bool, base: int) -> list[Traffic]:
    """All ranks ask all others as fast as they can: reads or writes of so many bytes.

    Slots are two a rank and destination, from `base` on; writes behind reads. `count` is the number
    of requests after which they are for the same places again.
    """
    config = bed.config
    slots = 2
    reach = (
        slots * (1 << (config.ranks - 1).bit_length()) << (config.payload_bytes - 1).bit_length()
    )
    return [
        Traffic(
            bytes=bytes,
            writes=CERTAIN if writes else 0,
            count=slots * (config.ranks - 1),
            slots=slots,
            read_base=base,
            write_base=base + reach,
            seed=rank + 1,
        )
        for rank in range(config.ranks)
    ]


def flits(bed: Testbed, side: str) -> dict[str, list[int]]:
    """Flits of a side (``inc`` or ``ordinary``) by way and rank, since the last clear."""
    ranks = range(bed.config.ranks)
    return {way: [bed.host.read("switch", f"{way}_{side}_{r}") for r in ranks] for way in WAYS}


def contend(
    bed: Testbed,
    operands: np.ndarray,
    traffics: Sequence[Traffic],
    *,
    ramp: int,
    window: int,
) -> Contention:
    """Run an All-Reduce of fp16 beside endless traffic, and look at links in its middle.

    The traffic goes on beyond its count for as long as the All-Reduce runs.

    Parameters
    ----------
    operands
        (ranks, elements) uint16; they lie from address 0 up, below all slots.
    ramp
        Cycles from the last arrival to the window.
    window
        Cycles of the window, less than the operation takes then.

    Raises
    ------
    ContentionError
        It ended before the window did, or is not bit exact, or an answer was wrong.
    """
    config, host, engine = bed.config, bed.host, bed.engine
    length = operands.shape[1] * 2
    where = bed.placement(length)
    for rank in range(config.ranks):
        bed.fill(rank, where.sources[rank], operands[rank])
    traffic.prepare(bed, traffics)
    for rank in range(config.ranks):
        host.write(f"rank{rank}", "traffic_count", ENDLESS)
    traffic.start(bed)
    engine.step(ramp)
    code, _ = host.post(Instruction(length, where.sources, where.destinations, where.flags))
    if code is not Status.OK:
        raise ContentionError(f"instruction refused: {code.name}")
    epoch = host.epoch
    host.program(flags=where.flags)
    host.start()
    engine.step(ramp)
    start = engine.cycle
    before = {side: flits(bed, side) for side in ("inc", "ordinary")}
    # Each register is read again after the same number of cycles.
    engine.step(window - (engine.cycle - start))
    if engine.get("done"):
        raise ContentionError("the operation ended before the window")
    after = {side: flits(bed, side) for side in ("inc", "ordinary")}
    if not engine.run_until("done", END_CYCLES):
        raise ContentionError(f"no end within {END_CYCLES} cycles")
    totals = traffic.totals(bed)
    traffic.stop(bed)
    _check(bed, where, operands, epoch, traffics, totals)
    parts = {
        side: {
            way: [b - a for a, b in zip(before[side][way], after[side][way], strict=True)]
            for way in WAYS
        }
        for side in before
    }
    operation = host.read("switch", "last_response") - host.read("switch", "first_request")
    return Contention(window, operation, parts["inc"], parts["ordinary"], totals)


def _check(bed, where, operands, epoch, traffics, totals):
    result = all_reduce_sum(operands, "fp16")[0].view(np.uint8)
    flag = np.array([epoch], "<u8").view(np.uint8)
    for rank in range(bed.config.ranks):
        for address, content in ((where.destinations[rank], result), (where.flags[rank], flag)):
            bed.expected[rank][address : address + len(content)] = content
    if any(total.errors or total.mismatches or total.strays for total in totals):
        raise ContentionError(f"a wrong answer: {totals}")
    if any(total.asked < each.count for total, each in zip(totals, traffics, strict=True)):
        raise ContentionError("not every slot was asked for")
    traffic.expect(bed, traffics)
    differences = bed.differences()
    if differences:
        raise ContentionError(f"not bit exact: {differences[0]}")
