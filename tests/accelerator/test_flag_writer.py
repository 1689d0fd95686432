"""`FlagWriter`: the flag's word, one packet a port, in order, whatever the ports' pace."""

import pytest

from hdl.accelerator.flag_writer import FLAG_BYTES, FlagWriter
from hdl.accelerator.layouts import FLAG_TAG, Status
from hdl.interfaces import MessageClass
from tests.lib.packets import collect_packets
from tests.lib.simulate import SHAPES, pattern, run

from .ports import small


def lookups(dut, operations):
    """A background bench: the instruction queue and the operation table."""

    async def bench(ctx):
        async for _, _, slot in ctx.tick().sample(dut.slot):
            for rank, flag in enumerate(dut.flags):  # one cycle later
                ctx.set(flag, operations[slot]["flags"][rank])

    async def at_once(ctx):
        while True:
            operation = operations[ctx.get(dut.slot)]
            for name in ("epoch", "code", "rank"):
                ctx.set(getattr(dut, name), operation[name])
            await ctx.changed(dut.slot)

    return [bench, at_once]


def word(operation):
    return operation["epoch"] | operation["code"].value << 32 | operation["rank"] << 40


@pytest.mark.parametrize("flit_bytes", [8, 16, 64])
@pytest.mark.parametrize("shape", SHAPES)
def test_flags_of_several_operations(flit_bytes, shape):
    """Ports that take at their own pace; the next operation's flags wait for all of them."""
    config = small(flit_bytes=flit_bytes, payload_bytes=64, ranks=3, memory_bytes=1 << 48)
    dut = FlagWriter(config)
    codes = [Status.OK, Status.READ_DECERR, Status.OK, Status.WRITE_SLVERR]
    operations = {
        slot: dict(
            flags=[0x1000 * slot + 8 * (rank + slot) for rank in range(3)],
            epoch=(0xFFFF_FFFE + slot) & 0xFFFF_FFFF,
            code=codes[slot % 4],
            rank=slot % 3,
        )
        for slot in range(8)
    }
    order = [3, 4, 5, 6, 7, 0]
    retired = []
    sent = [0, 0, 0]

    async def over(ctx):
        for number, slot in enumerate(order):
            ctx.set(dut.over, 1)
            ctx.set(dut.over_slot, slot)
            ctx.set(dut.over_waves, 100 + number)
            await ctx.tick()
        ctx.set(dut.over, 0)

    async def watch(ctx):
        async for _, _, retire, slot, waves in ctx.tick().sample(dut.retire, dut.slot, dut.waves):
            if retire:
                retired.append((slot, waves))

    def port(rank):
        async def bench(ctx):
            for number, slot in enumerate(order):
                (packet,) = await collect_packets(
                    ctx, dut.o[rank], 1, header_flits=config.header_flits,
                    willing=pattern(shape, f"{rank} {number}"),
                )  # fmt: skip
                operation = operations[slot]
                assert min(sent) >= number, "a port got the next flag before all had this one"
                sent[rank] += 1
                address = operation["flags"][rank]
                assert packet.message_class == MessageClass.WRITE_DATA.value
                assert (packet.inc, packet.source, packet.destination) == (1, rank, rank)
                assert (packet.address, packet.length) == (address, FLAG_BYTES)
                assert packet.tag & FLAG_TAG
                (flit,) = packet.payload
                # In the byte lanes of its address.
                assert flit >> 8 * (address % flit_bytes) & (1 << 64) - 1 == word(operation)

        return bench

    background = [watch, *lookups(dut, operations)]
    run(dut, over, *(port(rank) for rank in range(3)), background=background)
    assert retired == [(slot, 100 + number) for number, slot in enumerate(order)]


def test_two_cycles_from_the_end_to_the_flags():
    config = small(memory_bytes=1 << 48)
    dut = FlagWriter(config)
    operations = {slot: dict(flags=[8, 16], epoch=1, code=Status.OK, rank=0) for slot in range(8)}

    async def bench(ctx):
        ctx.set(dut.over, 1)
        await ctx.tick()
        ctx.set(dut.over, 0)
        assert not ctx.get(dut.o[0].head.valid)
        await ctx.tick()
        assert ctx.get(dut.o[0].head.valid)
        assert ctx.get(dut.o[1].head.payload).header.address == 16

    run(dut, bench, background=lookups(dut, operations))
