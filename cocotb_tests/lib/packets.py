"""What a link carries: packets and flits as docs/wire-format.md says, and a peer that speaks it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from hdl.config import SwitchConfig

from .ports import Layout, Ports

__all__ = [
    "DECERR",
    "EXOKAY",
    "OKAY",
    "READ_DATA",
    "READ_REQUEST",
    "RESPONSE_NAMES",
    "SLVERR",
    "WRITE_DATA",
    "WRITE_RESPONSE",
    "LinkPeer",
    "Packet",
    "ProtocolError",
    "from_beats",
    "header_bits",
    "header_fields",
    "random_identity",
    "to_beats",
]

READ_REQUEST, READ_DATA, WRITE_DATA, WRITE_RESPONSE = range(4)
OKAY, EXOKAY, SLVERR, DECERR = range(4)
RESPONSE_NAMES = ("OKAY", "EXOKAY", "SLVERR", "DECERR")
CHANNELS = 8
INC_CHANNELS = 4

#: Bits of the header, as offset and width.
HEADER = {
    "message_class": (0, 2),
    "inc": (2, 1),
    "source": (3, 4),
    "destination": (7, 4),
    "context": (11, 4),
    "generation": (15, 4),
    "status": (19, 2),
    "tag": (21, 16),
    "address": (37, 48),
    "length": (85, 17),
}
_HEADER = Layout(HEADER)


class ProtocolError(AssertionError):
    """A link carries what the wire format forbids."""


def header_bits(header: dict[str, int]) -> int:
    """A header as a number."""
    return _HEADER.pack(header)


def header_fields(bits: int) -> dict[str, int]:
    """A header's fields."""
    return _HEADER.unpack(bits)


@dataclass
class Packet:
    """A packet: header fields by name, payload flits, and the response of each of them."""

    header: dict[str, int]
    payload: list[int] = field(default_factory=list)
    responses: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.header = dict.fromkeys(HEADER, 0) | self.header
        self.responses = self.responses or [OKAY] * len(self.payload)

    def __getitem__(self, name: str) -> int:
        return self.header[name]

    @property
    def channel(self) -> int:
        return self["message_class"] + INC_CHANNELS * self["inc"]

    @property
    def identity(self) -> tuple[int, ...]:
        """What an answer repeats."""
        return self["context"], self["generation"], self["tag"]

    def flits(self, config: SwitchConfig) -> list[dict[str, int]]:
        """On the wire."""
        bits, mask = header_bits(self.header), (1 << config.flit_bits) - 1
        words = [bits >> config.flit_bits * n & mask for n in range(config.header_flits)]
        flits = [
            dict(channel=self.channel, first=0, last=0, response=response, data=data)
            for data, response in zip(
                words + self.payload, [OKAY] * len(words) + self.responses, strict=True
            )
        ]
        flits[0]["first"] = flits[-1]["last"] = 1
        return flits


def from_flits(config: SwitchConfig, flits: list[dict[str, int]]) -> Packet:
    """The packet that these flits are."""
    count = config.header_flits
    bits = sum(flit["data"] << config.flit_bits * n for n, flit in enumerate(flits[:count]))
    if bits >> sum(width for _, width in HEADER.values()):
        raise ProtocolError(f"header: bits above its fields are set: {bits:#x}")
    body = flits[count:]
    return Packet(header_fields(bits), [f["data"] for f in body], [f["response"] for f in body])


def to_beats(packet: Packet) -> list[dict[str, int]]:
    """A packet as the switch's blocks hand it on: its header beside each flit of payload."""
    header = header_bits(packet.header)
    body = list(zip(packet.payload, packet.responses, strict=True)) or [(0, OKAY)]
    empty = int(not packet.payload)
    beats = [
        dict(header=header, data=data, response=response, empty=empty, first=0, last=0)
        for data, response in body
    ]
    beats[0]["first"] = beats[-1]["last"] = 1
    return beats


def from_beats(beats: list[dict[str, int]]) -> Packet:
    """The packet that these beats are."""
    if len({beat["header"] for beat in beats}) != 1:
        raise ProtocolError("beats: the header changes within a packet")
    header = header_fields(beats[0]["header"])
    if beats[0]["empty"]:
        return Packet(header)
    return Packet(header, [b["data"] for b in beats], [b["response"] for b in beats])


class LinkPeer:
    """The far end of a link: sends packets with credits, takes what comes, returns credits.

    It stops the simulation where the design sends without a credit, mixes packets, returns more
    credits than it took, or breaks the wire format.

    Parameters
    ----------
    ports, into, out
        Names of the links into the design and out of it.
    to_dut, from_dut
        Credits by channel that each end starts with; channels that are not named carry nothing.
    idle, drain
        When it sends a flit, and when it returns a credit.

    What was seen since `forget`
    ----------------------------
    held, withheld : cycles in which a flit, or a credit, waited for that
    """

    def __init__(
        self,
        ports: Ports,
        config: SwitchConfig,
        *,
        into: str,
        out: str,
        to_dut: dict[int, int],
        from_dut: dict[int, int],
    ):
        self._ports = ports
        self._config = config
        self._into, self._out = into, out
        self._credits = dict(to_dut)
        self._initial = dict(to_dut)
        self._room = dict(from_dut)
        self._waiting: deque[Packet] = deque()
        self._sending: deque[dict[str, int]] = deque()
        self._in_header = False  # the flit sent last begins a header of two
        self._partial: list[dict[str, int]] = []
        self._owed: deque[int] = deque()  # channels whose credits are to be returned
        self._room_owed = dict.fromkeys(from_dut, 0)
        self.received: deque[Packet] = deque()
        self.expected = 0  # packets that have yet to come
        self.idle: Iterator[bool] = iter(lambda: True, None)
        self.drain: Iterator[bool] = iter(lambda: True, None)
        self.forget()

    def forget(self):
        """Begin to look anew at what happens."""
        self.held = self.withheld = 0

    def send(self, *packets: Packet):
        """Queue packets; they go in this order."""
        self._waiting += packets

    def cycle(self):
        self._take_credits()
        self._receive()
        self._send()
        self._return()

    def left(self) -> str:
        waits = []
        if self._waiting or self._sending:
            waits.append(f"{len(self._waiting)} packets to send, credits {self._credits}")
        if self._partial:
            waits.append("a packet that has not ended")
        if self._credits != self._initial:
            waits.append(f"credits {self._credits} of {self._initial}")
        if self._owed:
            waits.append(f"{len(self._owed)} credits to return")
        if len(self.received) < self.expected:
            waits.append(f"{self.expected - len(self.received)} packets to receive")
        return f"{self._into}: {', '.join(waits)}" if waits else ""

    def take(self, message_class: int, inc: int = 1) -> list[Packet]:
        """What was received of one class, which is forgotten."""
        channel = message_class + INC_CHANNELS * inc
        taken = [p for p in self.received if p.channel == channel]
        self.received = deque(p for p in self.received if p.channel != channel)
        return taken

    def _take_credits(self):
        returned = self._ports.get(f"{self._out}__credit")
        for channel in range(CHANNELS):
            if returned >> channel & 1:
                if channel not in self._credits:
                    raise ProtocolError(f"{self._out}: a credit of channel {channel}, never used")
                self._credits[channel] += 1
                if self._credits[channel] > self._initial[channel]:
                    raise ProtocolError(f"{self._out}: more credits of {channel} than were spent")

    def _receive(self):
        if not self._ports.get(f"{self._out}__valid"):
            return
        flit = self._ports.fields(f"{self._out}__flit")
        channel = flit["channel"]
        if channel not in self._room:
            raise ProtocolError(f"{self._out}: a flit on channel {channel}, which it does not use")
        if flit["first"] == bool(self._partial):
            raise ProtocolError(f"{self._out}: first is {flit['first']} within a packet or between")
        if self._partial and self._partial[0]["channel"] != channel:
            raise ProtocolError(f"{self._out}: packets of two channels are mixed")
        if not self._room[channel]:
            raise ProtocolError(f"{self._out}: a flit on channel {channel} without a credit")
        self._room[channel] -= 1
        self._owed.append(channel)
        self._partial.append(flit)
        if flit["last"]:
            if len(self._partial) < self._config.header_flits:
                raise ProtocolError(f"{self._out}: a packet ends within its header")
            packet = from_flits(self._config, self._partial)
            if packet.channel != channel:
                raise ProtocolError(f"{self._out}: class and INC do not give channel {channel}")
            self.received.append(packet)
            self._partial = []

    def _send(self):
        flit = None
        if not self._sending and self._waiting:
            packet = self._waiting[0]
            flits = packet.flits(self._config)
            if self._credits[packet.channel] >= len(flits):
                self._credits[packet.channel] -= len(flits)
                self._sending.extend(flits)
                self._waiting.popleft()
        if self._sending and (next(self.idle) or self._in_header):
            flit = self._sending.popleft()
            # A header's flits are consecutive; gaps may lie between those of payload.
            self._in_header = flit["first"] and self._config.header_flits > 1
        self.held += bool(self._sending and flit is None)
        self._ports.set(f"{self._into}__valid", flit is not None)
        if flit is not None:
            self._ports.set_fields(f"{self._into}__flit", **flit)

    def _return(self):
        bits = 0
        if next(self.drain):
            # In order, and one credit of a channel a cycle.
            while self._owed and not bits >> self._owed[0] & 1:
                channel = self._owed.popleft()
                bits |= 1 << channel
                self._room[channel] += 1
        self.withheld += bool(self._owed and not bits)
        self._ports.set(f"{self._into}__credit", bits)


def random_identity(draw: random.Random) -> dict[str, int]:
    """Header fields that an answer repeats or turns around."""
    return dict(
        source=draw.randrange(16),
        destination=draw.randrange(16),
        context=draw.randrange(16),
        generation=draw.randrange(16),
        tag=draw.getrandbits(16),
    )
