"""A system in an engine, its memories, and what they must hold: one All-Reduce after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hdl.accelerator.layouts import ELEMENT_BYTES, Status
from hdl.config import SwitchConfig
from hdl.emulated_memory import STALL_CHANNELS
from hdl.system import System

from .engines import Engine, create
from .golden.allreduce import all_reduce_sum
from .host import Figures, Host, Instruction

__all__ = ["Outcome", "Placement", "Testbed", "place"]

#: Bytes of a flag, and the distance of two, so that each stands in a flit of its own.
FLAG_SPACING = 64
#: Bytes around what a run may touch that are filled and looked at.
GUARD_BYTES = 4096
#: Cycles after a run in which its flags' acknowledgements arrive, beside the links' latency.
SETTLE_CYCLES = 4000
#: Cycles that a run is given, beside what its length takes.
GRACE_CYCLES = 200_000
#: Cycles that a flit is given, however its memory stalls.
CYCLES_PER_FLIT = 400


@dataclass(frozen=True)
class Placement:
    """Byte addresses by rank: operand, result and flag."""

    sources: list[int]
    destinations: list[int]
    flags: list[int]

    @property
    def in_place(self) -> bool:
        return self.sources == self.destinations


@dataclass
class Outcome:
    """One All-Reduce.

    `status` is "ok", "mismatch", "timeout", or a hardware code by name. `differences` has a line
    for each of the first bytes that are not what golden says. `began` and `ended` are the engine's
    cycles in which the instruction was posted and the last rank was done.
    """

    bytes: int
    format: str
    status: str
    bit_exact: bool
    figures: Figures | None = None
    differences: list[str] = field(default_factory=list)
    state: dict = field(default_factory=dict)
    began: int = 0
    ended: int = 0


def place(config: SwitchConfig, length: int, *, out_of_place: bool = False) -> Placement:
    """Operands from address 0 up, results behind them if `out_of_place`, flags at the end.

    Raises
    ------
    ValueError
        They do not fit the memory.
    """
    room = config.memory_bytes - FLAG_SPACING
    size = -(-length // config.flit_bytes) * config.flit_bytes
    regions = 2 if out_of_place else 1
    if regions * size > room:
        most = room // regions // config.flit_bytes * config.flit_bytes
        what = "operand, result and flag" if out_of_place else "operand and flag"
        raise ValueError(
            f"bytes: must be at most {most}, so that {what} fit memory_bytes "
            f"({config.memory_bytes}), not {length}"
        )
    ranks = config.ranks
    return Placement([0] * ranks, [size if out_of_place else 0] * ranks, [room] * ranks)


class Testbed:
    """Runs All-Reduces in a simulated `System` and compares every byte of every memory.

    Parameters
    ----------
    config
        The configuration.
    engine
        ``cxxrtl`` or ``pysim``.
    vcd
        Whether waveforms will be asked for.
    phases
        Called with the name of each phase as it begins: of the build (see `engines.create`), and
        of each run ``run`` and ``compare``.
    cache_dir
        Where compiled models are kept.
    """

    __test__ = False  # not a pytest class

    def __init__(
        self,
        config: SwitchConfig,
        engine: str = "cxxrtl",
        *,
        vcd: bool = False,
        phases: Callable[[str], None] = lambda phase: None,
        cache_dir=None,
    ):
        self.config = config
        self._phases = phases
        self.engine: Engine = create(
            engine,
            lambda: System(config),
            clock_hz=config.clock_hz,
            vcd=vcd,
            phases=phases,
            cache_dir=cache_dir,
        )
        self.host = Host(self.engine, config)
        self._settled = 0  # operations ended when nothing was under way
        #: What every memory must hold, by rank.
        self.expected = [np.zeros(config.memory_bytes, np.uint8) for _ in range(config.ranks)]

    def close(self):
        self.engine.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    # -- settings -------------------------------------------------------------------------------

    def set_links(self, latency: int):
        """Cycles of each link. What is under way on a link that changes is lost: so wait first."""
        if self.host.read("system", "link_latency") != latency:
            self.settle()
            self.host.write("system", "link_latency", latency)

    def settle(self):
        """Run until nothing of the operations so far is under way, credits included.

        A rank is done with the flag in its memory, whose acknowledgement is still to come.
        """
        ended = self.host.read("switch", "operations")
        if ended != self._settled:
            self.engine.step(SETTLE_CYCLES + 4 * self.config.link_latency_max)
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

    def placement(self, length: int, *, out_of_place: bool = False) -> Placement:
        """See `place`."""
        return place(self.config, length, out_of_place=out_of_place)

    def fill(self, rank: int, address: int, data: np.ndarray):
        """Put bytes into a memory, and expect them there."""
        data = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        self.expected[rank][address : address + len(data)] = data
        self.engine.load(rank, address, data.tobytes())

    def fill_guards(self, length: int, where: Placement, pattern: np.ndarray):
        """Fill what surrounds operands, results and flags with a repeated `pattern` of bytes."""
        for rank in range(self.config.ranks):
            for start, size in (
                (where.sources[rank], length),
                (where.destinations[rank], length),
                (where.flags[rank], 8),
            ):
                low = max(0, start - GUARD_BYTES)
                high = min(self.config.memory_bytes, start + size + GUARD_BYTES)
                self.fill(rank, low, np.resize(pattern, start - low))
                self.fill(rank, start + size, np.resize(pattern, high - start - size))

    def differences(self, most: int = 8) -> list[str]:
        """The first bytes, rank by rank, that are not what they must be."""
        result = []
        for rank, expected in enumerate(self.expected):
            memory = np.frombuffer(
                self.engine.read(rank, 0, self.config.memory_bytes), dtype=np.uint8
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
        operands: np.ndarray,
        format: str,
        *,
        where: Placement | None = None,
        out_of_place: bool = False,
        delays: Sequence[int] | None = None,
        max_cycles: int | None = None,
        guard: np.ndarray | None = None,
        during: Callable[[], None] = lambda: None,
        watch: Callable[[int], None] | None = None,
    ) -> Outcome:
        """Load operands, run one All-Reduce, compare every byte of every memory with golden.

        Parameters
        ----------
        operands
            (ranks, elements) uint16: the bits of each rank's values.
        format
            ``fp16`` or ``bf16``.
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
        """
        config = self.config
        length = operands.shape[1] * ELEMENT_BYTES
        where = where or self.placement(length, out_of_place=out_of_place)
        if guard is not None:
            self.fill_guards(length, where, guard)
        for rank in range(config.ranks):
            self.fill(rank, where.sources[rank], operands[rank])
        began = self.engine.cycle
        code, rank = self.host.post(
            Instruction(length, where.sources, where.destinations, where.flags, format)
        )
        if code is not Status.OK:
            state = {"refused_rank": rank}
            ended = self.engine.cycle
            return Outcome(length, format, code.name, False, state=state, began=began, ended=ended)
        epoch = self.host.epoch
        self.host.program(flags=where.flags, delays=list(delays) if delays else None)
        during()
        limit = max_cycles or self._limit(length, delays)
        self._phases("run")
        finished = self.host.run(limit, watch)
        ended = self.engine.cycle
        if not finished:
            return Outcome(
                length, format, "timeout", False, state=self.state(), began=began, ended=ended
            )
        figures = self.host.figures()
        self._phases("compare")
        result, _status = all_reduce_sum(operands, format)
        self._expect(where, result, epoch)
        differences = self.differences()
        status = "mismatch" if differences else "ok"
        if figures.code != Status.OK.name:
            status = figures.code
        return Outcome(
            length, format, status, not differences, figures, differences, began=began, ended=ended
        )

    def _expect(self, where: Placement, result: np.ndarray, epoch: int):
        for rank in range(self.config.ranks):
            for address, data in (
                (where.destinations[rank], np.ascontiguousarray(result).view(np.uint8)),
                (where.flags[rank], np.array([epoch], dtype="<u8").view(np.uint8)),
            ):
                self.expected[rank][address : address + len(data)] = data

    def _limit(self, length: int, delays) -> int:
        flits = self.config.payload_cycles(length)
        return GRACE_CYCLES + CYCLES_PER_FLIT * flits + 2 * max(delays or [0])

    def state(self) -> dict:
        """Every readable register, for a run that did not end."""
        result = {}
        for where, (table, _page) in self.host.tables.items():
            result[where] = {
                register.name: self.host.read(where, register.name)
                for register in table
                if register.access != "wo"
            }
        return result
