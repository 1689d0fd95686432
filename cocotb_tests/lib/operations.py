"""Random sequences of operations, their memories, and what golden makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from hdl.config import SwitchConfig
from sim.golden import all_reduce_inq, all_reduce_sum

from . import coverage
from .scoreboard import compare, golden

__all__ = ["CODES", "FORMATS", "Operation", "Sequence", "check_flags", "flag_word"]

FORMATS = {"fp16": 0, "bf16": 1, "inq8": 2}
FLAG_BYTES = 8
#: Bytes before the operations' parts of a memory.
FLAGS_ROOM = 256
#: How an operation may end (docs/memory-contract.md).
CODES = {
    "OK": 0x00,
    "READ_SLVERR": 0x12,
    "READ_DECERR": 0x13,
    "WRITE_SLVERR": 0x22,
    "WRITE_DECERR": 0x23,
}


def flag_word(epoch: int, code: int = 0, rank: int = 0, context: int = 0) -> int:
    """What a rank finds in its memory when an operation is over."""
    return epoch & 0xFFFFFFFF | code << 32 | rank << 40 | context << 48


def check_flags(what: str, flags: list[int], expected: list[int]):
    """Compare what a rank saw of its operations, one flag each; count how they ended.

    No flag is overtaken by the next operation's: that one starts once every rank has arrived for
    it, which `RankProgram` does behind the flag before it, and it looks in every cycle.
    """
    compare(what, flags, expected)
    names = {code: name for name, code in CODES.items()}
    for word in flags:
        coverage.hit("switch.code", names[word >> 32 & 0xFF])


@dataclass
class Operation:
    """One All-Reduce; addresses by kind and rank."""

    epoch: int
    format: str
    length: int
    in_place: bool
    addresses: dict[str, list[int]] = field(default_factory=dict)

    def scales_bytes(self, config: SwitchConfig) -> int:
        return config.scales_bytes(self.length) if self.format == "inq8" else 0


class Sequence:
    """Operations that follow each other without a reset, each in a part of memory of its own.

    Parameters
    ----------
    config
        Of the switch.
    first_epoch
        The epoch that its barrier collects.
    context
        Whose operations they are.
    memories
        Those of the ranks, shared with other sequences; None makes them.
    start, room
        The bytes of each memory that are this sequence's; all unless told.
    """

    #: Operations of a sequence: what the queue holds, and each has a part of memory.
    LONGEST = 4
    #: Lengths at which something begins or ends: a unit, and elements more or fewer.
    EDGES = (
        (None, 0),
        *((unit, more) for unit in ("flit", "payload", "wave") for more in (-1, 0, 1)),
        ("two waves", 0),
        ("two waves", 1),
    )

    def __init__(
        self,
        config: SwitchConfig,
        first_epoch: int = 1,
        *,
        context: int = 0,
        memories: list[np.ndarray] | None = None,
        start: int = 0,
        room: int | None = None,
    ):
        self.config = config
        self.next_epoch = first_epoch
        self.context = context
        if memories is None:
            memories = [np.zeros(config.memory_bytes, np.uint8) for _ in range(config.ranks)]
        self.memories = memories
        self.start = start
        self.room = config.memory_bytes if room is None else room
        self.operations: list[Operation] = []
        self.flags = [0] * config.ranks  # address of each rank's flag, one for all

    def kinds(self) -> list[tuple[str, bool]]:
        """Every format, in place and not."""
        return [(format, in_place) for format in self.config.formats for in_place in (True, False)]

    def draw(
        self,
        draw: random.Random,
        count: int,
        *,
        shortest: int = 0,
        kinds: list[tuple[str, bool]] | None = None,
        edge: tuple[str | None, int] | None = None,
    ):
        """`count` operations of at least `shortest` bytes, and other contents everywhere.

        They are of these `kinds` in turn, or of any. The first one's length is that of `edge`, one
        of `EDGES`, where that is given; others have any.
        """
        self._shortest = shortest
        self._edge = edge
        for memory in self.memories:
            memory[self._own()] = np.frombuffer(draw.randbytes(self.room), np.uint8)
        # The first words of each memory are flags; the rest is shared out.
        self.flags = [self.start + FLAG_BYTES * draw.randrange(4) for _ in self.memories]
        for memory, flag in zip(self.memories, self.flags, strict=True):
            memory[flag : flag + FLAG_BYTES] = 0
            self._put(memory, flag, flag_word(self.next_epoch - 1, context=self.context))
        part = (self.room - FLAGS_ROOM) // self.LONGEST
        first = self.start + FLAGS_ROOM
        self.operations = [
            self._operation(draw, first + part * number, part, kinds[number] if kinds else None)
            for number in range(count)
        ]
        self._expect()

    def _own(self) -> slice:
        return slice(self.start, self.start + self.room)

    @staticmethod
    def _put(memory: np.ndarray, address: int, word: int):
        memory[address : address + 8] = np.frombuffer(word.to_bytes(8, "little"), np.uint8)

    def _operation(self, draw: random.Random, start: int, room: int, kind) -> Operation:
        config = self.config
        format, in_place = kind or draw.choice(self.kinds())
        element = 1 if format == "inq8" else 2
        most = (room // (1 if in_place else 2) - 512) * 3 // 4
        length = self._length(draw, element, most)
        operation = Operation(self.next_epoch, format, length, in_place)
        self.next_epoch = self.next_epoch + 1 & 0xFFFFFFFF
        for rank in range(config.ranks):
            self._place(draw, operation, start, room)
            self._values(draw, operation, rank)
        coverage.hit("switch.format", f"{format}x{'in place' if in_place else 'out of place'}")
        coverage.hit("switch.length", self._length_bin(length, element))
        return operation

    def _length(self, draw, element, most) -> int:
        config = self.config
        wave, payload, flit = config.wave_bytes, config.payload_bytes, config.flit_bytes
        if self._edge is not None:
            (name, more), self._edge = self._edge, None
            units = {None: 0, "flit": flit, "payload": payload, "wave": wave, "two waves": 2 * wave}
            return units[name] + more * element
        unit = draw.choice((0, flit, payload, wave, wave, 2 * wave, 3 * wave, draw.randrange(most)))
        length = unit + element * draw.choice((-1, 0, 0, 1, draw.randrange(-4, 5)))
        return min(max(length // element * element, self._shortest), most // element * element)

    def _length_bin(self, length: int, element: int) -> str:
        config = self.config
        units = (("flit", config.flit_bytes), ("payload", config.payload_bytes),
                 ("wave", config.wave_bytes))  # fmt: skip
        if length == 0:
            return "zero"
        for name, size in units:
            for offset, word in ((-element, "an element under a"), (0, "a"),
                                 (element, "an element over a")):  # fmt: skip
                if length == size + offset:
                    return f"{word} {name}"
        if length < config.wave_bytes:
            return "another below a wave"
        return "whole waves" if length % config.wave_bytes == 0 else "several waves and a rest"

    def _place(self, draw: random.Random, operation: Operation, start: int, room: int):
        """Ranges of one rank, in any order, with gaps between them."""
        flit = self.config.flit_bytes
        sizes = {"source": operation.length, "scale_source": operation.scales_bytes(self.config)}
        kinds = ["source", "scale_source"] if operation.format == "inq8" else ["source"]
        if not operation.in_place:
            kinds += [kind.replace("source", "destination") for kind in kinds]
        draw.shuffle(kinds)
        place = start
        for kind in kinds:
            size = sizes[kind.replace("destination", "source")]
            place += flit * draw.randrange(1, 5)
            operation.addresses.setdefault(kind, []).append(place)
            place += -(-size // flit) * flit
        assert place <= start + room, "the part of memory is too small"
        if operation.in_place:
            for kind in kinds:
                destination = kind.replace("source", "destination")
                operation.addresses.setdefault(destination, []).append(
                    operation.addresses[kind][-1]
                )

    def _values(self, draw: random.Random, operation: Operation, rank: int):
        """Operands that make sums of all kinds: alike in size, cancelling, and any bits."""
        memory, length = self.memories[rank], operation.length
        values = np.random.default_rng(draw.getrandbits(32))
        kind = draw.choice(("alike", "alike", "bits"))
        source = operation.addresses["source"][rank]
        if operation.format == "fp16" and kind == "alike":
            numbers = values.normal(size=length // 2).astype(np.float16)
            memory[source : source + length] = numbers.view(np.uint8)
        elif operation.format == "bf16" and kind == "alike":
            numbers = values.normal(size=length // 2).astype(np.float32)
            memory[source : source + length] = (
                (numbers.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
            )
        elif operation.format == "inq8":
            scales = operation.addresses["scale_source"][rank]
            size = operation.scales_bytes(self.config)
            numbers = np.abs(values.normal(size=size // 2) / 64).astype(np.float16)
            if kind == "alike":
                memory[scales : scales + size] = numbers.view(np.uint8)

    # -- golden ---------------------------------------------------------------------------------

    def _operands(self, operation: Operation, kind: str, size: int, type) -> np.ndarray:
        return np.stack(
            [
                memory[address : address + size].view(type)
                for memory, address in zip(self.memories, operation.addresses[kind], strict=True)
            ]
        )

    def results(self, operation: Operation) -> dict[str, np.ndarray]:
        """Bytes of each result by the kind of its address."""
        length = operation.length
        if operation.format == "inq8":
            codes = self._operands(operation, "source", length, np.int8)
            size = operation.scales_bytes(self.config)
            scales = self._operands(operation, "scale_source", size, np.uint16)
            codes, scales, _ = all_reduce_inq(codes, scales, block=self.config.block)
            return {
                "destination": codes.view(np.uint8),
                "scale_destination": scales.view(np.uint8),
            }
        operands = self._operands(operation, "source", length, np.uint16)
        bits, _ = all_reduce_sum(operands, operation.format)
        return {"destination": bits.view(np.uint8)}

    def _expect(self):
        """What every byte of every memory must be once all is over."""
        self.expected = [memory.copy() for memory in self.memories]
        for operation in self.operations:
            for kind, result in self.results(operation).items():
                for rank, address in enumerate(operation.addresses[kind]):
                    self.expected[rank][address : address + len(result)] = result
        if self.operations:
            word = flag_word(self.operations[-1].epoch, context=self.context)
            for memory, flag in zip(self.expected, self.flags, strict=True):
                self._put(memory, flag, word)

    def flag_words(self, **failures: int) -> list[int]:
        """What every rank must have seen, in this order; `failures` is of the first operation."""
        words = [flag_word(op.epoch, context=self.context) for op in self.operations]
        if failures:
            words[0] = flag_word(self.operations[0].epoch, context=self.context, **failures)
        return words

    def expect_failure(
        self,
        operation: Operation,
        before: list[np.ndarray],
        target: int,
        *,
        refused: tuple[int, list[slice]] | None = None,
    ):
        """Expect of `operation` what one error leaves (docs/components/read-out.md#errors).

        Waves are read out in order, each at all ranks or at none. So those before the error are
        new at every rank. After a read error its wave is old, and so are all behind it. A write
        error is known only when its wave has begun, which then ends; behind it some more waves may
        have begun, the same at every rank, and all that follow are old. Codes and scales of a wave
        go together. What a memory refused is old.

        Parameters
        ----------
        before
            The memories as they were.
        target
            Byte of the source, or of the destination, that had the error.
        refused
            The rank that refused writes, and their bytes in its memory; None: a read had the error.
        """
        waves = -(-operation.length // self.config.wave_bytes)
        first_old = wave = target // self.config.wave_bytes
        if refused is not None:
            first_old = wave + 1
            while first_old < waves and self._is_new(operation, first_old):
                first_old += 1
        kind = "read" if refused is None else "write"
        seen = {"new before the error": wave > 0, f"with a {kind} error": True}
        seen[f"old behind a {kind} error"] = max(first_old, wave + 1) < waves
        seen["new behind a write error"] = first_old > wave + 1
        for name, was in seen.items():
            if was:
                coverage.hit("switch.failed_waves", name)
        for number in range(first_old, waves):
            for rank, part in self._parts(operation, number):
                self.expected[rank][part] = before[rank][part]
        if refused is not None:
            rank, parts = refused
            start = operation.addresses["destination"][rank]
            for part in parts:
                own = slice(max(part.start, start), min(part.stop, start + operation.length))
                self.expected[rank][own] = before[rank][own]

    def _is_new(self, operation: Operation, wave: int) -> bool:
        return all(
            np.array_equal(self.memories[rank][part], self.expected[rank][part])
            for rank, part in self._parts(operation, wave)
        )

    def _parts(self, operation: Operation, wave: int) -> Iterator[tuple[int, slice]]:
        """What a wave writes: a rank, and bytes of its memory."""
        config = self.config
        sizes = {"destination": (config.wave_bytes, operation.length)}
        if operation.format == "inq8":
            sizes["scale_destination"] = (
                config.scale_chunk_bytes, operation.scales_bytes(config),
            )  # fmt: skip
        for kind, (step, size) in sizes.items():
            for rank, address in enumerate(operation.addresses[kind]):
                yield rank, slice(address + wave * step, address + min((wave + 1) * step, size))

    def check(self):
        """Every byte of every memory."""
        for rank, memory in enumerate(self.memories):
            wanted = self.expected[rank]
            moved = golden(self._written(wanted, rank), what=f"context {self.context}, rank {rank}")
            compare(f"rank {rank}: results", self._written(memory, rank), moved)
            own = self._own()
            different = self.start + np.flatnonzero(memory[own] != wanted[own])
            compare(f"rank {rank}: bytes that differ", different.tolist(), [])

    def _written(self, memory: np.ndarray, rank: int) -> np.ndarray:
        """The bytes that results were written to."""
        pieces = [
            memory[address[rank] : address[rank] + size]
            for operation in self.operations
            for kind, size in (
                ("destination", operation.length),
                ("scale_destination", operation.scales_bytes(self.config)),
            )
            if (address := operation.addresses.get(kind))
        ]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.uint8)

    def flag_reader(self, rank: int) -> Callable[[], int]:
        """Reads a rank's flag."""
        memory = self.memories[rank]
        return lambda: int(memory[self.flags[rank] : self.flags[rank] + 8].view(np.uint64)[0])
