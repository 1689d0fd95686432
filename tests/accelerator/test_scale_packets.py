"""`ScalePackets`: packets of waves' scales at their addresses, and room that is never overdrawn."""

import random

import pytest

from hdl.accelerator.scale_packets import ScalePackets, scale_write_back_flits
from hdl.interfaces import MessageClass
from tests.lib.packets import collect_packets
from tests.lib.simulate import SHAPES, pattern, run

from .ports import quantizing

PORT, CONTEXT = 1, 2
CONFIGS = {
    "a flit a wave": dict(),
    "two packets a wave, the last one short": dict(wave_bytes=384),
    "four packets a wave": dict(wave_bytes=1024),
    "three flits a packet, four flits a wave": dict(
        payload_bytes=24, block=64, wave_bytes=768, flit_bytes=8
    ),
    "scales of a byte": dict(scale_format="e8m0", wave_bytes=768),
    "flits of 16": dict(flit_bytes=16, wave_bytes=768, payload_bytes=32),
    "a port has one slot": dict(write_waves=1),
}


class Starter:
    """Plays read-out and reducer: begins waves where there is room; their scales come later."""

    def __init__(self, config, waves, *, flits, begins, comes):
        self.config, self.waves, self.begins, self.comes = config, waves, begins, comes
        self.dut = ScalePackets(config, port=PORT, context=CONTEXT, flits=flits)
        self.started = 0
        self.marks = {"head": [], "flit": []}  # last_head, last_flit of what was taken

    async def bench(self, ctx):
        """Each cycle from the state before it; a wave's scales come from the next one on."""
        dut, coming = self.dut, []
        while self.started < len(self.waves) or coming:
            ctx.set(dut.flit_valid, 0)
            if coming and next(self.comes):
                data, last = coming.pop(0)
                ctx.set(dut.flit, {"data": data, "last": last})
                ctx.set(dut.flit_valid, 1)
            start = self.started < len(self.waves) and ctx.get(dut.room) and next(self.begins)
            ctx.set(dut.start, start)
            if start:
                wave = self.waves[self.started]
                for name in ("size", "write_slot", "opens"):
                    ctx.set(getattr(dut, name), wave[name])
                # Garbage where the address is not looked at.
                ctx.set(dut.destination, wave["base"] if wave["opens"] else 0xBAD0)
                flits = wave["flits"]
                coming += [(flit, i == len(flits) - 1) for i, flit in enumerate(flits)]
                self.started += 1
            await ctx.tick()
        ctx.set(dut.flit_valid, 0)
        ctx.set(dut.start, 0)

    async def watch(self, ctx):
        """What the taken heads and flits were marked with."""
        o, dut = self.dut.o, self.dut
        signals = (o.head.valid & o.head.ready, dut.last_head)
        signals += (o.payload.valid & o.payload.ready, dut.last_flit)
        async for _, _, head, last_head, flit, last_flit in ctx.tick().sample(*signals):
            if head:
                self.marks["head"].append(last_head)
            if flit:
                self.marks["flit"].append(last_flit)


def waves_of(config, draw, operations):
    """Waves of operations, the last of each of any length, and the packets that they make."""
    waves, packets = [], []
    for _ in range(operations):
        base = draw.randrange(1 << 40) * config.flit_bytes
        codes = draw.choice([draw.randint(1, 3 * config.wave_bytes), 1, 2 * config.wave_bytes])
        for start in range(0, codes, config.wave_bytes):
            size = config.scales_bytes(min(config.wave_bytes, codes - start))
            flits = [
                draw.getrandbits(config.flit_bits) for _ in range(-(-size // config.flit_bytes))
            ]
            wave = dict(base=base, opens=int(start == 0), size=size, flits=flits,
                        write_slot=draw.randrange(config.write_waves))  # fmt: skip
            waves.append(wave)
            address = base + start // config.block * config.scale_bytes
            packets += packets_of(config, wave, address)
    return waves, packets


def packets_of(config, wave, address):
    """The packets of one wave: address, length, tag, payload, and whether it is the last."""
    most, flits = config.payload_bytes, config.payload_flits
    for number, start in enumerate(range(0, wave["size"], most)):
        payload = wave["flits"][number * flits : (number + 1) * flits]
        size = min(most, wave["size"] - start)
        yield address + start, size, wave["write_slot"], payload, start + most >= wave["size"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CONFIGS)
def test_packets_of_scales(name, shape):
    """Every wave that there was room for comes out whole, in order, at its address."""
    config = quantizing(**CONFIGS[name], memory_bytes=1 << 48)
    draw = random.Random(f"{name} {shape}")
    waves, wanted = waves_of(config, draw, 8)
    starter = Starter(
        config, waves, flits=config.scale_flits * draw.randint(1, 3),
        begins=pattern(draw.choice(SHAPES), 1), comes=pattern(draw.choice(SHAPES), 2),
    )  # fmt: skip

    async def link(ctx):
        packets = await collect_packets(
            ctx, starter.dut.o, len(wanted), header_flits=config.header_flits,
            willing=pattern(shape, draw.random()),
        )  # fmt: skip
        for packet, (address, size, slot, payload, _) in zip(packets, wanted, strict=True):
            assert packet.message_class == MessageClass.WRITE_DATA.value
            assert (packet.inc, packet.source, packet.destination) == (1, PORT, PORT)
            assert packet.context == CONTEXT
            assert packet.payload == payload
            assert (packet.address, packet.length, packet.tag) == (address, size, slot)

    run(starter.dut, starter.bench, link, background=[starter.watch], limit=8000)
    assert starter.marks["head"] == [last for *_, last in wanted]
    lengths = [len(wave["flits"]) for wave in waves]
    assert starter.marks["flit"] == [i == n - 1 for n in lengths for i in range(n)]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("whole", [False, True], ids=["of one flit", "whole"])
def test_room_is_for_a_whole_wave_and_comes_back(name, whole):
    """Nobody takes a flit: waves begin as long as a whole one has room, and then no more."""
    config = quantizing(**CONFIGS[name], memory_bytes=1 << 48)
    chunk, depth = config.scale_flits, 3 * config.scale_flits
    flits = [5] * (chunk if whole else 1)
    size = config.scale_chunk_bytes if whole else config.scale_bytes
    wave = dict(base=0, opens=1, size=size, flits=flits, write_slot=0)
    waves = [wave] * (2 * depth)
    always = pattern("always", 0)
    starter = Starter(config, waves, flits=depth, begins=always, comes=always)
    wanted = [p for wave in waves for p in packets_of(config, wave, 0)]

    async def nobody(ctx):
        await ctx.tick().repeat(2 * depth + 20)
        # Before the last of them there was room for a whole wave.
        assert starter.started == (3 if whole else depth - chunk + 1)
        assert not ctx.get(starter.dut.room)
        packets = await collect_packets(
            ctx, starter.dut.o, len(wanted), header_flits=config.header_flits
        )
        assert [packet.payload for packet in packets] == [payload for *_, payload, _ in wanted]
        await ctx.tick().repeat(2)
        assert ctx.get(starter.dut.room)

    run(starter.dut, starter.bench, nobody, limit=8000)


def test_two_waves_and_those_under_way_have_room():
    config = quantizing(wave_bytes=384, memory_bytes=1 << 48)  # 48 flits, 3 of scales
    sizes = {1: 9, 48: 9, 49: 12, 96: 12, 97: 15}
    assert {delay: scale_write_back_flits(config, delay) for delay in sizes} == sizes
