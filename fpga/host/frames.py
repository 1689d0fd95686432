"""Frames between a host and the bridge on a board: what they are, and their codec in Python.

The hardware (`fpga.bridge`) takes its constants from here, and its tests hold it to this codec.
docs/host-protocol.md describes the protocol.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "ACCESS_BYTES",
    "ANSWER",
    "BAUD",
    "BURST_BYTES",
    "Access",
    "Damage",
    "Decoder",
    "Frame",
    "Identity",
    "Opcode",
    "SelfTestState",
    "Status",
    "VERSION",
    "encode",
    "frame_bytes",
    "opcode_byte",
]

#: Bits a second on the UART, both ways.
BAUD = 1_000_000
#: Most bytes of data that a board's bridge carries in one frame; `Identity` has a bridge's own.
BURST_BYTES = 1024

# HDLC's octet stuffing (ISO/IEC 13239, as in RFC 1662): a flag before and behind each frame; a flag
# or escape inside it is an escape and the byte with bit 5 inverted.
FLAG = 0x7E
ESCAPE = 0x7D
ESCAPE_XOR = 0x20

#: Of this protocol; in the first byte of every frame.
VERSION = 1
#: Bit of the first byte that tells an answer from a request.
ANSWER = 0x80

#: First byte, sequence, bytes of payload; the check stands behind the payload.
_HEADER = struct.Struct("<BBH")
_CHECK = struct.Struct("<I")
HEADER_BYTES = _HEADER.size
CHECK_BYTES = _CHECK.size
STATUS_BYTES = 1
#: What a memory or register request has before its data; see `Access`.
_ACCESS = struct.Struct("<IHBB")
ACCESS_BYTES = _ACCESS.size
NONCE_BYTES = 4


class Opcode(enum.IntEnum):
    """What a request asks for; lower four bits of the first byte."""

    IDENTIFY = 1
    READ_WORDS = 2
    WRITE_WORDS = 3
    READ_MEMORY = 4
    WRITE_MEMORY = 5
    RESET = 6
    SELF_TEST = 7
    START = 8
    #: Only as an answer: to a frame whose sequence number cannot be trusted.
    NONE = 15


class Status(enum.IntEnum):
    """First byte of an answer's payload."""

    OK = 0
    BAD_OPCODE = 1
    BAD_LENGTH = 2
    BUS_ERROR = 3  # the address, 4 bytes, follows
    BUSY = 4  # a self-test goes on
    OUT_OF_SEQUENCE = 5  # neither the last request again nor the one behind it
    NO_SESSION = 6  # nobody has identified since reset or since the button was pressed
    CORRUPT = 7  # a frame was damaged: to be sent again
    OVERRUN = 8  # a frame came before the last one was done: to be sent again


def opcode_byte(opcode: Opcode, *, answer: bool = False, version: int = VERSION) -> int:
    """The first byte of a frame."""
    return (ANSWER if answer else 0) | version << 4 | opcode


def frame_bytes(payload_bytes: int) -> int:
    """Bytes between the flags of a frame with so much payload, before stuffing."""
    return HEADER_BYTES + payload_bytes + CHECK_BYTES


@dataclass(frozen=True)
class Frame:
    """An intact frame: `head` is its first byte (see `opcode_byte`)."""

    head: int
    sequence: int
    payload: bytes = b""


def _stuffed(data: bytes) -> bytes:
    # The escape first, so that those put in are left alone.
    for byte in (ESCAPE, FLAG):
        data = data.replace(bytes([byte]), bytes([ESCAPE, byte ^ ESCAPE_XOR]))
    return data


def encode(frame: Frame) -> bytes:
    """The bytes of a frame on the line, both flags included."""
    body = _HEADER.pack(frame.head, frame.sequence, len(frame.payload)) + frame.payload
    body += _CHECK.pack(zlib.crc32(body))
    return bytes([FLAG]) + _stuffed(body) + bytes([FLAG])


class Damage(enum.Enum):
    """Why bytes between two flags are no frame."""

    SHORT = "short"  # fewer bytes than header and check
    LONG = "long"  # more than the receiver has room for
    CHECKSUM = "checksum"
    LENGTH = "length"  # intact, but its length is not the one it names
    ABORTED = "aborted"  # an escape right before the flag


class Decoder:
    """Frames out of bytes that may be anything.

    Parameters
    ----------
    payload_bytes
        Most payload that there is room for; None is no limit.

    What stands before the first flag is passed over.
    """

    def __init__(self, payload_bytes: int | None = None):
        self._limit = None if payload_bytes is None else frame_bytes(payload_bytes)
        self._body: bytearray | None = None
        self._escaped = False
        self._long = False

    def feed(self, data: bytes) -> Iterator[Frame | Damage]:
        """Frames and damaged ones that end in `data`, in order. Empty frames are no frames."""
        for byte in data:
            if byte == FLAG:
                if self._body or self._escaped:
                    yield self._end()
                self._body, self._escaped, self._long = bytearray(), False, False
            elif self._body is None:
                continue
            elif byte == ESCAPE and not self._escaped:
                self._escaped = True
            else:
                self._put(byte ^ ESCAPE_XOR if self._escaped else byte)
                self._escaped = False

    def _put(self, byte: int):
        if self._limit is not None and len(self._body) == self._limit:
            self._long = True
        else:
            self._body.append(byte)

    def _end(self) -> Frame | Damage:
        body = bytes(self._body)
        if self._escaped:
            return Damage.ABORTED
        if self._long:
            return Damage.LONG
        if len(body) < frame_bytes(0):
            return Damage.SHORT
        content, check = body[:-CHECK_BYTES], _CHECK.unpack(body[-CHECK_BYTES:])[0]
        if zlib.crc32(content) != check:
            return Damage.CHECKSUM
        head, sequence, length = _HEADER.unpack_from(content)
        payload = content[HEADER_BYTES:]
        return Frame(head, sequence, payload) if len(payload) == length else Damage.LENGTH


@dataclass(frozen=True)
class Access:
    """What a request for registers or memory begins with.

    `size` counts words of 4 bytes, or bytes of a memory. `fixed` keeps the address from counting
    up from word to word.
    """

    address: int
    size: int
    rank: int = 0
    fixed: bool = False

    def pack(self) -> bytes:
        return _ACCESS.pack(self.address, self.size, self.rank, self.fixed)

    @classmethod
    def unpack(cls, data: bytes) -> Access:
        address, size, rank, flags = _ACCESS.unpack_from(data)
        return cls(address, size, rank, bool(flags & 1))


@dataclass(frozen=True)
class SelfTestState:
    """The self-test without a host, as the LEDs show it; `fault` numbers `fpga.self_test.Fault`.

    `built` is False where the design has none.
    """

    built: bool
    busy: bool
    passed: bool
    failed: bool
    fault: int

    @classmethod
    def unpack(cls, byte: int) -> SelfTestState:
        bits = [bool(byte >> index & 1) for index in range(4)]
        return cls(*bits, byte >> 4 & 3)

    def pack(self) -> int:
        bits = (self.built, self.busy, self.passed, self.failed)
        return sum(bit << index for index, bit in enumerate(bits)) | self.fault << 4


@dataclass(frozen=True)
class Identity:
    """What a bridge answers to IDENTIFY.

    Attributes
    ----------
    nonce
        The request's.
    burst_bytes
        Most data bytes of a request or an answer.
    ranks, flit_bytes, memory_bytes
        Of the configuration; `memory_bytes` is one rank's.
    config_digest
        The first 32 bits of the configuration's digest, as in the register of that name.
    version
        Of the design: (major, minor, patch).
    damaged_frames, framing_errors
        Since reset, modulo 2^16: frames that the bridge refused, bytes that the UART did.
    self_test
        See `SelfTestState`.
    protocol
        Version of the frames.
    """

    nonce: int
    burst_bytes: int
    ranks: int
    flit_bytes: int
    memory_bytes: int
    config_digest: int
    version: tuple[int, int, int]
    damaged_frames: int
    framing_errors: int
    self_test: SelfTestState
    protocol: int = VERSION

    @staticmethod
    def layout() -> struct.Struct:
        return struct.Struct("<IHBBQIIHHB")

    @classmethod
    def unpack(cls, data: bytes) -> Identity:
        *plain, version, damaged, framing, state = cls.layout().unpack(data)
        parts = (version >> 16, version >> 8 & 0xFF, version & 0xFF)
        return cls(*plain, parts, damaged, framing, SelfTestState.unpack(state))

    def pack(self) -> bytes:
        major, minor, patch = self.version
        return self.layout().pack(
            self.nonce,
            self.burst_bytes,
            self.ranks,
            self.flit_bytes,
            self.memory_bytes,
            self.config_digest,
            major << 16 | minor << 8 | patch,
            self.damaged_frames,
            self.framing_errors,
            self.self_test.pack(),
        )
