"""What operations leave in memories: the whole result, none of it, or what a failure cut off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from sim.quantized import QUANTIZED, Quantized

from .endings import STOPPING, Allowed, Ending
from .work import Wave, Work, packets, waves

__all__ = ["Memory", "settle"]

#: By rank, every byte of a memory.
Memory = Sequence[np.ndarray]
#: Endings whose results are whole: with the last, only a flag was not taken.
WHOLE = (Status.OK, Status.FLAG_TIMEOUT)
#: Endings with which results may be cut off.
ERRORS = (Status.READ_SLVERR, Status.READ_DECERR, Status.WRITE_SLVERR, Status.WRITE_DECERR)


def settle(
    config: SwitchConfig,
    expected: Memory,
    held: Memory,
    works: Sequence[Work],
    endings: Sequence[Ending],
    allowed: Sequence[Allowed],
) -> str | None:
    """Bring `expected` to what it must be after operations that have ended so.

    Where a failure leaves open what is written, `held` says it, and must be one of what is left
    open. Operations that are one and the same are told apart by nothing that they leave, but for
    those that work in place, of which each goes on with the result of the one before.

    Returns
    -------
    What is wrong with `held`, or None.
    """
    for work in {id(work): work for work in works}.values():
        numbers = [number for number, each in enumerate(works) if each is work]
        complaint = _settle_one(config, expected, held, work, numbers, endings, allowed)
        if complaint:
            return complaint
    return None


def _settle_one(config, expected, held, work, numbers, endings, allowed):
    whole = [number for number in numbers if endings[number].code in WHOLE]
    if whole:
        for _ in whole if work.where.in_place else whole[:1]:
            _put(config, expected, work, _results(config, expected, work))
        return None
    results = _results(config, expected, work)
    # Of operations that were queued, the first that was stopped had begun, those behind it had not.
    stopped = next((n for n, ending in enumerate(endings) if ending.code in STOPPING), None)
    if any(_cuts(endings[n], allowed[n], n == stopped or len(numbers) > 1) for n in numbers):
        cut = next((allowed[n].cut for n in numbers if allowed[n].cut is not None), None)
        return _adopt_packets(config, expected, held, work, results, cut)
    erring = [n for n in numbers if endings[n].code in ERRORS]
    if erring:
        return _adopt_waves(config, expected, held, work, results, allowed[erring[0]].written)
    return None


def _cuts(ending: Ending, allowed: Allowed, first: bool) -> bool:
    """Whether what is written may end in the middle of a wave."""
    if ending.code in (Status.READ_TIMEOUT, Status.WRITE_TIMEOUT, Status.LINK_DOWN):
        return True
    told = ending.code in (Status.ABORTED, Status.DISABLED)
    return (told and first) or (ending.code in ERRORS and allowed.stops)


def _pieces(config: SwitchConfig, memory: Memory, addresses: Sequence[list[int]], work: Work):
    """By piece of an operand or result, (ranks, bytes) of a memory."""
    return tuple(
        np.stack([memory[rank][start : start + size] for rank, start in enumerate(starts)])
        for starts, size in zip(addresses, work.sizes(config), strict=True)
    )


def _results(config: SwitchConfig, memory: Memory, work: Work) -> tuple[np.ndarray, ...]:
    """By piece, (ranks, bytes) of what destinations hold if the operation ends well."""
    types = [numbers.dtype for numbers in work.numbers(config)]
    operands, before = (
        tuple(piece.view(kind) for piece, kind in zip(pieces, types, strict=True))
        for pieces in (
            _pieces(config, memory, work.where.operands, work),
            _pieces(config, memory, work.where.results, work),
        )
    )
    given = Quantized(*operands) if work.format == QUANTIZED else operands[0]
    results = work.plan.results(config, given, before, work.format)
    return tuple(np.ascontiguousarray(result).view(np.uint8) for result in results)


def _put(config, expected, work, results):
    """Take results as they are, at every rank that is written."""
    for starts, result in zip(work.where.results, results, strict=True):
        for rank in work.plan.destination_ranks(config):
            expected[rank][starts[rank] : starts[rank] + result.shape[1]] = result[rank]


def _adopt_waves(config, expected, held, work, results, written) -> str | None:
    """Whole waves are written, up to one of those that `written` allows."""
    cut = waves(config, work)
    fewest, most = written
    for count in range(fewest, most + 1):
        trial = [memory.copy() for memory in expected]
        for wave in cut[:count]:
            _put_wave(trial, work, results, wave)
        if all(_same(config, trial[rank], held[rank], work, rank) for rank in range(len(held))):
            for memory, mended in zip(expected, trial, strict=True):
                memory[:] = mended
            return None
    return f"result: must be that of {fewest}..{most} of {len(cut)} waves, and is not"


def _put_wave(memory, work: Work, results, wave: Wave):
    for starts, part, result in zip(work.where.results, wave.ranges, results, strict=True):
        for rank in wave.destinations:
            low = starts[rank]
            memory[rank][low + part.start : low + part.stop] = result[rank][part]


def _same(config, expected, held, work, rank) -> bool:
    """Whether two memories of a rank agree where it has its results."""
    return all(
        np.array_equal(expected[start : start + size], held[start : start + size])
        for start, size in zip(
            (starts[rank] for starts in work.where.results), work.sizes(config), strict=True
        )
    )


def _adopt_packets(config, expected, held, work, results, cut) -> str | None:
    """Each packet is old or new at each rank; of rank `cut`, each flit."""
    for wave in waves(config, work):
        parts = zip(work.where.results, wave.ranges, results, strict=True)
        for starts, part, result in parts:
            for rank in wave.destinations:
                for piece in _steps(config, part, rank == cut):
                    low, high = starts[rank] + piece.start, starts[rank] + piece.stop
                    now = held[rank][low:high]
                    choices = expected[rank][low:high], result[rank][piece]
                    if not any(np.array_equal(now, choice) for choice in choices):
                        return f"rank {rank} address {low:#x}: bytes are neither old nor new"
                    expected[rank][low:high] = now
    return None


def _steps(config, part: slice, cut: bool):
    """What of a wave's range is written whole or not at all."""
    if not cut:
        yield from packets(config, part)
        return
    for start in range(part.start, part.stop, config.flit_bytes):
        yield slice(start, min(start + config.flit_bytes, part.stop))
