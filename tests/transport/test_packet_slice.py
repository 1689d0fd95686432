"""`PacketSlice`: every bit of heads and payload, in order, a cycle later, under any stalls."""

import random

import pytest

from hdl.config import SwitchConfig
from hdl.transport.packet_slice import PacketSlice
from tests.lib.simulate import SHAPES, pattern, run, stream_get, stream_put

#: Several contexts, so that headers name them.
CONFIG = SwitchConfig.preset("tiny", contexts=2)


def random_bits(draw, shape, count):
    return [shape.from_bits(draw.getrandbits(shape.size)) for _ in range(count)]


@pytest.mark.parametrize("idle", SHAPES)
@pytest.mark.parametrize("stall", SHAPES)
def test_heads_and_payload_pass_whole_and_apart(idle, stall):
    """Each stream at its own pace: neither waits for the other."""
    dut = PacketSlice(CONFIG)
    draw = random.Random(f"{idle} {stall}")
    came, sent = {}, {}
    benches = []
    for name in ("head", "payload"):
        source, sink = getattr(dut.i, name), getattr(dut.o, name)
        sent[name] = random_bits(draw, source.payload.shape(), 60)

        async def put(ctx, name=name, source=source):
            await stream_put(ctx, source, sent[name], pattern(idle, name))

        async def get(ctx, name=name, sink=sink):
            came[name] = await stream_get(ctx, sink, 60, pattern(stall, name))

        benches += [put, get]
    run(dut, *benches, limit=4000)
    assert came == sent


def test_one_without_payload_has_no_register_for_it():
    dut = PacketSlice(CONFIG, has_payload=False)

    async def bench(ctx):
        ctx.set(dut.i.payload.valid, 1)
        ctx.set(dut.i.head.valid, 1)
        await ctx.tick().repeat(2)
        assert (ctx.get(dut.o.head.valid), ctx.get(dut.o.payload.valid)) == (1, 0)

    run(dut, bench)
