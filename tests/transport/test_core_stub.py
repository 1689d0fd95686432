"""`CoreStub`: every ordinary request has exactly one answer, DECERR."""

import random

import pytest

from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass
from hdl.transport.core_stub import CoreStub
from tests.lib.axi import DECERR
from tests.lib.packets import Packet, beats, collect_packets, random_header
from tests.lib.simulate import SHAPES, pattern, run, stream_put

CONFIG = SwitchConfig.preset("tiny")
ANSWERS = {
    MessageClass.READ_REQUEST: MessageClass.READ_DATA,
    MessageClass.WRITE_DATA: MessageClass.WRITE_RESPONSE,
}


def request(draw, message_class):
    header = random_header(draw, message_class, inc=0, address=draw.getrandbits(48), length=32)
    flits = draw.randint(0, 4) if message_class == MessageClass.WRITE_DATA else 0
    return Packet(header, [draw.getrandbits(64) for _ in range(flits)])


def answer(asked):
    return Packet(
        {
            "message_class": ANSWERS[MessageClass(asked.message_class)].value,
            "source": asked.destination,
            "destination": asked.source,
            "context": asked.context,
            "generation": asked.generation,
            "tag": asked.tag,
            "status": DECERR,
        }
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("message_class", ANSWERS)
def test_each_request_has_one_answer_and_it_is_decerr(message_class, shape):
    draw = random.Random(f"{message_class} {shape}")
    dut = CoreStub(CONFIG)
    reads = message_class == MessageClass.READ_REQUEST
    asks = dut.requests if reads else dut.writes
    answers = dut.read_data if reads else dut.write_responses
    packets = [request(draw, message_class) for _ in range(40)]

    async def ask(ctx):
        willing = pattern(shape, 1)
        await stream_put(ctx, asks, [b for p in packets for b in beats(p)], willing)

    async def take(ctx):
        got = await collect_packets(ctx, answers, 40, header_flits=2, willing=pattern(shape, 2))
        assert got == [answer(packet) for packet in packets]
        await ctx.tick().repeat(5)
        assert not ctx.get(answers.head.valid)

    run(dut, ask, take)


def test_an_answer_follows_its_request_by_one_cycle():
    dut = CoreStub(CONFIG)
    packet = request(random.Random(0), MessageClass.READ_REQUEST)

    async def bench(ctx):
        ctx.set(dut.requests.payload, beats(packet)[0])
        ctx.set(dut.requests.valid, 1)
        assert not ctx.get(dut.read_data.head.valid)
        await ctx.tick()
        assert ctx.get(dut.read_data.head.valid)

    run(dut, bench)


def test_reads_and_writes_do_not_wait_for_each_other():
    """Nobody takes write responses; reads go on being answered."""
    draw = random.Random(0)
    dut = CoreStub(CONFIG)
    writes = [request(draw, MessageClass.WRITE_DATA) for _ in range(6)]
    reads = [request(draw, MessageClass.READ_REQUEST) for _ in range(12)]

    async def write(ctx):
        await stream_put(ctx, dut.writes, [b for p in writes for b in beats(p)])

    async def read(ctx):
        await stream_put(ctx, dut.requests, [b for p in reads for b in beats(p)])

    async def take(ctx):
        got = await collect_packets(ctx, dut.read_data, len(reads), header_flits=1)
        assert got == [answer(packet) for packet in reads]

    run(dut, read, take, background=[write])
