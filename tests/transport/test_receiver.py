"""`Receiver` and `Depacketizer`: beats with the right header, channels apart, credits back."""

import random

import pytest

from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass, carries_payload, virtual_channel
from hdl.transport.receiver import Receiver
from tests.lib.packets import LinkPeer, Packet, beats, header_fields, random_header
from tests.lib.simulate import SHAPES, pattern, run, stream_get

FLITS = (8, 16, 32, 64)
#: Depths by channel: queues of several sizes, and two channels that are taken at once.
CHANNELS = {4: 6, 5: 0, 6: 9, 7: 0, 0: 6, 2: 7}


def configuration(flit_bytes):
    return SwitchConfig(
        ranks=2, flit_bytes=flit_bytes, payload_bytes=4 * flit_bytes, wave_bytes=512,
        memory_bytes=4096,
    )  # fmt: skip


def credits(config):
    return {number: depth or 2 * config.packet_flits for number, depth in CHANNELS.items()}


def random_packets(config, count, draw):
    """Packets for all channels in one random order."""
    packets = []
    for _ in range(count):
        channel = draw.choice(list(CHANNELS))
        header = random_header(draw, MessageClass(channel % 4), inc=channel // 4)
        size = draw.randint(0, 4) if carries_payload(channel) else 0
        payload = [draw.getrandbits(config.flit_bits) for _ in range(size)]
        packets.append(Packet(header, payload, [draw.choice([0, 2, 3]) for _ in payload]))
    return packets


def plain(beat):
    """A beat as fields; data and response only where there is payload."""
    fields = dict(
        header=header_fields(beat.header),
        empty=beat.empty,
        first=beat.first,
        last=beat.last,
    )
    return fields if beat.empty else fields | dict(data=beat.data, response=beat.response.value)


def expected(packet):
    return [
        {k: v for k, v in beat.items() if not (beat["empty"] and k in ("data", "response"))}
        for beat in beats(packet)
    ]


def sender(peer, dut):
    """Drives the link from the peer; credits come from the DUT's own output."""

    async def bench(ctx):
        async for _, _, credit in ctx.tick().sample(dut.credit):
            peer._credit(credit)
            flit = peer._next()
            ctx.set(dut.link.valid, flit is not None)
            if flit is not None:
                ctx.set(dut.link.flit, peer._layout.const(flit))

    return bench


@pytest.mark.parametrize("flit_bytes", FLITS)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_channel_gives_its_packets_as_beats(flit_bytes, shape):
    config = configuration(flit_bytes)
    draw = random.Random(f"{flit_bytes} {shape}")
    dut = Receiver(config, CHANNELS)
    peer = LinkPeer(config, to_dut=credits(config), from_dut={}, gaps=pattern("half", 1))
    packets = random_packets(config, 40, draw)
    peer.send(*packets)

    def taker(channel):
        due = [b for p in packets if p.channel == channel for b in expected(p)]

        async def bench(ctx):
            willing = pattern(shape if CHANNELS[channel] else "always", channel)
            stream = getattr(dut, f"channel_{channel}")
            if not CHANNELS[channel]:
                ctx.set(stream.ready, 1)
            got = await stream_get(ctx, stream, len(due), willing)
            ctx.set(stream.ready, CHANNELS[channel] == 0)
            assert [plain(beat) for beat in got] == due
            await ctx.tick().repeat(3)

        return bench

    run(dut, *map(taker, CHANNELS), background=[sender(peer, dut)])
    assert peer.credits == peer.initial, "credits are not all back"


@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_a_channel_that_is_not_read_stops_no_other(flit_bytes):
    config = configuration(flit_bytes)
    draw = random.Random(2)
    dut = Receiver(config, CHANNELS)
    peer = LinkPeer(config, to_dut=credits(config), from_dut={})
    packets = random_packets(config, 60, draw)
    peer.send(*packets)
    blocked, free = 6, 4
    due = [b for p in packets if p.channel == free for b in expected(p)]

    async def take(ctx):
        got = await stream_get(ctx, getattr(dut, f"channel_{free}"), len(due))
        assert [plain(beat) for beat in got] == due

    async def others(ctx):
        for channel in set(CHANNELS) - {blocked, free}:
            ctx.set(getattr(dut, f"channel_{channel}").ready, 1)
        await ctx.tick()

    run(dut, others, take, background=[sender(peer, dut)])
    assert peer.initial[blocked] - peer.credits[blocked] > 0


@pytest.mark.parametrize("flit_bytes", [8, 16])
@pytest.mark.parametrize(("channel", "latency"), [(5, 0), (6, 1)])
def test_latency_and_the_cycle_of_the_credit(flit_bytes, channel, latency):
    """Without a queue a flit is a beat at once and its credit too; with one, a cycle later."""
    config = configuration(flit_bytes)
    dut = Receiver(config, CHANNELS)
    header = random_header(random.Random(0), MessageClass(channel % 4))
    flits = Packet(header, [11, 22]).flits(config)
    stream = getattr(dut, f"channel_{channel}")
    valids, credit = [], []

    async def bench(ctx):
        ctx.set(stream.ready, 1)
        for cycle in range(len(flits) + 2):
            ctx.set(dut.link.valid, cycle < len(flits))
            if cycle < len(flits):
                ctx.set(dut.link.flit, flits[cycle])
            valids.append(ctx.get(stream.valid))
            credit.append(ctx.get(dut.credit) >> channel & 1)
            await ctx.tick()

    run(dut, bench)
    before, total = latency + config.header_flits, len(flits) + 2
    assert valids == [int(before <= c < before + 2) for c in range(total)]
    assert credit == [int(latency <= c < latency + len(flits)) for c in range(total)]


@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_payload_where_none_belongs_is_swallowed(flit_bytes):
    """A request with payload gives no beat, returns its credits, and leaves the next one whole."""
    config = configuration(flit_bytes)
    draw = random.Random(3)
    channel = virtual_channel(MessageClass.READ_REQUEST, True)
    dut = Receiver(config, CHANNELS)
    peer = LinkPeer(config, to_dut=credits(config), from_dut={})

    def packet(flits):
        header = random_header(draw, MessageClass.READ_REQUEST, inc=1)
        payload = [draw.getrandbits(config.flit_bits) for _ in range(flits)]
        return Packet(header, payload, [0] * flits)

    bad, good = packet(1), packet(0)
    peer.send(bad, good)

    async def take(ctx):
        got = await stream_get(ctx, getattr(dut, f"channel_{channel}"), 1)
        assert [plain(beat) for beat in got] == expected(good)
        ctx.set(getattr(dut, f"channel_{channel}").ready, 1)
        await ctx.tick().repeat(10)

    run(dut, take, background=[sender(peer, dut)])
    assert peer.credits == peer.initial, "credits are not all back"


@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_packets_of_a_whole_channel_come_without_a_gap(flit_bytes):
    """However slowly their flits arrive: nothing before the last one, then a beat each cycle.

    Beside them stands how many flits of payload the packet has.
    """
    config = configuration(flit_bytes)
    draw = random.Random(flit_bytes)
    channel = 2
    depth = 3 * config.packet_flits
    dut = Receiver(config, {channel: depth}, whole=(channel,))
    peer = LinkPeer(config, to_dut={channel: depth}, from_dut={}, gaps=pattern("quarter", 1))
    packets = [
        Packet(
            random_header(draw, MessageClass.WRITE_DATA, inc=0),
            [draw.getrandbits(config.flit_bits) for _ in range(draw.randint(0, 4))],
        )
        for _ in range(30)
    ]
    peer.send(*packets)
    stream, flits = dut.channel_2, dut.flits_2

    async def take(ctx):
        willing = pattern("half", 2)
        for packet in packets:
            wanted = expected(packet)
            while not ctx.get(stream.valid):
                await ctx.tick()
            while not next(willing):
                await ctx.tick()
            ctx.set(stream.ready, 1)
            for due in wanted:
                _, _, valid, beat, count = await ctx.tick().sample(
                    stream.valid, stream.payload, flits
                )
                assert valid, "a beat was missing in the middle of a packet"
                assert count == len(packet.payload)
                assert plain(beat) == due
            ctx.set(stream.ready, 0)
        await ctx.tick().repeat(3)

    run(dut, take, background=[sender(peer, dut)], limit=5000)
    assert peer.credits == peer.initial, "credits are not all back"


def kinds_of_channels():
    """Channels with and without queue and payload, and one whose packets are given whole."""
    return [(channel, False) for channel in CHANNELS] + [(2, True)]


@pytest.mark.parametrize("flit_bytes", [8, 16])
@pytest.mark.parametrize("late", [False, True], ids=["read at once", "read late"])
@pytest.mark.parametrize(("channel", "whole"), kinds_of_channels())
def test_a_packet_that_is_cut_leaves_nothing_behind(flit_bytes, late, channel, whole):
    """However far it had come when the link went down, the next one comes whole, and alone."""
    config = configuration(flit_bytes).replace(contexts=2)
    dut = Receiver(config, CHANNELS, whole=(channel,) if whole else ())
    stream = getattr(dut, f"channel_{channel}")
    draw = random.Random(channel)
    late &= CHANNELS[channel] > 0
    came = []

    def packet():
        header = random_header(draw, MessageClass(channel % 4), inc=channel // 4)
        count = 3 if carries_payload(channel) else 0
        return Packet(header, [draw.getrandbits(config.flit_bits) for _ in range(count)])

    async def send(ctx, flits):
        for flit in flits:
            ctx.set(dut.link.valid, 1)
            ctx.set(dut.link.flit, flit)
            await ctx.tick()
        ctx.set(dut.link.valid, 0)

    async def collect(ctx):
        async for _, _, valid, ready, beat in ctx.tick().sample(
            stream.valid, stream.ready, stream.payload
        ):
            if valid and ready:
                came.append(plain(beat))

    async def bench(ctx):
        lengths = len(packet().flits(config))
        for kept in range(1, lengths):
            bad, good = packet(), packet()
            ctx.set(stream.ready, not late)
            await send(ctx, bad.flits(config)[:kept])
            ctx.set(dut.open, 0)
            given = 0 if whole else max(0, kept - config.header_flits)
            if late:
                await ctx.tick().repeat(8)
                waits = given > 0
                assert ctx.get(dut.empty) == (not waits)
                assert ctx.get(dut.cut) >> channel & 1 == (not waits)
                ctx.set(stream.ready, 1)
            await ctx.tick().repeat(8)
            assert ctx.get(dut.empty)
            assert ctx.get(dut.cut) >> channel & 1
            assert came == expected(bad)[:given]
            came.clear()
            ctx.set(dut.open, 1)
            assert not ctx.get(dut.cut)
            await send(ctx, good.flits(config))
            await ctx.tick().repeat(8)
            assert came == expected(good)
            came.clear()

    run(dut, bench, background=[collect])


def test_what_does_not_count_is_not_taken():
    """Flits of a link that is not UP yet; no credit is given for them."""
    config = configuration(8).replace(contexts=2)
    dut = Receiver(config, CHANNELS)
    flits = Packet(random_header(random.Random(1), MessageClass.WRITE_DATA, inc=0), [1]).flits(
        config
    )

    async def bench(ctx):
        ctx.set(dut.takes, 0)
        for flit in flits:
            ctx.set(dut.link.valid, 1)
            ctx.set(dut.link.flit, flit)
            await ctx.tick()
            assert (ctx.get(dut.empty), ctx.get(dut.credit)) == (1, 0)

    run(dut, bench)
