"""`Doorbell`: arrivals and their answers, what is no doorbell, and answers that wait."""

import random

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.accelerator.barrier import Barrier
from hdl.accelerator.doorbell import Doorbell
from hdl.accelerator.window import window_words
from hdl.interfaces import MessageClass, Response
from hdl.transport.endpoint import DOORBELL_SPACING
from tests.lib.packets import collect_packets
from tests.lib.simulate import SHAPES, pattern, run, until

from .ports import beat, small

PORT = 1


def arrival(epoch, *, flits=1, address=0, **header):
    """Beats of a write packet to a doorbell; flits behind the first must not matter."""
    header = dict(
        message_class=MessageClass.WRITE_DATA, source=PORT, destination=PORT, address=address,
        length=8, **header,
    )  # fmt: skip
    return [
        beat(data=epoch if index == 0 else 2, first=int(index == 0), last=int(index == flits - 1),
             **header)
        for index in range(flits)
    ]  # fmt: skip


def header_only(**header):
    return [beat(empty=1, message_class=MessageClass.WRITE_DATA, **{"address": 0} | header)]


async def ring(ctx, dut, packets, arrivals, willing=None):
    """Send packets; note the arrivals that the barrier sees."""
    for beats in packets:
        for each in beats:
            while willing and not next(willing):
                await ctx.tick()
            ctx.set(dut.i.payload, each)
            ctx.set(dut.i.valid, 1)
            while True:
                _, _, ready, arrive, epoch = await ctx.tick().sample(
                    dut.i.ready, dut.arrive, dut.epoch
                )
                if arrive:
                    arrivals.append(epoch)
                if ready:
                    break
            ctx.set(dut.i.valid, 0)


def statuses(packets, *, flit_bytes=8):
    """Answers to packets that the barrier does not refuse, and the arrivals seen."""
    config = small(flit_bytes=flit_bytes, payload_bytes=64)
    dut = Doorbell(config, port=PORT)
    answers, arrivals = [], []

    async def sender(ctx):
        await ring(ctx, dut, packets, arrivals)

    async def receiver(ctx):
        answers.extend(
            await collect_packets(ctx, dut.o, len(packets), header_flits=config.header_flits)
        )

    run(dut, sender, receiver)
    for packet, answer in zip(packets, answers, strict=True):
        asked = packet[0]["header"]
        assert answer.message_class == MessageClass.WRITE_RESPONSE.value
        assert answer.inc == 1
        assert answer.payload == []
        assert (answer.source, answer.destination) == (PORT, PORT)
        assert answer.tag == asked.get("tag", 0)
        assert answer.generation == asked.get("generation", 0)
    return [Response(answer.status) for answer in answers], arrivals


@pytest.mark.parametrize("flit_bytes", [8, 16, 64])
def test_an_arrival_is_answered_with_its_tag(flit_bytes):
    packets = [arrival(7, tag=0x1234, generation=9), arrival(0xFFFF_FFFF, tag=1)]
    assert statuses(packets, flit_bytes=flit_bytes) == (
        [Response.OKAY] * 2, [7, 0xFFFF_FFFF]
    )  # fmt: skip


def test_only_the_low_32_bits_are_the_epoch():
    assert statuses([arrival(0xABCD_0000_0005)]) == ([Response.OKAY], [5])


def test_a_longer_packet_is_one_arrival_and_has_one_answer():
    assert statuses([arrival(3, flits=5), arrival(4)]) == ([Response.OKAY] * 2, [3, 4])


@pytest.mark.parametrize(
    "address", [4, 8, 1, DOORBELL_SPACING - 8, DOORBELL_SPACING, 2 * DOORBELL_SPACING, 1 << 47]
)
def test_a_write_off_the_doorbells_is_a_decode_error(address):
    """Nothing arrives, and the next arrival does."""
    packets = [arrival(1, address=address), arrival(1)]
    assert statuses(packets) == ([Response.DECERR, Response.OKAY], [1])


def test_a_write_without_payload_is_no_arrival():
    packets = [header_only(tag=5), arrival(1)]
    packets[0][0]["header"] |= dict(source=PORT)
    assert statuses(packets) == ([Response.DECERR, Response.OKAY], [1])


class Pair(wiring.Component):
    """Two doorbells at one barrier."""

    def __init__(self, config):
        self.config = config
        self.barrier = Barrier(config)
        self.doorbells = [Doorbell(config, port=rank) for rank in range(2)]
        super().__init__({"take": In(1), "complete": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.barrier = barrier = self.barrier
        for rank, doorbell in enumerate(self.doorbells):
            m.submodules[f"doorbell_{rank}"] = doorbell
            m.d.comb += [
                barrier.arrive[rank].eq(doorbell.arrive),
                barrier.epochs[rank].eq(doorbell.epoch),
                doorbell.refused.eq(barrier.refused[rank]),
            ]
        m.d.comb += [barrier.take.eq(self.take), self.complete.eq(barrier.complete)]
        return m


@pytest.mark.parametrize("shape", SHAPES)
def test_refused_arrivals_are_answered_with_slverr(shape):
    """Second, stale and too early ones; the answers come in order under any back-pressure."""
    print("seed", shape)
    config = small()
    dut = Pair(config)
    epochs = [(1, True), (1, False), (2, True), (2, False), (3, False), (0, False), (9, False)]
    draw = random.Random(shape)
    wanted = [Response.OKAY if good else Response.SLVERR for _, good in epochs]

    def sender(rank):
        async def bench(ctx):
            packets = [arrival(epoch) for epoch, _ in epochs]
            await ring(ctx, dut.doorbells[rank], packets, [], pattern(shape, draw.random()))

        return bench

    def receiver(rank):
        async def bench(ctx):
            answers = await collect_packets(
                ctx, dut.doorbells[rank].o, len(epochs), header_flits=config.header_flits,
                willing=pattern(shape, draw.random()),
            )  # fmt: skip
            assert [Response(answer.status) for answer in answers] == wanted

        return bench

    run(dut, sender(0), sender(1), receiver(0), receiver(1))


def test_answers_that_wait_hold_up_only_their_own_rank():
    config = small()
    dut = Pair(config)

    async def bench(ctx):
        first, second = dut.doorbells
        # Rank 0's answers are never taken: after a few, its packets wait.
        ctx.set(first.i.payload, arrival(1)[0])
        ctx.set(first.i.valid, 1)
        for _ in range(10):
            await ctx.tick()
        assert not ctx.get(first.i.ready)
        ctx.set(second.i.payload, arrival(1)[0])
        ctx.set(second.i.valid, 1)
        ctx.set(second.o.head.ready, 1)
        await until(ctx, second.i.ready)
        ctx.set(second.i.valid, 0)
        assert ctx.get(dut.complete)
        await until(ctx, second.o.head.valid)

    run(dut, bench)


@pytest.mark.parametrize("flit_bytes", [8, 16, 64])
@pytest.mark.parametrize("collectives", ["all-reduce", "all"])
def test_words_of_a_window_go_to_its_context(flit_bytes, collectives):
    """What is staged, what arrives and how each packet is answered, by the map of the windows.

    Anything else than one whole word, behind the doorbell and inside the window, is none.
    """
    config = small(flit_bytes=flit_bytes, payload_bytes=64, contexts=2, collectives=collectives)
    dut = Doorbell(config, port=PORT)
    draw = random.Random(f"{flit_bytes} {collectives}")
    words = len(window_words(config))
    edges = [0, 8, 8 * (words - 1), 8 * words, 8 * words + 8, DOORBELL_SPACING - 8, 4, 12]
    seen, due = [], []

    async def send(ctx):
        for _ in range(400):
            offset = draw.choice([*edges, 8 * draw.randrange(words)])
            context, length = draw.choice([0, 0, 1, 1, 2]), draw.choice([8, 8, 8, 4, 16])
            address = context * DOORBELL_SPACING + offset
            empty, refused, locked = (draw.random() < 0.2 for _ in range(3))
            data = draw.getrandbits(8 * flit_bytes)
            flits = 1 if empty else draw.choice([1, 1, 2])
            value = data >> 8 * (offset % flit_bytes) & (1 << 64) - 1
            inside = context < config.contexts and not empty
            arrives = inside and offset == 0
            word = inside and offset and offset < 8 * words and offset % 8 == 0 and length == 8
            if arrives:
                due.append(("arrive", context, data & 0xFFFF_FFFF))
            if word and not locked:
                due.append(("stage", context, offset // 8, value))
            bad = refused if arrives else locked
            status = Response.SLVERR if bad else Response.OKAY
            due.append(("answer", (status if arrives or word else Response.DECERR).value))
            ctx.set(dut.refused, refused)
            ctx.set(dut.locked, locked)
            for index in range(flits):
                sent = beat(
                    message_class=MessageClass.WRITE_DATA, address=address, length=length,
                    source=PORT, destination=PORT, empty=int(empty), first=int(index == 0),
                    last=int(index == flits - 1), data=data if index == 0 else 0,
                )  # fmt: skip
                ctx.set(dut.i.payload, sent)
                ctx.set(dut.i.valid, 1)
                await until(ctx, dut.i.ready)
                ctx.set(dut.i.valid, 0)
        await ctx.tick().repeat(3)

    async def watch(ctx):
        ctx.set(dut.o.head.ready, 1)
        head = dut.o.head
        async for _, _, arrive, stage, context, epoch, word, value, valid, payload in (
            ctx.tick().sample(
                dut.arrive, dut.stage, dut.context, dut.epoch, dut.word, dut.value, head.valid,
                head.payload,
            )
        ):  # fmt: skip
            # An answer is of the packet before.
            if valid:
                seen.append(("answer", payload.header.status.value))
            if arrive:
                seen.append(("arrive", context, epoch))
            if stage:
                seen.append(("stage", context, word, value))

    run(dut, send, background=[watch], limit=8000)
    assert seen == due
