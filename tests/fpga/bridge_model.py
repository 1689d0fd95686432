"""The bridge in Python, golden for the hardware: requests in, answers out, acts on a board."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from fpga.host.frames import (
    ACCESS_BYTES,
    ANSWER,
    NONCE_BYTES,
    Access,
    Damage,
    Decoder,
    Frame,
    Opcode,
    Status,
    encode,
    opcode_byte,
)

WORD = struct.Struct("<I")
REGISTER_BYTES = 1 << 16


@dataclass
class Board:
    """What the bridge reaches: words by address, and a memory each rank."""

    words: dict[int, int]
    memories: list[bytearray]
    refusing: set[int] = field(default_factory=set)
    blocked: bool = False
    #: What was done, in order: (address, value) of register writes, and names of strobes.
    acts: list = field(default_factory=list)

    def has_word(self, address: int) -> bool:
        return address in self.words and address not in self.refusing


class BridgeModel:
    """Parameters: the board, most data bytes, the identity's bytes behind the nonce, and the
    registers that START writes.
    """

    def __init__(
        self,
        board: Board,
        burst_bytes: int,
        identity: bytes,
        *,
        self_test: bool = True,
        starting: tuple[int, ...] = (),
    ):
        self._starting = starting
        self._board = board
        self._burst_bytes = burst_bytes
        self._identity = identity
        self._self_test = self_test
        self._decoder = Decoder(ACCESS_BYTES + burst_bytes)
        self._nonce: bytes | None = None
        self._last = 0
        self._kept: Frame | None = None
        self.damaged = 0

    def close(self):
        """The session ends."""
        self._nonce = None

    def feed(self, data: bytes) -> bytes:
        """The answers to what ends in `data`, each given before the next frame comes."""
        return b"".join(encode(self._answer(event)) for event in self._decoder.feed(data))

    def _answer(self, event: Frame | Damage) -> Frame:
        if isinstance(event, Damage):
            self.damaged += 1
            return Frame(opcode_byte(Opcode.NONE, answer=True), 0, bytes([Status.CORRUPT]))
        if self._opens(event):
            self._nonce = event.payload
            return self._act(event)
        if self._nonce is None:
            return self._refusal(event, Status.NO_SESSION)
        if event.sequence == self._last:
            return self._kept
        if event.sequence == (self._last + 1) % 256:
            return self._act(event)
        return self._refusal(event, Status.OUT_OF_SEQUENCE)

    def _opens(self, frame: Frame) -> bool:
        return (
            frame.head == opcode_byte(Opcode.IDENTIFY)
            and len(frame.payload) == NONCE_BYTES
            and frame.payload != self._nonce
        )

    @staticmethod
    def _refusal(frame: Frame, status: Status) -> Frame:
        return Frame(frame.head | ANSWER, frame.sequence, bytes([status]))

    def _act(self, frame: Frame) -> Frame:
        status, data = self._execute(frame)
        self._last = frame.sequence
        self._kept = Frame(frame.head | ANSWER, frame.sequence, bytes([status]) + data)
        return self._kept

    def _execute(self, frame: Frame) -> tuple[Status, bytes]:
        board, payload = self._board, frame.payload
        known = {opcode_byte(opcode): opcode for opcode in Opcode if opcode is not Opcode.NONE}
        opcode = known.get(frame.head)
        if opcode is None or (opcode is Opcode.SELF_TEST and not self._self_test):
            return Status.BAD_OPCODE, b""
        if opcode is Opcode.IDENTIFY:
            if len(payload) != NONCE_BYTES:
                return Status.BAD_LENGTH, b""
            return Status.OK, payload + self._identity
        if opcode in (Opcode.RESET, Opcode.SELF_TEST):
            if payload:
                return Status.BAD_LENGTH, b""
            if board.blocked:
                return Status.BUSY, b""
            board.acts.append(opcode.name)
            return Status.OK, b""
        if opcode is Opcode.START:
            return self._start(payload)
        return self._access(opcode, payload)

    def _start(self, payload: bytes) -> tuple[Status, bytes]:
        board = self._board
        if payload:
            return Status.BAD_LENGTH, b""
        if board.blocked:
            return Status.BUSY, b""
        for address in self._starting:
            if not board.has_word(address):
                return Status.BUS_ERROR, WORD.pack(address)
            board.words[address] = 1
            board.acts.append((address, 1))
        return Status.OK, b""

    def _access(self, opcode: Opcode, payload: bytes) -> tuple[Status, bytes]:
        if len(payload) < ACCESS_BYTES:
            return Status.BAD_LENGTH, b""
        access, data = Access.unpack(payload), payload[ACCESS_BYTES:]
        words = opcode in (Opcode.READ_WORDS, Opcode.WRITE_WORDS)
        writes = opcode in (Opcode.WRITE_WORDS, Opcode.WRITE_MEMORY)
        size = access.size * (WORD.size if words else 1)
        if len(data) != (size if writes else 0) or size > self._burst_bytes:
            return Status.BAD_LENGTH, b""
        if self._board.blocked:
            return Status.BUSY, b""
        came = bytearray()
        one = self._word if words else self._byte
        for index in range(access.size):
            step = (0 if access.fixed else WORD.size) if words else 1
            address = access.address + index * step
            if not one(access.rank, address, data, index, writes, came):
                return Status.BUS_ERROR, WORD.pack(address)
        return Status.OK, bytes(came)

    def _word(self, rank, address, data, index, writes, came) -> bool:
        board = self._board
        if address >= REGISTER_BYTES or address % WORD.size or not board.has_word(address):
            return False
        if writes:
            (value,) = WORD.unpack_from(data, WORD.size * index)
            board.words[address] = value
            board.acts.append((address, value))
        else:
            came += WORD.pack(board.words[address])
        return True

    def _byte(self, rank, address, data, index, writes, came) -> bool:
        if rank >= len(self._board.memories):
            return False
        memory = self._board.memories[rank]
        if address >= len(memory):
            return False
        if writes:
            memory[address] = data[index]
        else:
            came.append(memory[address])
        return True
