"""`WaveTable`: packets of several waves in any order, strays among them, read out flit by flit."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from .lib import coverage
from .lib.bench import Bench
from .lib.configs import current
from .lib.packets import (
    DECERR,
    OKAY,
    READ_DATA,
    RESPONSE_NAMES,
    SLVERR,
    Packet,
    to_beats,
)
from .lib.patterns import SHAPES, pattern
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare, golden
from .lib.streams import Source

LIMIT = 5_000
#: Cycles from a flit's read to its data.
READ_DELAY = 2
GENERATIONS = 16


@dataclass
class Wave:
    """A wave in an entry."""

    entry: int
    generation: int
    size: int
    flits: list[int]
    scales: list[int] = field(default_factory=list)
    packets: list[Packet] = field(default_factory=list)
    worst: int = OKAY


class TableBench(Bench):
    def __init__(self, dut):
        super().__init__(dut)
        self.config = config = current()
        self.data = self.add(Source(self.ports, "i"))
        self.strays = 0
        self.generation = [0] * config.waves
        self.packet_bits = (config.packets_per_wave + config.scale_packets - 1).bit_length()
        self.add(self)

    def cycle(self):
        self.strays += self.ports.get("stray")

    def left(self) -> str:
        return ""

    # -- waves ----------------------------------------------------------------------------------

    def wave(self, draw: random.Random, entry: int, errors: bool) -> Wave:
        """A wave with other data than any before it."""
        config = self.config
        size = draw.choice((
            config.wave_bytes, config.wave_bytes, config.payload_bytes, 1,
            draw.randint(1, config.wave_bytes),
        ))  # fmt: skip
        self._cover(size)
        self.generation[entry] = (self.generation[entry] + 1) % GENERATIONS
        flits = [draw.getrandbits(config.flit_bits) for _ in range(-(-size // config.flit_bytes))]
        wave = Wave(entry, self.generation[entry], size, flits)
        if config.quantizes and draw.random() < 0.7:
            scales = config.scales_bytes(size)
            count = -(-scales // config.flit_bytes)
            wave.scales = [draw.getrandbits(config.flit_bits) for _ in range(count)]
        coverage.hit("wave_table.scales", "with scales" if wave.scales else "without")
        step = config.payload_flits
        for first, flits in ((0, wave.flits), (config.packets_per_wave, wave.scales)):
            for number, start in enumerate(range(0, len(flits), step)):
                wave.packets.append(self._packet(draw, wave, first + number,
                                                 flits[start : start + step], errors))  # fmt: skip
        return wave

    def _cover(self, size: int):
        config = self.config
        name = {config.wave_bytes: "a wave", config.payload_bytes: "a payload"}.get(size)
        under = "under a payload" if size < config.payload_bytes else "under a wave"
        coverage.hit("wave_table.size", name or under)

    def _packet(self, draw, wave: Wave, number: int, flits: list[int], errors: bool) -> Packet:
        header = dict(
            message_class=READ_DATA, inc=1, generation=wave.generation,
            tag=wave.entry << self.packet_bits | number, length=len(flits) * self.config.flit_bytes,
        )  # fmt: skip
        if errors and draw.random() < 0.1:
            status = draw.choice((OKAY, SLVERR, DECERR))
            wave.worst = max(wave.worst, DECERR if status == DECERR else SLVERR)
            coverage.hit("wave_table.response", f"no payload {RESPONSE_NAMES[status]}")
            return Packet(header | dict(status=status, length=0))
        codes = [draw.choice((OKAY, OKAY, SLVERR, DECERR)) if errors else OKAY for _ in flits]
        for code in codes:
            coverage.hit("wave_table.response", RESPONSE_NAMES[code])
        wave.worst = max(wave.worst, *codes)
        return Packet(header, flits, codes)

    async def reserve(self, wave: Wave):
        """Take the wave's entry: packets that it does not have are absent."""
        config = self.config
        packets = config.packets_per_wave + config.scale_packets
        present = {packet["tag"] & ((1 << self.packet_bits) - 1) for packet in wave.packets}
        absent = sum(1 << n for n in range(packets) if n not in present)
        for name, value in (
            ("entry", wave.entry),
            ("generation", wave.generation),
            ("absent", absent),
            ("valid", 1),
        ):
            self.ports.set(f"reserve__{name}", value)
        await self.step()
        self.ports.set("reserve__valid", 0)

    async def take(self, wave: Wave) -> tuple[list[int], list[int]]:
        """Read a complete wave out; its flits, and the scales beside them."""
        ports = self.ports
        ports.set("look_ups__0__taken", 1)
        await self.step()
        ports.set("look_ups__0__taken", 0)
        pipeline: deque[int] = deque()
        flits, scales = [], []
        for number in range(len(wave.flits) + READ_DELAY):
            reads = number < len(wave.flits)
            ports.set("read_enable", reads)
            if reads:
                ports.set("read_entry", wave.entry)
                ports.set("read_flit", number)
            pipeline.append(number)
            await self.step()
            if len(pipeline) > READ_DELAY:
                pipeline.popleft()
                flits.append(ports.get("data"))
                scales.append(ports.get("scales") if "scales" in ports else 0)
        return flits, scales

    def scale_of(self, wave: Wave, flit: int) -> int:
        """The scale that must stand beside a flit of codes; blocks are whole flits here."""
        config = self.config
        bits = 8 * config.scale_bytes
        block = flit * config.flit_bytes // config.block
        per_flit = config.flit_bits // bits
        return wave.scales[block // per_flit] >> bits * (block % per_flit) & ((1 << bits) - 1)


def _stray(draw: random.Random, bench: TableBench, waves: list[Wave]) -> Packet:
    """A packet that nobody waits for: of an earlier use, or for no packet of a wave."""
    wave = draw.choice(waves)
    packet = draw.choice(wave.packets)
    header = dict(packet.header)
    kind = draw.choice(("generation", "packet", "entry"))
    if kind == "generation":
        header["generation"] = (wave.generation + draw.randint(1, GENERATIONS - 1)) % GENERATIONS
    elif kind == "entry":
        beyond = bench.config.waves + draw.randrange(4)
        header["tag"] = beyond << bench.packet_bits | header["tag"] & ((1 << bench.packet_bits) - 1)
    else:
        # Its place is absent, or already filled when the wave was reserved.
        used = {p["tag"] for p in wave.packets}
        places = [wave.entry << bench.packet_bits | n for n in range(1 << bench.packet_bits)]
        free = [tag for tag in places if tag not in used]
        if not free:
            return _stray(draw, bench, waves)
        header["tag"] = draw.choice(free)
    coverage.hit("wave_table.stray", kind)
    flits = [draw.getrandbits(bench.config.flit_bits) for _ in range(max(1, len(packet.payload)))]
    return Packet(header, flits)


@scenario(TableBench, cases=12)
async def waves_in_any_order(bench: TableBench, case: Case):
    """Packets of all entries mixed, with strays and second copies; each wave reads out whole."""
    draw, config = case.draw, bench.config
    shape = case.choose(SHAPES)
    bench.data.idle = pattern(shape, draw)
    bench.data.held = 0
    entries = draw.sample(range(config.waves), draw.randint(1, config.waves))
    coverage.hit("wave_table.occupancy", "all" if len(entries) == config.waves else len(entries))
    errors = draw.random() < 0.5
    waves = [bench.wave(draw, entry, errors) for entry in entries]
    for wave in waves:
        await bench.reserve(wave)
    packets = [packet for wave in waves for packet in wave.packets]
    asked = packets.copy()
    if draw.random() >= 0.3:
        draw.shuffle(packets)
    if len(packets) > 1:
        coverage.hit("wave_table.order", "in order" if packets == asked else "any order")
    before, strays = bench.strays, 0
    for packet in packets:
        if draw.random() < 0.2:
            bench.data.send(*to_beats(_stray(draw, bench, waves)))
            strays += 1
        bench.data.send(*to_beats(packet))
        if draw.random() < 0.1:
            bench.data.send(*to_beats(packet))  # a second answer to one request
            coverage.hit("wave_table.stray", "second")
            strays += 1
    await bench.finish(limit=LIMIT)
    coverage.hit_stalls("wave_table.idle", (shape, bench.data.held))
    compare("strays", [bench.strays - before], [strays])
    draw.shuffle(waves)
    for wave in waves:
        bench.ports.set("look_ups__0__entry", wave.entry)
        await bench.step(2)
        compare("ready", [bench.ports.get("look_ups__0__ready")], [1])
        compare("response", [bench.ports.get("look_ups__0__response")], [wave.worst])
        flits, scales = await bench.take(wave)
        _check(bench, wave, flits, scales)
        await bench.step(2)
        compare("ready after it was taken", [bench.ports.get("look_ups__0__ready")], [0])


def _check(bench: TableBench, wave: Wave, flits: list[int], scales: list[int]):
    """Flits of packets that came with payload; of others nothing is promised."""
    config = bench.config
    came = {p["tag"] & ((1 << bench.packet_bits) - 1) for p in wave.packets if p.payload}
    known = [n for n in range(len(wave.flits)) if n // config.payload_flits in came]
    expected = golden([wave.flits[n] for n in known], config.flit_bits)
    compare(f"wave of {wave.size} bytes", [flits[n] for n in known], expected)
    if wave.scales and config.packets_per_wave in came:
        wanted = [bench.scale_of(wave, n) for n in range(len(wave.flits))]
        compare("scales", scales, golden(wanted, 8 * config.scale_bytes))


@scenario(TableBench, cases=6)
async def not_ready_before_the_last_beat(bench: TableBench, case: Case):
    """An entry is ready one cycle after its last beat, and not before."""
    draw = case.draw
    bench.data.idle = pattern("always", draw)
    wave = bench.wave(draw, draw.randrange(bench.config.waves), errors=False)
    await bench.reserve(wave)
    bench.ports.set("look_ups__0__entry", wave.entry)
    draw.shuffle(wave.packets)
    beats = [beat for packet in wave.packets for beat in to_beats(packet)]
    taken = bench.data.taken + len(beats)
    bench.data.send(*beats)
    while bench.data.taken < taken:
        await bench.step()
        compare("ready before the last beat", [bench.ports.get("look_ups__0__ready")], [0])
    await bench.step()
    compare("ready behind the last beat", [bench.ports.get("look_ups__0__ready")], [1])
    flits, scales = await bench.take(wave)
    _check(bench, wave, flits, scales)
    await bench.finish(limit=LIMIT)
