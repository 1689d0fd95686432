"""`Core`: whole packets from any port to any, by class, in equal shares of flits."""

import random

import pytest

from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass
from hdl.transport.core import Core, CorePlane
from tests.lib.packets import Packet, beats, collect_packets, random_header
from tests.lib.simulate import SHAPES, pattern, run, stream_put, until

PAYLOAD_FLITS = 4
CLASSES = Core.CLASSES


def configuration(ranks=3, flit_bytes=8):
    return SwitchConfig(
        ranks=ranks, flit_bytes=flit_bytes, payload_bytes=PAYLOAD_FLITS * flit_bytes,
        wave_bytes=512, memory_bytes=4096, link_latency=2, memory_latency=2, core="forward",
    )  # fmt: skip


def packet(draw, name, flits=None):
    has_payload = name in ("read_data", "writes")
    if flits is None:
        flits = draw.randint(0 if name == "read_data" else 1, PAYLOAD_FLITS)
    header = random_header(draw, CLASSES[name], inc=0, address=draw.getrandbits(40))
    count = flits if has_payload else 0
    responses = [draw.choice([0, 2, 3]) for _ in range(count)] if name == "read_data" else []
    return Packet(header, [draw.getrandbits(64) for _ in range(count)], responses)


def routed(packet, target):
    """Beats with their way, as `Route` gives them."""
    return [
        {"beat": beat, "flits": len(packet.payload), "target": 1 << target}
        for beat in beats(packet)
    ]


def sent_by(packet, source, destination):
    """As it comes out: from and to the ports that it really came and went by."""
    ends = {"source": source, "destination": destination}
    return Packet(packet.header | ends, packet.payload, packet.responses)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("writes", shape) for shape in SHAPES]
    + [("requests", "half"), ("read_data", "bursts"), ("write_responses", "quarter")],
)
def test_every_pair_of_ports(name, shape):
    """Each packet whole, where it belongs, as it was, in order by pair; none twice."""
    config = configuration()
    ranks = range(config.ranks)
    draw = random.Random(f"{name} {shape}")
    dut = CorePlane(config, message_class=CLASSES[name])
    traffic = {i: [(packet(draw, name), draw.randrange(config.ranks)) for _ in range(20)]
               for i in ranks}  # fmt: skip
    got = {}

    def feed(port):
        async def bench(ctx):
            stream = dut.i[port]
            for each, target in traffic[port]:
                await stream_put(ctx, stream, routed(each, target), pattern(shape, port))

        return bench

    def take(port):
        due = sum(target == port for sent in traffic.values() for _, target in sent)

        async def bench(ctx):
            got[port] = await collect_packets(
                ctx, dut.o[port], due,
                header_flits=config.header_flits, willing=pattern(shape, f"take {port}"),
            )  # fmt: skip
            await ctx.tick().repeat(4)
            assert not ctx.get(dut.o[port].head.valid)

        return bench

    run(dut, *map(feed, ranks), *map(take, ranks), limit=6000)
    for port in ranks:
        for source in ranks:
            wanted = [
                sent_by(each, source, port) for each, target in traffic[source] if target == port
            ]
            assert [p for p in got[port] if p.source == source] == wanted


@pytest.mark.parametrize("ranks", range(2, 9))
def test_vllm_6385_any_number_of_ranks(ranks):
    """World sizes of 3, 5, 6 and 7 were not supported: one write over every pair at once."""
    config = configuration(ranks)
    draw = random.Random(ranks)
    dut = CorePlane(config, message_class=MessageClass.WRITE_DATA)
    ports = range(ranks)
    traffic = {i: [(packet(draw, "writes"), t) for t in ports] for i in ports}
    got = {}

    def feed(port):
        async def bench(ctx):
            for each, target in traffic[port]:
                await stream_put(ctx, dut.i[port], routed(each, target))

        return bench

    def take(port):
        async def bench(ctx):
            got[port] = await collect_packets(
                ctx, dut.o[port], ranks, header_flits=config.header_flits
            )

        return bench

    run(dut, *map(feed, ports), *map(take, ports))
    for port in ports:
        assert sorted(p.source for p in got[port]) == list(ports)
        for each in got[port]:
            assert each == sent_by(traffic[each.source][port][0], each.source, port)


def saturated(name, sizes, port, cycles=500):
    """Flits by input that leave `port`, where input i offers packets of sizes[i] without a pause.

    The output is taken from as a link would: header and payload, a flit a cycle.
    """
    config = configuration(len(sizes))
    draw = random.Random(repr(sizes))
    dut = CorePlane(config, message_class=CLASSES[name])
    sent = [0] * len(sizes)
    busy = 0

    def feed(index):
        async def bench(ctx):
            stream = dut.i[index]
            while True:
                await stream_put(ctx, stream, routed(packet(draw, name, sizes[index]), port))

        return bench

    async def take(ctx):
        nonlocal busy
        output = dut.o[port]
        spent = 0
        while spent < cycles:
            waited = 0
            while not ctx.get(output.head.valid):
                await ctx.tick()
                waited += 1
            head = ctx.get(output.head.payload)
            ctx.set(output.head.ready, 1)
            await ctx.tick()
            ctx.set(output.head.ready, 0)
            # The head is taken with the header's first flit.
            for _ in range(config.header_flits - 1):
                await ctx.tick()
            ctx.set(output.payload.ready, 1)
            for _ in range(head.flits):
                _, _, valid = await ctx.tick().sample(output.payload.valid)
                assert valid, "a packet that has started had to wait"
            ctx.set(output.payload.ready, 0)
            flits = config.header_flits + head.flits
            sent[head.header.source] += flits
            busy += flits
            spent += flits + waited
        assert busy > 0.98 * spent, "the output was idle with packets waiting"

    run(dut, take, background=[feed(index) for index in range(len(sizes))], limit=3 * cycles)
    return sent


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("writes", (4, 4)), ("writes", (1, 4)), ("writes", (1, 2, 4)), ("writes", (4, 1, 1, 1)),
        ("read_data", (0, 4)), ("requests", (0, 0, 0)), ("write_responses", (0, 0)),
    ],
)  # fmt: skip
def test_inputs_share_an_output_by_flits(name, sizes):
    """Of every output: full rate, equal flits whatever the packets' sizes, within a few packets."""
    for port in range(len(sizes)):
        sent = saturated(name, sizes, port)
        mean = sum(sent) / len(sent)
        longest = PAYLOAD_FLITS + 2
        assert all(abs(flits - mean) <= 3 * longest for flits in sent), (port, sent)


def test_a_port_that_takes_nothing_holds_up_no_other():
    """Input 0 sends to output 1, which stands still; input 2 goes on to outputs 0 and 2."""
    config = configuration()
    draw = random.Random(0)
    dut = CorePlane(config, message_class=MessageClass.WRITE_DATA)

    async def stuck(ctx):
        while True:
            await stream_put(ctx, dut.i[0], routed(packet(draw, "writes"), 1))

    async def feed(ctx):
        for turn in range(40):
            await stream_put(ctx, dut.i[2], routed(packet(draw, "writes"), 2 * (turn % 2)))

    def take(port):
        async def bench(ctx):
            await collect_packets(ctx, dut.o[port], 20, header_flits=2)

        return bench

    run(dut, feed, take(0), take(2), background=[stuck])


@pytest.mark.parametrize("name", ["writes", "read_data"])
def test_every_output_has_room_for_two_of_the_longest_packets(name):
    """One leaves while the next comes: two are taken where nobody takes any, and no third."""
    config = configuration()
    draw = random.Random(0)
    dut = CorePlane(config, message_class=CLASSES[name])
    taken = [0] * config.ranks

    def feed(port):
        async def bench(ctx):
            for _ in range(3):
                target = (port + 1) % config.ranks
                await stream_put(
                    ctx, dut.i[port], routed(packet(draw, name, PAYLOAD_FLITS), target)
                )

        return bench

    async def count(ctx):
        for _ in range(8 * PAYLOAD_FLITS):
            _, _, *ends = await ctx.tick().sample(*(s for i in dut.i for s in (i.valid, i.ready)))
            for port in range(config.ranks):
                taken[port] += ends[2 * port] & ends[2 * port + 1]

    run(dut, count, background=[feed(port) for port in range(config.ranks)])
    assert taken == [2 * PAYLOAD_FLITS] * config.ranks


def test_a_class_that_stands_still_holds_up_no_other():
    """Nobody takes writes or requests anywhere; answers go on."""
    config = configuration()
    draw = random.Random(0)
    dut = Core(config)

    def stuck(name, port):
        async def bench(ctx):
            while True:
                await stream_put(ctx, getattr(dut, name)[port], routed(packet(draw, name), 1))

        return bench

    def feed(name):
        async def bench(ctx):
            for _ in range(20):
                await stream_put(ctx, getattr(dut, name)[0], routed(packet(draw, name), 1))

        return bench

    def take(name):
        async def bench(ctx):
            await collect_packets(ctx, getattr(dut, f"core_{name}")[1], 20, header_flits=2)

        return bench

    answers = ("read_data", "write_responses")
    run(
        dut,
        *map(feed, answers),
        *map(take, answers),
        background=[stuck(name, port) for name in ("requests", "writes") for port in range(3)],
    )


def test_latency_from_input_to_head():
    """One cycle."""
    dut = CorePlane(configuration(), message_class=MessageClass.READ_REQUEST)
    each = packet(random.Random(0), "requests")

    async def bench(ctx):
        ctx.set(dut.i[0].payload, routed(each, 2)[0])
        ctx.set(dut.i[0].valid, 1)
        await until(ctx, dut.i[0].ready)
        assert ctx.get(dut.o[2].head.valid)

    run(dut, bench)


def test_a_class_is_what_the_plane_says():
    """A header that claims another class, or to be the accelerator's, is put right."""
    dut = CorePlane(configuration(), message_class=MessageClass.READ_REQUEST)
    draw = random.Random(0)
    lie = random_header(draw, MessageClass.WRITE_RESPONSE, inc=1)
    each = Packet(lie)

    async def bench(ctx):
        await stream_put(ctx, dut.i[1], routed(each, 0))
        (got,) = await collect_packets(ctx, dut.o[0], 1, header_flits=2)
        truth = {"message_class": MessageClass.READ_REQUEST.value, "inc": 0}
        assert got == sent_by(Packet(lie | truth), 1, 0)

    run(dut, bench)
