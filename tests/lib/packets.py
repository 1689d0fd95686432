"""Packets, and the two ends of a link in Python: packs and reads headers as the docs say."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from amaranth.lib import enum

from hdl.config import SwitchConfig
from hdl.interfaces import Flit, Header, MessageClass, Response

from .simulate import always, until

__all__ = [
    "LinkPeer",
    "Packet",
    "beats",
    "collect_packets",
    "header_fields",
    "random_header",
    "send_packets",
]


@dataclass
class Packet:
    """A packet: header fields by name, payload flits, and the response of each of them."""

    header: dict[str, int]
    payload: list[int] = field(default_factory=list)
    responses: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.header = header_fields(Header.const(self.header))
        self.responses = self.responses or [0] * len(self.payload)

    def __getattr__(self, name):
        try:
            return self.__dict__["header"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def channel(self) -> int:
        return self.header["message_class"] + 4 * self.header["inc"]

    def flits(self, config: SwitchConfig) -> list[dict]:
        """The flits on the wire, as fields of `Flit`."""
        bits = Header.const(self.header).as_value().value
        mask = (1 << config.flit_bits) - 1
        words = [bits >> (config.flit_bits * i) & mask for i in range(config.header_flits)]
        data = words + self.payload
        responses = [0] * config.header_flits + self.responses
        return [
            dict(
                channel=self.channel,
                first=int(i == 0),
                last=int(i == len(data) - 1),
                response=responses[i],
                data=data[i],
            )
            for i in range(len(data))
        ]

    @classmethod
    def from_flits(cls, config: SwitchConfig, flits: list[dict]) -> Packet:
        bits = sum(
            flit["data"] << (config.flit_bits * i)
            for i, flit in enumerate(flits[: config.header_flits])
        )
        body = flits[config.header_flits :]
        return cls(
            header_fields(Header.from_bits(bits & ((1 << Header.size) - 1))),
            [flit["data"] for flit in body],
            [flit["response"] for flit in body],
        )


def header_fields(header) -> dict[str, int]:
    """Fields of a header constant as plain numbers."""
    values = {name: header[name] for name in dict(Header)}
    return {n: v.value if isinstance(v, enum.Enum) else int(v) for n, v in values.items()}


def _flit_fields(flit) -> dict[str, int]:
    values = {name: flit[name] for name in ("channel", "first", "last", "response", "data")}
    return {n: v.value if isinstance(v, Response) else int(v) for n, v in values.items()}


def beats(packet: Packet) -> list[dict]:
    """The packet as `Beat`s, fields by name."""
    body = list(zip(packet.payload, packet.responses, strict=True)) or [(0, 0)]
    return [
        dict(
            header=packet.header,
            data=data,
            response=response,
            empty=int(not packet.payload),
            first=int(i == 0),
            last=int(i == len(body) - 1),
        )
        for i, (data, response) in enumerate(body)
    ]


async def send_packets(ctx, source, packets, willing: Iterator[bool] | None = None):
    """Offer packets at a `PacketSource`, payload behind each head, as a queue of packets would."""
    willing = willing or always()
    for packet in packets:
        while not next(willing):
            await ctx.tick()
        ctx.set(source.head.payload, {"header": packet.header, "flits": len(packet.payload)})
        ctx.set(source.head.valid, 1)
        await until(ctx, source.head.ready)
        ctx.set(source.head.valid, 0)
        for data, response in zip(packet.payload, packet.responses, strict=True):
            while not next(willing):
                await ctx.tick()
            ctx.set(source.payload.payload, {"data": data, "response": Response(response)})
            ctx.set(source.payload.valid, 1)
            await until(ctx, source.payload.ready)
            ctx.set(source.payload.valid, 0)


def saturate(source, packets):
    """Benches that offer packets at a `PacketSource` without a pause.

    Heads and payload come each from a queue of its own: neither waits for the other.
    """

    async def heads(ctx):
        ctx.set(source.head.valid, 1)
        for packet in packets:
            head = {"header": packet.header, "flits": len(packet.payload)}
            ctx.set(source.head.payload, head)
            await until(ctx, source.head.ready)
        ctx.set(source.head.valid, 0)

    async def payload(ctx):
        ctx.set(source.payload.valid, 1)
        for packet in packets:
            for data, response in zip(packet.payload, packet.responses, strict=True):
                flit = {"data": data, "response": Response(response)}
                ctx.set(source.payload.payload, flit)
                await until(ctx, source.payload.ready)
        ctx.set(source.payload.valid, 0)

    return [heads, payload]


async def collect_packets(
    ctx, source, count: int, *, header_flits: int, willing: Iterator[bool] | None = None
) -> list[Packet]:
    """Take packets from a `PacketSource` as a transmitter does.

    A head holds the link for `header_flits` cycles and is taken in the last of them; then the
    payload follows, a flit a cycle.
    """
    willing = willing or always()
    packets = []
    head, payload = source.head, source.payload
    for _ in range(count):
        while not next(willing):
            await ctx.tick()
        while not ctx.get(head.valid):
            await ctx.tick()
        if header_flits > 1:
            await ctx.tick().repeat(header_flits - 1)
        ctx.set(head.ready, 1)
        (taken,) = await until(ctx, head.valid, head.payload)
        ctx.set(head.ready, 0)
        body = []
        ctx.set(payload.ready, 1)
        while len(body) < taken.flits:
            (flit,) = await until(ctx, payload.valid, payload.payload)
            body.append(flit)
        ctx.set(payload.ready, 0)
        packets.append(
            Packet(
                header_fields(taken.header),
                [flit.data for flit in body],
                [flit.response.value for flit in body],
            )
        )
    return packets


class LinkPeer:
    """The far end of both directions of a link, at a DUT's `rx` and `tx`.

    Sends packets as credits allow, takes what the DUT sends, and returns credits for it. Checks
    that the DUT's packets are whole and not mixed, that it stays within the room that it was told,
    and that it returns no credit that it was not given.

    Parameters
    ----------
    to_dut, from_dut
        Credits by channel: flits that the DUT buffers, and that it may send.
    idle
        When this end may start a packet.
    drain
        When a held flit of the DUT's leaves its buffer, so that its credit goes back.
    gaps
        When a flit inside a packet may follow the one before.
    """

    def __init__(
        self,
        config: SwitchConfig,
        *,
        to_dut: dict[int, int],
        from_dut: dict[int, int],
        idle: Iterator[bool] | None = None,
        drain: Iterator[bool] | None = None,
        gaps: Iterator[bool] | None = None,
    ):
        self.config = config
        self.room = dict(from_dut)
        self.initial = dict(to_dut)
        self.credits = dict(to_dut)
        self.held = dict.fromkeys(from_dut, 0)
        self.idle = idle or always()
        self.drain = drain or always()
        self.gaps = gaps or always()
        #: Packets to send, by channel, each with its place in the order in which `send` got them.
        self.outbox: dict[int, deque[tuple[int, Packet]]] = {number: deque() for number in to_dut}
        self._order = itertools.count()
        self.received: list[Packet] = []
        self.received_at: list[int] = []  # cycle of each packet's last flit
        self.sent_flits = 0
        self.received_flits = 0
        self.now = 0
        self._sending: deque[dict] = deque()
        self._assembling: list[dict] = []
        self._layout = Flit(config)

    def send(self, *packets: Packet):
        """Queue packets; a channel keeps their order, one without credits holds up no other."""
        for packet in packets:
            self.outbox[packet.channel].append((next(self._order), packet))

    def take(self, message_class: MessageClass | None = None) -> list[Packet]:
        """Packets received so far, of one class if named."""
        if message_class is None:
            return self.received
        return [p for p in self.received if p.message_class == message_class.value]

    def bench(self, rx, tx):
        """A background bench for the DUT's links."""

        async def bench(ctx):
            async for _, _, valid, flit, credit in ctx.tick().sample(tx.valid, tx.flit, tx.credit):
                self._credit(credit)
                if valid:
                    self._receive(_flit_fields(flit))
                ctx.set(rx.credit, self._returns())
                outgoing = self._next()
                ctx.set(rx.valid, outgoing is not None)
                if outgoing is not None:
                    ctx.set(rx.flit, self._layout.const(outgoing))
                self.now += 1

        return bench

    def _credit(self, credit: int):
        for channel in range(8):
            if credit >> channel & 1:
                self.credits[channel] += 1
                assert self.credits[channel] <= self.initial[channel], (
                    f"channel {channel}: a credit came back that was never spent"
                )

    def _receive(self, flit: dict):
        channel = flit["channel"]
        assert self.held[channel] < self.room[channel], f"channel {channel}: sent without credit"
        self.held[channel] += 1
        self.received_flits += 1
        assert flit["first"] == (not self._assembling), "first: in the wrong place"
        if self._assembling:
            assert channel == self._assembling[0]["channel"], "packets are mixed"
        self._assembling.append(flit)
        if flit["last"]:
            packet = Packet.from_flits(self.config, self._assembling)
            assert packet.channel == channel, "the header's class is not the channel's"
            self.received.append(packet)
            self.received_at.append(self.now)
            self._assembling = []

    def _returns(self) -> int:
        bits = 0
        for channel, count in self.held.items():
            if count and next(self.drain):
                self.held[channel] -= 1
                bits |= 1 << channel
        return bits

    def _next(self) -> dict | None:
        if not self._sending and next(self.idle):
            self._start()
            return self._sending.popleft() if self._sending else None
        if self._sending and next(self.gaps):
            return self._sending.popleft()
        return None

    def _start(self):
        """The packet that waits longest among those with credits for all of it."""
        heads = [
            (order, channel)
            for channel, queue in self.outbox.items()
            for order, packet in itertools.islice(queue, 1)
            if self.credits[channel] >= self.config.header_flits + len(packet.payload)
        ]
        if heads:
            _, channel = min(heads)
            _, packet = self.outbox[channel].popleft()
            self._sending.extend(packet.flits(self.config))
            self.credits[channel] -= len(self._sending)
            self.sent_flits += len(self._sending)


def random_header(draw: random.Random, message_class: MessageClass, **fields) -> dict[str, int]:
    """A header with everything at random that is not given."""
    drawn = {
        "source": draw.randrange(16),
        "destination": draw.randrange(16),
        "context": draw.randrange(16),
        "generation": draw.randrange(16),
        "tag": draw.randrange(1 << 16),
        "address": 0,
        "length": 0,
        "status": 0,
        "inc": 1,
    }
    return drawn | {"message_class": message_class.value} | fields
