"""`RequestIssuer`: requests of each wave, their tags, and no cycle lost."""

import pytest

from hdl.accelerator.layouts import packet_bits
from hdl.accelerator.request_issuer import RequestIssuer
from hdl.interfaces import MessageClass
from tests.lib.packets import header_fields
from tests.lib.simulate import SHAPES, pattern, run, stream_get

from .ports import small

PORT = 1
CONFIGS = {
    "a payload a request": dict(),
    "two payloads a request": dict(read_request_bytes=32),
    "a wave a request": dict(read_request_bytes=64),
    "payloads of three flits": dict(payload_bytes=24, wave_bytes=192, read_request_bytes=48),
    "one entry": dict(waves=1),
    "one packet a wave": dict(payload_bytes=64),
}


def expected(config, wave):
    """The headers that a wave asks with."""
    most = config.read_request_bytes
    return [
        dict(
            address=wave["address"] + start,
            length=min(most, wave["size"] - start),
            tag=(wave["entry"] << packet_bits(config)) + start // config.payload_bytes,
            generation=wave["generation"],
            message_class=MessageClass.READ_REQUEST.value,
            inc=1,
            source=PORT,
            destination=PORT,
        )
        for start in range(0, wave["size"], most)
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CONFIGS)
def test_requests_of_waves(name, shape):
    config = small(**CONFIGS[name])
    dut = RequestIssuer(config, port=PORT)
    sizes = [config.wave_bytes, 2, config.payload_bytes, config.payload_bytes + 2]
    sizes += [config.wave_bytes - 2, config.wave_bytes]
    sizes = [size for size in sizes if size <= config.wave_bytes]
    waves = [
        dict(address=(1 << 44) + 0x1000 * number, size=size, entry=number % config.waves,
             generation=(number * 5) % 16)
        for number, size in enumerate(sizes)
    ]  # fmt: skip
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
        heads = await stream_get(ctx, dut.o.head, len(wanted), pattern(shape, name))
        for head, fields in zip(heads, wanted, strict=True):
            assert head.flits == 0
            got = header_fields(head.header)
            assert {field: got[field] for field in fields} == fields

    run(dut, controller, link)


def test_a_request_a_cycle_across_waves():
    config = small()
    dut = RequestIssuer(config, port=PORT)
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
