"""What every engine offers: ports by name, a clock, memories, recording and waveforms."""

from __future__ import annotations

import gc
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from amaranth import ClockDomain, Const, Elaboratable, Module, Shape, Signal, Value
from amaranth.lib import wiring

__all__ = [
    "Engine",
    "EngineError",
    "Harness",
    "MemoryPorts",
    "Port",
    "Recording",
    "collector_paused",
]

#: Clock where the caller gives none: the `demo` preset's. It only scales the time in waveforms.
DEFAULT_CLOCK_HZ = 250_000_000

#: Ports of one rank's memory, as `hdl.interfaces.StorageSignature` names them.
STORAGE_PORTS = (
    "read_enable",
    "read_address",
    "read_data",
    "write_enable",
    "write_address",
    "write_data",
    "write_strobe",
)
_STORAGE_NAME = re.compile(r"storage__(\d+)__(\w+)\Z")


class EngineError(Exception):
    """An engine cannot be built or used as asked. The message is one line."""


@contextmanager
def collector_paused():
    """Python's garbage collector off, for elaboration: all that it makes is kept to the end of it.

    The collector would look through those millions of objects again and again, which doubles the
    time.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


@dataclass(frozen=True)
class Port:
    """A port of the top: its flattened name, width in bits, and whether the engine drives it."""

    name: str
    width: int
    is_input: bool
    signal: Value


@dataclass(frozen=True)
class MemoryPorts:
    """The ports of rank `rank`'s memory, and its geometry.

    `word_bytes` is the width of a word, `words` the number of words that the address reaches.
    """

    rank: int
    ports: dict[str, Port]
    word_bytes: int
    words: int

    @property
    def total_bytes(self) -> int:
        return self.word_bytes * self.words


@dataclass
class Recording:
    """Rows kept in the cycles in which a trigger port was nonzero.

    `cycles[i]` is the cycle of row i, `values[i]` a tuple of the value ports' values in that
    cycle (settled, as the next rising edge sees them), in the order of `ports`.
    """

    ports: tuple[str, ...]
    cycles: list[int]
    values: list[tuple[int, ...]]

    def __len__(self) -> int:
        return len(self.cycles)

    def rows(self):
        """Each row as (cycle, {port: value})."""
        for cycle, values in zip(self.cycles, self.values, strict=True):
            yield cycle, dict(zip(self.ports, values, strict=True))


class Harness(Elaboratable):
    """The top under its clock, with the reset tied to 0: every engine starts from initial values.

    A constant reset lets Yosys drop the reset logic of every register, and both engines run the
    same netlist.
    """

    def __init__(self, top: wiring.Component):
        self.top = top
        self.domain = ClockDomain("sync")
        self.clk: Signal = self.domain.clk
        self.ports = {port.name: port for port in self._flatten(top)}
        self.memories = self._find_memories(self.ports)

    @staticmethod
    def _flatten(top):
        for path, member, value in top.signature.flatten(top):
            value = Value.cast(value)
            if isinstance(value, Const):
                continue
            name = "__".join(map(str, path))
            yield Port(name, Shape.cast(value.shape()).width, member.flow == wiring.In, value)

    @staticmethod
    def _find_memories(ports) -> dict[int, MemoryPorts]:
        found: dict[int, dict[str, Port]] = {}
        for name, port in ports.items():
            match = _STORAGE_NAME.match(name)
            if match and match[2] in STORAGE_PORTS:
                found.setdefault(int(match[1]), {})[match[2]] = port
        memories = {}
        for rank, members in sorted(found.items()):
            missing = [name for name in STORAGE_PORTS if name not in members]
            if missing:
                raise EngineError(f"storage__{rank}: must have the port {missing[0]}")
            word_bytes, rest = divmod(members["read_data"].width, 8)
            if rest:
                raise EngineError(f"storage__{rank}__read_data: must be whole bytes wide")
            words = 1 << members["read_address"].width
            memories[rank] = MemoryPorts(rank, members, word_bytes, words)
        return memories

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = self.domain
        m.d.comb += self.domain.rst.eq(0)
        m.submodules.top = self.top
        return m


class Engine(ABC):
    """A simulated top that is stepped from Python.

    Time is counted in cycles: ``cycle`` is the number of rising edges since the start. `set` takes
    effect at once; `get` returns the value after the last edge, settled with the inputs as they
    are. Ports carry plain unsigned integers, whatever their shape.

    The ranks' memories stand outside the top wherever it has ports named ``storage__{r}__*``
    (`hdl.interfaces.StorageSignature`): at a rising edge with ``read_enable``, ``read_data`` takes
    the old word at ``read_address`` and holds it; a write obeys its strobes. They are sparse, and
    bytes never written read as zero.

    Raises
    ------
    EngineError
        A port or rank that does not exist, a value that does not fit, or an address out of range.
    """

    #: Name on the command line.
    name: str

    def __init__(self, harness: Harness, *, clock_hz: int = DEFAULT_CLOCK_HZ):
        self._harness = harness
        self._ports = harness.ports
        self._memories = harness.memories
        self.clock_hz = clock_hz
        #: Seconds spent in the clock loop alone, waveforms excluded.
        self.clock_seconds = 0.0
        #: Cycles behind `clock_seconds`.
        self.clock_cycles = 0

    # -- clock and ports -------------------------------------------------------------------------

    @property
    def ports(self) -> dict[str, Port]:
        """Ports of the top by flattened name, in the order of its signature."""
        return self._ports

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks whose memory the engine holds."""
        return tuple(self._memories)

    @property
    @abstractmethod
    def cycle(self) -> int:
        """Rising edges since the start."""

    @abstractmethod
    def set(self, port: str, value: int) -> None:
        """Drive an input."""

    @abstractmethod
    def get(self, port: str) -> int:
        """Value of an input or output after the last edge, settled."""

    @abstractmethod
    def step(self, cycles: int = 1) -> None:
        """Run `cycles` rising edges."""

    @abstractmethod
    def run_until(self, port: str, max_cycles: int) -> bool:
        """Run edges until the 1-bit output `port` is 1 after one of them, at most `max_cycles`.

        At least one edge is run if `max_cycles` allows. Returns whether the port became 1.
        """

    @property
    def cycles_per_second(self) -> float | None:
        """Speed of the clock loop alone; None before the first cycle."""
        return self.clock_cycles / self.clock_seconds if self.clock_seconds else None

    # -- memories --------------------------------------------------------------------------------

    @abstractmethod
    def load(self, rank: int, address: int, data: bytes) -> None:
        """Put bytes into rank `rank`'s memory from byte `address`, taking no simulated time."""

    @abstractmethod
    def read(self, rank: int, address: int, length: int) -> bytes:
        """Bytes of rank `rank`'s memory, taking no simulated time."""

    # -- recording and waveforms -----------------------------------------------------------------

    @abstractmethod
    def record(self, trigger_ports: Sequence[str], value_ports: Sequence[str]) -> None:
        """From here on keep a row of `value_ports` for each cycle in which a trigger is nonzero.

        A new call starts afresh. Triggers and values are looked at once a cycle, settled, just
        before the rising edge that ends it.
        """

    @abstractmethod
    def recording(self) -> Recording:
        """The rows kept since `record`."""

    @contextmanager
    def vcd(self, path: str | Path, window: tuple[int, int] | None = None):
        """Write waveforms to `path` while the context is open.

        `window` is (first, last) in cycles: only those are written, and the file starts at
        `first`. Cycle c spans the times from c to c + 1 periods.
        """
        self.start_vcd(path, window)
        try:
            yield self
        finally:
            self.stop_vcd()

    @abstractmethod
    def start_vcd(self, path: str | Path, window: tuple[int, int] | None = None) -> None:
        """Begin a waveform file; see `vcd`."""

    @abstractmethod
    def stop_vcd(self) -> None:
        """Close the waveform file. Without one, do nothing."""

    # -- life ------------------------------------------------------------------------------------

    @abstractmethod
    def restart(self) -> None:
        """Back to cycle 0, as it was created: registers, inputs, memories, recording, times."""

    @abstractmethod
    def close(self) -> None:
        """Give back what the engine holds. It cannot be used afterwards."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    # -- checks shared by the engines ------------------------------------------------------------

    def _port(self, name: str) -> Port:
        try:
            return self._ports[name]
        except KeyError:
            raise EngineError(f"port: the top has none named {name!r}") from None

    def _input(self, name: str, value: int) -> Port:
        port = self._port(name)
        if not port.is_input:
            raise EngineError(f"port: {name} is an output and cannot be set")
        if not 0 <= value < 1 << port.width:
            raise EngineError(f"{name}: must be 0..{(1 << port.width) - 1}, not {value}")
        return port

    def _flag(self, name: str) -> Port:
        port = self._port(name)
        if port.is_input or port.width != 1:
            raise EngineError(f"port: {name} must be a 1-bit output to be waited for")
        return port

    def _memory(self, rank: int, address: int, length: int) -> MemoryPorts:
        if rank not in self._memories:
            raise EngineError(f"rank: the engine holds no memory of rank {rank}")
        memory = self._memories[rank]
        if address < 0 or length < 0 or address + length > memory.total_bytes:
            raise EngineError(
                f"address: must stay within 0..{memory.total_bytes} of rank {rank}'s memory, "
                f"not {address} + {length}"
            )
        return memory

    @staticmethod
    def _window(window: tuple[int, int] | None) -> tuple[int, int | None]:
        if window is None:
            return 0, None
        first, last = window
        if not 0 <= first <= last:
            raise EngineError(f"vcd-window: must be FROM:TO with 0 <= FROM <= TO, not {window}")
        return first, last
