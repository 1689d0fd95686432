"""`ScalePacker`: scales of waves of any length, with and without gaps, each flit in its cycle."""

import random

import pytest

from hdl.accelerator.layouts import flit_scale_bits
from hdl.accelerator.scale_packer import ScalePacker
from tests.lib.simulate import pattern, run

from .ports import quantizing

CONFIGS = {
    "two bytes, a block a flit": dict(),
    "one byte, a block a flit": dict(scale_format="e8m0", wave_bytes=256),
    "two bytes, flits of 16": dict(flit_bytes=16, wave_bytes=256),
    "two bytes, two blocks a flit": dict(flit_bytes=64, payload_bytes=64, wave_bytes=1024),
    "one byte, two blocks a flit": dict(
        flit_bytes=64, payload_bytes=64, wave_bytes=2048, scale_format="e8m0"
    ),
}


def flits_of(wave, bits, parts):
    """A wave's scales, in `parts` to a flit: what must come, and how many bits of it count."""
    for start in range(0, len(wave), parts):
        given = wave[start : start + parts]
        word = sum(scale << bits * number for number, scale in enumerate(given))
        yield word, bits * len(given), start + parts >= len(wave)


@pytest.mark.parametrize("shape", ["always", "half", "bursts"])
@pytest.mark.parametrize("name", CONFIGS)
def test_scales_of_waves(name, shape):
    """Waves of every length, the same again in random order; flits come a cycle after the last."""
    config = quantizing(**CONFIGS[name])
    draw = random.Random(f"{name} {shape}")
    bits = flit_scale_bits(config)
    parts = config.flit_bits // bits
    most = config.scale_chunk_bytes * 8 // bits
    lengths = [*range(1, most + 1), *range(most, 0, -1)]
    lengths += [draw.randint(1, most) for _ in range(10)] + [1, 1, 1]
    waves = [[draw.getrandbits(bits) for _ in range(length)] for length in lengths]
    dut = ScalePacker(config)
    willing = pattern(shape, name)
    due = {}  # by cycle: word, bits, last

    async def bench(ctx):
        now = 0

        async def step():
            nonlocal now
            _, _, valid, flit = await ctx.tick().sample(dut.valid, dut.o)
            assert valid == (now in due), f"cycle {now}"
            if valid:
                word, count, last = due.pop(now)
                assert (flit.data & (1 << count) - 1, flit.last) == (word, last)
            now += 1

        for wave in waves:
            flits = flits_of(wave, bits, parts)
            for number, scales in enumerate(wave):
                while not next(willing):
                    ctx.set(dut.begins, 0)  # what stands beside it means nothing
                    ctx.set(dut.ends, draw.getrandbits(1))
                    ctx.set(dut.scales, draw.getrandbits(bits))
                    await step()
                ends = number == len(wave) - 1
                ctx.set(dut.begins, 1)
                ctx.set(dut.ends, ends)
                ctx.set(dut.scales, scales)
                if ends or number % parts == parts - 1:
                    due[now + 1] = next(flits)
                await step()
        ctx.set(dut.begins, 0)
        for _ in range(3):
            await step()

    run(dut, bench, limit=10_000)
    assert not due
