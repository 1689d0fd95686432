"""`WaveTable` with scales: beside the data of every flit, in packets that come in any order."""

import random

import pytest

from hdl.accelerator.layouts import flit_scale_bits, packet_bits
from hdl.accelerator.wave_table import READ_DELAY, WaveTable
from hdl.interfaces import Response
from tests.lib.simulate import run

from .ports import beat, quantizing

CONFIGS = {
    "a flit of scales": dict(),
    "one entry": dict(waves=1),
    "two packets of scales, the last one short": dict(wave_bytes=384),
    "three flits a packet": dict(payload_bytes=24, block=64, wave_bytes=768),
    "four packets of scales": dict(wave_bytes=1024, waves=4),
    "scales of a byte": dict(scale_format="e8m0", wave_bytes=512),
    "two blocks a flit": dict(flit_bytes=64, payload_bytes=64, wave_bytes=2048),
    "two blocks a flit, scales of a byte": dict(
        flit_bytes=64, payload_bytes=128, wave_bytes=4096, scale_format="e8m0"
    ),
    "a flit a block": dict(flit_bytes=32, payload_bytes=64, wave_bytes=512),
}


class Wave:
    """A wave's codes and scales at random, the packets that bring them, what a read must give."""

    def __init__(self, config, draw, *, entry, generation, size, quantized=True):
        self.config, self.entry, self.generation, self.size = config, entry, generation, size
        self.codes = draw.randbytes(size)
        self.scales = draw.randbytes(config.scales_bytes(size) if quantized else 0)

    @property
    def absent(self):
        """Packets of a full wave that this one lacks."""
        config = self.config
        bits, place = 0, 0
        for here, most in (
            (self.codes, config.packets_per_wave), (self.scales, config.scale_packets),
        ):  # fmt: skip
            for packet in range(most):
                bits |= (packet * config.payload_bytes >= len(here)) << place
                place += 1
        return bits

    def packets(self, response=0):
        """Beats by packet."""
        config = self.config
        result = []
        for first, content in ((0, self.codes), (config.packets_per_wave, self.scales)):
            for number, start in enumerate(range(0, len(content), config.payload_bytes)):
                part = content[start : start + config.payload_bytes]
                tag = self.entry << packet_bits(config) | (first + number)
                result.append(beats_of(config, part, tag, self.generation, response))
        return result

    def expected(self):
        """Data and scales by flit; scales of bytes that the wave has, and how many bits count."""
        config, width = self.config, self.config.flit_bytes
        for flit in range(-(-self.size // width)):
            codes = self.codes[flit * width : (flit + 1) * width]
            block = flit * width // config.block
            blocks = -(-len(codes) // config.block)
            scales = self.scales[block * config.scale_bytes :][: blocks * config.scale_bytes]
            yield codes, scales


def beats_of(config, content, tag, generation, response=0):
    width = config.flit_bytes
    flits = [content[start : start + width] for start in range(0, len(content), width)]
    return [
        beat(data=int.from_bytes(flit, "little"), response=response, first=int(i == 0),
             last=int(i == len(flits) - 1), tag=tag, generation=generation)
        for i, flit in enumerate(flits)
    ]  # fmt: skip


class Bench:
    def __init__(self, config):
        self.config, self.dut, self.strays = config, WaveTable(config), 0

    async def tick(self, ctx):
        _, _, stray = await ctx.tick().sample(self.dut.stray)
        self.strays += stray

    async def reserve(self, ctx, wave):
        reserve = self.dut.reserve
        for name in ("entry", "generation", "absent"):
            ctx.set(getattr(reserve, name), getattr(wave, name))
        ctx.set(reserve.valid, 1)
        await self.tick(ctx)
        ctx.set(reserve.valid, 0)

    async def send(self, ctx, beats):
        for each in beats:
            ctx.set(self.dut.i.payload, each)
            ctx.set(self.dut.i.valid, 1)
            await self.tick(ctx)
        ctx.set(self.dut.i.valid, 0)

    async def read(self, ctx, wave, stride=1):
        """Take the entry and read it, a flit every so many cycles; data and scales must hold."""
        dut, expected = self.dut, list(wave.expected())
        ctx.set(dut.look_ups[0].entry, wave.entry)
        ctx.set(dut.look_ups[0].taken, 1)
        await self.tick(ctx)
        ctx.set(dut.look_ups[0].taken, 0)
        ctx.set(dut.read_entry, wave.entry)
        for cycle in range(stride * len(expected) + READ_DELAY - 1):
            ctx.set(dut.read_enable, cycle % stride == 0 and cycle < stride * len(expected))
            # In the cycles between the flit's number is the next one's.
            ctx.set(dut.read_flit, -(-cycle // stride) % self.config.wave_flits)
            await self.tick(ctx)
            flit = (cycle - READ_DELAY + 1) // stride
            if flit >= 0:
                codes, scales = expected[flit]
                assert ctx.get(dut.data).to_bytes(64, "little").startswith(codes)
                assert ctx.get(dut.scales).to_bytes(64, "little").startswith(scales)
        ctx.set(dut.read_enable, 0)

    def ready(self, ctx, wave):
        ctx.set(self.dut.look_ups[0].entry, wave.entry)
        return ctx.get(self.dut.look_ups[0].ready)

    def response(self, ctx, wave):
        ctx.set(self.dut.look_ups[0].entry, wave.entry)
        return Response(ctx.get(self.dut.look_ups[0].response))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("name", CONFIGS)
def test_codes_and_scales_in_any_order(name, stride):
    """Entries of any length, of codes and of sums, filled together by packets in random order."""
    config = quantizing(**CONFIGS[name])
    draw = random.Random(f"{name} {stride}")
    bench = Bench(config)
    assert len(bench.dut.scales) == flit_scale_bits(config)

    async def fill_and_read(ctx):
        for generation in range(3):
            waves, queue = [], []
            for entry in range(config.waves):
                size = draw.choice([config.wave_bytes, draw.randint(1, config.wave_bytes)])
                quantized = draw.random() < 0.8
                wave = Wave(config, draw, entry=entry, generation=generation, size=size,
                            quantized=quantized)  # fmt: skip
                await bench.reserve(ctx, wave)
                waves.append(wave)
                queue += [(entry, packet) for packet in wave.packets()]
            draw.shuffle(queue)
            while queue:
                assert [bench.ready(ctx, wave) for wave in waves] == [
                    wave.entry not in [entry for entry, _ in queue] for wave in waves
                ]
                await bench.send(ctx, queue.pop()[1])
            for wave in waves:
                assert bench.ready(ctx, wave)
                await bench.read(ctx, wave, stride)
                assert bench.response(ctx, wave) == Response.OKAY
        assert bench.strays == 0

    run(bench.dut, fill_and_read, limit=10_000)


@pytest.mark.parametrize("name", ["a flit of scales", "two packets of scales, the last one short"])
def test_a_wave_waits_for_its_scales(name):
    """All of its codes are there, and all of its scales but one packet; and the other way."""
    config = quantizing(**CONFIGS[name])
    bench, draw = Bench(config), random.Random(name)
    count = config.packets_per_wave + config.scale_packets

    async def hold_one_back(ctx):
        for held in range(count):
            wave = Wave(config, draw, entry=0, generation=held % 16, size=config.wave_bytes)
            await bench.reserve(ctx, wave)
            packets = wave.packets()
            assert len(packets) == count
            late = packets.pop(held)
            for packet in packets:
                await bench.send(ctx, packet)
            await bench.tick(ctx)
            assert not bench.ready(ctx, wave)
            await bench.send(ctx, late)
            await bench.read(ctx, wave)

    run(bench.dut, hold_one_back)


def test_stray_packets_of_scales_change_nothing():
    """A second answer, an old generation, one that the wave lacks, any to a wave of sums."""
    config = quantizing(**CONFIGS["two packets of scales, the last one short"])
    bench, draw = Bench(config), random.Random(1)
    first_scales = config.packets_per_wave

    def stray(wave, number, generation):
        tag = wave.entry << packet_bits(config) | number
        return beats_of(config, draw.randbytes(config.payload_bytes), tag, generation, 3)

    async def send_strays(ctx):
        # As many codes as one packet of scales is for, so that the second one is absent.
        wave = Wave(config, draw, entry=0, generation=3, size=8 * config.block)
        sums = Wave(config, draw, entry=1, generation=3, size=config.wave_bytes, quantized=False)
        for each in (wave, sums):
            await bench.reserve(ctx, each)
        packets = wave.packets()
        await bench.send(ctx, packets[-1])
        for target, number, generation in (
            (wave, first_scales, 3), (wave, first_scales, 2), (wave, first_scales, 4),
            (wave, first_scales + 1, 3), (wave, first_scales + 2, 3),
            (sums, first_scales, 3), (sums, first_scales + 1, 3),
        ):  # fmt: skip
            before = bench.strays
            await bench.send(ctx, stray(target, number, generation))
            assert bench.strays == before + 1
        for packet in packets[:-1] + sums.packets():
            assert not bench.ready(ctx, sums)
            await bench.send(ctx, packet)
        await bench.send(ctx, stray(wave, first_scales, 3))  # late, the wave is complete
        assert bench.strays == 8
        for each in (wave, sums):
            assert bench.ready(ctx, each)
            assert bench.response(ctx, each) == Response.OKAY
            await bench.read(ctx, each)

    run(bench.dut, send_strays)


@pytest.mark.parametrize("number", range(2))
def test_a_packet_of_scales_longer_than_a_payload_stays_in_its_place(number):
    config = quantizing(wave_bytes=512)  # two packets of scales
    bench, draw = Bench(config), random.Random(number)

    async def send_long(ctx):
        waves = [
            Wave(config, draw, entry=entry, generation=0, size=config.wave_bytes)
            for entry in range(2)
        ]
        for wave in waves:
            await bench.reserve(ctx, wave)
            packets = wave.packets()
            long = packets[config.packets_per_wave + number]
            for each in packets:
                if each is not long:
                    await bench.send(ctx, each)
            long[-1]["last"] = 0
            beyond = [dict(long[-1], first=0, data=0xDEAD, last=int(i == 4)) for i in range(5)]
            await bench.send(ctx, long + beyond)
        for wave in waves:
            await bench.read(ctx, wave)

    run(bench.dut, send_long)


@pytest.mark.parametrize("response", [Response.SLVERR, Response.DECERR])
def test_an_error_in_the_scales_is_the_waves(response):
    config = quantizing()
    bench, draw = Bench(config), random.Random(2)

    async def send_error(ctx):
        for empty in (False, True):
            wave, other = (
                Wave(config, draw, entry=entry, generation=int(empty), size=64)
                for entry in range(2)
            )
            for each in (wave, other):
                await bench.reserve(ctx, each)
                for packet in each.packets()[:-1]:
                    await bench.send(ctx, packet)
            tag = config.packets_per_wave
            bad = [beat(empty=1, status=response, tag=tag, generation=1)]
            await bench.send(ctx, bad if empty else wave.packets(response.value)[-1])
            await bench.send(ctx, other.packets()[-1])
            assert bench.ready(ctx, wave)
            assert bench.response(ctx, wave) == response
            assert bench.ready(ctx, other)
            assert bench.response(ctx, other) == Response.OKAY

    run(bench.dut, send_error)
