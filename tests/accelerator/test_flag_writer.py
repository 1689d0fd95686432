"""`FlagWriter`: the flag's word, one packet a port, in order, whatever the ports' pace."""

import pytest

from hdl.accelerator.flag_writer import FLAG_BYTES, FlagWriter
from hdl.accelerator.layouts import FLAG_TAG, Status, slot_bits
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


def word(operation, context=0):
    status = operation["code"].value << 32 | operation["rank"] << 40 | context << 48
    return operation["epoch"] | status


@pytest.mark.parametrize(("flit_bytes", "context"), [(8, 0), (16, 3), (64, 1)])
@pytest.mark.parametrize("shape", SHAPES)
def test_flags_of_several_operations(flit_bytes, context, shape):
    """Ports that take at their own pace; the next operation's flags wait for all of them."""
    config = small(flit_bytes=flit_bytes, payload_bytes=64, ranks=3, memory_bytes=1 << 48)
    dut = FlagWriter(config, context=context)
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
                assert packet.context == context
                assert packet.tag == FLAG_TAG | context << slot_bits(config) | slot
                (flit,) = packet.payload
                # In the byte lanes of its address.
                assert flit >> 8 * (address % flit_bytes) & (1 << 64) - 1 == word(
                    operation, context
                )

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


class Ports:
    """Every port of a writer of flags among several contexts, each taken when the test says so."""

    def __init__(self, dut):
        self.dut = dut

    def offered(self, ctx, part):
        ports = (getattr(port, part).valid for port in self.dut.o)
        return sum(ctx.get(valid) << rank for rank, valid in enumerate(ports))

    async def take(self, ctx, part, ranks):
        for rank, port in enumerate(self.dut.o):
            ctx.set(getattr(port, part).ready, ranks >> rank & 1)
        await ctx.tick()
        for port in self.dut.o:
            ctx.set(getattr(port, part).ready, 0)


@pytest.fixture
def several():
    """A writer of three ranks whose operation 2, of ranks 0 and 2, is over."""
    dut = FlagWriter(small(ranks=3, contexts=2), context=1)
    ports = Ports(dut)

    def play(body):
        async def bench(ctx):
            ctx.set(dut.members, 0b101)
            ctx.set(dut.code, Status.OK)
            ctx.set(dut.over, 1)
            ctx.set(dut.over_slot, 2)
            await ctx.tick()
            ctx.set(dut.over, 0)
            assert not ctx.get(dut.late)
            await ctx.tick()
            await body(ctx, dut, ports)

        run(dut, bench)

    return play


def test_only_members_get_a_flag(several):
    async def body(ctx, dut, ports):
        assert ports.offered(ctx, "head") == ctx.get(dut.late) == 0b101
        await ports.take(ctx, "head", 0b001)
        assert ports.offered(ctx, "head") == 0b100
        await ports.take(ctx, "payload", 0b001)
        assert (ports.offered(ctx, "payload"), ctx.get(dut.late)) == (0b100, 0b100)
        await ports.take(ctx, "head", 0b100)
        assert not ctx.get(dut.retire)
        ctx.set(dut.o[2].payload.ready, 1)
        assert ctx.get(dut.retire)
        assert not ctx.get(dut.missed)
        await ctx.tick()
        assert not ctx.get(dut.sending)
        assert ports.offered(ctx, "head") == ports.offered(ctx, "payload") == 0

    several(body)


def test_a_held_flag_waits_unless_it_has_begun(several):
    async def body(ctx, dut, ports):
        await ports.take(ctx, "head", 0b001)
        ctx.set(dut.hold, 0b101)
        assert ports.offered(ctx, "head") == 0
        assert ports.offered(ctx, "payload") == 0b001
        await ports.take(ctx, "payload", 0b001)
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.retire)
        assert ctx.get(dut.late) == 0b100
        ctx.set(dut.hold, 0)
        assert ports.offered(ctx, "head") == 0b100

    several(body)


def test_a_skipped_flag_is_missed_unless_it_has_begun(several):
    """The operation ends without it; who is skipped and no member has missed nothing."""

    async def body(ctx, dut, ports):
        await ports.take(ctx, "head", 0b001)
        ctx.set(dut.skip, 0b111)
        assert ports.offered(ctx, "head") == 0
        assert (ctx.get(dut.missed), ctx.get(dut.late)) == (0b100, 0b001)
        assert not ctx.get(dut.retire)
        ctx.set(dut.o[0].payload.ready, 1)
        assert ctx.get(dut.retire)
        assert ctx.get(dut.missed) == 0b100
        await ctx.tick()
        ctx.set(dut.o[0].payload.ready, 0)
        assert not ctx.get(dut.sending)

    several(body)


def test_an_operation_of_which_all_are_skipped_ends_at_once(several):
    async def body(ctx, dut, ports):
        ctx.set(dut.skip, 0b101)
        assert ctx.get(dut.retire)
        assert ctx.get(dut.missed) == 0b101

    several(body)
