"""A board's registers and memories as All-Reduces want them: `sim.bench.Bench` runs on both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from sim.register_host import Instruction, RegisterHost

from .client import Client

__all__ = ["BoardHost", "BoardMemories"]

#: Seconds between two looks at a run, once it has lasted so long: most end before the first look.
LOOK_SECONDS = 0.02
#: Cycle counts in registers have so many bits.
COUNT_BITS = 32
#: Bytes between two calls of a watcher of transfers.
PIECE_BYTES = 4096


class BoardMemories:
    """The ranks' memories, through a client.

    What is loaded is kept here and written in one go when an instruction is posted or anything is
    read, each byte once, so that fillings that overlap cost no time on the line.

    Parameters
    ----------
    phases
        Called with ``fill`` before much is written.
    watch
        Called with the bytes done and to be done of a transfer, now and then.
    """

    def __init__(
        self,
        client: Client,
        config: SwitchConfig,
        *,
        phases: Callable[[str], None] = lambda phase: None,
        watch: Callable[[int, int], None] = lambda done, total: None,
    ):
        self._client = client
        self._phases, self._watch = phases, watch
        shape = config.ranks, config.memory_bytes
        self._image = np.zeros(shape, np.uint8)
        self._kept = np.zeros(shape, bool)  # bytes of the image that the board has not yet

    def zero(self):
        """Let every byte be zero."""
        self._image[:] = 0
        self._kept[:] = True

    def load(self, rank: int, address: int, data: bytes):
        """Put bytes into a memory."""
        region = slice(address, address + len(data))
        self._image[rank, region] = np.frombuffer(data, np.uint8)
        self._kept[rank, region] = True

    def read(self, rank: int, address: int, length: int) -> bytes:
        """Bytes of a memory."""
        self.flush()
        data = bytearray()
        while len(data) < length:
            self._watch(len(data), length)
            size = min(PIECE_BYTES, length - len(data))
            data += self._client.read_memory(rank, address + len(data), size)
        return bytes(data)

    def flush(self):
        """Write what is kept."""
        total, done = int(self._kept.sum()), 0
        if total >= PIECE_BYTES:
            self._phases("fill")
        for rank, start, stop in self._pieces():
            self._watch(done, total)
            self._client.write_memory(rank, start, self._image[rank, start:stop].tobytes())
            self._kept[rank, start:stop] = False
            done += stop - start

    def _pieces(self) -> Iterator[tuple[int, int, int]]:
        """(rank, start, stop) of what is kept, in pieces."""
        for rank, kept in enumerate(self._kept):
            edges = np.flatnonzero(np.diff(kept, prepend=False, append=False))
            for start, stop in edges.reshape(-1, 2).tolist():
                for piece in range(start, stop, PIECE_BYTES):
                    yield rank, piece, min(piece + PIECE_BYTES, stop)


class BoardHost(RegisterHost):
    """Drives a board's `System` through a client.

    Parameters
    ----------
    memories
        Written before an instruction is posted.
    """

    def __init__(self, client: Client, config: SwitchConfig, memories: BoardMemories | None = None):
        self._client = client
        self._memories = memories
        super().__init__(config)

    # -- registers ------------------------------------------------------------------------------

    def read_words(self, address: int, count: int) -> list[int]:
        return self._client.read_words(address, count)

    def write_words(self, address: int, values: Sequence[int]):
        self._client.write_words(address, values)

    # -- runs -----------------------------------------------------------------------------------

    def post(self, instruction: Instruction) -> tuple[Status, int]:
        if self._memories is not None:
            self._memories.flush()
        return super().post(instruction)

    def wait(self, cycles: int):
        for passed in self._cycles():
            if passed >= cycles:
                return

    def start(self):
        self._client.start()

    def run(self, max_cycles: int, watch: Callable[[int], None] | None = None) -> bool:
        """See `RegisterHost.run`. The board runs on while it is looked at: a run that ends at a
        look beyond `max_cycles` has ended.
        """
        everyone = (1 << self.config.ranks) - 1
        self.start()
        for passed in self._cycles():
            if self.read("system", "done") == everyone:
                return True
            if passed > max_cycles:
                return False
            if watch is not None:
                watch(passed)
        raise AssertionError("cycles do not end")

    def _cycles(self) -> Iterator[int]:
        """Cycles since the first look, look by look."""
        before, passed, began = self.read("system", "now"), 0, time.monotonic()
        while True:
            yield passed
            if time.monotonic() - began > LOOK_SECONDS:
                time.sleep(LOOK_SECONDS)
            now = self.read("system", "now")
            passed += (now - before) % (1 << COUNT_BITS)
            before = now
