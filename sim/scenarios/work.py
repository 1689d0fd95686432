"""One operation of a scenario, and how it is cut: which bytes of which rank are one wave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hdl.config import SwitchConfig
from sim.activations import round_once
from sim.bench import Placement
from sim.golden.collectives import chunk_of
from sim.plan import Plan
from sim.quantized import INTEGER, QUANTIZED, Quantized, element_bytes

__all__ = ["Wave", "Work", "packets", "touched_waves", "waves"]


@dataclass(frozen=True)
class Work:
    """One operation.

    Parameters
    ----------
    plan
        With its ranks named.
    elements
        Of each rank's operand.
    where
        Addresses by rank.
    values
        How numbers are drawn: ``normal``, or ``bits`` (any pattern, NaN among them).
    seed
        Of the numbers.
    """

    plan: Plan
    format: str
    elements: int
    where: Placement
    values: str
    seed: int

    @property
    def length(self) -> int:
        """Bytes of an operand, without its scales."""
        return self.elements * element_bytes(self.format)

    def sizes(self, config: SwitchConfig) -> tuple[int, ...]:
        """Bytes of each piece of an operand: of values, or of codes and of scales."""
        quantized = self.format == QUANTIZED
        return (self.length, *((config.scales_bytes(self.length),) if quantized else ()))

    def numbers(self, config: SwitchConfig) -> tuple[np.ndarray, ...]:
        """What the ranks' operands are at first: (ranks, n) of each piece."""
        rng = np.random.default_rng(self.seed)
        shape = config.ranks, self.elements
        if self.format == INTEGER:
            return (rng.integers(-(1 << 31), 1 << 31, shape, np.int64).astype(np.int32),)
        if self.format == QUANTIZED:
            if self.values == "bits":
                codes = rng.integers(-128, 128, shape).astype(np.int8)
                blocks = config.scales_bytes(self.length) // config.scale_bytes
                scales = rng.integers(0, 1 << 16, (config.ranks, blocks)).astype(np.uint16)
                return codes, scales
            quantized = Quantized.of(rng.standard_normal(shape, np.float32), config)
            return quantized.codes, quantized.scales
        if self.values == "bits":
            return (rng.integers(0, 1 << 16, shape).astype(np.uint16),)
        return (round_once(rng.standard_normal(shape, np.float32), self.format),)


@dataclass(frozen=True)
class Wave:
    """Bytes of one wave, from the address that an operand or result begins at.

    ``ranges`` are of values, or of codes and of scales.
    """

    ranges: tuple[slice, ...]
    sources: tuple[int, ...]
    destinations: tuple[int, ...]


def _segments(config: SwitchConfig, work: Work) -> Iterator[tuple[slice, tuple, tuple]]:
    """Bytes that go from whom to whom."""
    plan, length = work.plan, work.length
    read, written = plan.source_ranks(config), plan.destination_ranks(config)
    if not plan.cuts:
        yield slice(0, length), read, written
        return
    gathers = plan.kind == "all-gather"
    owners = read if gathers else written
    chunk = plan.chunk_bytes(config, length)
    for number, owner in enumerate(owners):
        part = chunk_of(length, len(owners), number, chunk)
        yield part, (owner,) if gathers else read, written if gathers else (owner,)


def waves(config: SwitchConfig, work: Work) -> list[Wave]:
    """The waves of an operation, in the order in which they are read out."""
    found = []
    for part, read, written in _segments(config, work):
        for start in range(part.start, part.stop, config.wave_bytes):
            stop = min(start + config.wave_bytes, part.stop)
            ranges = (slice(start, stop),)
            if work.format == QUANTIZED:
                blocks = start // config.block, -(-stop // config.block)
                ranges += (slice(*(number * config.scale_bytes for number in blocks)),)
            found.append(Wave(ranges, read, written))
    return found


def packets(config: SwitchConfig, part: slice) -> Iterator[slice]:
    """The packets of a wave's range."""
    for start in range(part.start, part.stop, config.payload_bytes):
        yield slice(start, min(start + config.payload_bytes, part.stop))


def touched_waves(
    config: SwitchConfig, work: Work, rank: int, address: int, kind: str
) -> list[int]:
    """Numbers of the waves that read (`kind` ``read``) or write the flit at `address` of a rank."""
    starts = work.where.operands if kind == "read" else work.where.results
    found = []
    for number, wave in enumerate(waves(config, work)):
        if rank not in (wave.sources if kind == "read" else wave.destinations):
            continue
        for addresses, part in zip(starts, wave.ranges, strict=True):
            low, high = addresses[rank] + part.start, addresses[rank] + part.stop
            if low < address + config.flit_bytes and address < high:
                found.append(number)
    return sorted(set(found))
