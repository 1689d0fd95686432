"""A board's registers and memories as All-Reduces want them: `sim.bench.Bench` runs on both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from sim.register_host import Figures, Instruction, RegisterHost

from .client import Client

__all__ = ["BoardHost", "BoardMemories"]

#: Seconds between two looks at a run, once it has lasted so long: most end before the first look.
LOOK_SECONDS = 0.02
#: Cycle counts in registers have so many bits.
COUNT_BITS = 32
WORD_BITS, WORD_BYTES, WORD_MASK = 32, 4, 0xFFFFFFFF
#: Addresses that an instruction stages by rank, in the order of their registers.
STAGED = ("source", "destination", "flag", "scale_source", "scale_destination")
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
    """Drives a board's `System` through a client, in few requests: each costs a round trip.

    Parameters
    ----------
    memories
        Written before an instruction is posted.
    """

    def __init__(self, client: Client, config: SwitchConfig, memories: BoardMemories | None = None):
        self._client = client
        self._memories = memories
        self._seen: dict[str, dict[str, int]] = {}  # what `read` gives instead of asking
        super().__init__(config)

    # -- registers ------------------------------------------------------------------------------

    def read_words(self, address: int, count: int) -> list[int]:
        return self._client.read_words(address, count)

    def write_words(self, address: int, values: Sequence[int]):
        self._client.write_words(address, values)

    def read(self, where: str, name: str) -> int:
        if where in self._seen:
            return self._seen[where][name]
        return super().read(where, name)

    def read_table(self, where: str, names: Sequence[str] | None = None) -> dict[str, int]:
        """Registers of one table in one go, from the first to the last of `names`; None: all."""
        table = self.tables[where][0]
        if names is not None:
            at = [index for index, register in enumerate(table) if register.name in names]
            table = table[at[0] : at[-1] + 1]
        words = iter(
            self.read_words(
                self.address(where, table[0].name), sum(register.words for register in table)
            )
        )
        return {
            register.name: sum(
                next(words) << (WORD_BITS * number) for number in range(register.words)
            )
            for register in table
        }

    def write_table(self, where: str, values: dict[str, int]):
        """Registers of one table in their order, in one go where they are neighbours."""
        begin, words = None, []
        for name, value in values.items():
            address = self.address(where, name)
            if words and address != begin + WORD_BYTES * len(words):
                self.write_words(begin, words)
                words = []
            begin = begin if words else address
            words = words + self.words_of(where, name, value)
        if words:
            self.write_words(begin, words)

    @contextmanager
    def _seeing(self, *tables: str):
        """Read these tables once, and take what `read` is asked for from there."""
        self._seen = {where: self.read_table(where) for where in tables}
        try:
            yield
        finally:
            self._seen = {}

    # -- operations -----------------------------------------------------------------------------

    def post(self, instruction: Instruction) -> tuple[Status, int]:
        if self._memories is not None:
            self._memories.flush()
        values = self._staging(instruction)
        if values is None:
            return super().post(instruction)
        self.write_table("switch", values)
        answer = ("post_busy", "post_code", "post_rank")
        while (found := self.read_table("switch", answer))["post_busy"]:
            pass
        return Status(found["post_code"]), found["post_rank"]

    def _staging(self, instruction: Instruction) -> dict[str, int] | None:
        """Register writes, in their order, that post; None: addresses differ in upper halves."""
        addresses = {
            f"{kind}_{rank}": address
            for kind in STAGED
            for rank, address in enumerate(getattr(instruction, f"{kind}s") or ())
        }
        highs = {address >> WORD_BITS for address in addresses.values()}
        if len(highs) > 1:
            return None
        return {
            "address_high": highs.pop(),
            **{name: address & WORD_MASK for name, address in addresses.items()},
            **instruction.common_fields(self.config),
            "post": 1,
        }

    def program(self, *, flags: list[int], count: int = 1, delays: list[int] | None = None):
        for rank in range(self.config.ranks):
            values = {
                "count": count,
                "epoch": self.epoch,
                "delay": delays[rank] if delays else 0,
                "flag_address": flags[rank],
            }
            self.write_table(f"rank{rank}", values)
        self.epoch += count

    def start(self):
        self._client.start()

    def figures(self) -> Figures:
        with self._seeing("switch", *(f"rank{rank}" for rank in range(self.config.ranks))):
            return super().figures()

    def state(self) -> dict[str, dict[str, int]]:
        with self._seeing(*self.tables):
            return super().state()

    # -- runs -----------------------------------------------------------------------------------

    def wait(self, cycles: int):
        for passed, _done in self._looks():
            if passed >= cycles:
                return

    def run(self, max_cycles: int, watch: Callable[[int], None] | None = None) -> bool:
        """See `RegisterHost.run`. The board runs on while it is looked at: a run that ends at a
        look beyond `max_cycles` has ended.
        """
        everyone = (1 << self.config.ranks) - 1
        self.start()
        for passed, done in self._looks():
            if done == everyone:
                return True
            if passed > max_cycles:
                return False
            if watch is not None:
                watch(passed)
        raise AssertionError("looks do not end")

    def _looks(self) -> Iterator[tuple[int, int]]:
        """Cycles since the first look, and the ranks that are done, look by look."""
        before, passed, began = None, 0, time.monotonic()
        while True:
            found = self.read_table("system", ("done", "now"))
            if before is not None:
                passed += (found["now"] - before) % (1 << COUNT_BITS)
            before = found["now"]
            yield passed, found["done"]
            if time.monotonic() - began > LOOK_SECONDS:
                time.sleep(LOOK_SECONDS)
