"""Systems that the tests of this folder share, and what every memory must hold afterwards."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from sim.golden.allreduce import all_reduce_sum
from sim.host import Figures, Instruction
from sim.quantized import Quantized
from sim.testbed import Placement, Testbed

from .variant import poisoned_and_ahead

__all__ = [
    "AWKWARD",
    "TINY",
    "Operation",
    "expect",
    "finite",
    "flag_word",
    "random_bits",
    "run_queue",
    "signal_nan",
    "system",
    "tiny",
    "variant",
]

#: Two NaNs whatever the format: quiet in both, with a payload that no result has.
signal_nan = np.array([0xFFFF, 0x7FFF], np.uint16)
#: No healthy run of these small systems takes so long.
CYCLES = 300_000


def tiny(**overrides) -> SwitchConfig:
    return SwitchConfig.preset("tiny", **overrides)


TINY = tiny()
#: Sizes of which none is a power of two where it need not be: payloads of three flits, waves of
#: eight payloads, requests of two; few entries and slots.
AWKWARD = tiny(
    ranks=2, payload_bytes=24, wave_bytes=192, read_request_bytes=48, waves=2, write_waves=1
)


@functools.cache
def _make(config: SwitchConfig, engine: str, special: bool) -> Testbed:
    with poisoned_and_ahead() if special else nullcontext():
        return Testbed(config, engine)


def system(config: SwitchConfig = TINY, engine: str = "cxxrtl", *, special=False) -> Testbed:
    """A system, as after reset but for epochs and memories; one build for all tests."""
    bed = _make(config, engine, special)
    if bed.host.read("system", "done") != (1 << config.ranks) - 1:
        # A test left it in the middle of something: the next one is not to suffer.
        bed.close()
        _make.cache_clear()
        bed = _make(config, engine, special)
    bed.set_links(config.link_latency)
    for rank in range(config.ranks):
        bed.set_memory(
            rank, latency=config.memory_latency, write_latency=1, jitter=0, stalls={}, seed=0
        )
    return bed


def variant(config: SwitchConfig = TINY) -> Testbed:
    """A system whose memories have bad addresses and whose ranks arrive ahead; see `variant`."""
    return system(config, special=True)


def random_bits(rng: np.random.Generator, ranks: int, elements: int) -> np.ndarray:
    """Any bits at all: NaN, infinities and subnormals among them."""
    return rng.integers(0, 1 << 16, (ranks, elements)).astype(np.uint16)


def finite(rng: np.random.Generator, ranks: int, elements: int, format: str) -> np.ndarray:
    """Numbers near 1, so that results depend on every operand's last bits."""
    numbers = rng.normal(size=(ranks, elements)).astype(np.float32)
    if format == "fp16":
        return numbers.astype(np.float16).view(np.uint16)
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)


def flag_word(epoch: int, code: Status = Status.OK, rank: int = 0) -> int:
    return epoch | code.value << 32 | rank << 40


def expect(bed: Testbed, rank: int, address: int, data):
    """Bytes, 16-bit values, or a flag's word that a memory must hold from now on."""
    if isinstance(data, int):
        data = np.array([data], "<u8")
    data = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
    bed.expected[rank][address : address + len(data)] = data


@dataclass
class Operation:
    """One All-Reduce of a queue."""

    operands: np.ndarray | Quantized
    format: str
    where: Placement

    @property
    def parts(self) -> tuple[np.ndarray, ...]:
        """(ranks, values), or (ranks, codes) and (ranks, scales)."""
        operands = self.operands
        if isinstance(operands, Quantized):
            return operands.codes, operands.scales
        return (operands,)

    @property
    def length(self) -> int:
        return self.parts[0].shape[1] * self.parts[0].itemsize

    @property
    def result(self) -> np.ndarray:
        """Of numbers."""
        return all_reduce_sum(self.operands, self.format)[0]

    def results(self, config: SwitchConfig) -> tuple[np.ndarray, ...]:
        """Of each of `parts`."""
        if isinstance(self.operands, Quantized):
            return self.operands.reduced(config)
        return (self.result,)

    @property
    def instruction(self) -> Instruction:
        where = self.where
        return Instruction(
            self.length, where.sources, where.destinations, where.flags, self.format,
            where.scale_sources, where.scale_destinations,
        )  # fmt: skip


def run_queue(bed: Testbed, operations: list[Operation], *, delays=None) -> Figures:
    """Post all, let every rank take part in all, and compare every byte of every memory."""
    for operation in operations:
        for addresses, part in zip(operation.where.operands, operation.parts, strict=True):
            for rank, operand in enumerate(part):
                bed.fill(rank, addresses[rank], operand)
    for number, operation in enumerate(operations):
        assert bed.host.post(operation.instruction) == (Status.OK, 0), number
    first = bed.host.epoch
    flags = operations[0].where.flags
    bed.host.program(flags=flags, count=len(operations), delays=delays)
    assert bed.host.run(CYCLES), bed.state()
    for number, operation in enumerate(operations):
        results = operation.results(bed.config)
        for rank in range(bed.config.ranks):
            for addresses, result in zip(operation.where.results, results, strict=True):
                expect(bed, rank, addresses[rank], result)
            expect(bed, rank, operation.where.flags[rank], flag_word(first + number))
    assert not bed.differences()
    return bed.host.figures()
