"""All-Reduces one after another in a system, its memories, and what they must hold."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from hdl.emulated_memory import STALL_CHANNELS

from .plan import ALL_REDUCE, Plan
from .quantized import QUANTIZED, Blocks, Quantized
from .register_host import Figures, Instruction, RegisterHost, context_name

__all__ = ["Bench", "Memories", "Outcome", "Placement", "place"]

#: Bytes of a flag, and the distance of two, so that each stands in a flit of its own.
FLAG_SPACING = 64
#: Bytes around what a run may touch that are filled and looked at.
GUARD_BYTES = 4096
#: Cycles after a run in which its flags' acknowledgements arrive, beside the links' latency.
SETTLE_CYCLES = 4000
#: A link whose latency has changed is up again after so many latencies and cycles at most: see
#: `hdl.transport.link_end.LinkEnd`, and what ends that are clean say a few cycles later.
LINK_RETURNS, LINK_RETURN_CYCLES = 9, 16
#: Cycles that a run is given, beside what its length takes.
GRACE_CYCLES = 200_000
#: Cycles that a flit is given, however its memory stalls.
CYCLES_PER_FLIT = 400


@dataclass(frozen=True)
class Placement:
    """Byte addresses by rank: operand, result and flag, and a quantized operation's scales."""

    sources: list[int]
    destinations: list[int]
    flags: list[int]
    scale_sources: list[int] | None = None
    scale_destinations: list[int] | None = None

    @property
    def in_place(self) -> bool:
        return self.operands == self.results

    @property
    def operands(self) -> tuple[list[int], ...]:
        """Where operands lie: values, or codes and scales."""
        scales = self.scale_sources
        return (self.sources,) if scales is None else (self.sources, scales)

    @property
    def results(self) -> tuple[list[int], ...]:
        """Where results go, in the same order."""
        scales = self.scale_destinations
        return (self.destinations,) if scales is None else (self.destinations, scales)


@dataclass
class Outcome:
    """One All-Reduce.

    `status` is "ok", "mismatch", "timeout", or a hardware code by name. `differences` has a line
    for each of the first bytes that are not what golden says, and for counts that are not. `blocks`
    are those that the switch has counted in a quantized operation that ended. `began` and `ended`
    are the cycles, where they are known, in which the instruction was posted and the last rank was
    done.
    """

    bytes: int
    format: str
    status: str
    bit_exact: bool
    figures: Figures | None = None
    differences: list[str] = field(default_factory=list)
    state: dict = field(default_factory=dict)
    blocks: Blocks | None = None
    began: int = 0
    ended: int = 0


def _part_bytes(config: SwitchConfig, length: int, format: str) -> list[int]:
    """Bytes of each part of an operand: of its values, or of codes and scales."""
    return [length, config.scales_bytes(length)] if format == QUANTIZED else [length]


def _count_differences(found: Blocks, right: Blocks) -> list[str]:
    return [
        f"blocks_{name}: counted {count}, must be {wanted}"
        for name, count, wanted in zip(Blocks._fields, found, right, strict=True)
        if count != wanted
    ]


def place(
    config: SwitchConfig, length: int, format: str = "fp16", *, out_of_place: bool = False
) -> Placement:
    """Operands from address 0 up, results behind them if `out_of_place`, then the scales of a
    quantized operation in the same way; flags at the end.

    Parameters
    ----------
    length
        Bytes of an operand, without its scales.

    Raises
    ------
    ValueError
        They do not fit the memory.
    """
    room = config.memory_bytes - FLAG_SPACING
    copies = 2 if out_of_place else 1

    def regions(length: int) -> list[int]:
        """Bytes of each part, in whole flits."""
        flit = config.flit_bytes
        return [-(-size // flit) * flit for size in _part_bytes(config, length, format)]

    def taken(length: int) -> int:
        return copies * sum(regions(length))

    if taken(length) > room:
        most = bisect.bisect_right(range(room + 1), room, key=taken) - 1
        scales = " with scales" if format == QUANTIZED else ""
        what = f"operand, result{scales} and" if out_of_place else f"operand{scales} and"
        raise ValueError(
            f"bytes: must be at most {most}, so that {what} flag fit memory_bytes "
            f"({config.memory_bytes}), not {length}"
        )
    low, pairs = 0, []
    for size in regions(length):
        pairs.append((low, low + (copies - 1) * size))
        low += copies * size
    (sources, destinations), *scales = [
        [[address] * config.ranks for address in pair] for pair in pairs
    ]
    flags = [room] * config.ranks
    return Placement(sources, destinations, flags, *(scales[0] if scales else ()))


def _parts(operands: np.ndarray | Quantized, format: str) -> tuple[np.ndarray, ...]:
    """What lies in one piece at a rank: (ranks, values), or (ranks, codes) and (ranks, scales)."""
    quantized = isinstance(operands, Quantized)
    if quantized != (format == QUANTIZED):
        rule = f"must be Quantized for {QUANTIZED} and an array for other formats"
        raise TypeError(f"operands: {rule}, not {type(operands).__name__} for {format}")
    return (operands.codes, operands.scales) if quantized else (operands,)


def _instruction(length: int, format: str, where: Placement, more: dict) -> Instruction:
    return Instruction(
        length=length,
        sources=where.sources,
        destinations=where.destinations,
        flags=where.flags,
        format=format,
        scale_sources=where.scale_sources,
        scale_destinations=where.scale_destinations,
        **more,
    )


class Memories(Protocol):
    """The ranks' memories, as a host reaches them."""

    def load(self, rank: int, address: int, data: bytes) -> None:
        """Put bytes into rank `rank`'s memory from byte `address`."""

    def read(self, rank: int, address: int, length: int) -> bytes:
        """Bytes of rank `rank`'s memory."""


class Bench:
    """Runs All-Reduces in a system and compares every byte of every memory.

    Parameters
    ----------
    config
        The configuration.
    host
        Of the system.
    memories
        Of its ranks; they hold zeros.
    phases
        Called with the name of each phase of a run as it begins: ``run`` and ``compare``.
    """

    def __init__(
        self,
        config: SwitchConfig,
        host: RegisterHost,
        memories: Memories,
        phases: Callable[[str], None] = lambda phase: None,
    ):
        self.config = config
        self.host = host
        self._memories = memories
        self._phases = phases
        # By context, operations ended when nothing was under way.
        self._settled = [0] * config.contexts
        #: What every memory must hold, by rank.
        self.expected = [np.zeros(config.memory_bytes, np.uint8) for _ in range(config.ranks)]

    @property
    def cycle(self) -> int:
        """Cycles since the start, where they are known; else 0."""
        return 0

    # -- settings -------------------------------------------------------------------------------

    def set_links(self, latency: int):
        """Cycles of each link. What is under way on a link that changes is lost: so wait first.

        Where links may go down their ends take the change for an outage: until they are up again.
        """
        before = self.host.read("system", "link_latency")
        if before != latency:
            self.settle()
            self.host.write("system", "link_latency", latency)
            if self.config.recovers:
                self.host.wait(LINK_RETURNS * max(before, latency) + LINK_RETURN_CYCLES)

    def settle(self):
        """Run until nothing of the operations so far is under way, credits included.

        A rank is done with the flag in its memory, whose acknowledgement is still to come.
        """
        ended = [
            self.host.read(context_name(self.config, context), "operations")
            for context in range(self.config.contexts)
        ]
        if ended != self._settled:
            self.host.wait(SETTLE_CYCLES + 4 * self.config.link_latency_max)
            self._settled = ended

    def set_memory(self, rank: int, *, latency=None, write_latency=None, jitter=None, stalls=None,
                   seed=None):  # fmt: skip
        """Behaviour of one rank's memory. `stalls` maps ar, r, aw, w and b to 0..255 of 256."""
        where = f"rank{rank}"
        if stalls is not None:
            stalls = sum(
                stalls.get(channel, 0) << (8 * index)
                for index, channel in enumerate(STALL_CHANNELS)
            )
        for name, value in (
            ("memory_latency", latency),
            ("write_latency", write_latency),
            ("jitter", jitter),
            ("stalls", stalls),
            ("seed", seed),
        ):
            if value is not None:
                self.host.write(where, name, value)

    # -- memory ---------------------------------------------------------------------------------

    def placement(
        self, length: int, format: str = "fp16", *, out_of_place: bool = False
    ) -> Placement:
        """See `place`."""
        return place(self.config, length, format, out_of_place=out_of_place)

    def fill(self, rank: int, address: int, data: np.ndarray):
        """Put bytes into a memory, and expect them there."""
        data = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        self.expected[rank][address : address + len(data)] = data
        self._memories.load(rank, address, data.tobytes())

    def fill_guards(self, length: int, format: str, where: Placement, pattern: np.ndarray):
        """Fill what surrounds operands, results and flags with a repeated `pattern` of bytes.

        An operand's end is its last value's, code's or scale's, in the middle of a flit or not.
        """
        sizes = _part_bytes(self.config, length, format)
        regions = [*zip(where.operands + where.results, sizes * 2, strict=True), (where.flags, 8)]
        for addresses, size in regions:
            for rank, start in enumerate(addresses):
                low = max(0, start - GUARD_BYTES)
                high = min(self.config.memory_bytes, start + size + GUARD_BYTES)
                self.fill(rank, low, np.resize(pattern, start - low))
                self.fill(rank, start + size, np.resize(pattern, high - start - size))

    def differences(self, most: int = 8) -> list[str]:
        """The first bytes, rank by rank, that are not what they must be."""
        result = []
        for rank, expected in enumerate(self.expected):
            memory = np.frombuffer(
                self._memories.read(rank, 0, self.config.memory_bytes), dtype=np.uint8
            )
            for address in np.flatnonzero(memory != expected)[:most]:
                result.append(
                    f"rank {rank} address {int(address):#x}: is {int(memory[address]):#04x}, "
                    f"must be {int(expected[address]):#04x}"
                )
        return result

    # -- runs -----------------------------------------------------------------------------------

    def all_reduce(
        self,
        operands: np.ndarray | Quantized,
        format: str,
        *,
        where: Placement | None = None,
        out_of_place: bool = False,
        delays: Sequence[int] | None = None,
        max_cycles: int | None = None,
        guard: np.ndarray | None = None,
        during: Callable[[], None] = lambda: None,
        watch: Callable[[int], None] | None = None,
        plan: Plan = ALL_REDUCE,
    ) -> Outcome:
        """Load operands, run one All-Reduce, compare every byte of every memory with golden.

        Parameters
        ----------
        operands
            (ranks, elements) uint16, the bits of each rank's values; int32 for ``int32``,
            `Quantized` for ``inq8``.
        format
            ``fp16``, ``bf16``, ``int32`` or ``inq8``.
        where
            Addresses; None is `placement`.
        delays
            Cycles by rank before its arrival.
        max_cycles
            Limit of the run; None is one that no healthy run reaches.
        guard
            Bytes to fill the surroundings with before the operands are loaded; None leaves them.
        during
            Called between loading and running.
        watch
            Called with the cycles run so far, now and then.
        plan
            Another collective, operation or other ranks. Every rank has an operand, read or not.
        """
        config = self.config
        parts = _parts(operands, format)
        length = parts[0].shape[1] * parts[0].itemsize
        where = where or self.placement(length, format, out_of_place=out_of_place)
        if guard is not None:
            self.fill_guards(length, format, where, guard)
        for addresses, part in zip(where.operands, parts, strict=True):
            for rank in range(config.ranks):
                self.fill(rank, addresses[rank], part[rank])
        counted = self._blocks(format)
        began = self.cycle
        instruction = _instruction(length, format, where, plan.fields(config, length))
        code, rank = self.host.post(instruction)
        if code is not Status.OK:
            state = {"refused_rank": rank}
            ended = self.cycle
            return Outcome(length, format, code.name, False, state=state, began=began, ended=ended)
        epoch = self.host.epoch
        self.host.program(flags=where.flags, delays=list(delays) if delays else None)
        during()
        limit = max_cycles or self._limit(_part_bytes(config, length, format), delays)
        self._phases("run")
        finished = self.host.run(limit, watch)
        ended = self.cycle
        if not finished:
            return Outcome(
                length, format, "timeout", False, state=self.state(), began=began, ended=ended
            )
        figures = self.host.figures()
        self._phases("compare")
        self._expect(where, parts, operands, format, plan, epoch)
        differences = self.differences()
        blocks = None
        if counted is not None:
            blocks = Blocks(*np.subtract(self._blocks(format), counted).tolist())
            if figures.code == Status.OK.name:
                right = plan.read(config, operands).blocks(config)
                differences += _count_differences(blocks, right)
        status = "mismatch" if differences else "ok"
        if figures.code != Status.OK.name:
            status = figures.code
        return Outcome(
            length, format, status, not differences, figures, differences, blocks=blocks,
            began=began, ended=ended,
        )  # fmt: skip

    def _blocks(self, format: str) -> Blocks | None:
        """What the switch has counted since reset; None for numbers that have no blocks."""
        if format != QUANTIZED:
            return None
        return Blocks(*(self.host.read("switch", f"blocks_{name}") for name in Blocks._fields))

    def _expect(self, where: Placement, parts, operands, format: str, plan: Plan, epoch: int):
        """Note what results and flags must be; ranks that are not written keep what they have."""
        before = tuple(
            np.stack([self._held(rank, addresses[rank], part) for rank in range(len(part))])
            for addresses, part in zip(where.results, parts, strict=True)
        )
        results = plan.results(self.config, operands, before, format)
        flags = np.full((self.config.ranks, 1), epoch, dtype="<u8")
        for addresses, data in zip((*where.results, where.flags), (*results, flags), strict=True):
            data = np.ascontiguousarray(data).view(np.uint8)
            for rank, address in enumerate(addresses):
                self.expected[rank][address : address + data.shape[1]] = data[rank]

    def _held(self, rank: int, address: int, part: np.ndarray) -> np.ndarray:
        """What must stand at `address`, in the type and length of an operand's `part`."""
        size = part.shape[1] * part.itemsize
        return self.expected[rank][address : address + size].copy().view(part.dtype)

    def _limit(self, sizes: list[int], delays) -> int:
        flits = sum(map(self.config.payload_cycles, sizes))
        return GRACE_CYCLES + CYCLES_PER_FLIT * flits + 2 * max(delays or [0])

    def state(self) -> dict[str, dict[str, int]]:
        """Every readable register, for a run that did not end."""
        return self.host.state()
