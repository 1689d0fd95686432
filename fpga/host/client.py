"""A board's registers and memories through its bridge: requests, answers, and what to do without.

One request is under way at a time. It is sent again until its answer comes, with the same sequence
number, by which the bridge knows it: what it asks for is done once.
"""

from __future__ import annotations

import secrets
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from .errors import BoardError, BusError, BusyError, NoAnswer, RefusedError, SessionLost
from .frames import (
    NONCE_BYTES,
    STATUS_BYTES,
    Access,
    Damage,
    Decoder,
    Frame,
    Identity,
    Opcode,
    Status,
    encode,
    opcode_byte,
)

__all__ = ["Client", "Port", "Statistics"]

WORD_BYTES = 4
SEQUENCES = 256
#: What fits a request's fields.
ADDRESS_LIMIT, RANK_LIMIT = 1 << 32, 1 << 8
#: Bytes asked of a port that does not say how many are waiting; such a port gives what it has.
READ_BYTES = 4096
#: Seconds before a request is sent again of which the bridge found a frame damaged: what disturbs
#: the line may go on for a while.
REFUSED_PAUSE = 0.01
#: Seconds between two attempts while the board is busy, and for how long they go on: a board's
#: self-test takes a millisecond, a twin's on a crowded machine a minute.
BUSY_PAUSE, BUSY_SECONDS = 0.01, 120.0


class Port(Protocol):
    """What a client needs of a serial port; pyserial's `Serial` is one."""

    #: Seconds that `read` waits at most; it gives nothing only after these.
    timeout: float | None

    def write(self, data: bytes, /) -> int | None: ...

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


@dataclass
class Statistics:
    """What happened on the line.

    `requests` were asked; `retries` of them were sent once more, `timeouts` because no answer came
    and `refused` because the bridge found a frame damaged; `damaged` and `stale` answers were
    passed over; `busy` were put off.
    """

    requests: int = 0
    retries: int = 0
    timeouts: int = 0
    refused: int = 0
    damaged: int = 0
    stale: int = 0
    busy: int = 0


def _name(opcode: Opcode) -> str:
    return opcode.name.lower().replace("_", " ")


def _nothing_at(opcode: Opcode, address: int, rank: int | None) -> BusError:
    where = "" if rank is None else f" of rank {rank}"
    return BusError(f"{_name(opcode)}: nothing is at address {address:#x}{where}", address)


class Client:
    """The host's end.

    Parameters
    ----------
    port
        The line. It is the client's from here on, and so is its ``timeout``.
    timeout
        Seconds to wait for an answer before the request is sent again.
    retries
        How often it is sent again. Where frames come damaged it may be oftener, in the same time.
    nonce
        32 bits that no other session has; None draws them.

    `identify` comes first: it opens the session.

    Raises
    ------
    BoardError
        From every request: `NoAnswer`, `BusyError`, `SessionLost`, `RefusedError`, `BusError`.
    """

    def __init__(
        self, port: Port, *, timeout: float = 0.25, retries: int = 8, nonce: int | None = None
    ):
        self._port = port
        self._timeout = timeout
        self._retries = retries
        self._nonce = secrets.randbits(8 * NONCE_BYTES) if nonce is None else nonce
        self._sequence = SEQUENCES - 1
        self._decoder = Decoder()
        self._identity: Identity | None = None
        self.statistics = Statistics()
        port.timeout = timeout

    # -- requests --------------------------------------------------------------------------------

    def identify(self) -> Identity:
        """Open the session, or ask again what the board is."""
        answer = self._request(Opcode.IDENTIFY, struct.pack("<I", self._nonce))
        if len(answer) != Identity.layout().size:
            raise RefusedError(f"identify: answered with {len(answer)} bytes: another bridge")
        self._identity = Identity.unpack(answer)
        return self._identity

    def read_words(self, address: int, count: int = 1, *, increment: bool = True) -> list[int]:
        """`count` 32-bit registers from byte `address` up, or one of them again and again."""
        words: list[int] = []
        for start, size in self._pieces(Opcode.READ_WORDS, address, count, WORD_BYTES):
            at = address + WORD_BYTES * start if increment else address
            access = Access(at, size, fixed=not increment)
            answer = self._request(Opcode.READ_WORDS, access.pack(), size * WORD_BYTES)
            words += struct.unpack(f"<{size}I", answer)
        return words

    def write_words(self, address: int, values: Sequence[int], *, increment: bool = True) -> None:
        """Write 32-bit registers from byte `address` up, or one of them with each value.

        After a `BusError` the values before the one it names are written.
        """
        for start, size in self._pieces(Opcode.WRITE_WORDS, address, len(values), WORD_BYTES):
            at = address + WORD_BYTES * start if increment else address
            access = Access(at, size, fixed=not increment)
            data = struct.pack(f"<{size}I", *values[start : start + size])
            self._request(Opcode.WRITE_WORDS, access.pack() + data, 0)

    def read_memory(self, rank: int, address: int, length: int) -> bytes:
        """Bytes of a rank's memory."""
        data = bytearray()
        for start, size in self._pieces(Opcode.READ_MEMORY, address, length, 1, rank):
            access = Access(address + start, size, rank)
            data += self._request(Opcode.READ_MEMORY, access.pack(), size, rank)
        return bytes(data)

    def write_memory(self, rank: int, address: int, data: bytes) -> None:
        """Put bytes into a rank's memory. After a `BusError` those before its address are there."""
        for start, size in self._pieces(Opcode.WRITE_MEMORY, address, len(data), 1, rank):
            access = Access(address + start, size, rank)
            piece = data[start : start + size]
            self._request(Opcode.WRITE_MEMORY, access.pack() + piece, 0, rank)

    def reset(self) -> None:
        """Ranks, links and switch as after power-up, whatever they were at; memories stay."""
        self._request(Opcode.RESET, b"", 0)

    def start(self) -> None:
        """Set the counters of a run to zero and start every rank's program.

        As writes of the registers ``clear`` and ``go``, but as close to each other as a host in
        simulation writes them: what is counted in between does not depend on the line.
        """
        self._request(Opcode.START, b"", 0)

    def start_self_test(self) -> None:
        """Start the board's own test, which overwrites memories; `identify` tells how it ends.

        A design without one refuses it (`RefusedError`).
        """
        self._request(Opcode.SELF_TEST, b"", 0)

    def close(self) -> None:
        """Give back the port. The board keeps the session; the next tool opens another."""
        self._port.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    # -- one request -----------------------------------------------------------------------------

    def _pieces(
        self, opcode: Opcode, address: int, count: int, unit: int, rank: int | None = None
    ) -> Iterator[tuple[int, int]]:
        """(start, size) of the requests that `count` items of `unit` bytes take."""
        fits = 0 <= address <= ADDRESS_LIMIT - count * unit and 0 <= (rank or 0) < RANK_LIMIT
        if not fits:
            raise _nothing_at(opcode, address, rank)
        if self._identity is None:
            self.identify()
        most = self._identity.burst_bytes // unit
        for start in range(0, count, most):
            yield start, min(most, count - start)

    def _request(
        self, opcode: Opcode, payload: bytes, size: int | None = None, rank: int | None = None
    ) -> bytes:
        """The data of the answer, `size` bytes of it; put off while the board is busy."""
        give_up = time.monotonic() + BUSY_SECONDS
        while True:
            status, data = self._exchange(opcode, payload)
            if status != Status.BUSY or time.monotonic() > give_up:
                break
            self.statistics.busy += 1
            time.sleep(BUSY_PAUSE)
        self._check(opcode, status, data, rank)
        if size is not None and len(data) != size:
            raise RefusedError(f"{_name(opcode)}: answered with {len(data)} bytes, not {size}")
        return data

    @staticmethod
    def _check(opcode: Opcode, status: int, data: bytes, rank: int | None):
        """Raise what a status means."""
        what = _name(opcode)
        if status == Status.BUS_ERROR:
            raise _nothing_at(opcode, int.from_bytes(data, "little"), rank)
        if status == Status.BUSY:
            raise BusyError(f"{what}: the board's self-test does not end")
        if status in (Status.NO_SESSION, Status.OUT_OF_SEQUENCE):
            raise SessionLost(
                f"{what}: the session is over; the board was reset, its button pressed, or another "
                "program talks to it"
            )
        if status != Status.OK:
            raise RefusedError(
                f"{what}: refused with status {status}; the board has another bridge"
            )

    def _exchange(self, opcode: Opcode, payload: bytes) -> tuple[int, bytes]:
        """Status and data of the answer to one request, sent as often as it takes."""
        self._sequence = (self._sequence + 1) % SEQUENCES
        request = encode(Frame(opcode_byte(opcode), self._sequence, payload))
        self.statistics.requests += 1
        began, sent, unanswered = time.monotonic(), 0, 0
        while True:
            sent += 1
            self._send(request)
            answer, refused = self._await(opcode)
            if answer is not None:
                return answer
            unanswered += not refused
            if unanswered > self._retries or not self._goes_on(refused, began):
                break
            self.statistics.retries += 1
        told = f", {sent - unanswered} times told that it came damaged"
        raise NoAnswer(
            f"board: no answer to {_name(opcode)}, asked {sent} times with {self._timeout:g} s each"
            + (told if sent > unanswered else "")
        )

    def _goes_on(self, refused: bool, began: float) -> bool:
        """Whether a request is sent again that was refused; it has the time of all attempts."""
        if not refused:
            return True
        if not self._retries or time.monotonic() > began + self._timeout * (self._retries + 1):
            return False
        time.sleep(REFUSED_PAUSE)
        return True

    def _send(self, data: bytes):
        try:
            self._port.write(data)
        except OSError as error:
            raise BoardError(f"port: cannot be written: {error}") from None

    def _receive(self) -> bytes:
        try:
            waiting = getattr(self._port, "in_waiting", None)
            return self._port.read(READ_BYTES if waiting is None else max(1, waiting))
        except OSError as error:
            raise BoardError(f"port: cannot be read: {error}") from None

    def _await(self, opcode: Opcode) -> tuple[tuple[int, bytes] | None, bool]:
        """The answer, or None; and whether the request is to be sent again at once."""
        end = time.monotonic() + self._timeout
        answer, again = None, False
        while answer is None and not again and time.monotonic() < end:
            received = self._receive()
            if not received:  # the port has waited as long
                break
            for event in self._decoder.feed(received):
                if isinstance(event, Damage):
                    self.statistics.damaged += 1
                elif event.head == opcode_byte(Opcode.NONE, answer=True):
                    self.statistics.refused += 1
                    again = True
                elif answer is None and self._answers(event, opcode):
                    answer = event.payload[0], event.payload[STATUS_BYTES:]
                else:
                    self.statistics.stale += 1
        self.statistics.timeouts += answer is None and not again
        return answer, again

    def _answers(self, frame: Frame, opcode: Opcode) -> bool:
        """Whether a frame is the answer to the request under way."""
        if frame.head != opcode_byte(opcode, answer=True) or frame.sequence != self._sequence:
            return False
        if len(frame.payload) < STATUS_BYTES:
            return False
        data = frame.payload[STATUS_BYTES:]
        if opcode is Opcode.IDENTIFY and frame.payload[0] == Status.OK:
            # An earlier session's may have the same number.
            return data[:NONCE_BYTES] == struct.pack("<I", self._nonce)
        return True
