"""Draws a scenario from its seed alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from hdl.config import SwitchConfig
from hdl.emulated_memory import STALL_CHANNELS
from hdl.interfaces import Response
from sim.bench import Placement
from sim.plan import Plan
from sim.quantized import QUANTIZED, element_bytes
from sim.traffic import PATTERNS, Traffic

from .configurations import CONFIGURATIONS, READ_FIRST, configuration
from .faults import (
    BadFlag,
    BadFlit,
    BadFlits,
    Fault,
    Flicker,
    Hold,
    LinkOutage,
    SlowResponses,
    SoftReset,
)
from .flags import flag_address
from .scenario import MemorySettings, Part, Round, Scenario, Window
from .troubles import (
    REFUSALS,
    Abort,
    ArrivesEarly,
    ArrivesTwice,
    Disabled,
    Disagrees,
    FullQueue,
    NeverArrives,
    Refused,
    WrongEpoch,
)
from .work import Work, touched_waves, waves

__all__ = ["FAULTS", "TROUBLES", "configuration_of", "draw"]

#: Bytes below the first window, and for ordinary traffic above the last.
LOW_BYTES, TRAFFIC_BYTES = 1024, 4096
#: Bytes at a window's end for its flags.
FLAG_ROOM = 64
#: Slots of ordinary traffic at each destination.
SLOTS = 4
#: Most bytes of an operand.
MOST_BYTES = 6000
#: Watchdogs: none, and those that no healthy rank meets. Where a memory prefers reads, writes wait
#: for all that is read: for ordinary traffic, and for the waves that contexts can have under way
#: before their own results get stuck.
WATCHDOGS = (0, 2000, 5000)
READ_FIRST_WATCHDOGS = (0, 12_000)
#: Cycles of a hold that ends: found by no watchdog, by the shorter one, or by both.
HOLDS = (50, 300, 700, 3000, 7000)
#: Cycles of a link's outage: from one that only cuts a packet to one that every wait ends in.
OUTAGES = (1, 5, 40, 300, 3000)
#: Cycles for which a context is disabled: from one that no division comes of to one that is over
#: when nothing waits any more.
GAPS = (1, 3, 10, 40, 300)
#: Latencies of slow write responses.
SLOW = (60, 200, 400, 1500)
#: Longest delay of an arrival.
SKEW = 900


class Draw(random.Random):
    """Choices out of a seed."""

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def weighted(self, choices: dict):
        """A key, each as likely as its value says."""
        return self.choices(list(choices), list(choices.values()))[0]

    def subset(self, ranks: Sequence[int], everyone: float = 0.5) -> tuple[int, ...]:
        """Some of them, at least one, ascending; all with a probability."""
        if self.chance(everyone):
            return tuple(ranks)
        return tuple(sorted(self.sample(list(ranks), self.randint(1, len(ranks)))))


def configuration_of(seed: int) -> str:
    """The name of the configuration that a scenario runs in."""
    return Draw(seed).choice(list(CONFIGURATIONS))


def draw(seed: int) -> Scenario:
    """The scenario of a seed; the same whatever was drawn before."""
    choose = Draw(seed)
    name = choose.choice(list(CONFIGURATIONS))
    config = configuration(name)
    return _Drawing(choose, config, name).scenario(seed)


class _Drawing:
    """What is known while a scenario is drawn."""

    def __init__(self, choose: Draw, config: SwitchConfig, name: str):
        self.choose, self.config, self.name = choose, config, name

    def scenario(self, seed: int) -> Scenario:
        choose, config = self.choose, self.config
        self.link_latency = choose.choice([2, 3, 8, 16, 32])
        self.memories = self._memories()
        self.windows = self._windows()
        self.contexts = sorted(
            choose.sample(range(config.contexts), choose.randint(1, config.contexts))
        )
        self.members = {context: self._members() for context in self.contexts}
        self.spare = [c for c in range(1, config.contexts) if c not in self.contexts]
        rounds = tuple(self._round() for _ in range(choose.weighted({1: 5, 2: 4, 3: 2})))
        everyone = tuple(range(config.ranks))
        last = self._work(0, everyone, self._region(0), plan=Plan(
            sources=everyone, destinations=everyone))  # fmt: skip
        return Scenario(
            seed, self.name, self.link_latency, self.memories, self.windows, self._traffics(),
            rounds, Part(0, everyone, (last,), False, 1, self._delays(), 0),
        )  # fmt: skip

    # -- the world ------------------------------------------------------------------------------

    def _memories(self) -> tuple[MemorySettings, ...]:
        mood = self.choose.weighted({"calm": 4, "mixed": 4, "harsh": 3})
        return tuple(self._memory(mood) for _ in range(self.config.ranks))

    def _memory(self, mood: str) -> MemorySettings:
        choose = self.choose
        one_port = self.name == READ_FIRST or (self.config.forwards and choose.chance(0.2))
        if mood == "calm" or (mood == "mixed" and choose.chance(0.5)):
            return MemorySettings(2, 1, 0, {}, 0, one_port)
        stalls = {
            channel: choose.choice([0, 0, 40, 160] if mood == "harsh" else [0, 0, 0, 40])
            for channel in STALL_CHANNELS
        }
        return MemorySettings(
            choose.randint(2, 40), choose.randint(1, 40), choose.choice([0, 3, 60]), stalls,
            choose.getrandbits(32), one_port,
        )  # fmt: skip

    def _windows(self) -> tuple[Window, ...]:
        flit, count = self.config.flit_bytes, self.config.contexts
        room = self.config.memory_bytes - LOW_BYTES
        if self.config.forwards:
            room -= TRAFFIC_BYTES
        size = room // count // flit * flit
        return tuple(
            Window(LOW_BYTES + context * size, LOW_BYTES + (context + 1) * size)
            for context in range(count)
        )

    def _members(self) -> tuple[int, ...]:
        ranks = range(self.config.ranks)
        members = self.choose.subset(ranks)
        if len(members) == 1 and self.choose.chance(0.8):
            return tuple(ranks)
        return members

    def _traffics(self) -> tuple[Traffic, ...]:
        choose, config = self.choose, self.config
        if not config.forwards or choose.chance(0.35):
            return ()
        base = config.memory_bytes - TRAFFIC_BYTES
        read_first = any(memory.read_first for memory in self.memories)
        counts = [20, 100] if read_first else [20, 100, 300]
        return tuple(
            Traffic(
                pattern=choose.choice(PATTERNS), target=choose.randrange(config.ranks),
                rate=choose.choice([20, 100, 0xFFFF]), slots=SLOTS,
                bytes=choose.randint(1, config.payload_bytes),
                writes=choose.choice([0, 60, 128, 256]), count=choose.choice(counts),
                write_base=base, read_base=base + TRAFFIC_BYTES // 2, seed=choose.getrandbits(32),
            )
            for _ in range(config.ranks)
        )  # fmt: skip

    # -- a round --------------------------------------------------------------------------------

    def _round(self) -> Round:
        choose = self.choose
        taking = [context for context in self.contexts if choose.chance(0.85)]
        parts = [self._part(context) for context in taking or self.contexts[:1]]
        cycles = self._about(parts)
        faults: tuple[Fault, ...] = ()
        if choose.chance(0.5):
            faults = FAULTS[choose.weighted(FAULT_CHANCES)](self, parts, cycles)
        parts = [self._troubled(part, faults, cycles) for part in parts]
        after = {part.context: self._after(part, faults) for part in parts}
        joins = None
        if self.spare and choose.chance(0.15):
            joins = self.spare.pop(), choose.randint(1, cycles)
        after = {context: work for context, work in after.items() if work}
        return Round(tuple(parts), faults, cycles, after, joins)

    def _about(self, parts: Sequence[Part]) -> int:
        """Cycles that a round takes, about, where nothing fails."""
        config = self.config
        way = 6 * self.link_latency + 4 * max(memory.latency for memory in self.memories)
        orders = max(len(part.orders) for part in parts)
        flits = sum(config.payload_cycles(work.length) for part in parts for work in part.orders)
        skew = max(max(part.delays) for part in parts)
        return orders * (way + skew + 100) + 4 * flits

    def _part(self, context: int) -> Part:
        choose = self.choose
        members = self.members[context]
        in_band = choose.chance(0.4)
        depth = self.config.queue_depth
        count = 1 if in_band else choose.weighted({1: 5, 2: 3, min(3, depth): 1, depth: 1})
        repeat = choose.weighted({1: 3, 2: 2, 3: 1}) if in_band else 1
        # The last region is for what goes on without a rank.
        works = tuple(
            self._work(context, members, self._region(context, number, count + 1),
                       in_place=choose.chance(0.5) and repeat == 1)
            for number in range(count)
        )  # fmt: skip
        watchdog = choose.choice(self._watchdogs(members))
        return Part(context, members, works, in_band, repeat, self._delays(), watchdog)

    def _watchdogs(self, members: Sequence[int]) -> tuple[int, ...]:
        read_first = any(self.memories[rank].read_first for rank in members)
        return READ_FIRST_WATCHDOGS if read_first else WATCHDOGS

    def _delays(self) -> tuple[int, ...]:
        choose = self.choose
        if choose.chance(0.5):
            return (0,) * self.config.ranks
        return tuple(choose.choice([0, choose.randint(0, SKEW)]) for _ in range(self.config.ranks))

    # -- an operation ---------------------------------------------------------------------------

    def _region(self, context: int, number: int = 0, count: int = 1) -> range:
        """Addresses of the `number`-th of so many operations."""
        window, flit = self.windows[context], self.config.flit_bytes
        size = (window.limit - FLAG_ROOM - window.base) // count // flit * flit
        start = window.base + number * size
        return range(start, start + size)

    def _work(
        self,
        context: int,
        members: tuple[int, ...],
        region: range,
        *,
        plan: Plan | None = None,
        in_place: bool | None = None,
    ) -> Work:
        choose = self.choose
        in_place = choose.chance(0.5) if in_place is None else in_place
        if plan is None:
            format = choose.choice(self.config.formats)
            kind = self._kind(format)
        else:
            format, kind = choose.choice(self.config.sum_formats), plan.kind
        elements = 0 if kind == "barrier" else self._elements(format, region, in_place)
        if plan is None:
            plan = self._plan(kind, format, members, elements * element_bytes(format))
        values = choose.choice(["normal", "bits"])
        work = Work(plan, format, elements, Placement([], [], []), values, choose.getrandbits(32))
        return replace(work, where=self._where(work, region, in_place))

    def _kind(self, format: str) -> str:
        chances = {"all-reduce": 4, "reduce": 2, "barrier": 1}
        if self.config.chunks and format != QUANTIZED:
            chances |= {"broadcast": 2, "all-gather": 2, "reduce-scatter": 2}
        return self.choose.weighted(chances)

    def _plan(self, kind: str, format: str, members: tuple[int, ...], length: int) -> Plan:
        choose, flit = self.choose, self.config.flit_bytes
        operation = choose.choice(self.config.operations_of(format))
        sources, destinations = choose.subset(members), choose.subset(members)
        if kind == "reduce":
            destinations = (choose.choice(members),)
        if kind == "broadcast":
            sources = (choose.choice(members),)
        chunk = None
        if kind in ("all-gather", "reduce-scatter") and choose.chance(0.4):
            chunk = flit * choose.randint(1, max(length // flit, 1))
        return Plan(kind, operation, sources, destinations, chunk)

    def _elements(self, format: str, region: range, in_place: bool) -> int:
        """0, 1, a few, around a wave's end, or many waves."""
        choose, unit = self.choose, element_bytes(format)
        copies = 1 if in_place else 2
        most = (len(region) // copies - 2 * self.config.flit_bytes) * 3 // 4  # room for scales
        most = min(most, MOST_BYTES) // unit
        wave = self.config.wave_bytes // unit
        elements = choose.weighted(
            {
                0: 1,
                1: 2,
                choose.randint(2, 20): 2,
                choose.randint(1, 4) * wave + choose.randint(-1, 1): 3,
                choose.randint(1, max(most, 1)): 6,
                most: 1,
            }
        )
        return max(min(elements, most), 0)

    def _where(self, work: Work, region: range, in_place: bool) -> Placement:
        """Somewhere in the region, at each rank elsewhere."""
        sizes = [self._flits(size) for size in work.sizes(self.config)]
        slots = sizes if in_place else [size for size in sizes for _ in range(2)]
        columns = [self._slots(slots, region) for _ in range(self.config.ranks)]
        starts = [list(column) for column in zip(*columns, strict=True)]
        pairs = [(each, each) for each in starts] if in_place else [
            (starts[2 * n], starts[2 * n + 1]) for n in range(len(sizes))
        ]  # fmt: skip
        sources, destinations = zip(*pairs, strict=True)
        scales = (sources[1], destinations[1]) if len(pairs) > 1 else (None, None)
        return Placement(sources[0], destinations[0], [], *scales)

    def _flits(self, size: int) -> int:
        flit = self.config.flit_bytes
        return -(-size // flit) * flit

    def _slots(self, sizes: Sequence[int], region: range) -> list[int]:
        """Where pieces of these sizes begin: in any order, with gaps."""
        choose, flit = self.choose, self.config.flit_bytes
        order = choose.sample(range(len(sizes)), len(sizes))
        slack = (len(region) - sum(sizes)) // flit
        gaps = sorted(choose.randint(0, slack) for _ in sizes)
        starts, taken = [0] * len(sizes), 0
        for number, gap in zip(order, gaps, strict=True):
            starts[number] = region.start + taken + gap * flit
            taken += sizes[number]
        return starts

    # -- what goes wrong ------------------------------------------------------------------------

    def _troubled(self, part: Part, faults: tuple[Fault, ...], cycles: int) -> Part:
        """The part with some trouble that goes with the round's faults, or without."""
        choose = self.choose
        stuck = any(fault.lasting and fault.disturbs(part) for fault in faults)
        if stuck and part.in_band and len(part.members) == 1:
            part = replace(part, repeat=1)  # nobody else would wait for it
        if stuck and part.watchdog == 0:
            # Nobody but a host ends it.
            if part.in_band:
                return replace(part, watchdog=self._watchdogs(part.members)[1])
            return replace(part, trouble=Abort(choose.randint(1, 2 * cycles + 2000)))
        if part.in_band and any(fault.absent(part) for fault in faults):
            # One that is told of nothing arrives for what is over, and others wait for it.
            part = replace(part, watchdog=part.watchdog or self._watchdogs(part.members)[1])
        if choose.chance(0.6) or any(fault.disturbs(part) for fault in faults):
            return part
        for name in choose.sample(list(TROUBLES), len(TROUBLES)):
            trouble = TROUBLES[name](self, part, cycles)
            if trouble.fits(self.config, part):
                return replace(part, trouble=trouble)
        return part

    def _after(self, part: Part, faults: tuple[Fault, ...]) -> Work | None:
        """What goes on without the rank that is left behind."""
        for fault in faults:
            if isinstance(fault, Hold) and fault.lasting and fault.disturbs(part):
                others = tuple(rank for rank in part.members if rank != fault.rank)
                count = len(part.works)
                region = self._region(part.context, count, count + 1)
                return self._work(part.context, others, region) if others else None
        return None


# -- faults, by what `FAULT_CHANCES` calls them ----------------------------------------------------


def _member(drawing: _Drawing, parts: Sequence[Part]) -> int:
    """A rank that is somebody's member."""
    return drawing.choose.choice(sorted({rank for part in parts for rank in part.members}))


def _hold(drawing: _Drawing, parts: Sequence[Part], cycles: int, length: int | None):
    choose = drawing.choose
    rank = _member(drawing, parts)
    channels = choose.sample(STALL_CHANNELS, choose.weighted({1: 5, 2: 2, 5: 1}))
    begin = 0 if choose.chance(0.3) else choose.randint(1, cycles)
    return (Hold(rank, tuple(sorted(channels)), drawing.memories[rank], begin, length),)


def _dies(drawing, parts, cycles):
    return _hold(drawing, parts, cycles, None)


def _stalls(drawing, parts, cycles):
    return _hold(drawing, parts, cycles, drawing.choose.choice(HOLDS))


def _slow(drawing, parts, cycles):
    rank = _member(drawing, parts)
    return (SlowResponses(rank, drawing.choose.choice(SLOW), drawing.memories[rank]),)


def _soft_reset(drawing, parts, cycles):
    return (SoftReset(drawing.choose.randint(1, cycles)),)


def _link_outage(drawing, parts, cycles):
    choose = drawing.choose
    begin, length = choose.randint(1, cycles), choose.choice(OUTAGES)
    return (LinkOutage(_member(drawing, parts), begin, length),)


def _flicker(drawing, parts, cycles):
    """Of a context that is in use, but not in this round."""
    choose = drawing.choose
    idle = sorted(set(drawing.contexts) - {part.context for part in parts})
    if not idle:
        return ()
    return (Flicker(choose.choice(idle), choose.randint(1, cycles), choose.choice(GAPS)),)


def _bad_flits(drawing, parts, cycles):
    """One to three flits that operations read or write."""
    choose = drawing.choose
    flits = {}
    for _ in range(choose.weighted({1: 5, 2: 2, 3: 1})):
        work = choose.choice([work for part in parts for work in part.works])
        kind = choose.choice(["read", "write"])
        flit = _touched_flit(drawing, work, kind)
        if flit:
            flits.setdefault((flit.rank, kind), flit)
    return (BadFlits(tuple(flits.values())),) if flits else ()


def _touched_flit(drawing, work, kind):
    """A flit at a rank that reads or writes it: its first, its last, or one between."""
    choose, config = drawing.choose, drawing.config
    cut = waves(config, work)
    if not cut:
        return None
    wave = choose.choice(cut)
    rank = choose.choice(wave.sources if kind == "read" else wave.destinations)
    starts = work.where.operands if kind == "read" else work.where.results
    piece = choose.randrange(len(starts))
    part, size = wave.ranges[piece], config.flit_bytes
    last = (part.stop - 1) // size
    flit = choose.choice([part.start // size, last, choose.randint(part.start // size, last)])
    address = starts[piece][rank] + flit * size
    assert touched_waves(config, work, rank, address, kind)
    response = choose.choice([Response.SLVERR, Response.DECERR])
    return BadFlit(rank, kind, address, response)


def _bad_flag(drawing, parts, cycles):
    choose = drawing.choose
    part = choose.choice(list(parts))
    address = flag_address(drawing.config, drawing.windows[part.context])
    response = choose.choice([Response.SLVERR, Response.DECERR])
    rank = choose.choice(part.members)
    return (BadFlag(part.context, BadFlit(rank, "write", address, response)),)


#: How faults are drawn: for the drawing, the round's parts and its cycles, a tuple of them.
FAULTS = {
    "rank dies": _dies,
    "rank stalls": _stalls,
    "slow responses": _slow,
    "bad flits": _bad_flits,
    "bad flag": _bad_flag,
    "soft reset": _soft_reset,
    "link outage": _link_outage,
    "flicker": _flicker,
}
FAULT_CHANCES = {
    "rank dies": 4, "rank stalls": 3, "slow responses": 2, "bad flits": 4, "bad flag": 1,
    "soft reset": 1, "link outage": 3, "flicker": 3,
}  # fmt: skip


# -- troubles --------------------------------------------------------------------------------------


def _rank(drawing: _Drawing, part: Part) -> int:
    return drawing.choose.choice(part.members)


def _wrong_epoch(drawing, part, cycles):
    distance = drawing.choose.choice([-1, -7, 2, 3, 1000, 1 << 31])
    return WrongEpoch(_rank(drawing, part), distance)


def _never(drawing, part, cycles):
    return NeverArrives(_rank(drawing, part), drawing.choose.randrange(len(part.orders)))


def _twice(drawing, part, cycles):
    first = 2000 if part.in_band else 300  # its first arrival is over
    again = first + drawing.choose.randint(0, cycles)
    return ArrivesTwice(_rank(drawing, part), again)


def _refused(drawing, part, cycles):
    """A rule that an instruction of the part can break."""
    able: dict[str, list] = {}
    for rule in REFUSALS:
        for rank in part.members:
            refused = Refused(rule, rank)
            if refused.fits(drawing.config, part):
                able.setdefault(rule, []).append(refused)
    if not able:
        return FullQueue()
    return drawing.choose.choice(able[drawing.choose.choice(list(able))])


def _disagrees(drawing, part, cycles):
    fields = ["length", "destination_ranks"] + ["chunk"] * drawing.config.chunks
    return Disagrees(_rank(drawing, part), drawing.choose.choice(fields))


def _disabled(drawing, part, cycles):
    choose = drawing.choose
    return Disabled(choose.randint(1, cycles), choose.choice(GAPS))


#: How troubles are drawn: for the drawing, a part and the round's cycles.
TROUBLES = {
    "never arrives": _never,
    "arrives twice": _twice,
    "arrives early": lambda drawing, part, cycles: ArrivesEarly(_rank(drawing, part)),
    "other epoch": _wrong_epoch,
    "abort": lambda drawing, part, cycles: Abort(drawing.choose.randint(1, cycles)),
    "disabled": _disabled,
    "disagrees": _disagrees,
    "refused": _refused,
    "full queue": lambda drawing, part, cycles: FullQueue(),
}
