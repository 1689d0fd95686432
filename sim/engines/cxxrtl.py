"""CXXRTL: the top as C++ written by Yosys, compiled with the system's compiler, driven in-process.

The whole clock loop (memories, recording, waveforms) is in `shim.cc`; Python only starts it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .base import DEFAULT_CLOCK_HZ, Engine, EngineError, Harness, Recording
from .build import build_library

__all__ = ["CxxrtlEngine"]

#: Cycles in one call of the clock loop, so that Ctrl-C is heard about once a second.
CALL_CYCLES = 100_000
CHUNK_BITS = 32
NO_LAST_CYCLE = 2**64 - 1


def _bind(path: Path) -> ctypes.CDLL:
    """The shim's functions with their types."""
    library = ctypes.CDLL(str(path))
    handle, index, count = ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint64
    chunks = ctypes.POINTER(ctypes.c_uint32)
    indices = ctypes.POINTER(ctypes.c_uint)
    signatures = {
        "create": (handle, []),
        "destroy": (None, [handle]),
        "set": (None, [handle, index, chunks]),
        "get": (None, [handle, index, chunks]),
        "run": (count, [handle, count, ctypes.c_int]),
        "cycle": (count, [handle]),
        "seconds": (ctypes.c_double, [handle]),
        "load": (None, [handle, index, count, ctypes.c_char_p, count]),
        "read": (None, [handle, index, count, ctypes.c_char_p, count]),
        "record": (None, [handle, indices, index, indices, index]),
        "recorded": (count, [handle]),
        "recorded_cycles": (ctypes.POINTER(count), [handle]),
        "recorded_values": (chunks, [handle]),
        "start_vcd": (ctypes.c_int, [handle, ctypes.c_char_p, count, count, count]),
        "stop_vcd": (None, [handle]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"tidegate_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def _chunks(width: int) -> int:
    return -(-width // CHUNK_BITS)


class CxxrtlEngine(Engine):
    """A compiled top.

    Parameters
    ----------
    waves
        Build with debug information, which `vcd` needs; it costs compile time, not speed.
    phases
        Called with ``compile`` and ``load`` as each begins; ``compile`` is left out where the
        library is in the cache.
    cache_dir
        Folder of finished libraries; see `sim.engines.build.cache_folder`.
    """

    name = "cxxrtl"

    def __init__(
        self,
        harness: Harness,
        *,
        clock_hz: int = DEFAULT_CLOCK_HZ,
        waves: bool = False,
        phases: Callable[[str], None] = lambda phase: None,
        cache_dir: str | os.PathLike | None = None,
    ):
        super().__init__(harness, clock_hz=clock_hz)
        self._waves = waves
        self._index = {name: i for i, name in enumerate(self.ports)}
        self._memory_index = {rank: i for i, rank in enumerate(self._memories)}
        self._handle = None
        path = build_library(harness, waves=waves, phases=phases, cache_dir=cache_dir)
        phases("load")
        self._library = _bind(path)
        self._create()

    def _create(self):
        self._recorded_ports: tuple[str, ...] = ()
        self._handle = self._library.tidegate_create()
        if not self._handle:
            sizes = ", ".join(str(memory.total_bytes) for memory in self._memories.values())
            raise EngineError(f"memory_bytes: no address space for memories of {sizes} bytes")

    # -- clock and ports -------------------------------------------------------------------------

    @property
    def cycle(self) -> int:
        return self._library.tidegate_cycle(self._handle)

    def set(self, port: str, value: int) -> None:
        width = self._input(port, value).width
        words = (ctypes.c_uint32 * _chunks(width))(*_split(value, width))
        self._library.tidegate_set(self._handle, self._index[port], words)

    def get(self, port: str) -> int:
        words = (ctypes.c_uint32 * _chunks(self._port(port).width))()
        self._library.tidegate_get(self._handle, self._index[port], words)
        return _join(words)

    def step(self, cycles: int = 1) -> None:
        self._run(cycles, -1)

    def run_until(self, port: str, max_cycles: int) -> bool:
        self._flag(port)
        ran = self._run(max_cycles, self._index[port])
        return ran > 0 and bool(self.get(port))

    def _run(self, cycles: int, until: int) -> int:
        ran = 0
        while ran < cycles:
            call = min(cycles - ran, CALL_CYCLES)
            done = self._library.tidegate_run(self._handle, call, until)
            ran += done
            if done < call or (until >= 0 and self._hit(until)):
                break
        self.clock_seconds = self._library.tidegate_seconds(self._handle)
        self.clock_cycles = self.cycle
        return ran

    def _hit(self, until: int) -> bool:
        word = ctypes.c_uint32()
        self._library.tidegate_get(self._handle, until, ctypes.byref(word))
        return bool(word.value)

    # -- memories --------------------------------------------------------------------------------

    def load(self, rank: int, address: int, data: bytes) -> None:
        self._memory(rank, address, len(data))
        memory = self._memory_index[rank]
        self._library.tidegate_load(self._handle, memory, address, bytes(data), len(data))

    def read(self, rank: int, address: int, length: int) -> bytes:
        self._memory(rank, address, length)
        data = ctypes.create_string_buffer(max(length, 1))
        memory = self._memory_index[rank]
        self._library.tidegate_read(self._handle, memory, address, data, length)
        return data.raw[:length]

    # -- recording -------------------------------------------------------------------------------

    def record(self, trigger_ports, value_ports) -> None:
        triggers = [self._index[self._port(name).name] for name in trigger_ports]
        values = [self._index[self._port(name).name] for name in value_ports]
        self._recorded_ports = tuple(value_ports)
        self._library.tidegate_record(
            self._handle,
            (ctypes.c_uint * len(triggers))(*triggers),
            len(triggers),
            (ctypes.c_uint * len(values))(*values),
            len(values),
        )

    def recording(self) -> Recording:
        rows = self._library.tidegate_recorded(self._handle)
        cycles = self._library.tidegate_recorded_cycles(self._handle)[:rows]
        sizes = [_chunks(self.ports[name].width) for name in self._recorded_ports]
        stride = sum(sizes)
        if not rows or not stride:
            return Recording(self._recorded_ports, cycles, [()] * rows)
        chunks = self._library.tidegate_recorded_values(self._handle)
        table = np.ctypeslib.as_array(chunks, (rows, stride))
        columns, at = [], 0
        for size in sizes:
            columns.append(_column(table[:, at : at + size]))
            at += size
        return Recording(self._recorded_ports, cycles, list(zip(*columns, strict=True)))

    # -- waveforms -------------------------------------------------------------------------------

    def start_vcd(self, path, window=None) -> None:
        if not self._waves:
            raise EngineError(
                "vcd: this engine was built without waveforms; create it with vcd=True"
            )
        first, last = self._window(window)
        last = NO_LAST_CYCLE if last is None else last
        self.stop_vcd()
        name = os.fsencode(path)
        if not self._library.tidegate_start_vcd(self._handle, name, first, last, self.clock_hz):
            raise EngineError(f"vcd: cannot write {os.fspath(path)!r}")

    def stop_vcd(self) -> None:
        self._library.tidegate_stop_vcd(self._handle)

    # -- life ------------------------------------------------------------------------------------

    def restart(self) -> None:
        self.close()
        self.clock_seconds, self.clock_cycles = 0.0, 0
        self._create()

    def close(self) -> None:
        if self._handle:
            self._library.tidegate_destroy(self._handle)
            self._handle = None

    def __del__(self):
        self.close()


def _split(value: int, width: int):
    return (value >> at & 0xFFFFFFFF for at in range(0, width, CHUNK_BITS))


def _column(chunks: np.ndarray) -> list[int]:
    """The values of a port, of (rows, chunks)."""
    column = chunks[:, -1].tolist()
    for chunk in reversed(range(chunks.shape[1] - 1)):
        lower = chunks[:, chunk].tolist()
        column = [high << CHUNK_BITS | low for high, low in zip(column, lower, strict=True)]
    return column


def _join(words) -> int:
    value = 0
    for word in reversed(words):
        value = value << CHUNK_BITS | word
    return value
