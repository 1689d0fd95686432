"""What one instruction does: a collective, an operation, and who takes part in it how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hdl.config import SwitchConfig

from .golden.collectives import CHUNKED, COPYING, chunk_of, collective, even_chunk
from .quantized import Quantized, element_bytes

__all__ = ["ALL_REDUCE", "Plan", "mask"]

#: How an instruction names the collectives that cut the vector.
CUTS = {"all-gather": "gather", "reduce-scatter": "scatter"}


def mask(ranks) -> int:
    """A bit a rank."""
    return sum(1 << rank for rank in ranks)


@dataclass(frozen=True)
class Plan:
    """A collective as it is asked for; docs/collectives.md says what it does.

    Parameters
    ----------
    kind
        One of `sim.golden.collectives.COLLECTIVES`.
    operation
        One of `sim.golden.OPERATIONS`; without effect where bits are copied.
    sources, destinations
        Ranks that are read and written, ascending; None is all.
    chunk
        Bytes of a chunk, whole flits; None is an even share.
    """

    kind: str = "all-reduce"
    operation: str = "sum"
    sources: tuple[int, ...] | None = None
    destinations: tuple[int, ...] | None = None
    chunk: int | None = None

    @property
    def copies(self) -> bool:
        """Whether bits are copied."""
        return self.kind in COPYING

    @property
    def cuts(self) -> bool:
        """Whether the vector is cut into chunks."""
        return self.kind in CHUNKED

    def source_ranks(self, config: SwitchConfig) -> tuple[int, ...]:
        return tuple(range(config.ranks)) if self.sources is None else self.sources

    def destination_ranks(self, config: SwitchConfig) -> tuple[int, ...]:
        return tuple(range(config.ranks)) if self.destinations is None else self.destinations

    def chunk_bytes(self, config: SwitchConfig, length: int) -> int | None:
        """Bytes of a chunk; None where there are none."""
        if not self.cuts:
            return None
        return self.chunk or even_chunk(length, len(self._owners(config)), config.flit_bytes)

    def fields(self, config: SwitchConfig, length: int) -> dict:
        """What it adds to an `Instruction` of so many bytes."""
        return {
            "operation": "copy" if self.copies else self.operation,
            "collective": CUTS.get(self.kind, "whole"),
            "chunk": self.chunk_bytes(config, length) or 0,
            "source_ranks": mask(self.source_ranks(config)),
            "destination_ranks": mask(self.destination_ranks(config)),
        }

    # -- what must come of it -------------------------------------------------------------------

    def results(
        self,
        config: SwitchConfig,
        operands: np.ndarray | Quantized,
        before: tuple[np.ndarray, ...],
        format: str,
    ) -> tuple[np.ndarray, ...]:
        """What every rank's destination must hold: (ranks, values), or of codes and of scales.

        Parameters
        ----------
        operands
            Of all ranks, also of those that are not read.
        before
            What the destinations held, in the shape of the result.
        """
        read, written = self.source_ranks(config), self.destination_ranks(config)
        if isinstance(operands, Quantized):
            after = [part.copy() for part in before]
            reduced = self.read(config, operands).reduced(config)
            for part, result in zip(after, reduced, strict=True):
                part[list(written)] = result
            return tuple(after)
        chunk = self.chunk_bytes(config, operands.shape[1] * operands.itemsize)
        after = collective(
            self.kind,
            operands,
            before[0],
            format=format,
            operation=self.operation,
            source_ranks=read,
            destination_ranks=written,
            chunk=chunk and chunk // element_bytes(format),
        )
        return (after,)

    def read(self, config: SwitchConfig, operands: Quantized) -> Quantized:
        """Those of the ranks that are read."""
        read = list(self.source_ranks(config))
        if read == list(range(config.ranks)):
            return operands
        return Quantized(operands.codes[read], operands.scales[read])

    # -- what it takes --------------------------------------------------------------------------

    def bound(self, config: SwitchConfig, length: int, format: str) -> float | None:
        """The limit of utilization that headers, requests, responses and scales leave.

        It is that of the busiest link in either direction; None for 0 bytes.
        """
        if length == 0:
            return None
        to_rank, from_rank = [0] * config.ranks, [0] * config.ranks
        for size, read, written in self._segments(config, length):
            flits, packets, requests = config.traffic(size, format)
            for rank in read:
                to_rank[rank] += config.header_flits * requests
                from_rank[rank] += flits + config.header_flits * packets
            for rank in written:
                to_rank[rank] += flits + config.header_flits * packets
                from_rank[rank] += config.header_flits * packets
        return config.payload_cycles(length) / max(to_rank + from_rank)

    def _owners(self, config: SwitchConfig) -> tuple[int, ...]:
        """Who has a chunk."""
        gathers = CUTS.get(self.kind) == "gather"
        return self.source_ranks(config) if gathers else self.destination_ranks(config)

    def _segments(self, config: SwitchConfig, length: int) -> Iterator[tuple]:
        """Bytes that go from whom to whom."""
        read, written = self.source_ranks(config), self.destination_ranks(config)
        if not self.cuts:
            yield length, read, written
            return
        chunk, owners = self.chunk_bytes(config, length), self._owners(config)
        for number, owner in enumerate(owners):
            part = chunk_of(length, len(owners), number, chunk)
            if CUTS[self.kind] == "gather":
                yield part.stop - part.start, (owner,), written
            else:
                yield part.stop - part.start, read, (owner,)


#: Every rank's sum, to every rank.
ALL_REDUCE = Plan()
