"""`Port`: accelerator and ordinary traffic go their own ways and share the link."""

import random

import pytest
from amaranth import Module
from amaranth.lib.wiring import connect

from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass
from hdl.transport import channels
from hdl.transport.endpoint import Endpoint
from hdl.transport.link import Link
from hdl.transport.port import Port
from tests.lib.axi import DECERR, AxiMemory, attach
from tests.lib.packets import LinkPeer, Packet, random_header, saturate, send_packets
from tests.lib.simulate import SHAPES, pattern, run, stream_get

STREAMS = {
    "read_data": MessageClass.READ_DATA,
    "write_responses": MessageClass.WRITE_RESPONSE,
    "arrivals": MessageClass.WRITE_DATA,
}


def configuration(flit_bytes, **more):
    return SwitchConfig(
        ranks=2, flit_bytes=flit_bytes, payload_bytes=4 * flit_bytes, wave_bytes=512,
        memory_bytes=4096, link_latency=2, memory_latency=2, **more,
    )  # fmt: skip


def link_peer(config, **more):
    return LinkPeer(
        config,
        to_dut=channels.credits_to_switch(config),
        from_dut=channels.credits_to_rank(config),
        **more,
    )


def packet(config, draw, message_class, inc, flits=None):
    size = {MessageClass.READ_DATA: 4, MessageClass.WRITE_DATA: 4 if not inc else 1}
    most = size.get(message_class, 0)
    count = draw.randint(min(1, most), most) if flits is None else flits
    header = random_header(draw, message_class, inc=int(inc))
    return Packet(header, [draw.getrandbits(config.flit_bits) for _ in range(count)])


@pytest.mark.parametrize("flit_bytes", [8, 16])
@pytest.mark.parametrize("shape", SHAPES)
def test_both_kinds_of_traffic_in_both_directions(flit_bytes, shape):
    """Accelerator packets come out where they belong; each ordinary request has its DECERR."""
    config = configuration(flit_bytes)
    draw = random.Random(f"{flit_bytes} {shape}")
    dut = Port(config)
    peer = link_peer(config, idle=pattern(shape, 1), drain=pattern(shape, 2))
    up = [packet(config, draw, draw.choice(list(STREAMS.values())), True) for _ in range(40)]
    kinds = [MessageClass.READ_REQUEST, MessageClass.WRITE_DATA]
    ordinary = [packet(config, draw, draw.choice(kinds), False) for _ in range(25)]
    everything = up + ordinary
    draw.shuffle(everything)
    peer.send(*everything)
    down = {
        spec: [
            packet(config, draw, spec.message_class, True, min(spec.payload_flits, 3))
            for _ in range(10)
        ]
        for spec in channels.accelerator_sources(config)
    }

    def taker(name):
        due = [p for p in everything if p.inc and p.message_class == STREAMS[name].value]

        async def bench(ctx):
            stream = getattr(dut, name)
            willing = pattern(shape, name) if name == "arrivals" else None
            if willing is None:
                ctx.set(stream.ready, 1)
            count = sum(max(1, len(p.payload)) for p in due)
            got = await stream_get(ctx, stream, count, willing)
            ctx.set(stream.ready, name != "arrivals")
            await ctx.tick().repeat(4)  # the last credit is under way
            assert [beat.data for beat in got if not beat.empty] == [
                word for p in due for word in p.payload
            ]
            assert [beat.header.tag for beat in got if beat.last] == [p.tag for p in due]

        return bench

    def feeder(spec):
        async def bench(ctx):
            await send_packets(ctx, getattr(dut, spec.name), down[spec], pattern(shape, spec.name))

        return bench

    total = sum(map(len, down.values())) + len(ordinary)

    async def wait(ctx):
        while len(peer.received) < total:
            await ctx.tick()
        await ctx.tick().repeat(10)

    run(
        dut,
        *map(taker, STREAMS),
        *map(feeder, down),
        wait,
        background=[peer.bench(dut.rx, dut.tx)],
        limit=6000,
    )
    answers = [p for p in peer.received if not p.inc]
    asked = [p for p in everything if not p.inc]
    for kind, reply in (
        (MessageClass.READ_REQUEST, MessageClass.READ_DATA),
        (MessageClass.WRITE_DATA, MessageClass.WRITE_RESPONSE),
    ):
        got = [p for p in answers if p.message_class == reply.value]
        due = [p for p in asked if p.message_class == kind.value]
        assert [(p.tag, p.destination, p.status) for p in got] == [
            (p.tag, p.source, DECERR) for p in due
        ]
    for spec, sent in down.items():
        same = [s for s in down if s.channel == spec.channel]
        got = [p for p in peer.received if p.channel == spec.channel and p in sent]
        assert got == sent
        assert sum(p.channel == spec.channel for p in peer.received) == 10 * len(same)
    assert peer.credits == peer.initial


@pytest.mark.parametrize(("link_share", "low", "high"), [("flits", 0.48, 0.52), ("packets", 0, 1)])
def test_at_saturation_both_have_their_share_of_the_link(link_share, low, high):
    """Ordinary requests as fast as they fit, and accelerator writes that always wait."""
    config = configuration(16, link_share=link_share)
    draw = random.Random(0)
    dut = Port(config)
    peer = link_peer(config)
    requests = [packet(config, draw, MessageClass.READ_REQUEST, False) for _ in range(600)]
    peer.send(*requests)
    writes = [packet(config, draw, MessageClass.WRITE_DATA, True, 4) for _ in range(200)]
    sent = {0: 0, 1: 0}

    async def count(ctx):
        await ctx.tick().repeat(40)
        for _ in range(400):
            _, _, valid, channel = await ctx.tick().sample(dut.tx.valid, dut.tx.flit.channel)
            if valid:
                sent[channel // 4] += 1

    run(dut, count, background=[peer.bench(dut.rx, dut.tx), *saturate(dut.writes, writes)])
    part = sent[1] / sum(sent.values())
    assert sum(sent.values()) == 400, "the link was idle with packets waiting"
    if link_share == "packets":
        low, high = 5 / 6 - 0.02, 5 / 6 + 0.02  # one packet of five flits for one of one
    assert low <= part <= high


@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_ordinary_answers_without_credits_hold_up_no_accelerator_packet(flit_bytes):
    """The rank returns no ordinary credits: requests back up, the accelerator goes on."""
    config = configuration(flit_bytes)
    draw = random.Random(0)
    dut = Port(config)

    class Stuck(LinkPeer):
        def _returns(self):
            bits = super()._returns()
            for channel in range(4):
                if bits >> channel & 1:
                    self.held[channel] += 1
            return bits & 0xF0

    peer = Stuck(
        config,
        to_dut=channels.credits_to_switch(config),
        from_dut=channels.credits_to_rank(config),
    )
    kinds = [MessageClass.READ_REQUEST, MessageClass.WRITE_DATA]
    peer.send(*[packet(config, draw, draw.choice(kinds), False) for _ in range(60)])
    data = [packet(config, draw, MessageClass.READ_DATA, True, 4) for _ in range(30)]
    peer.send(*data)
    writes = [packet(config, draw, MessageClass.WRITE_DATA, True, 4) for _ in range(30)]

    async def feed(ctx):
        await send_packets(ctx, dut.writes, writes)

    async def take(ctx):
        ctx.set(dut.read_data.ready, 1)
        got = await stream_get(ctx, dut.read_data, 120)
        assert [beat.header.tag for beat in got if beat.last] == [p.tag for p in data]

    async def wait(ctx):
        while sum(p.inc for p in peer.received) < len(writes):
            await ctx.tick()

    run(dut, feed, take, wait, background=[peer.bench(dut.rx, dut.tx)])
    assert peer.outbox[channels.CORE_READ_REQUEST], "ordinary traffic was not stuck"


@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_latency(flit_bytes):
    """Link to accelerator none (arrivals one cycle), head to link two."""
    config = configuration(flit_bytes)
    draw = random.Random(0)
    dut = Port(config)
    header = config.header_flits

    async def come(ctx, stream, message_class, latency):
        flits = packet(config, draw, message_class, True, 1).flits(config)
        for cycle in range(header + 1 + latency):
            ctx.set(dut.rx.valid, cycle < len(flits))
            if cycle < len(flits):
                ctx.set(dut.rx.flit, flits[cycle])
            assert ctx.get(stream.valid) == (cycle == header + latency)
            await ctx.tick()
        ctx.set(dut.rx.valid, 0)
        await ctx.tick()

    async def bench(ctx):
        ctx.set(dut.read_data.ready, 1)
        ctx.set(dut.arrivals.ready, 1)
        await come(ctx, dut.read_data, MessageClass.READ_DATA, 0)
        await come(ctx, dut.arrivals, MessageClass.WRITE_DATA, 1)
        ctx.set(dut.requests.head.valid, 1)
        for valid in (0, 0, 1):
            assert ctx.get(dut.tx.valid) == valid
            await ctx.tick()

    run(dut, bench)


@pytest.mark.parametrize("preset", ["tiny", "demo", "arty"])
def test_full_rate_over_the_longest_link_that_is_built(preset):
    """Port, links and endpoint together: credits cover the round trip, there and back.

    Each read request and write packet is offered without a pause. The busier direction, to the
    rank, is never idle once the first credits are under way.
    """
    config = SwitchConfig.preset(preset, ranks=2)
    latency = config.link_latency_max
    draw = random.Random(0)
    top = Module()
    top.submodules.port = port = Port(config)
    top.submodules.endpoint = endpoint = Endpoint(config, rank=0)
    top.submodules.up, top.submodules.down = up, down = Link(config), Link(config)
    for source, sink in ((port.tx, down.i), (down.o, endpoint.rx)):
        connect(top, source, sink)
    for source, sink in ((endpoint.tx, up.i), (up.o, port.rx)):
        connect(top, source, sink)
    memory = AxiMemory(config.flit_bytes, contents=lambda n: n, read_latency=config.memory_latency)
    packets = 6 * latency // config.packet_flits + 20
    payload = config.payload_bytes
    requests, writes = [], []
    for n in range(packets):
        fields = dict(address=n * payload, length=payload)
        requests.append(Packet(random_header(draw, MessageClass.READ_REQUEST, **fields)))
        fields["address"] += 1 << 24
        words = [draw.getrandbits(config.flit_bits) for _ in range(config.payload_flits)]
        writes.append(Packet(random_header(draw, MessageClass.WRITE_DATA, **fields), words))
    busy = []

    async def set_up(ctx):
        for stream in (port.read_data, port.write_responses, port.arrivals):
            ctx.set(stream.ready, 1)
        for link in (up, down):
            ctx.set(link.latency, latency)

    async def ask(ctx):
        await set_up(ctx)
        await send_packets(ctx, port.requests, requests)

    async def write(ctx):
        await send_packets(ctx, port.writes, writes)

    async def count(ctx):
        async for _, _, valid in ctx.tick().sample(port.tx.valid):
            busy.append(valid)

    run(top, ask, write, background=[attach(memory, endpoint.axi), count], limit=6000)
    started = busy.index(1)
    # The last packet's source has ended: what lies before had both waiting.
    settled = busy[started : len(busy) - config.packet_flits]
    assert len(settled) > 4 * latency
    assert sum(settled) / len(settled) >= 0.99
