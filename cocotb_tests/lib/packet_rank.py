"""A rank that speaks packets: no AXI4, no endpoint, answers in any order that the wire allows."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from hdl.config import SwitchConfig

from .packets import (
    DECERR,
    OKAY,
    READ_DATA,
    READ_REQUEST,
    WRITE_DATA,
    WRITE_RESPONSE,
    LinkPeer,
    Packet,
    random_identity,
)

__all__ = ["PacketRank"]

DOORBELL_BYTES = 8
#: Of a context in the address space of the accelerator (docs/tenants.md), arrivals first.
CONTEXT_WINDOW_BYTES = 4096


class PacketRank:
    """Serves a memory over a link peer.

    Members that a case may change while nothing is under way
    ---------------------------------------------------------
    draw : for what is left to chance
    disorder : answers that wait together leave in any order
    hold : most cycles that an answer is held back
    read_status : response of each flit, from its byte address
    write_status : response of a packet, from itself

    What was seen since they were set to 0
    --------------------------------------
    overtaken, in_turn : answers that left before an older one, and others
    """

    def __init__(self, peer: LinkPeer, rank: int, config: SwitchConfig, memory: np.ndarray):
        self.peer = peer
        self._rank = rank
        self._config = config
        self._memory = memory
        self._held: list[tuple[int, Packet]] = []  # due, answer
        self._now = 0
        self._owed: deque[Packet] = deque()  # ordinary requests, unanswered
        self.draw = random.Random(rank)
        self.disorder = False
        self.hold = 0
        self.read_status: Callable[[int], int] = lambda address: OKAY
        self.write_status: Callable[[Packet], int] = lambda packet: OKAY
        self.answers: list[int] = []  # to arrivals
        self.requests = self.writes = 0
        self.overtaken = self.in_turn = 0
        self.served: list[int] = []  # contexts of the accelerator's packets, in their order
        self._refused: list[Packet] = []
        self._ordinary: list[Packet] = []

    def arrive(self, epoch: int, context: int = 0):
        header = dict(message_class=WRITE_DATA, inc=1, source=self._rank, destination=self._rank,
                      address=CONTEXT_WINDOW_BYTES * context, length=DOORBELL_BYTES)  # fmt: skip
        self.peer.send(Packet(header, [epoch]))

    def ordinary(self, *, write: bool):
        """Ask another rank for something through the core, which refuses everything today."""
        header = random_identity(self.draw) | dict(inc=0, source=self._rank)
        size = self.draw.randint(1, self._config.payload_flits)
        header |= dict(length=size * self._config.flit_bytes)
        flits = [self.draw.getrandbits(self._config.flit_bits) for _ in range(size)]
        if write:
            packet = Packet(header | dict(message_class=WRITE_DATA), flits)
        else:
            packet = Packet(header | dict(message_class=READ_REQUEST))
        self._ordinary.append(packet)
        self.peer.send(packet)

    def cycle(self):
        self._now += 1
        while self.peer.received:
            self._serve(self.peer.received.popleft())
        due = [entry for entry in self._held if entry[0] <= self._now]
        if due and self.disorder:
            self.draw.shuffle(due)
        for entry in due:
            oldest = entry is self._held[0]
            self.in_turn += oldest
            self.overtaken += not oldest
            self._held = [held for held in self._held if held is not entry]
            self.peer.send(entry[1])

    def left(self) -> str:
        waits = []
        if self._held:
            waits.append(f"{len(self._held)} answers held back")
        if len(self._refused) < len(self._ordinary):
            waits.append(f"{len(self._ordinary) - len(self._refused)} ordinary requests unanswered")
        return f"rank {self._rank}: {', '.join(waits)}" if waits else ""

    def check_ordinary(self) -> list[str]:
        """What is wrong with the answers to ordinary requests: DECERR each, in order by class."""
        wrong = []
        classes = ((READ_DATA, READ_REQUEST), (WRITE_RESPONSE, WRITE_DATA))
        for answer_class, request_class in classes:
            asked = [p for p in self._ordinary if p["message_class"] == request_class]
            got = [p for p in self._refused if p["message_class"] == answer_class]
            for request, answer in zip(asked, got, strict=True):
                same = (answer.identity, answer["source"], answer["destination"]) == (
                    request.identity, request["destination"], request["source"],
                )  # fmt: skip
                if not same or answer["status"] != DECERR or answer.payload:
                    wrong.append(f"{request.header} answered by {answer.header}")
        self._ordinary, self._refused = [], []
        return wrong

    def _serve(self, packet: Packet):
        if not packet["inc"]:
            self._refused.append(packet)
        elif packet["message_class"] == READ_REQUEST:
            self.requests += 1
            self.served.append(packet["context"])
            for answer in self._read(packet):
                self._hold(answer)
        elif packet["message_class"] == WRITE_DATA:
            self.writes += 1
            self.served.append(packet["context"])
            self._hold(self._write(packet))
        else:
            self.answers.append(packet["status"])

    def _hold(self, answer: Packet):
        self._held.append((self._now + self.draw.randint(0, self.hold), answer))

    def _answer(self, packet: Packet, message_class: int, **fields) -> dict[str, int]:
        context, generation, tag = packet.identity
        return dict(
            message_class=message_class, inc=1, source=self._rank, destination=packet["source"],
            context=context, generation=generation, tag=tag,
        ) | fields  # fmt: skip

    def _read(self, packet: Packet) -> Iterator[Packet]:
        size, most = self._config.flit_bytes, self._config.payload_bytes
        first = packet["address"] // size * size
        end = -(-(packet["address"] + packet["length"]) // size) * size
        for number, start in enumerate(range(first, end, most)):
            places = range(start, min(start + most, end), size)
            flits = [
                int.from_bytes(self._memory[place : place + size].tobytes(), "little")
                for place in places
            ]
            header = self._answer(packet, READ_DATA, length=len(flits) * size)
            header["tag"] = header["tag"] + number & 0xFFFF
            yield Packet(header, flits, [self.read_status(place) for place in places])

    def _write(self, packet: Packet) -> Packet:
        size, address, length = self._config.flit_bytes, packet["address"], packet["length"]
        status = self.write_status(packet)
        if status == OKAY:
            lanes = b"".join(flit.to_bytes(size, "little") for flit in packet.payload)
            start = address % size
            self._memory[address : address + length] = np.frombuffer(
                lanes[start : start + length], np.uint8
            )
        return Packet(self._answer(packet, WRITE_RESPONSE, status=status))
