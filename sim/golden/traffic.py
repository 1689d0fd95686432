"""Ordinary traffic: which requests each rank makes, and what every memory must hold.

The traffic of a rank is a sequence that its settings alone decide. Two ranks never write one byte,
and a rank writes the same bytes to a slot each time, so memories end alike in any order of events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

__all__ = [
    "PATTERNS",
    "Request",
    "Shape",
    "Traffic",
    "data",
    "moved",
    "moved_by",
    "requests",
    "slot_address",
]

#: Where requests go, in the order of their codes; see `Traffic`.
PATTERNS = ("all_to_all", "neighbour", "hot_spot", "random", "itself")
#: A chance of so much is certain.
CERTAIN = 256
RANK_STEP = 0x9E3779B9
MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Shape:
    """What of a configuration decides addresses: ranks, and bytes of a payload."""

    ranks: int
    payload_bytes: int

    @property
    def slot_bytes(self) -> int:
        """Distance of two slots."""
        return 1 << (self.payload_bytes - 1).bit_length()

    @property
    def rank_slots(self) -> int:
        """Slots from one rank's slot to its next."""
        return 1 << (self.ranks - 1).bit_length()


@dataclass(frozen=True)
class Traffic:
    """The settings of one rank's generator.

    `pattern` is ``all_to_all`` (the other ranks in turn), ``neighbour`` (the next rank),
    ``hot_spot`` (`target`, which asks nothing itself), ``random`` (the others at random) or
    ``itself``. `writes` is the chance of a write, of 256. `slots`, a power of two, is how many
    places there are at each destination. `rate` changes no byte.
    """

    pattern: str = "all_to_all"
    target: int = 0
    rate: int = 0xFFFF
    bytes: int = 32
    writes: int = CERTAIN
    count: int = 0
    slots: int = 1
    write_base: int = 0
    read_base: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Request:
    """One request: the other rank, the kind, and the byte address in its memory."""

    destination: int
    write: bool
    address: int


def _random(state: int) -> Iterator[int]:
    """Marsaglia's xorshift, shifts 13, 17 and 5."""
    while True:
        state ^= state << 13 & MASK
        state ^= state >> 17
        state ^= state << 5 & MASK
        yield state


def slot_address(shape: Shape, traffic: Traffic, rank: int, number: int, write: bool) -> int:
    """Where request `number` of `rank` is, in the memory of its destination."""
    slot = number % traffic.slots
    base = traffic.write_base if write else traffic.read_base
    return base + (slot * shape.rank_slots + rank) * shape.slot_bytes


def requests(shape: Shape, traffic: Traffic, rank: int) -> Iterator[Request]:
    """The requests of `rank`, in order."""
    if traffic.pattern == "hot_spot" and traffic.target == rank:
        return
    others = [(rank + 1 + step) % shape.ranks for step in range(shape.ranks - 1)]
    draw = _random((traffic.seed + rank * RANK_STEP) & MASK or 1)
    for number in range(traffic.count):
        drawn = next(draw)
        write = (drawn & 0xFF) < traffic.writes
        at_random = others[(drawn >> 8 & 0xFFFF) * len(others) >> 16]
        destination = {
            "all_to_all": others[number % len(others)],
            "neighbour": others[0],
            "hot_spot": traffic.target,
            "random": at_random,
            "itself": rank,
        }[traffic.pattern]
        yield Request(destination, write, slot_address(shape, traffic, rank, number, write))


def data(address: int, length: int, *, writer: int, owner: int, seed: int) -> np.ndarray:
    """`length` bytes (uint8) that `writer` has at a multiple of 8 bytes in `owner`'s memory."""
    number = np.arange(address // 8, -(-(address + length) // 8), dtype=np.uint64)
    mixed = (number ^ np.uint64(seed)) & np.uint64(MASK)
    high = (~mixed >> np.uint64(8)) & np.uint64(0xFFFFFF) | np.uint64(writer << 24 | owner << 28)
    return (mixed | high << np.uint64(32)).astype("<u8").view(np.uint8)[:length]


def moved(
    shape: Shape, traffics: list[Traffic], *, writes: bool
) -> Iterator[tuple[int, int, np.ndarray]]:
    """What all ranks together write, or read: (owner, byte address, bytes) of each slot, once.

    What is written must stand there afterwards, what is read before.
    """
    for rank, traffic in enumerate(traffics):
        yield from moved_by(shape, traffic, rank, writes=writes)


def moved_by(
    shape: Shape, traffic: Traffic, rank: int, *, writes: bool
) -> Iterator[tuple[int, int, np.ndarray]]:
    """The same of one rank."""
    places = {
        (request.destination, request.address)
        for request in requests(shape, traffic, rank)
        if request.write == writes
    }
    for owner, address in sorted(places):
        content = data(address, traffic.bytes, writer=rank, owner=owner, seed=traffic.seed)
        yield owner, address, content
