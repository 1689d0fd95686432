"""Ends of streams: sources and sinks of transfers, and of packets as transmitters take them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from .packets import Packet, header_bits, header_fields
from .ports import Ports

__all__ = ["PacketSink", "PacketSource", "Sink", "Source", "always"]


def always() -> Iterator[bool]:
    """In every cycle."""
    return iter(lambda: True, None)


class Source:
    """Offers transfers in order; each stays until it is taken.

    Parameters
    ----------
    name
        Of the stream's ports, without their endings. A stream without ``ready`` is always taken.

    Members
    -------
    held : cycles in which a transfer waited for `idle`
    """

    def __init__(self, ports: Ports, name: str):
        self._ports = ports
        self.name = name
        self._ready = f"{name}__ready" if f"{name}__ready" in ports else None
        self._struct = f"{name}__payload" in ports.layouts
        self._waiting: deque = deque()
        self._offered = False
        self.idle = always()
        self.taken = self.held = 0

    def send(self, *transfers):
        """Queue transfers: fields by name, or numbers where the stream carries those."""
        self._waiting += transfers

    def cycle(self):
        if self._offered and (self._ready is None or self._ports.get(self._ready)):
            self._waiting.popleft()
            self._offered = False
            self.taken += 1
        if self._waiting and not self._offered and next(self.idle):
            self._offered = True
            if self._struct:
                self._ports.set_fields(f"{self.name}__payload", **self._waiting[0])
            else:
                self._ports.set(f"{self.name}__payload", self._waiting[0])
        self.held += bool(self._waiting and not self._offered)
        self._ports.set(f"{self.name}__valid", self._offered)

    def left(self) -> str:
        return f"{self.name}: {len(self._waiting)} to send" if self._waiting else ""


class Sink:
    """Takes transfers; watches that an offered one stays as it is.

    Members
    -------
    held : cycles in which a transfer waited for `drain`
    """

    def __init__(self, ports: Ports, name: str):
        self._ports = ports
        self.name = name
        self._ready = f"{name}__ready" if f"{name}__ready" in ports else None
        self._willing = False
        self._held: int | None = None
        self.drain = always()
        self.received: deque[dict[str, int]] = deque()
        self.expected = self.held = 0

    def cycle(self):
        ports = self._ports
        valid = ports.get(f"{self.name}__valid")
        willing = self._willing or self._ready is None
        if self._held is not None and not valid:
            raise AssertionError(f"{self.name}: valid fell before ready")
        if valid:
            payload = ports.get(f"{self.name}__payload")
            if self._held not in (None, payload):
                raise AssertionError(f"{self.name}: payload changed before ready")
            self._held = None if willing else payload
            self.held += not willing
            if willing:
                self.received.append(ports.layouts[f"{self.name}__payload"].unpack(payload))
        if self._ready is not None:
            self._willing = next(self.drain)
            ports.set(self._ready, self._willing)

    def left(self) -> str:
        if len(self.received) < self.expected:
            return f"{self.name}: {self.expected - len(self.received)} to come"
        return ""

    def take(self) -> list[dict[str, int]]:
        """What was received, which is forgotten."""
        taken = list(self.received)
        self.received.clear()
        self.expected = 0
        return taken


class PacketSource:
    """Offers packets to a transmitter: heads, and their payload from a queue of its own."""

    def __init__(self, ports: Ports, name: str):
        self._head = Source(ports, f"{name}__head")
        self._payload = Source(ports, f"{name}__payload")

    def send(self, *packets: Packet):
        for packet in packets:
            self._head.send(dict(header=header_bits(packet.header), flits=len(packet.payload)))
            self._payload.send(
                *(
                    dict(data=data, response=response)
                    for data, response in zip(packet.payload, packet.responses, strict=True)
                )
            )

    @property
    def held(self) -> int:
        """Cycles in which a head or payload waited since `set_idle`."""
        return self._head.held + self._payload.held

    def set_idle(self, head: Iterator[bool], payload: Iterator[bool]):
        self._head.held = self._payload.held = 0
        self._head.idle, self._payload.idle = head, payload

    def cycle(self):
        self._head.cycle()
        self._payload.cycle()

    def left(self) -> str:
        return self._head.left() or self._payload.left()


class PacketSink:
    """Takes packets as a transmitter does: a head, then its payload."""

    def __init__(self, ports: Ports, name: str):
        self._head = Sink(ports, f"{name}__head")
        self._payload = Sink(ports, f"{name}__payload")
        self.name = name
        self.received: list[Packet] = []
        self.expected = 0

    @property
    def held(self) -> int:
        """Cycles in which a head or payload waited since `set_drain`."""
        return self._head.held + self._payload.held

    def set_drain(self, head: Iterator[bool], payload: Iterator[bool]):
        self._head.held = self._payload.held = 0
        self._head.drain, self._payload.drain = head, payload

    def cycle(self):
        self._head.cycle()
        self._payload.cycle()
        while self._head.received:
            count = self._head.received[0]["flits"]
            if len(self._payload.received) < count:
                break
            head = self._head.received.popleft()
            flits = [self._payload.received.popleft() for _ in range(count)]
            self.received.append(
                Packet(
                    header_fields(head["header"]),
                    [flit["data"] for flit in flits],
                    [flit["response"] for flit in flits],
                )
            )

    def left(self) -> str:
        waits = []
        if len(self.received) < self.expected:
            waits.append(f"{self.expected - len(self.received)} packets to come")
        if self._head.received or self._payload.received:
            waits.append("a head without its payload, or payload without a head")
        return f"{self.name}: {', '.join(waits)}" if waits else ""

    def take(self) -> list[Packet]:
        """What was received, which is forgotten."""
        taken, self.received = self.received, []
        self.expected = 0
        return taken
