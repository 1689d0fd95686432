"""`WriteBack` with codes: scales behind their wave's codes, sums between, runs, no bubble."""

import random
from dataclasses import dataclass, field

import pytest

from hdl.accelerator.scale_packets import scale_write_back_flits
from hdl.accelerator.write_back import WriteBack, write_back_flits
from hdl.interfaces import MessageClass
from tests.lib.packets import collect_packets
from tests.lib.simulate import SHAPES, pattern, run

from .ports import quantizing
from .transmitter import Transmitter

PORT, CONTEXT = 1, 2
CONFIGS = {
    "two packets a block": dict(),
    "a packet of two blocks": dict(payload_bytes=64),
    "packets of a flit": dict(payload_bytes=8),
    "a packet of one and a half": dict(payload_bytes=96, block=64, wave_bytes=768),
    "two packets of scales": dict(wave_bytes=384),
    "a header of one flit": dict(flit_bytes=16, payload_bytes=64, wave_bytes=256),
    "two blocks a flit": dict(flit_bytes=64, payload_bytes=64, wave_bytes=1024),
    "scales of a byte": dict(scale_format="e8m0", payload_bytes=32, wave_bytes=256),
    "codes only": dict(formats=("inq8",)),
    "two cycles a flit": dict(inq_reducer="shared"),
}
#: Cycles to the first sums and codes: as short as a header allows, and some real ones.
DELAYS = [(4, 6), (8, 31)]


@dataclass
class Wave:
    """A wave of results, and where they go."""

    quantized: bool
    opens: int
    slot: int
    base: int  # of the operation: destination, and of the scales
    scale_base: int
    address: int
    scale_address: int
    size: int
    flits: list[int]
    scale_size: int = 0
    scales: list[int] = field(default_factory=list)

    def packets(self, config):
        """(address, bytes, payload) of its packets in order: codes or sums, then scales."""
        for address, size, flits in (
            (self.address, self.size, self.flits),
            (self.scale_address, self.scale_size, self.scales),
        ):
            for start in range(0, size, config.payload_bytes):
                first = start // config.flit_bytes
                payload = flits[first : first + config.payload_flits]
                yield address + start, min(config.payload_bytes, size - start), payload


def operation(config, draw, *, quantized, size) -> list[Wave]:
    """The waves of an operation of `size` bytes, with results at random."""
    base, scale_base = (draw.randrange(1 << 40) * config.flit_bytes for _ in range(2))
    waves = []
    for number, start in enumerate(range(0, size, config.wave_bytes)):
        wave_size = min(config.wave_bytes, size - start)
        scale_size = config.scales_bytes(wave_size) if quantized else 0
        flits, scales = (
            [draw.getrandbits(config.flit_bits) for _ in range(-(-count // config.flit_bytes))]
            for count in (wave_size, scale_size)
        )
        waves.append(
            Wave(
                quantized, int(number == 0), draw.randrange(config.write_waves), base, scale_base,
                base + start, scale_base + number * config.scale_chunk_bytes,
                wave_size, flits, scale_size, scales,
            )
        )  # fmt: skip
    return waves


class Starter:
    """Plays read-out and reducer: runs start where there is room, and sums never overtake codes.

    Parameters
    ----------
    delays : cycles from a packet's start to its sums and its codes
    pauses : when a run may start
    late : scales come as late as they may, and not as soon as they can
    """

    def __init__(self, config, waves, delays, pauses, *, late=False):
        self.config, self.pauses, self.late = config, pauses, late
        self.data_delay, self.inq_delay = delays
        sums = self.data_delay if config.sum_formats else None
        self.dut = WriteBack(
            config, port=PORT, context=CONTEXT, data_delay=sums, inq_delay=self.inq_delay
        )
        self.starts = [
            (wave, start) for wave in waves for start in range(0, wave.size, config.payload_bytes)
        ]
        self.started = 0
        self.now = 0
        self.ahead = 0  # until then no sums start, since codes would come behind them
        self.busy = 0  # until then the packet under way is read out
        self.results, self.scales = {}, {}  # by cycle

    async def bench(self, ctx):
        dut = self.dut
        while self.started < len(self.starts) or self.results or self.scales:
            self.start(ctx)
            result = self.results.pop(self.now, None)
            ctx.set(dut.result_valid, result is not None)
            if result:
                ctx.set(dut.result, result[0])
                ctx.set(dut.result_ends, result[1])
            scales = self.scales.pop(self.now, None)
            ctx.set(dut.scales_valid, scales is not None)
            if scales:
                ctx.set(dut.scales, {"data": scales[0], "last": scales[1]})
            await ctx.tick()
            self.now += 1
        ctx.set(dut.result_valid, 0)
        ctx.set(dut.scales_valid, 0)

    def start(self, ctx):
        """A packet starts, if it may: the first of a run, or it must."""
        start = self.dut.start
        ctx.set(start.valid, 0)
        # Garbage where the addresses are not looked at.
        ctx.set(self.dut.destination, 0xBAD0)
        ctx.set(self.dut.scale_destination, 0xBAD8)
        if self.started == len(self.starts) or self.now < self.busy:
            return
        wave, first = self.starts[self.started]
        in_run = first % self.config.run_bytes != 0
        willing = next(self.pauses) and (wave.quantized or self.now >= self.ahead)
        if not (in_run or (willing and ctx.get(self.dut.room))):
            return
        size = min(self.config.payload_bytes, wave.size - first)
        flits = -(-size // self.config.flit_bytes)
        ctx.set(start.valid, 1)
        for name, value in (
            ("flits", flits), ("size", size), ("opens", wave.opens and first == 0),
            ("write_slot", wave.slot), ("quantized", wave.quantized), ("begins", first == 0),
            ("ends", first + size == wave.size), ("scale_size", wave.scale_size),
        ):  # fmt: skip
            ctx.set(getattr(start, name), value)
        if wave.opens and first == 0:
            ctx.set(self.dut.destination, wave.base)
            ctx.set(self.dut.scale_destination, wave.scale_base)
        self.started += 1
        self.come(wave, first // self.config.flit_bytes, flits)

    def come(self, wave, first, flits):
        """When the packet's results come, and with its wave's last ones the scales."""
        stride = 2 if wave.quantized and self.config.inq_reducer == "shared" else 1
        self.busy = self.now + stride * flits
        comes = self.now + (self.inq_delay if wave.quantized else self.data_delay)
        last = len(wave.flits) - 1
        for number in range(first, first + flits):
            assert comes not in self.results
            self.results[comes] = wave.flits[number], int(wave.quantized and number == last)
            comes += stride
        if wave.quantized:
            self.ahead = self.busy + self.inq_delay - self.data_delay
            if first == 0:
                self.first_comes = comes - stride * flits
            if first + flits == len(wave.flits):
                self.come_scales(wave, comes - stride)

    def come_scales(self, wave, last_comes):
        """From the cycle behind the wave's first codes on, to the one behind its last codes."""
        count = len(wave.scales)
        # A long wave's first codes may have come before its last packet starts, as now.
        earliest = max(self.first_comes + 1, self.now)
        begin = last_comes + 2 - count if self.late else min(earliest, last_comes + 2 - count)
        for number, flit in enumerate(wave.scales):
            assert begin + number not in self.scales
            self.scales[begin + number] = flit, number == count - 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CONFIGS)
def test_codes_scales_and_sums_in_order(name, shape):
    """Operations of both kinds: every packet comes out whole, in order, at its address."""
    config = quantizing(**CONFIGS[name], memory_bytes=1 << 48)
    draw = random.Random(f"{name} {shape}")
    delays = draw.choice(DELAYS)
    waves = []
    for number in range(7):
        quantized = not config.sum_formats or number % 3 != 0
        size = draw.choice([draw.randint(1, 2 * config.wave_bytes), 1, config.wave_bytes])
        if not quantized:
            size += size % 2
        waves += operation(config, draw, quantized=quantized, size=size)
    wanted = [(wave, *packet) for wave in waves for packet in wave.packets(config)]
    starter = Starter(config, waves, delays, pattern("half", name), late=draw.random() < 0.5)

    async def link(ctx):
        packets = await collect_packets(
            ctx, starter.dut.o, len(wanted), header_flits=config.header_flits,
            willing=pattern(shape, draw.random()),
        )  # fmt: skip
        for packet, (wave, address, size, payload) in zip(packets, wanted, strict=True):
            assert packet.message_class == MessageClass.WRITE_DATA.value
            assert (packet.inc, packet.source, packet.destination) == (1, PORT, PORT)
            assert packet.context == CONTEXT
            assert packet.payload == payload
            assert (packet.address, packet.length, packet.tag) == (address, size, wave.slot)

    run(starter.dut, starter.bench, link, limit=20_000)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "two cycles a flit"])
@pytest.mark.parametrize(("delays", "late"), [(DELAYS[0], True), (DELAYS[1], False)])
def test_codes_and_scales_leave_without_a_bubble(name, delays, late):
    """A link that always takes: header flits, then payload, packet behind packet."""
    config = quantizing(**CONFIGS[name], memory_bytes=1 << 48)
    draw = random.Random(name)
    waves = operation(config, draw, quantized=True, size=5 * config.wave_bytes)
    wanted = [payload for wave in waves for _, _, payload in wave.packets(config)]
    starter = Starter(config, waves, delays, pattern("always", 0), late=late)
    link = Transmitter(config, starter.dut.o, packets=len(wanted))
    run(starter.dut, starter.bench, link.bench, limit=8000)
    assert link.packets == wanted
    assert link.waited == 0, "the link waits for payload"
    assert link.busy == list(range(link.busy[0], link.busy[0] + len(link.busy)))


@pytest.mark.parametrize("name", CONFIGS)
def test_room_is_that_of_whole_runs(name):
    """Nobody takes a flit: runs start as long as all of one has room, also for its heads."""
    config = quantizing(**CONFIGS[name], memory_bytes=1 << 48)
    delays = (5, 9)
    depth = write_back_flits(config, max(delays))
    run_packets = config.run_bytes // config.payload_bytes
    runs = min(depth * config.flit_bytes // config.run_bytes, (depth // 2 + 1) // run_packets)
    count = (runs + 1) * config.run_bytes // config.wave_bytes + 1
    waves = operation(config, random.Random(name), quantized=True, size=count * config.wave_bytes)
    wanted = sum(1 for wave in waves for _ in wave.packets(config))
    starter = Starter(config, waves, delays, pattern("always", 0))

    async def nobody(ctx):
        await ctx.tick().repeat(4 * depth + 20)
        assert starter.started == runs * run_packets < len(starter.starts)
        assert not ctx.get(starter.dut.room)
        await collect_packets(ctx, starter.dut.o, wanted, header_flits=config.header_flits)
        assert starter.started == len(starter.starts)

    run(starter.dut, starter.bench, nobody)


@pytest.mark.parametrize("name", CONFIGS)
def test_room_is_that_of_a_waves_scales_too(name):
    """Nobody takes a flit: waves of one code start as long as a whole wave's scales have room."""
    config = quantizing(**CONFIGS[name], memory_bytes=1 << 48)
    delays, draw = (5, 9), random.Random(name)
    most = scale_write_back_flits(config, max(delays)) - config.scale_flits + 1
    waves = []
    for _ in range(most + 4):
        waves += operation(config, draw, quantized=True, size=1)
    wanted = [packet for wave in waves for packet in wave.packets(config)]
    starter = Starter(config, waves, delays, pattern("always", 0))

    async def nobody(ctx):
        await ctx.tick().repeat(60)
        assert starter.started == most
        assert not ctx.get(starter.dut.room)
        packets = await collect_packets(
            ctx, starter.dut.o, len(wanted), header_flits=config.header_flits
        )
        assert [(p.address, p.length, p.payload) for p in packets] == wanted

    run(starter.dut, starter.bench, nobody)
