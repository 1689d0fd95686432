"""`RequestIssuer`: requests of each wave, of its scales first, their tags, and no cycle lost."""

import pytest

from hdl.accelerator.layouts import packet_bits
from hdl.accelerator.request_issuer import RequestIssuer
from hdl.interfaces import MessageClass
from tests.lib.packets import header_fields
from tests.lib.simulate import SHAPES, pattern, run, stream_get

from .ports import quantizing, small

PORT, CONTEXT = 1, 2
CONFIGS = {
    "a payload a request": dict(),
    "two payloads a request": dict(read_request_bytes=32),
    "a wave a request": dict(read_request_bytes=64),
    "payloads of three flits": dict(payload_bytes=24, wave_bytes=192, read_request_bytes=48),
    "one entry": dict(waves=1),
    "one packet a wave": dict(payload_bytes=64),
}
QUANTIZING = {
    "one request of scales": dict(),
    "two requests of scales, the last one short": dict(wave_bytes=384),
    "two packets of scales a request": dict(wave_bytes=1024, read_request_bytes=32),
    "scales in less than a request": dict(wave_bytes=384, read_request_bytes=96),
    "one entry": dict(waves=1),
    "scales of a byte": dict(scale_format="e8m0", wave_bytes=768),
    "two blocks a flit": dict(flit_bytes=64, payload_bytes=64, wave_bytes=1024),
    "codes only": dict(formats=("inq8",)),
}


def expected(config, wave):
    """The headers that a wave asks with: of its scales, then of its data."""
    scales = (wave.get("scale_address", 0), wave.get("scale_size", 0), config.packets_per_wave)
    most = config.read_request_bytes
    return [
        dict(
            address=address + start,
            length=min(most, size - start),
            tag=(wave["entry"] << packet_bits(config)) + packet + start // config.payload_bytes,
            generation=wave["generation"],
            message_class=MessageClass.READ_REQUEST.value,
            inc=1,
            context=CONTEXT,
            source=PORT,
            destination=PORT,
        )
        for address, size, packet in (scales, (wave["address"], wave["size"], 0))
        for start in range(0, size, most)
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CONFIGS)
def test_requests_of_waves(name, shape):
    config = small(**CONFIGS[name], memory_bytes=1 << 48)
    sizes = [config.wave_bytes, 2, config.payload_bytes, config.payload_bytes + 2]
    sizes += [config.wave_bytes - 2, config.wave_bytes]
    sizes = [size for size in sizes if size <= config.wave_bytes]
    waves = [
        dict(address=(1 << 44) + 0x1000 * number, size=size, entry=number % config.waves,
             generation=(number * 5) % 16)
        for number, size in enumerate(sizes)
    ]  # fmt: skip
    check_requests(config, waves, pattern(shape, name))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", QUANTIZING)
def test_requests_of_waves_with_scales(name, shape):
    """Of one code to all of them, and waves of sums between, which ask for none."""
    config = quantizing(**QUANTIZING[name], memory_bytes=1 << 48)
    full = config.wave_bytes
    sizes = [full, 1, config.block, config.block + 1, full - 1, full - config.block, full]
    waves = []
    for number, size in enumerate(sizes):
        fields = dict(entry=number % config.waves, generation=(number * 5) % 16)
        address = (1 << 44) + 0x1000 * number
        scales = dict(scale_address=address + (1 << 20), scale_size=config.scales_bytes(size))
        waves.append(dict(address=address, size=size, **fields, **scales))
        # What stands in the scales' address means nothing without scales.
        waves.append(dict(address=address + 8, size=size, **fields, scale_address=0xBAD0,
                          scale_size=0))  # fmt: skip
    check_requests(config, waves, pattern(shape, name))


def check_requests(config, waves, willing):
    """Every wave is asked for with the headers that it should be, in order."""
    dut = RequestIssuer(config, port=PORT, context=CONTEXT)
    wanted = [header for wave in waves for header in expected(config, wave)]

    async def controller(ctx):
        for wave in waves:
            for field, value in wave.items():
                ctx.set(getattr(dut, field), value)
            ctx.set(dut.valid, 1)
            while not (await ctx.tick().sample(dut.ready))[2]:
                pass
            ctx.set(dut.valid, 0)

    async def link(ctx):
        heads = await stream_get(ctx, dut.o.head, len(wanted), willing)
        for head, fields in zip(heads, wanted, strict=True):
            assert head.flits == 0
            got = header_fields(head.header)
            assert {field: got[field] for field in fields} == fields

    run(dut, controller, link)


def test_a_request_a_cycle_across_waves():
    config = small(memory_bytes=1 << 48)
    dut = RequestIssuer(config, port=PORT, context=CONTEXT)
    cycles = []

    async def controller(ctx):
        ctx.set(dut.size, config.wave_bytes)
        ctx.set(dut.valid, 1)
        await ctx.tick().repeat(40)

    async def link(ctx):
        ctx.set(dut.o.head.ready, 1)
        for cycle in range(40):
            if (await ctx.tick().sample(dut.o.head.valid))[2]:
                cycles.append(cycle)

    run(dut, controller, link)
    assert cycles == list(range(2, 40))


def test_a_request_a_cycle_across_waves_and_scales():
    """One code a wave: each is two requests, which follow each other all the time."""
    config = quantizing(memory_bytes=1 << 48)
    dut = RequestIssuer(config, port=PORT, context=CONTEXT)
    tags = {}

    async def controller(ctx):
        ctx.set(dut.size, 1)
        ctx.set(dut.scale_size, config.scale_bytes)
        ctx.set(dut.valid, 1)
        await ctx.tick().repeat(40)

    async def link(ctx):
        ctx.set(dut.o.head.ready, 1)
        for cycle in range(40):
            _, _, valid, head = await ctx.tick().sample(dut.o.head.valid, dut.o.head.payload)
            if valid:
                tags[cycle] = head.header.tag

    run(dut, controller, link)
    assert tags == {cycle: 0 if cycle % 2 else config.packets_per_wave for cycle in range(2, 40)}


@pytest.mark.parametrize("quantizes", [False, True])
def test_waves_that_are_dropped_go_no_further_and_leave_nothing_behind(quantizes):
    """However far the first one has come: behind the drop the next wave is asked for whole."""
    config = (quantizing if quantizes else small)(contexts=2, memory_bytes=1 << 48)
    size = config.wave_bytes

    def wave(number):
        fields = dict(address=0x1000 * number, size=size, entry=number % 2, generation=number)
        scales = dict(
            scale_address=0x10_0000 + 0x1000 * number, scale_size=config.scales_bytes(size)
        )
        return fields | (scales if quantizes else {})

    whole = len(expected(config, wave(0)))
    for asked in range(whole + 1):
        check_drop(config, [wave(number) for number in range(4)], asked)


def check_drop(config, waves, asked):
    """Of two waves so many requests leave, then they are dropped; two more come whole."""
    dut = RequestIssuer(config, port=PORT, context=CONTEXT)
    head = dut.o.head

    async def put(ctx, wave):
        for field, value in wave.items():
            ctx.set(getattr(dut, field), value)
        ctx.set(dut.valid, 1)
        while not (await ctx.tick().sample(dut.ready))[2]:
            pass
        ctx.set(dut.valid, 0)

    async def bench(ctx):
        assert ctx.get(dut.idle)
        for wave in waves[:2]:
            await put(ctx, wave)
            assert not ctx.get(dut.idle)
        await ctx.tick().repeat(2)
        assert not ctx.get(dut.idle)
        await stream_get(ctx, head, asked)
        ctx.set(dut.drop, 1)
        ctx.set(head.ready, 1)
        for _ in range(6):
            assert not ctx.get(head.valid)
            await ctx.tick()
        assert ctx.get(dut.idle)
        ctx.set(dut.drop, 0)
        ctx.set(head.ready, 0)
        for wave in waves[2:]:
            await put(ctx, wave)
        wanted = [header for wave in waves[2:] for header in expected(config, wave)]
        for got, fields in zip(await stream_get(ctx, head, len(wanted)), wanted, strict=True):
            got = header_fields(got.header)
            assert {field: got[field] for field in fields} == fields
        await ctx.tick().repeat(2)
        assert ctx.get(dut.idle)

    run(dut, bench)
