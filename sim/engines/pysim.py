"""Amaranth's own simulator behind the engine interface: slow, but needs nothing but Python."""

from __future__ import annotations

import time
from types import SimpleNamespace

from amaranth.hdl._mem import MemoryInstance
from amaranth.sim import Simulator
from amaranth.sim.pysim import _VCDWriter

from .base import (
    DEFAULT_CLOCK_HZ,
    Engine,
    EngineError,
    Harness,
    MemoryPorts,
    Recording,
    collector_paused,
)
from .levels import LevelEngine
from .sparse import SparseMemory

__all__ = ["PysimEngine"]

FEMTOSECONDS = 10**15


class _Memory:
    """One rank's memory: what it drives at a rising edge, from its ports just before it."""

    def __init__(self, ports: MemoryPorts):
        self.ports = {name: port.signal for name, port in ports.ports.items()}
        self.word_bytes = ports.word_bytes
        self.bytes = SparseMemory(ports.total_bytes)

    def edge(self, get) -> int | None:
        """Take the ports' values; the word read, or None where nothing is read."""
        word = None
        if get(self.ports["read_enable"]):
            address = get(self.ports["read_address"]) * self.word_bytes
            word = int.from_bytes(self.bytes.read(address, self.word_bytes), "little")
        if get(self.ports["write_enable"]):
            address = get(self.ports["write_address"]) * self.word_bytes
            data = get(self.ports["write_data"]).to_bytes(self.word_bytes, "little")
            self.bytes.write_strobed(address, data, get(self.ports["write_strobe"]))
        return word


class PysimEngine(Engine):
    """`amaranth.sim` stepped from outside.

    One testbench does nothing but wait half a period again and again, so that each
    `Simulator.advance` moves time by half a period; edges, inputs and memories are driven between.
    """

    name = "pysim"

    def __init__(self, harness: Harness, *, clock_hz: int = DEFAULT_CLOCK_HZ):
        super().__init__(harness, clock_hz=clock_hz)
        self._signals = {name: port.signal for name, port in self.ports.items()}
        self._models = [_Memory(memory) for memory in self._memories.values()]
        self._model_of = dict(zip(self._memories, self._models, strict=True))
        self._cycle = 0
        self._triggers: list = []
        self._values: list = []
        self._recording = Recording((), [], [])
        self._vcd: _VCDWriter | None = None
        self._vcd_file = None
        self._vcd_window: tuple[int, int | None] = (0, None)

        with collector_paused():
            self._simulator = Simulator(harness, engine=LevelEngine)
        self._simulator.add_testbench(self._wait)
        # Two advances that stay at time 0: to the wait for no time, and past it (see `_wait`).
        self._simulator.advance()
        self._simulator.advance()

    async def _wait(self, context):
        self._context = context
        # Whole femtoseconds, with half of one added against the simulator's truncation.
        half_period = (FEMTOSECONDS // self.clock_hz // 2 + 0.5) / FEMTOSECONDS
        await context.delay(0)
        while True:
            await context.delay(half_period)

    # -- clock and ports -------------------------------------------------------------------------

    @property
    def cycle(self) -> int:
        return self._cycle

    def set(self, port: str, value: int) -> None:
        self._context.set(self._input(port, value).signal, value)

    def get(self, port: str) -> int:
        return self._unsigned(self._port(port).signal)

    def _unsigned(self, signal) -> int:
        return self._context.get(signal) & ((1 << len(signal)) - 1)

    def step(self, cycles: int = 1) -> None:
        start = time.perf_counter()
        for _ in range(cycles):
            self._edge()
        self._account(start, cycles)

    def run_until(self, port: str, max_cycles: int) -> bool:
        signal = self._flag(port).signal
        start, first = time.perf_counter(), self._cycle
        hit = False
        while not hit and self._cycle - first < max_cycles:
            self._edge()
            hit = bool(self._context.get(signal))
        self._account(start, self._cycle - first)
        return hit

    def _account(self, start: float, cycles: int):
        self.clock_seconds += time.perf_counter() - start
        self.clock_cycles += cycles

    def _edge(self):
        """The rest of this cycle, then the rising edge that begins the next."""
        context = self._context
        if self._vcd_file is not None and self._vcd is None:
            self._open_vcd_in_window()
        self._simulator.advance()
        context.set(self._harness.clk, 0)
        self._simulator.advance()
        if self._triggers:
            self._record()
        if self._vcd is not None and self._cycle == self._vcd_window[1]:
            self.stop_vcd()
        words = [model.edge(self._unsigned) for model in self._models]
        context.set(self._harness.clk, 1)
        self._cycle += 1
        for model, word in zip(self._models, words, strict=True):
            if word is not None:
                context.set(model.ports["read_data"], word)

    # -- memories --------------------------------------------------------------------------------

    def load(self, rank: int, address: int, data: bytes) -> None:
        self._memory(rank, address, len(data))
        self._model_of[rank].bytes.write(address, data)

    def read(self, rank: int, address: int, length: int) -> bytes:
        self._memory(rank, address, length)
        return self._model_of[rank].bytes.read(address, length)

    # -- recording -------------------------------------------------------------------------------

    def record(self, trigger_ports, value_ports) -> None:
        self._triggers = [self._port(name).signal for name in trigger_ports]
        self._values = [self._port(name).signal for name in value_ports]
        self._recording = Recording(tuple(value_ports), [], [])

    def recording(self) -> Recording:
        return self._recording

    def _record(self):
        if any(self._context.get(signal) for signal in self._triggers):
            self._recording.cycles.append(self._cycle)
            self._recording.values.append(tuple(self._unsigned(s) for s in self._values))

    # -- waveforms -------------------------------------------------------------------------------

    def start_vcd(self, path, window=None) -> None:
        self.stop_vcd()
        self._vcd_window = self._window(window)
        try:
            self._vcd_file = open(path, "w")  # noqa: SIM115 (closed by stop_vcd)
        except OSError as error:
            raise EngineError(f"vcd: cannot write {str(path)!r}: {error.strerror}") from None
        self._open_vcd_in_window()

    def _open_vcd_in_window(self):
        """Hook Amaranth's writer in once the window has come.

        `Simulator.write_vcd` insists on time 0 and on every word of every memory; its writer needs
        neither, so it is used directly: initial values are the present ones, and the fragments
        that hold memory arrays are hidden from it.
        """
        if self._cycle < self._vcd_window[0]:
            return
        engine = self._simulator._engine
        fragments = {
            fragment: SimpleNamespace(name=info.name[1:], signal_names=info.signal_names)
            for fragment, info in engine._design.fragments.items()
            if not isinstance(fragment, MemoryInstance)
        }
        self._vcd = _VCDWriter(
            engine.state, SimpleNamespace(fragments=fragments), vcd_file=self._vcd_file
        )
        self._vcd.vcd_writer._timestamp = engine.now
        engine._vcd_writers.append(self._vcd)

    def stop_vcd(self) -> None:
        if self._vcd_file is not None and self._vcd is None:  # the window never came
            self._vcd_window = (0, None)
            self._open_vcd_in_window()
        if self._vcd is not None:
            engine = self._simulator._engine
            engine._vcd_writers.remove(self._vcd)
            self._vcd.close(engine.now)
            self._vcd = None
        if self._vcd_file is not None:
            self._vcd_file.close()
            self._vcd_file = None

    # -- life ------------------------------------------------------------------------------------

    def restart(self) -> None:
        self.stop_vcd()
        self.__init__(self._harness, clock_hz=self.clock_hz)

    def close(self) -> None:
        self.stop_vcd()
