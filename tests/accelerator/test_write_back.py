"""`WriteBack`: packets of results with their addresses, room that is never overdrawn, no bubble."""

import random

import pytest

from hdl.accelerator.write_back import WriteBack, write_back_flits
from hdl.interfaces import MessageClass
from tests.lib.packets import collect_packets
from tests.lib.simulate import SHAPES, pattern, run

from .ports import small

PORT, CONTEXT = 1, 2
SHAPES_OF_PACKETS = {
    "two flits": dict(),
    "three flits": dict(payload_bytes=24, wave_bytes=192),
    "one flit": dict(payload_bytes=8),
    "a header of one flit": dict(flit_bytes=16, payload_bytes=64),
}


class Starter:
    """Plays read-out: starts packets when there is room; results follow `delay` later."""

    def __init__(self, config, delay, packets, pauses):
        self.config, self.delay, self.packets, self.pauses = config, delay, packets, pauses
        self.dut = WriteBack(config, port=PORT, context=CONTEXT, data_delay=delay)
        self.started = []

    async def bench(self, ctx):
        dut, pipeline = self.dut, [None] * self.delay
        waiting, streaming = list(self.packets), []
        idle = 0
        while waiting or streaming or idle < self.delay + 2:
            start = False
            if not streaming and waiting and next(self.pauses):
                packet = waiting[0]
                start = bool(ctx.get(dut.room))
            if start:
                waiting.pop(0)
                streaming = list(packet["flits"])
                self.started.append(packet)
                ctx.set(dut.start.flits, len(packet["flits"]))
                ctx.set(dut.start.size, packet["size"])
                ctx.set(dut.start.opens, packet["opens"])
                ctx.set(dut.start.write_slot, packet["slot"])
                # Garbage where the address is not looked at.
                ctx.set(dut.destination, packet["base"] if packet["opens"] else 0xBAD0)
            ctx.set(dut.start.valid, start)
            pipeline.append(streaming.pop(0) if streaming else None)
            result = pipeline.pop(0)
            ctx.set(dut.result_valid, result is not None)
            ctx.set(dut.result, result or 0)
            idle = 0 if waiting or streaming else idle + 1
            await ctx.tick()
        ctx.set(dut.result_valid, 0)


def packets_of(config, draw, operations):
    result = []
    for _ in range(operations):
        base = draw.randrange(1 << 40) * config.flit_bytes
        left = draw.randrange(1, 6 * config.payload_bytes)
        opens, start = 1, 0
        while left:
            size = min(left, config.payload_bytes)
            flits = [
                draw.getrandbits(config.flit_bits) for _ in range(-(-size // config.flit_bytes))
            ]
            result.append(
                dict(base=base, opens=opens, size=size, flits=flits, address=base + start,
                     slot=draw.randrange(config.write_waves))
            )  # fmt: skip
            opens, start, left = 0, start + size, left - size
    return result


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", SHAPES_OF_PACKETS)
@pytest.mark.parametrize("delay", [4, 9])
def test_packets_of_results(name, shape, delay):
    """Every packet that there was room for comes out whole, in order, at its address."""
    config = small(**SHAPES_OF_PACKETS[name], memory_bytes=1 << 48)
    draw = random.Random(f"{name} {shape} {delay}")
    starter = Starter(config, delay, packets_of(config, draw, 12), pattern("half", draw.random()))
    dut = starter.dut

    async def link(ctx):
        packets = await collect_packets(
            ctx, dut.o, len(starter.packets), header_flits=config.header_flits,
            willing=pattern(shape, draw.random()),
        )  # fmt: skip
        for packet, wanted in zip(packets, starter.packets, strict=True):
            assert packet.message_class == MessageClass.WRITE_DATA.value
            assert (packet.inc, packet.source, packet.destination) == (1, PORT, PORT)
            assert packet.context == CONTEXT
            assert packet.payload == wanted["flits"]
            assert (packet.address, packet.length) == (wanted["address"], wanted["size"])
            assert packet.tag == wanted["slot"]

    run(dut, starter.bench, link, limit=6000)


def test_room_is_that_of_the_queue_and_comes_back():
    config = small()
    delay = 5
    flits = [1] * config.payload_flits
    packet = dict(base=0, opens=1, size=config.payload_bytes, flits=flits, slot=0)
    starter = Starter(config, delay, [packet] * 50, pattern("always", 0))

    async def nobody(ctx):
        await ctx.tick().repeat(100)
        most = write_back_flits(config, delay) // config.payload_flits
        assert len(starter.started) == most
        assert not ctx.get(starter.dut.room)
        await collect_packets(ctx, starter.dut.o, 50, header_flits=config.header_flits)

    run(starter.dut, starter.bench, nobody)


@pytest.mark.parametrize("name", SHAPES_OF_PACKETS)
def test_results_leave_without_a_bubble(name):
    """A link that always takes: header flits, then each packet's payload in consecutive cycles."""
    config = small(**SHAPES_OF_PACKETS[name], memory_bytes=1 << 48)
    delay = 7
    flits = list(range(1, config.payload_flits + 1))
    packet = dict(base=0, opens=1, size=config.payload_bytes, flits=flits, slot=0)
    starter = Starter(config, delay, [packet] * 20, pattern("always", 0))
    dut = starter.dut
    busy = []

    async def link(ctx):
        # A transmitter: takes a head while the last flit before goes out, sends the header's flits
        # from the next cycle on, then payload.
        left = headers = done = cycle = 0
        head, payload = dut.o.head, dut.o.payload
        while done < 20:
            ends = not headers and left <= 1
            ctx.set(payload.ready, left > 0 and not headers)
            ctx.set(head.ready, ends)
            _, _, valid, flits_of, p_valid = await ctx.tick().sample(
                head.valid, head.payload.flits, payload.valid
            )
            if headers or left:
                busy.append(cycle)
            if headers:
                headers -= 1
            elif left:
                assert p_valid, f"packet {done}: the link waits for payload"
                left -= 1
                done += left == 0
            if ends and valid:
                left, headers = flits_of, config.header_flits
            cycle += 1

    run(dut, starter.bench, link)
    assert busy == list(range(busy[0], busy[0] + len(busy)))
