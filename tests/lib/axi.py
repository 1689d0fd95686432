"""An AXI4 memory in Python, independent of the RTL one: checks every rule, stalls and fails.

`AxiChecker` looks at a bus cycle by cycle. `AxiMemory` answers on it. Neither needs a simulator:
they take values sampled just before a clock edge and say what to drive behind it; `attach` makes
that a testbench.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from .simulate import always

__all__ = [
    "DECERR",
    "OKAY",
    "SLVERR",
    "AxiChecker",
    "AxiManager",
    "AxiMemory",
    "AxiViolation",
    "Burst",
    "attach",
]

OKAY, SLVERR, DECERR = 0, 2, 3
INCR = 1
PAGE = 4096
LONGEST_BURST = 256
CHANNELS = ("aw", "w", "b", "ar", "r")

#: What a manager drives, and what it means where the bus has no such signal.
ADDRESS_SIGNALS = ("id", "addr", "len", "size", "burst")
MANAGER = (
    *(f"{channel}{name}" for channel in ("aw", "ar") for name in ADDRESS_SIGNALS),
    "awvalid", "arvalid", "wdata", "wstrb", "wlast", "wvalid", "bready", "rready",
)  # fmt: skip
SUBORDINATE = ("awready", "wready", "bid", "bresp", "bvalid",
               "arready", "rid", "rdata", "rresp", "rlast", "rvalid")  # fmt: skip

#: Signals of a channel that stay while it is valid and not ready.
PAYLOAD = {
    channel: [
        name
        for name in MANAGER + SUBORDINATE
        if name.startswith(channel) and name not in (f"{channel}valid", f"{channel}ready")
    ]
    for channel in CHANNELS
}


class AxiViolation(AssertionError):
    """The bus breaks a rule of AXI4."""


@dataclass(frozen=True)
class Burst:
    """A burst of `beats`, whose first beat is `address` down to the bus width."""

    id: int
    address: int
    beats: int


class AxiChecker:
    """Raises `AxiViolation` at the first cycle that breaks a rule.

    Parameters
    ----------
    data_bytes, address_bits
        Widths of the bus.
    ids
        IDs that the manager may use; None lets it use any. Answers of several may come in any
        order, so whoever counts on the order of its requests has one.
    """

    def __init__(
        self, *, data_bytes: int, address_bits: int = 48, ids: Collection[int] | None = None
    ):
        self.data_bytes = data_bytes
        self.address_bits = address_bits
        self.ids = ids
        self._held: dict[str, tuple] = {}
        self._awaited: deque[int] = deque()  # beats of write bursts whose data has not ended
        self._early: deque[bool] = deque()  # WLAST of beats that came before their address
        self._beats = 0  # of the write burst whose data is under way

    def cycle(self, bus: dict[str, int]):
        """One cycle, as sampled just before the edge that ends it."""
        for channel in CHANNELS:
            self._stable(channel, bus)
        for channel in ("aw", "ar"):
            if bus[f"{channel}valid"] and bus[f"{channel}ready"]:
                self.burst(channel, bus)
                if channel == "aw":
                    self._awaited.append(bus["awlen"] + 1)
        if bus["wvalid"] and bus["wready"]:
            self._early.append(bool(bus["wlast"]))
        self._last()

    def _stable(self, channel: str, bus):
        valid, ready = bus[f"{channel}valid"], bus[f"{channel}ready"]
        payload = tuple(bus[name] for name in PAYLOAD[channel])
        if channel in self._held:
            if not valid:
                raise AxiViolation(f"{channel}valid: fell before {channel}ready")
            if payload != self._held[channel]:
                raise AxiViolation(f"{channel}: payload changed before {channel}ready")
        self._held.pop(channel, None)
        if valid and not ready:
            self._held[channel] = payload

    def burst(self, channel: str, bus) -> Burst:
        """The burst on an address channel, checked."""
        address, beats = bus[f"{channel}addr"], bus[f"{channel}len"] + 1
        if self.ids is not None and bus[f"{channel}id"] not in self.ids:
            known = ", ".join(map(str, sorted(self.ids)))
            raise AxiViolation(f"{channel}id: must be one of {known}, not {bus[f'{channel}id']}")
        if bus[f"{channel}burst"] != INCR:
            raise AxiViolation(f"{channel}burst: must be INCR, not {bus[f'{channel}burst']}")
        if 1 << bus[f"{channel}size"] != self.data_bytes:
            raise AxiViolation(f"{channel}size: must be {self.data_bytes} bytes")
        if beats > LONGEST_BURST:
            raise AxiViolation(f"{channel}len: {beats} beats are more than {LONGEST_BURST}")
        # Beats are counted from the aligned address: an unaligned start covers less, not more.
        first = address - address % self.data_bytes
        last = first + beats * self.data_bytes - 1
        if first // PAGE != last // PAGE:
            raise AxiViolation(f"{channel}: {beats} beats from {address:#x} cross a 4 KiB page")
        if last >= 1 << self.address_bits:
            raise AxiViolation(f"{channel}: {beats} beats from {address:#x} pass the last address")
        return Burst(bus[f"{channel}id"], address, beats)

    def _last(self):
        while self._early and self._awaited:
            self._beats += 1
            due = self._beats == self._awaited[0]
            if self._early.popleft() != due:
                raise AxiViolation(f"wlast: wrong at beat {self._beats} of {self._awaited[0]}")
            if due:
                self._awaited.popleft()
                self._beats = 0


@dataclass
class AxiMemory:
    """Answers on an AXI4 bus, with timing and errors as told; the checker runs along.

    Parameters
    ----------
    read_latency
        Cycles from an address taken to its first beat, at least 1.
    write_latency
        Cycles from a last write beat taken to its response, at least 1.
    willing
        By channel, whether it goes ahead in a cycle.
    read_error
        Response code of a beat, from its address and its number in the burst.
    write_error
        Response code of a burst.
    outstanding
        Bursts a direction that are taken before the oldest has ended; None is any number.
    interleave
        Seed by which beats of reads with different IDs are mixed; None keeps bursts whole.
    contents
        Initial word at a word's number.
    """

    data_bytes: int
    address_bits: int = 48
    read_latency: int = 2
    write_latency: int = 1
    willing: dict[str, Iterator[bool]] = field(default_factory=dict)
    read_error: Callable[[int, int], int] = lambda address, beat: OKAY
    write_error: Callable[[Burst], int] = lambda burst: OKAY
    outstanding: int | None = None
    interleave: int | None = None
    contents: Callable[[int], int] = lambda number: 0

    def __post_init__(self):
        self.checker = AxiChecker(data_bytes=self.data_bytes, address_bits=self.address_bits)
        self.words: dict[int, int] = {}
        self.read_bursts: list[Burst] = []
        self.write_bursts: list[Burst] = []
        self.strobes: list[tuple[int, int]] = []  # (byte address of the word, strobes) by beat
        self.refused = {"r": 0, "b": 0}  # cycles in which the manager was not ready
        self.now = 0
        self.drive = dict.fromkeys(SUBORDINATE, 0)
        self._reads: list[deque] = []  # bursts under way, each a queue of beats
        self._writes: deque[Burst] = deque()
        self._data: deque[tuple[int, int]] = deque()
        self._beat = 0
        self._answers: deque[tuple[int, int, int]] = deque()  # due, id, code
        self._writing = 0  # write bursts not yet answered
        self._draw = random.Random(self.interleave)

    # -- contents -------------------------------------------------------------------------------

    def word(self, number: int) -> int:
        return self.words.get(number, self.contents(number))

    def read(self, address: int, length: int) -> bytes:
        """Bytes, whatever their alignment."""
        size = self.data_bytes
        first, last = address // size, (address + length - 1) // size
        data = b"".join(self.word(n).to_bytes(size, "little") for n in range(first, last + 1))
        return data[address - first * size :][:length]

    def _write(self, number: int, data: int, strobe: int):
        old = self.word(number).to_bytes(self.data_bytes, "little")
        new = data.to_bytes(self.data_bytes, "little")
        pairs = enumerate(zip(old, new, strict=True))
        merged = bytes(n if strobe >> i & 1 else o for i, (o, n) in pairs)
        self.words[number] = int.from_bytes(merged, "little")

    # -- the bus --------------------------------------------------------------------------------

    def cycle(self, manager: dict[str, int]) -> dict[str, int]:
        """End a cycle in which the manager drove `manager`; what to drive in the next one."""
        bus = manager | self.drive
        self.checker.cycle(bus)
        for channel in ("r", "b"):
            self.refused[channel] += bus[f"{channel}valid"] and not bus[f"{channel}ready"]
        if bus["arvalid"] and bus["arready"]:
            self._take_read(self.checker.burst("ar", bus))
        if bus["awvalid"] and bus["awready"]:
            burst = self.checker.burst("aw", bus)
            self.write_bursts.append(burst)
            self._writes.append(burst)
            self._writing += 1
        if bus["wvalid"] and bus["wready"]:
            self._data.append((bus["wdata"], bus["wstrb"]))
        self._store()
        goes = {name: next(self.willing.setdefault(name, always())) for name in CHANNELS}
        self._offer_read(bus, goes["r"])
        self._offer_answer(bus, goes["b"])
        limit = self.outstanding
        self.drive["arready"] = goes["ar"] and (limit is None or len(self._reads) < limit)
        self.drive["awready"] = goes["aw"] and (limit is None or self._writing < limit)
        self.drive["wready"] = goes["w"]
        self.now += 1
        return self.drive

    def _take_read(self, burst: Burst):
        self.read_bursts.append(burst)
        first = burst.address // self.data_bytes
        due = self.now + self.read_latency
        self._reads.append(
            deque(
                (
                    due,
                    burst.id,
                    self.word(first + beat),
                    self.read_error((first + beat) * self.data_bytes, beat),
                    beat == burst.beats - 1,
                )
                for beat in range(burst.beats)
            )
        )

    def _store(self):
        while self._writes and self._data:
            burst = self._writes[0]
            data, strobe = self._data.popleft()
            code = self.write_error(burst)
            number = burst.address // self.data_bytes + self._beat
            self.strobes.append((number * self.data_bytes, strobe))
            if code == OKAY:
                self._write(number, data, strobe)
            self._beat += 1
            if self._beat == burst.beats:
                self._beat = 0
                self._writes.popleft()
                self._answers.append((self.now + self.write_latency, burst.id, code))

    def _offer_read(self, bus, goes: bool):
        if self.drive["rvalid"] and not bus["rready"]:
            return
        self.drive |= dict(rvalid=0, rid=0, rdata=self._noise(), rresp=DECERR, rlast=1)
        # Beats of one ID stay in order: of each ID only the oldest burst may go on.
        ids, ready = set(), []
        for burst in self._reads:
            due, id, *_ = burst[0]
            if id not in ids and due <= self.now + 1:
                ready.append(burst)
            ids.add(id)
        if ready and goes:
            burst = self._draw.choice(ready) if self.interleave is not None else ready[0]
            _, id, data, code, last = burst.popleft()
            self.drive |= dict(rvalid=1, rid=id, rdata=data, rresp=code, rlast=last)
            if not burst:
                self._reads.remove(burst)

    def _offer_answer(self, bus, goes: bool):
        if self.drive["bvalid"]:
            if not bus["bready"]:
                return
            self._writing -= 1
        self.drive |= dict(bvalid=0, bid=0, bresp=DECERR)
        if self._answers and self._answers[0][0] <= self.now + 1 and goes:
            _, id, code = self._answers.popleft()
            self.drive |= dict(bvalid=1, bid=id, bresp=code)

    def _noise(self) -> int:
        """What stands on the data lines while nothing is valid: never something useful."""
        return int.from_bytes(b"\xa5" * self.data_bytes, "little")


def attach(memory: AxiMemory, axi, *, ids: Collection[int] | None = None):
    """A background bench that puts `memory` at the bus `axi`, whose manager may use these `ids`.

    `axi` may lack signals: IDs are then 0, and its size and type are what they must be.
    """
    memory.checker.ids = ids
    absent = {"awsize": memory.data_bytes.bit_length() - 1, "awburst": INCR}
    absent |= {name.replace("aw", "ar"): value for name, value in absent.items()}
    present = [name for name in MANAGER if hasattr(axi, name)]
    driven = [name for name in SUBORDINATE if hasattr(axi, name)]
    fixed = {name: absent.get(name, 0) for name in MANAGER if name not in present}
    signals = [getattr(axi, name) for name in present]

    async def bench(ctx):
        async for _, _, *values in ctx.tick().sample(*signals):
            drive = memory.cycle(fixed | dict(zip(present, values, strict=True)))
            for name in driven:
                ctx.set(getattr(axi, name), drive[name])

    return bench


class AxiManager:
    """Drives reads and writes into an AXI4 subordinate, with the checker running along.

    Parameters
    ----------
    reads
        (byte address, beats) each.
    writes
        (byte address, words, strobes or None) each.
    willing
        By channel, whether it goes ahead in a cycle: ``ar``, ``aw`` and ``w`` offer, ``r`` and
        ``b`` are ready.
    """

    def __init__(self, *, data_bytes: int, reads=(), writes=(), willing=None, address_bits=48):
        self.checker = AxiChecker(data_bytes=data_bytes, address_bits=address_bits)
        self.data_bytes = data_bytes
        self.full = (1 << data_bytes) - 1
        self.willing = willing or {}
        self.reads, self.writes = deque(reads), deque(writes)
        self.beats: deque[tuple[int, int, int]] = deque()  # word, strobe, last
        for _, words, strobes in self.writes:
            for i, word in enumerate(words):
                strobe = self.full if strobes is None else strobes[i]
                self.beats.append((word, strobe, int(i == len(words) - 1)))
        self.read_data: list[tuple[int, int, int]] = []  # word, response, last
        self.answers: list[int] = []
        self.taken: dict[str, list[int]] = {name: [] for name in CHANNELS}  # cycles, by channel
        self.now = 0
        self.drive = dict.fromkeys(MANAGER, 0)
        self.due = (sum(beats for _, beats in self.reads), len(self.writes))

    @property
    def done(self) -> bool:
        return (len(self.read_data), len(self.answers)) == self.due

    def cycle(self, subordinate: dict[str, int]) -> dict[str, int]:
        """End a cycle in which `subordinate` was driven; what to drive in the next one."""
        bus = self.drive | subordinate
        self.checker.cycle(bus)
        for channel in CHANNELS:
            if bus[f"{channel}valid"] and bus[f"{channel}ready"]:
                self.taken[channel].append(self.now)
                if channel in ("ar", "aw", "w"):
                    self.drive[f"{channel}valid"] = 0
                elif channel == "r":
                    self.read_data.append((bus["rdata"], bus["rresp"], bus["rlast"]))
                else:
                    self.answers.append(bus["bresp"])
        goes = {name: next(self.willing.setdefault(name, always())) for name in CHANNELS}
        for channel, queue in (("ar", self.reads), ("aw", self.writes)):
            if queue and goes[channel] and not self.drive[f"{channel}valid"]:
                address, beats = queue.popleft()[:2]
                count = beats if channel == "ar" else len(beats)
                values = dict(valid=1, addr=address, len=count - 1, burst=INCR)
                values["size"] = self.data_bytes.bit_length() - 1
                self.drive |= {channel + name: value for name, value in values.items()}
        if self.beats and goes["w"] and not self.drive["wvalid"]:
            word, strobe, last = self.beats.popleft()
            self.drive |= dict(wvalid=1, wdata=word, wstrb=strobe, wlast=last)
        self.drive |= dict(rready=int(goes["r"]), bready=int(goes["b"]))
        self.now += 1
        return self.drive

    def bench(self, axi, after: int = 0):
        """A bench that runs until everything is answered, and `after` cycles more."""
        signals = [getattr(axi, name) for name in SUBORDINATE]

        async def bench(ctx):
            rest = after
            while rest >= 0:
                _, _, *values = await ctx.tick().sample(*signals)
                drive = self.cycle(dict(zip(SUBORDINATE, values, strict=True)))
                for name, value in drive.items():
                    ctx.set(getattr(axi, name), value)
                rest -= self.done

        return bench
