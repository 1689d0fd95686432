"""An AXI4 memory with every liberty that the protocol gives it, and a checker of its user.

Written from the AXI4 specification alone, apart from the memory that the project emulates in RTL.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from .packets import DECERR, OKAY

__all__ = ["AxiChecker", "AxiMemory", "AxiViolation", "Burst", "Signals"]

INCR = 1
PAGE_BYTES = 4096
LONGEST_BURST = 256
#: IDs of an endpoint that serves the accelerator alone (docs/components/endpoint.md).
ENDPOINT_IDS = frozenset({0})
#: Signals of each channel beside valid and ready, in the manager's and the subordinate's hand.
PAYLOADS = {
    "aw": ("id", "addr", "len", "size", "burst"),
    "ar": ("id", "addr", "len", "size", "burst"),
    "w": ("data", "strb", "last"),
    "b": ("id", "resp"),
    "r": ("id", "data", "resp", "last"),
}


class AxiViolation(AssertionError):
    """The manager breaks a rule of AXI4."""


class Signals(Protocol):
    """Where signals are read and driven: `Ports`, or a dictionary in a test."""

    def get(self, name: str) -> int: ...

    def set(self, name: str, value: int): ...


@dataclass(frozen=True)
class Burst:
    """An address that was taken.

    Parameters
    ----------
    number
        Counted from 0, reads and writes apart.
    """

    number: int
    id: int
    address: int
    beats: int


class AxiChecker:
    """Raises `AxiViolation` at the first cycle in which a manager breaks a rule.

    Valid and payload stay until ready; INCR bursts of full beats, at most 256, within 4 KiB and
    within the address space; WLAST at a burst's last beat and at no other; strobes only within the
    bytes that the burst addresses; IDs that the manager promises.

    Parameters
    ----------
    ids
        IDs that the manager may use. One that counts on answers in the order of its requests has
        one ID: those of several may come in any order, read data also beat by beat.
    """

    def __init__(self, *, data_bytes: int, address_bits: int, ids: Collection[int] = ENDPOINT_IDS):
        self.data_bytes = data_bytes
        self.address_bits = address_bits
        self.ids = ids
        self._held: dict[str, tuple[int, ...]] = {}
        self._bursts: deque[Burst] = deque()  # whose write data has not ended
        self._beats: deque[tuple[int, int]] = deque()  # strobe, last: before their address
        self._beat = 0
        self._numbers = dict.fromkeys(("aw", "ar"), 0)

    def stable(self, channel: str, valid: bool, ready: bool, payload: tuple[int, ...]):
        """A channel that the manager drives, in one cycle."""
        held = self._held.pop(channel, None)
        if held is not None:
            if not valid:
                raise AxiViolation(f"{channel}valid: fell before {channel}ready")
            if payload != held:
                raise AxiViolation(f"{channel}: changed before {channel}ready")
        if valid and not ready:
            self._held[channel] = payload

    def address(self, channel: str, payload: tuple[int, ...]) -> Burst:
        """An address that was taken, checked."""
        id, address, length, size, burst = payload
        beats = length + 1
        if id not in self.ids:
            known = ", ".join(map(str, sorted(self.ids)))
            raise AxiViolation(f"{channel}id: must be one of {known}, not {id}")
        if burst != INCR:
            raise AxiViolation(f"{channel}burst: must be INCR (1), not {burst}")
        if 1 << size != self.data_bytes:
            raise AxiViolation(f"{channel}size: must be {self.data_bytes} bytes, not {1 << size}")
        # Beats count from the aligned address: an unaligned start covers less, and never more.
        first = address - address % self.data_bytes
        last = first + beats * self.data_bytes - 1
        if first // PAGE_BYTES != last // PAGE_BYTES:
            raise AxiViolation(f"{channel}: {beats} beats from {address:#x} cross 4 KiB")
        if last >> self.address_bits:
            raise AxiViolation(f"{channel}: {beats} beats from {address:#x} pass the last address")
        taken = Burst(self._numbers[channel], id, address, beats)
        self._numbers[channel] += 1
        if channel == "aw":
            self._bursts.append(taken)
            self._match()
        return taken

    def data(self, strobe: int, last: int):
        """A write beat that was taken."""
        self._beats.append((strobe, last))
        self._match()

    def left(self) -> str:
        """What has begun and not ended."""
        if self._bursts or self._beats or self._held:
            return (
                f"{len(self._bursts)} bursts without their data, {len(self._beats)} beats without "
                f"their address, waiting: {', '.join(self._held) or 'none'}"
            )
        return ""

    def _match(self):
        while self._bursts and self._beats:
            burst = self._bursts[0]
            strobe, last = self._beats.popleft()
            self._beat += 1
            if bool(last) != (self._beat == burst.beats):
                raise AxiViolation(f"wlast: is {last} at beat {self._beat} of {burst.beats}")
            skipped = burst.address % self.data_bytes if self._beat == 1 else 0
            if strobe & ((1 << skipped) - 1):
                raise AxiViolation(f"wstrb: {strobe:#x} covers bytes before {burst.address:#x}")
            if last:
                self._bursts.popleft()
                self._beat = 0


@dataclass
class AxiMemory:
    """Answers on an AXI4 bus; checks the manager as it goes.

    Parameters
    ----------
    signals, prefix
        The bus: its signals are ``<prefix>__awvalid`` and so on.
    data
        Contents, bytes; an access beyond them is answered with DECERR.
    draw
        For what is left to chance.
    address_bits
        Of the bus.
    ids
        That the manager may use.

    Members that a case may change while nothing is under way
    ---------------------------------------------------------
    read_latency, write_latency : cycles from an address, or last beat, to the answer, at least 1
    willing : by channel, when it goes ahead
    out_of_order : answers of different IDs in any order
    interleaved : beats of reads with different IDs mixed
    single_ported : while a read waits for its data, no write beat is taken
    read_error : response of a beat, from its burst and its number in it
    write_error : response of a burst
    last_beat : RLAST of a beat, from what it must be; anything else is against AXI4

    What was seen since `forget`
    ----------------------------
    held : cycles in which an offer of the manager's, or an answer that is due, had to wait
    shut_out, beside : write beats that waited for reads; that were taken while a read waited
    deep : most reads that waited at once
    """

    signals: Signals
    prefix: str
    data: np.ndarray
    draw: random.Random
    data_bytes: int
    address_bits: int = 48
    ids: Collection[int] = ENDPOINT_IDS
    read_latency: int = 1
    write_latency: int = 1
    willing: dict[str, Iterator[bool]] = field(default_factory=dict)
    out_of_order: bool = False
    interleaved: bool = False
    single_ported: bool = False
    read_error: Callable[[Burst, int], int] = lambda burst, beat: OKAY
    write_error: Callable[[Burst], int] = lambda burst: OKAY
    last_beat: Callable[[bool], bool] = lambda last: last

    def __post_init__(self):
        self.checker = AxiChecker(
            data_bytes=self.data_bytes, address_bits=self.address_bits, ids=self.ids
        )
        self.forget()
        self.now = 0
        self.reads: list[Burst] = []
        self.writes: list[Burst] = []
        self.read_responses: list[tuple[Burst, int, int]] = []  # burst, beat, response
        self.write_responses: list[tuple[Burst, int]] = []
        self._readings: list[tuple[Burst, int, deque]] = []  # burst, due, beats left
        self._awaited: deque[Burst] = deque()  # write bursts, until their last beat
        self._beats: deque[tuple[int, int]] = deque()  # data and strobe
        self._beat = 0
        self._code = OKAY
        self._answers: list[tuple[Burst, int, int]] = []  # burst, due, response
        self._drive = {"arready": 0, "awready": 0, "wready": 0, "rvalid": 0, "bvalid": 0}
        for name, value in self._drive.items():
            self._set(name, value)

    # -- a cycle --------------------------------------------------------------------------------

    def forget(self):
        """Begin to look anew at what happens."""
        self.held = self.shut_out = self.beside = self.deep = 0

    def cycle(self):
        reading = bool(self._readings)
        for channel in ("ar", "aw", "w"):
            self._watch(channel, reading)
        self._store()
        goes = {name: next(self.willing[name]) if name in self.willing else True
                for name in PAYLOADS}  # fmt: skip
        self.now += 1
        self._offer_read(goes["r"])
        self._offer_answer(goes["b"])
        self._put("arready", goes["ar"])
        self._put("awready", goes["aw"])
        self._put("wready", goes["w"] and not (self.single_ported and self._readings))
        self.deep = max(self.deep, len(self._readings))

    def left(self) -> str:
        waits = [self.checker.left()]
        if self._readings or self._drive["rvalid"]:
            waits.append(f"{len(self._readings)} reads to answer")
        if self._awaited or self._answers or self._drive["bvalid"]:
            waits.append(f"{len(self._awaited) + len(self._answers)} writes to answer")
        waits = [text for text in waits if text]
        return f"{self.prefix}: {', '.join(waits)}" if waits else ""

    def _get(self, name: str) -> int:
        return self.signals.get(f"{self.prefix}__{name}")

    def _set(self, name: str, value: int):
        self.signals.set(f"{self.prefix}__{name}", value)

    def _put(self, name: str, value: int):
        self._drive[name] = int(value)
        self._set(name, self._drive[name])

    def _watch(self, channel: str, reading: bool):
        valid, ready = self._get(f"{channel}valid"), self._drive[f"{channel}ready"]
        payload = tuple(self._get(channel + n) for n in PAYLOADS[channel]) if valid else ()
        self.checker.stable(channel, bool(valid), bool(ready), payload)
        self.held += bool(valid and not ready)
        if not (valid and ready):
            self.shut_out += bool(valid and channel == "w" and self.single_ported and reading)
            return
        if channel == "w":
            self.beside += reading
            data, strobe, last = payload
            self.checker.data(strobe, last)
            self._beats.append((data, strobe))
            return
        burst = self.checker.address(channel, payload)
        if channel == "aw":
            self.writes.append(burst)
            self._awaited.append(burst)
        else:
            self.reads.append(burst)
            beats = deque(range(burst.beats))
            self._readings.append((burst, self.now + self.read_latency, beats))

    # -- contents -------------------------------------------------------------------------------

    def _place(self, burst: Burst, beat: int) -> int:
        """Byte address of a beat's first lane."""
        return burst.address - burst.address % self.data_bytes + beat * self.data_bytes

    def _store(self):
        """Write the beats whose address is known."""
        while self._awaited and self._beats:
            burst = self._awaited[0]
            data, strobe = self._beats.popleft()
            place = self._place(burst, self._beat)
            code = self.write_error(burst)
            if place + self.data_bytes > len(self.data):
                code = DECERR
            elif code == OKAY:
                lanes = data.to_bytes(self.data_bytes, "little")
                for lane in range(self.data_bytes):
                    if strobe >> lane & 1:
                        self.data[place + lane] = lanes[lane]
            self._code = max(self._code, code)
            self._beat += 1
            if self._beat == burst.beats:
                self._answers.append((burst, self.now + self.write_latency, self._code))
                self._awaited.popleft()
                self._beat, self._code = 0, OKAY

    def _eligible(self, waiting: list, due_at: int = 1) -> list:
        """Of what waits, the oldest of each ID, if its time has come."""
        ids, eligible = set(), []
        for entry in waiting:
            if entry[0].id not in ids and entry[due_at] <= self.now:
                eligible.append(entry)
            ids.add(entry[0].id)
            if not self.out_of_order and not self.interleaved:
                break
        return eligible

    def _offer_read(self, goes: bool):
        if self._drive["rvalid"]:
            if not self._get("rready"):
                return
            self._put("rvalid", 0)
        eligible = self._eligible(self._readings)
        if not (eligible and goes):
            self.held += bool(eligible)
            return
        begun = [entry for entry in eligible if len(entry[2]) < entry[0].beats]
        if begun and not self.interleaved:
            eligible = begun
        entry = self.draw.choice(eligible)
        burst, _, beats = entry
        beat = beats.popleft()
        place = self._place(burst, beat)
        code = self.read_error(burst, beat)
        data = int.from_bytes(self.data[place : place + self.data_bytes].tobytes(), "little")
        if place + self.data_bytes > len(self.data):
            code = DECERR
        self.read_responses.append((burst, beat, code))
        self._set("rid", burst.id)
        self._set("rdata", data)
        self._set("rresp", code)
        self._set("rlast", self.last_beat(not beats))
        self._put("rvalid", 1)
        if not beats:
            self._readings.remove(entry)

    def _offer_answer(self, goes: bool):
        if self._drive["bvalid"]:
            if not self._get("bready"):
                return
            self._put("bvalid", 0)
        eligible = self._eligible(self._answers)
        if not (eligible and goes):
            self.held += bool(eligible)
            return
        entry = self.draw.choice(eligible)
        burst, _, code = entry
        self.write_responses.append((burst, code))
        self._set("bid", burst.id)
        self._set("bresp", code)
        self._put("bvalid", 1)
        self._answers.remove(entry)
