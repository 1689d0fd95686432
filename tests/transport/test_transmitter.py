# amaranth: UnusedElaboratable=no
"""`Transmitter`: credits first, packets whole, nothing lost between them, two cycles of latency."""

import random
import re

import pytest

from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass
from hdl.transport import channels
from hdl.transport.transmitter import CreditCounter, SourceSpec, Transmitter
from tests.lib.packets import LinkPeer, Packet, random_header, saturate, send_packets
from tests.lib.simulate import SHAPES, pattern, run

FLITS = (8, 16, 32, 64)
SOURCES = [
    SourceSpec("requests", MessageClass.READ_REQUEST),
    SourceSpec("writes", MessageClass.WRITE_DATA, payload_flits=4),
    SourceSpec("ordinary", MessageClass.READ_DATA, inc=False, payload_flits=4),
]


def configuration(flit_bytes, **more):
    return SwitchConfig(
        ranks=2, flit_bytes=flit_bytes, payload_bytes=4 * flit_bytes, wave_bytes=512,
        memory_bytes=4096, **more,
    )  # fmt: skip


def room(config, packets=1):
    """Room for so many of the longest packets in every channel."""
    return {spec.channel: packets * config.packet_flits for spec in SOURCES}


def random_packets(config, spec, count, draw, sizes=(0, 4)):
    packets = []
    for _ in range(count):
        flits = draw.randint(*sizes) if spec.has_payload else 0
        header = random_header(draw, spec.message_class, inc=int(spec.inc))
        payload = [draw.getrandbits(config.flit_bits) for _ in range(flits)]
        packets.append(Packet(header, payload, [draw.choice([0, 2, 3]) for _ in payload]))
    return packets


def connect_peer(dut, peer):
    """The peer at `link`, with credits back on `returned` and none for the other direction."""

    async def bench(ctx):
        link = dut.link
        async for _, _, valid, flit in ctx.tick().sample(link.valid, link.flit):
            if valid:
                names = ("channel", "first", "last", "response", "data")
                fields = {name: getattr(flit, name) for name in names}
                peer._receive(fields | {"response": fields["response"].value})
            ctx.set(dut.returned, peer._returns())
            peer.now += 1

    return bench


def test_credits_must_cover_the_longest_packet():
    config = configuration(16)
    with pytest.raises(
        ValueError,
        match=re.escape("credits: channel 6 of source 'writes' needs at least 5, not 4"),
    ):
        Transmitter(config, SOURCES, room(config) | {6: 4})


@pytest.mark.parametrize("slices", ["none", "all"])
@pytest.mark.parametrize("flit_bytes", FLITS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_packet_arrives_whole_and_in_order(flit_bytes, shape, slices):
    """Any size, any idle, any speed of credits; the peer checks room and that none are mixed."""
    config = configuration(flit_bytes, register_slices=slices)
    draw = random.Random(f"{flit_bytes} {shape}")
    dut = Transmitter(config, SOURCES, room(config, 2))
    peer = LinkPeer(config, to_dut={}, from_dut=room(config, 2), drain=pattern(shape, "drain"))
    packets = {spec: random_packets(config, spec, 12, draw) for spec in SOURCES}

    def feeder(spec):
        async def bench(ctx):
            willing = pattern(shape, spec.name)
            await send_packets(ctx, getattr(dut, spec.name), packets[spec], willing)

        return bench

    async def wait(ctx):
        while len(peer.received) < 12 * len(SOURCES):
            await ctx.tick()

    run(dut, *map(feeder, SOURCES), wait, background=[connect_peer(dut, peer)])
    for spec in SOURCES:
        assert [p for p in peer.received if p.channel == spec.channel] == packets[spec]


@pytest.mark.parametrize("flit_bytes", FLITS)
def test_a_head_is_on_the_link_two_cycles_later_and_packets_touch(flit_bytes):
    config = configuration(flit_bytes)
    draw = random.Random(flit_bytes)
    spec = SOURCES[1]
    sizes = [4, 1, 3, 2, 4, 1, 3]
    packets = [p for s in sizes for p in random_packets(config, spec, 1, draw, (s, s))]
    dut = Transmitter(config, [spec], {spec.channel: 100})

    # Payload stands ready while the next head waits, as behind a queue of each.
    heads, flits = iter(packets), iter([d for p in packets for d in p.payload])
    seen = []

    async def bench(ctx):
        def offer(stream, value):
            ctx.set(stream.valid, value is not None)
            return value

        def head():
            packet = offer(dut.writes.head, next(heads, None))
            if packet:
                payload = {"header": packet.header, "flits": len(packet.payload)}
                ctx.set(dut.writes.head.payload, payload)

        def data():
            word = offer(dut.writes.payload, next(flits, None))
            if word is not None:
                ctx.set(dut.writes.payload.payload.data, word)

        head(), data()
        total = sum(config.header_flits + size for size in sizes)
        for cycle in range(total + 4):
            next_head, next_data = ctx.get(dut.writes.head.ready), ctx.get(dut.writes.payload.ready)
            valid = ctx.get(dut.link.valid)
            assert valid == (2 <= cycle <= total + 1), f"a gap at cycle {cycle}"
            if valid:
                seen.append(ctx.get(dut.link.flit.data))
            await ctx.tick()
            if next_head:
                head()
            if next_data:
                data()

    run(dut, bench)
    assert seen == [flit["data"] for p in packets for flit in p.flits(config)]


@pytest.mark.parametrize("flit_bytes", [8, 16])
@pytest.mark.parametrize("size", [0, 1, 4])
def test_a_packet_starts_only_with_credits_for_the_longest(flit_bytes, size):
    """One credit short it waits, and says so; with the last one it goes."""
    config = configuration(flit_bytes)
    spec = SOURCES[1]
    first, second = random_packets(config, spec, 2, random.Random(0), (4, 4))
    second.payload = second.payload[:size]
    second.responses = second.responses[:size]
    spare = 2
    dut = Transmitter(config, [spec], {spec.channel: config.packet_flits + spare})

    async def feed(ctx):
        await send_packets(ctx, dut.writes, [first, second])

    async def bench(ctx):
        while not ctx.get(dut.link.valid & dut.link.flit.last):
            await ctx.tick()
        await ctx.tick()
        credits = spare
        while credits < config.packet_flits:
            await ctx.tick().repeat(3)
            assert not ctx.get(dut.link.valid)
            assert ctx.get(dut.starved)
            ctx.set(dut.returned, 1 << spec.channel)
            await ctx.tick()
            ctx.set(dut.returned, 0)
            credits += 1
        assert not ctx.get(dut.starved)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.link.valid)

    run(dut, feed, bench)


@pytest.mark.parametrize("slices", ["none", "all"])
def test_a_write_that_may_be_dropped_is_not_taken_without_credits(slices):
    """Where contexts outlive failures a result stays where it can be dropped until it goes: also
    with register slices, which take a head before there are credits for it.
    """
    config = configuration(8, contexts=2, register_slices=slices)
    sources = channels.accelerator_sources(config)
    dut = Transmitter(config, sources, channels.credits_to_rank(config))
    spec = next(spec for spec in sources if spec.name == "writes")
    fit = channels.credits_to_rank(config)[spec.channel] // config.packet_flits
    packets = random_packets(config, spec, fit + 1, random.Random(0), (4, 4))
    heads = []

    async def watch(ctx):
        head = dut.writes.head
        async for *_, valid, ready in ctx.tick().sample(head.valid, head.ready):
            if valid and ready:
                heads.append(1)

    async def feed(ctx):
        await send_packets(ctx, dut.writes, packets)

    async def bench(ctx):
        await ctx.tick().repeat(40 + 2 * fit * config.packet_flits)
        assert len(heads) == fit
        ctx.set(dut.returned, 1 << spec.channel)
        await ctx.tick().repeat(config.packet_flits + 4)
        assert len(heads) == fit + 1

    run(dut, bench, background=[feed, watch])


@pytest.mark.parametrize("flit_bytes", FLITS)
def test_a_packet_without_payload_among_others(flit_bytes):
    """Of a source that has payload as a rule: whole and in order, at most a cycle lost each."""
    config = configuration(flit_bytes)
    spec = SOURCES[1]
    sizes = [4, 0, 0, 1, 0, 4]
    packets = [p for s in sizes for p in random_packets(config, spec, 1, random.Random(s), (s, s))]
    dut = Transmitter(config, [spec], {spec.channel: 100})
    peer = LinkPeer(config, to_dut={}, from_dut={spec.channel: 100})

    async def feed(ctx):
        await send_packets(ctx, dut.writes, packets)
        while len(peer.received) < len(packets):
            await ctx.tick()

    run(dut, feed, background=[connect_peer(dut, peer)])
    assert peer.received == packets


def test_a_channel_without_credits_holds_up_no_other():
    config = configuration(16)
    draw = random.Random(3)
    dut = Transmitter(config, SOURCES, room(config))
    blocked, free = SOURCES[1], SOURCES[2]
    sent = []

    async def feed_blocked(ctx):
        await send_packets(ctx, dut.writes, random_packets(config, blocked, 2, draw, (4, 4)))

    async def feed_free(ctx):
        await send_packets(ctx, dut.ordinary, random_packets(config, free, 6, draw, (4, 4)))

    async def bench(ctx):
        link = dut.link
        async for _, _, valid, flit in ctx.tick().sample(link.valid, link.flit):
            returned = 0
            if valid:
                sent.append(flit.channel)
                returned = (1 << flit.channel) if flit.channel == free.channel else 0
            ctx.set(dut.returned, returned)

    run(dut, feed_free, background=[bench, feed_blocked])
    assert sent.count(free.channel) >= 6 * 5 - 1
    assert sent.count(blocked.channel) == 5


@pytest.mark.parametrize("initial", [1, 5, 8])
def test_credits_are_conserved(initial):
    """What is spent comes back, and both in one cycle cancel."""
    dut = CreditCounter(initial, longest=initial)
    draw = random.Random(initial)

    async def bench(ctx):
        available, out = initial, 0
        for _ in range(300):
            assert ctx.get(dut.available) == available
            spend = draw.randint(0, available)
            returned = bool(out) and draw.random() < 0.7
            ctx.set(dut.spend, spend)
            ctx.set(dut.returned, returned)
            await ctx.tick()
            available += returned - spend
            out += spend - returned

    run(dut, bench)


@pytest.mark.parametrize("flit_bytes", [8, 32])
def test_payload_may_pause_inside_a_packet_but_nobody_comes_between(flit_bytes):
    config = configuration(flit_bytes)
    draw = random.Random(1)
    dut = Transmitter(config, SOURCES, room(config, 20))
    peer = LinkPeer(config, to_dut={}, from_dut=room(config, 20))
    slow = random_packets(config, SOURCES[1], 6, draw, (4, 4))
    fast = random_packets(config, SOURCES[2], 12, draw, (1, 4))

    async def feed_slow(ctx):
        await send_packets(ctx, dut.writes, slow, pattern("quarter", 1))

    async def feed_fast(ctx):
        await send_packets(ctx, dut.ordinary, fast)

    async def wait(ctx):
        while len(peer.received) < len(slow) + len(fast):
            await ctx.tick()

    run(dut, feed_slow, feed_fast, wait, background=[connect_peer(dut, peer)])


@pytest.mark.parametrize("link_share", ["flits", "packets"])
def test_the_link_is_shared_as_configured(link_share):
    """Accelerator packets of 5 flits against ordinary ones of 2, both always waiting."""
    config = configuration(16, link_share=link_share)
    draw = random.Random(1)
    dut = Transmitter(config, SOURCES, room(config, 20))
    peer = LinkPeer(config, to_dut={}, from_dut=room(config, 20))

    def feeder(spec, size):
        packets = random_packets(config, spec, 120, draw, (size, size))
        return saturate(getattr(dut, spec.name), packets)

    counts = {6: 0, 1: 0}

    async def count(ctx):
        link = dut.link
        await ctx.tick().repeat(10)
        for _ in range(210):
            _, _, valid, channel = await ctx.tick().sample(link.valid, link.flit.channel)
            counts[channel] += valid

    run(
        dut,
        count,
        background=[connect_peer(dut, peer), *feeder(SOURCES[1], 4), *feeder(SOURCES[2], 1)],
    )
    part = counts[6] / sum(counts.values())
    assert part == pytest.approx(0.5 if link_share == "flits" else 5 / 7, abs=5 / 210)
