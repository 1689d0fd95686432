"""`AxiSlice` between an AXI4 manager and a memory in Python: every rule kept, nothing lost."""

import random

import pytest
from amaranth.lib import wiring

from hdl.axi_slice import CHANNELS, AxiSlice
from hdl.interfaces import Axi4Signature
from tests.lib.simulate import SHAPES, pattern, run

SIGNATURE = Axi4Signature(address_bits=16, data_bytes=8)
TRANSFERS = 40


def fields(channel):
    """Names of a channel's signals apart from its handshake, and their widths."""
    return {
        name: member.shape
        for name, member in SIGNATURE.members.items()
        if name.startswith(channel) and name[len(channel) :] not in ("valid", "ready")
    }


def test_channels_have_every_signal_once():
    names = [name for channel in CHANNELS for name in fields(channel)]
    handshakes = [f"{channel}{end}" for channel in CHANNELS for end in ("valid", "ready")]
    assert sorted(names + handshakes) == sorted(SIGNATURE.members)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_channel_keeps_its_transfers(shape):
    """All five at once, each from its own sender to its own receiver, in any rhythm."""
    dut = AxiSlice(SIGNATURE)
    draw = random.Random(shape)
    benches = []
    for channel, sent in CHANNELS.items():
        source, sink = (dut.manager, dut.subordinate) if sent else (dut.subordinate, dut.manager)
        widths = fields(channel)
        transfers = [
            {name: draw.getrandbits(width) for name, width in widths.items()}
            for _ in range(TRANSFERS)
        ]

        async def put(ctx, source=source, channel=channel, transfers=transfers):
            willing = pattern(shape, f"{channel} put")
            valid, ready = getattr(source, f"{channel}valid"), getattr(source, f"{channel}ready")
            for transfer in transfers:
                while not next(willing):
                    await ctx.tick()
                for name, value in transfer.items():
                    ctx.set(getattr(source, name), value)
                ctx.set(valid, 1)
                await ctx.tick().until(ready)
                ctx.set(valid, 0)

        async def get(ctx, sink=sink, channel=channel, transfers=transfers):
            willing = pattern(shape, f"{channel} get")
            valid, ready = getattr(sink, f"{channel}valid"), getattr(sink, f"{channel}ready")
            for transfer in transfers:
                while not next(willing):
                    await ctx.tick()
                ctx.set(ready, 1)
                names = list(transfer)
                values = await ctx.tick().sample(*(getattr(sink, n) for n in names)).until(valid)
                assert dict(zip(names, values, strict=True)) == transfer
                ctx.set(ready, 0)

        benches += [put, get]
    run(dut, *benches)


def test_one_cycle_and_a_transfer_a_cycle():
    dut = AxiSlice(SIGNATURE)

    async def bench(ctx):
        ctx.set(dut.subordinate.wready, 1)
        ctx.set(dut.manager.wvalid, 1)
        for value in range(20):
            ctx.set(dut.manager.wdata, value)
            assert ctx.get(dut.manager.wready)
            await ctx.tick()
            assert ctx.get(dut.subordinate.wvalid)
            assert ctx.get(dut.subordinate.wdata) == value

    run(dut, bench)


def test_it_connects_as_a_bus_does():
    first, second = AxiSlice(SIGNATURE), AxiSlice(SIGNATURE)
    from amaranth import Module

    top = Module()
    top.submodules.first, top.submodules.second = first, second
    wiring.connect(top, first.subordinate, second.manager)

    async def bench(ctx):
        ctx.set(first.manager.arvalid, 1)
        ctx.set(first.manager.araddr, 7)
        await ctx.tick().repeat(2)
        assert ctx.get(second.subordinate.arvalid)
        assert ctx.get(second.subordinate.araddr) == 7

    run(top, bench)
