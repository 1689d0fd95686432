"""`Route`: each packet by the port that its address or its requester names, or turned away."""

import random

import pytest

from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass
from hdl.transport.route import Route
from tests.lib.packets import Packet, beats, header_fields, random_header
from tests.lib.simulate import SHAPES, pattern, run, stream_put

#: Three ranks, and memories that do not fill their windows.
CONFIG = SwitchConfig.preset(
    "tiny", ranks=3, core="forward", memory_bytes=12 << 10, window_bytes=16 << 10
)
WINDOW, MEMORY, FLIT, PAYLOAD = 16 << 10, 12 << 10, 8, 32
READ, WRITE = MessageClass.READ_REQUEST, MessageClass.WRITE_DATA


def request(message_class, address, length, flits=None, **fields):
    """A request; its payload is what the header says, or `flits`."""
    if flits is None:
        flits = -(-(address % FLIT + length) // FLIT) if length else 0
    count = flits if message_class == WRITE else 0
    draw = random.Random(address)
    header = random_header(draw, message_class, inc=0, address=address, length=length, **fields)
    return Packet(header, [draw.getrandbits(64) for _ in range(count)])


def mapped(address, length):
    """Rank and address there, or None: written down from the map, not from the hardware."""
    rank, local = divmod(address, WINDOW)
    if rank >= 3 or local >= MEMORY or local + length > MEMORY:
        return None
    flits = -(-(local % FLIT + length) // FLIT) if length else 0
    return (rank, local) if flits <= PAYLOAD // FLIT else None


def route(message_class, packets, shape="always"):
    """What goes on, as (target, header, payload), and what is refused, as headers."""
    dut = Route(CONFIG, message_class=message_class)
    onward, refused, dropped = [], [], []
    is_answer = message_class in (MessageClass.READ_DATA, MessageClass.WRITE_RESPONSE)
    # A packet that is dropped shows once, others with each beat.
    total = sum(
        1 if is_answer and packet.destination >= 3 else max(1, len(packet.payload))
        for packet in packets
    )

    async def ask(ctx):
        willing = pattern(shape, 1)
        for packet in packets:
            ctx.set(dut.flits, len(packet.payload))
            await stream_put(ctx, dut.i, beats(packet), willing)

    async def take(ctx):
        # Who takes packets and who takes refusals stall each at a time of their own.
        willing, resigned = pattern(shape, 2), pattern(shape, 3)
        seen = 0
        while seen < total:
            ready, ready_to_refuse = next(willing), next(resigned)
            ctx.set(dut.o.ready, ready)
            ctx.set(dut.refused.ready, ready_to_refuse)
            _, _, goes, beat, turned, back, gone = await ctx.tick().sample(
                dut.o.valid, dut.o.payload, dut.refused.valid, dut.refused.payload, dut.dropped
            )
            assert goes + turned + gone <= 1
            seen += (goes and ready) or (turned and ready_to_refuse)
            if goes and ready:
                onward.append(beat)
            if turned and ready_to_refuse:
                refused.append(back)
            if gone:
                dropped.append(1)
                seen += 1

    run(dut, ask, take, limit=8000)
    return onward, refused, len(dropped)


def check(message_class, packets, shape="always"):
    onward, refused, _ = route(message_class, packets, shape)
    due = [(packet, mapped(packet.address, packet.length)) for packet in packets]
    wanted = [
        (1 << where[0], where[1], beat["data"], beat["last"])
        for packet, where in due
        if where
        for beat in beats(packet)
    ]
    assert [
        (beat.target, beat.beat.header.address, beat.beat.data, beat.beat.last) for beat in onward
    ] == wanted
    tags = [packet.tag for packet, where in due if where for _ in beats(packet)]
    assert [beat.beat.header.tag for beat in onward] == tags
    assert [beat.header.tag for beat in refused if beat.last] == [
        packet.tag for packet, where in due if not where
    ]


@pytest.mark.parametrize("message_class", [READ, WRITE])
@pytest.mark.parametrize("shape", SHAPES)
def test_requests_go_by_their_address(message_class, shape):
    draw = random.Random(f"{message_class} {shape}")
    packets = []
    for _ in range(60):
        length = draw.randint(1, PAYLOAD)
        address = draw.randrange(5 * WINDOW) if draw.random() < 0.7 else draw.getrandbits(48)
        address -= address % FLIT if draw.random() < 0.5 else 0
        if message_class == WRITE:  # no packet has more payload than a packet holds
            length = min(length, PAYLOAD - address % FLIT)
        packets.append(request(message_class, address, length))
    check(message_class, packets, shape)


@pytest.mark.parametrize("message_class", [READ, WRITE])
def test_edges_of_the_map(message_class):
    """First and last byte of each window, over each edge, and behind the last rank."""
    packets = [
        request(message_class, base + offset, length)
        for base in (0, WINDOW, 2 * WINDOW, 3 * WINDOW, 1 << 47)
        for offset, length in (
            (0, 8), (MEMORY - 8, 8), (MEMORY - 1, 1), (MEMORY - 8, 9), (MEMORY - 1, 2),
            (MEMORY, 1), (MEMORY, 0), (WINDOW - 8, 8), (WINDOW - 8, 16), (8, 0),
        )
    ]  # fmt: skip
    check(message_class, packets)


def test_a_read_has_one_packet_as_its_answer_or_is_refused():
    """Lengths around a payload, at every offset in a flit, and lengths that would wrap."""
    lengths = [1, 24, 25, 31, 32, 33, 40, 256, (1 << 17) - 1]
    packets = [request(READ, offset, length) for offset in range(8) for length in lengths]
    check(READ, packets)


def test_a_write_whose_payload_is_not_what_its_header_says_is_refused():
    """Too few flits, too many, none; the packets behind it go on."""
    good = request(WRITE, 64, 32)
    bad = [request(WRITE, 64, 32, flits) for flits in (0, 1, 3)]
    bad += [request(WRITE, 64, 0, 1), request(WRITE, 64, 8, 4), request(WRITE, 64, 40, 5)]
    onward, refused, _ = route(WRITE, [good, *bad, good])
    assert len(onward) == 8
    assert sum(beat.last for beat in refused) == len(bad)


@pytest.mark.parametrize("message_class", [MessageClass.READ_DATA, MessageClass.WRITE_RESPONSE])
@pytest.mark.parametrize("shape", SHAPES)
def test_answers_go_to_their_requester(message_class, shape):
    """By the header's destination; to one that is none they are dropped."""
    draw = random.Random(f"{message_class} {shape}")
    flits = 4 if message_class == MessageClass.READ_DATA else 0
    packets = [
        Packet(
            random_header(draw, message_class, inc=0, address=draw.getrandbits(48)),
            [draw.getrandbits(64) for _ in range(draw.randint(0, flits))],
        )
        for _ in range(60)
    ]
    onward, _, dropped = route(message_class, packets, shape)
    here = [packet for packet in packets if packet.destination < 3]
    assert [(beat.target, beat.beat.header.tag, beat.beat.data) for beat in onward] == [
        (1 << packet.destination, packet.tag, beat["data"])
        for packet in here
        for beat in beats(packet)
    ]
    assert dropped
    fields = [header_fields(beat.beat.header) for beat in onward if beat.beat.last]
    assert fields == [packet.header for packet in here]


@pytest.mark.parametrize("message_class", MessageClass)
def test_a_rank_whose_link_is_not_up_is_as_none(message_class):
    """From the next packet on: one that has begun goes to its end, whole, either way."""
    dut = Route(CONFIG.replace(contexts=2), message_class=message_class)
    fields = dict(address=WINDOW + 64, length=32, destination=1)
    flits = 4 if message_class in (WRITE, MessageClass.READ_DATA) else 0
    packet = Packet(
        random_header(random.Random(1), message_class, inc=0, **fields), list(range(flits))
    )
    went, turned = [], []

    async def give(ctx, falls):
        ctx.set(dut.flits, flits)
        for number, beat in enumerate(beats(packet)):
            await stream_put(ctx, dut.i, [beat])
            if number == 0:
                ctx.set(dut.reachable, 0b101 if falls else 0b111)

    async def bench(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.refused.ready, 1)
        await give(ctx, falls=True)
        await give(ctx, falls=False)
        await give(ctx, falls=True)
        await ctx.tick().repeat(3)

    async def watch(ctx):
        while True:
            seen = dut.o.valid, dut.o.payload.beat.last, dut.refused.valid, dut.dropped
            _, _, goes, last, refused, dropped = await ctx.tick().sample(*seen)
            if goes:
                went.append(last)
            if refused or dropped:
                turned.append(1)

    run(dut, bench, background=[watch])
    count = max(1, flits)
    assert went == ([0] * (count - 1) + [1]) * 2
    is_request = message_class in (READ, WRITE)
    assert len(turned) == (count if is_request else 1)


@pytest.mark.parametrize("message_class", [READ, WRITE, MessageClass.READ_DATA])
@pytest.mark.parametrize("seed", range(3))
def test_a_port_whose_link_is_down_is_as_none(message_class, seed):
    """As a packet's first flit finds it, whatever comes while the packet is under way."""
    config = CONFIG.replace(contexts=2)
    dut = Route(config, message_class=message_class)
    draw = random.Random(f"{message_class} {seed}")
    is_request = message_class in (READ, WRITE)
    seen, due = [], []

    async def ask(ctx):
        for number in range(80):
            to = draw.randrange(3)
            if is_request:
                packet = request(message_class, to * WINDOW, PAYLOAD)
            else:
                header = random_header(draw, message_class, inc=0, destination=to)
                packet = Packet(header, [draw.getrandbits(64) for _ in range(3)])
            packet.header["tag"] = number
            ctx.set(dut.flits, len(packet.payload))
            for index, each in enumerate(beats(packet)):
                reachable = draw.getrandbits(3)
                if index == 0:
                    goes = reachable >> to & 1
                    due.extend([(number, 1 << to if goes else 0)] * max(1, len(packet.payload)))
                ctx.set(dut.reachable, reachable)
                await stream_put(ctx, dut.i, [each])
        await ctx.tick().repeat(3)

    async def take(ctx):
        ctx.set(dut.o.ready, 1)
        ctx.set(dut.refused.ready, 1)
        async for _, _, goes, beat, turned, back in ctx.tick().sample(
            dut.o.valid, dut.o.payload, dut.refused.valid, dut.refused.payload
        ):
            if goes:
                seen.append((beat.beat.header.tag, beat.target))
            if turned:
                seen.append((back.header.tag, 0))

    run(dut, ask, background=[take], limit=4000)
    # Of an answer that is dropped nothing is seen.
    assert seen == [each for each in due if is_request or each[1]]
    assert {target for _, target in due} == {0, 1, 2, 4}


@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("message_class", [WRITE, MessageClass.READ_DATA])
def test_a_packet_longer_than_any_may_be_goes_nowhere(message_class, contexts):
    """One that fills a payload goes on, one of a flit more does not."""
    dut = Route(CONFIG.replace(contexts=contexts), message_class=message_class)
    most = PAYLOAD // FLIT

    async def bench(ctx):
        for flits in (most, most + 1):
            header = random_header(random.Random(1), message_class, inc=0, destination=1,
                                   address=WINDOW, length=PAYLOAD)  # fmt: skip
            (first, *_) = beats(Packet(header, [0] * flits))
            ctx.set(dut.flits, flits)
            ctx.set(dut.o.ready, 1)
            ctx.set(dut.refused.ready, 1)
            await stream_put(ctx, dut.i, [first])
            assert ctx.get(dut.o.valid) == (flits == most)

    run(dut, bench)
