"""`WriteEngine` against an AXI4 memory in Python that checks every rule of the bus."""

import random

import pytest

from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass
from hdl.transport.write_engine import OUTSTANDING, WriteEngine
from tests.lib.axi import DECERR, OKAY, SLVERR, AxiMemory, attach
from tests.lib.packets import Packet, beats, collect_packets, random_header
from tests.lib.simulate import SHAPES, pattern, run, stream_put

RANK = 3
PAGE = 4096
FILL = 0x5A


def configuration(flit_bytes=8, payload_flits=4, **more):
    payload = flit_bytes * payload_flits
    fields = dict(
        ranks=2, flit_bytes=flit_bytes, payload_bytes=payload, wave_bytes=4 * payload,
        block=2, memory_bytes=1 << 20, waves=2, link_latency=2, memory_latency=2,
    )  # fmt: skip
    return SwitchConfig(**fields | more)


CONFIGS = {
    "tiny": configuration(8, 4),
    "demo": configuration(16, 8),
    "wide": configuration(64, 3),  # a payload that is no power of two
    "page": configuration(16, 256),  # bursts of 256 beats
}


def memory_of(config, **more):
    word = int.from_bytes(bytes([FILL]) * config.flit_bytes, "little")
    return AxiMemory(config.flit_bytes, contents=lambda n: word, **more)


def write(config, draw, address, length):
    """A packet of random bytes, those around it in its first and last flit too."""
    flits = -(-(address % config.flit_bytes + length) // config.flit_bytes) if length else 0
    header = random_header(draw, MessageClass.WRITE_DATA, address=address, length=length)
    return Packet(header, [draw.getrandbits(config.flit_bits) for _ in range(flits)])


def bytes_of(config, packet):
    data = b"".join(word.to_bytes(config.flit_bytes, "little") for word in packet.payload)
    start = packet.address % config.flit_bytes
    return data[start : start + packet.length]


def serve(config, packets, memory, *, codes=None, idle=None, drain=None, limit=20_000):
    """Write everything; checks the answers and every byte around each packet."""
    dut = WriteEngine(config, source=RANK)
    times = []

    async def send(ctx):
        for packet in packets:
            for beat in beats(packet):
                await stream_put(ctx, dut.i, [beat], idle)
            times.append(memory.now)

    async def take(ctx):
        for index, packet in enumerate(packets):
            (answer,) = await collect_packets(ctx, dut.o, 1, header_flits=1, willing=drain)
            assert answer == Packet(
                {
                    "message_class": MessageClass.WRITE_RESPONSE.value,
                    "inc": 1,
                    "source": RANK,
                    "destination": packet.source,
                    "context": packet.context,
                    "generation": packet.generation,
                    "tag": packet.tag,
                    "status": codes[index] if codes else OKAY,
                }
            )
        await ctx.tick().repeat(memory.write_latency + 5)
        assert not ctx.get(dut.o.head.valid), "more answers than packets"

    run(dut, send, take, background=[attach(memory, dut)], limit=limit)
    assert memory.refused["b"] == 0
    expected = {}
    for index, packet in enumerate(packets):
        if not codes or codes[index] == OKAY:
            expected |= {packet.address + i: b for i, b in enumerate(bytes_of(config, packet))}
    touched = {n * config.flit_bytes + i for n in memory.words for i in range(config.flit_bytes)}
    assert expected.keys() <= touched
    for address in touched:
        assert memory.read(address, 1)[0] == expected.get(address, FILL), f"byte {address:#x}"
    return times


def stalls(shape, seed):
    return {name: pattern(shape, f"{seed} {name}") for name in ("aw", "w", "b")}


def fits(config, address, length):
    """Bytes from `address` that a payload holds, at most `length`."""
    return min(length, config.payload_bytes - address % config.flit_bytes)


def interesting(config):
    """Addresses and lengths at the edges of bytes, flits and pages."""
    size, most = config.flit_bytes, config.payload_bytes
    for page, offset in enumerate(
        [0, 1, size - 1, size + 3, PAGE - most, PAGE - most + 1, PAGE - size, PAGE - 1]
    ):
        for slot, length in enumerate([1, 2, size - 1, size, size + 1, most - 1, most]):
            address = PAGE * (2 * len(range(8)) * slot + 2 * page + 1) + offset
            yield address, fits(config, address, length)


@pytest.mark.parametrize("name", CONFIGS)
def test_edges_of_bytes_flits_and_pages(name):
    """Strobes of short and unaligned packets, one burst or two, nothing written around them."""
    config = CONFIGS[name]
    draw = random.Random(name)
    cases = list(interesting(config))[:: 4 if name == "page" else 1]
    memory = memory_of(config)
    serve(config, [write(config, draw, *case) for case in cases], memory)
    assert all(burst.address % config.flit_bytes == 0 for burst in memory.write_bursts)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["tiny", "demo", "wide"])
def test_random_writes_under_random_stalls(name, shape):
    """Any address and length, any stall of addresses, data, responses and link."""
    config = CONFIGS[name]
    draw = random.Random(f"{name} {shape}")
    packets = []
    for _ in range(40):
        address = draw.randrange(1 << 16)
        length = draw.randint(1, fits(config, address, config.payload_bytes))
        packets.append(write(config, draw, address, length))
    memory = memory_of(config, write_latency=draw.randint(1, 9), willing=stalls(shape, name))
    idle, drain = pattern(draw.choice(SHAPES), 1), pattern(draw.choice(SHAPES), 2)
    serve(config, packets, memory, idle=idle, drain=drain)


def test_every_flit_offset_in_a_page():
    config = CONFIGS["tiny"]
    draw = random.Random(0)
    offsets = range(0, PAGE, config.flit_bytes)
    memory = memory_of(config)
    serve(config, [write(config, draw, PAGE + o, config.payload_bytes) for o in offsets], memory)
    crossing = sum(o + config.payload_bytes > PAGE for o in offsets)
    assert len(memory.write_bursts) == len(offsets) + crossing


@pytest.mark.parametrize("flit_bytes", [8, 64])
def test_every_strobe_of_a_flit(flit_bytes):
    """One flit: each first and each last byte; two flits: each first and each last byte."""
    config = configuration(flit_bytes, 2)
    draw = random.Random(0)
    step = 1 if flit_bytes == 8 else 9
    packets, place = [], 0
    for first in range(0, flit_bytes, step):
        for last in range(first, 2 * flit_bytes, step):
            packets.append(write(config, draw, place + first, last - first + 1))
            place += 4 * flit_bytes
    memory = memory_of(config)
    serve(config, packets, memory)


@pytest.mark.parametrize("shape", ["always", "half", "bursts"])
def test_bursts_of_256_beats_back_to_back_under_stalls(shape):
    config = CONFIGS["page"]
    draw = random.Random(shape)
    packets = [write(config, draw, PAGE * n, PAGE) for n in range(5)]
    memory = memory_of(config, willing=stalls(shape, 1))
    serve(config, packets, memory, drain=pattern(shape, 2))
    assert [burst.beats for burst in memory.write_bursts] == [256] * 5


@pytest.mark.parametrize("shape", ["always", "bursts"])
@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_a_packet_without_payload_is_no_beat_and_one_answer(flit_bytes, shape):
    """Length 0 must not become 256 beats; its answer keeps its place among the others."""
    config = configuration(flit_bytes)
    draw = random.Random(1)
    lengths = [0, 8, 0, 0, 16, 24, 0, 8, 8, 0]
    packets = [write(config, draw, 64 * n + 3 * (n % 2), size) for n, size in enumerate(lengths)]
    # In bursts the responses of several packets come in consecutive cycles.
    memory = memory_of(config, write_latency=4, willing={"b": pattern(shape, 1)})
    serve(config, packets * 4, memory)
    assert len(memory.write_bursts) == 4 * sum(size > 0 for size in lengths)


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        (OKAY, SLVERR, SLVERR),
        (SLVERR, OKAY, SLVERR),
        (SLVERR, DECERR, DECERR),
        (DECERR, SLVERR, DECERR),
        (DECERR, DECERR, DECERR),
        (OKAY, OKAY, OKAY),
    ],
)
@pytest.mark.parametrize("latency", [1, 6])
def test_a_split_write_gives_one_answer_with_the_worse_status(first, second, merged, latency):
    """As many answers as packets, and a bad status does not pass to the next one."""
    config = CONFIGS["tiny"]
    draw = random.Random(0)
    split = PAGE - 2 * config.flit_bytes
    packets = [
        write(config, draw, 64, 32),
        write(config, draw, split, 32),
        write(config, draw, 128, 32),
        write(config, draw, 2 * PAGE - 8, 32),
    ]
    status = {split: first, PAGE: second}
    memory = memory_of(
        config, write_latency=latency, write_error=lambda burst: status.get(burst.address, OKAY)
    )
    if merged == OKAY:
        serve(config, packets, memory)
    else:
        # Only one half may have been written: look at the answers alone.
        dut = WriteEngine(config, source=RANK)
        answers = []

        async def send(ctx):
            await stream_put(ctx, dut.i, [b for p in packets for b in beats(p)])

        async def take(ctx):
            answers.extend(await collect_packets(ctx, dut.o, 4, header_flits=1))
            await ctx.tick().repeat(10)
            assert not ctx.get(dut.o.head.valid)

        run(dut, send, take, background=[attach(memory, dut)])
        assert [a.status for a in answers] == [OKAY, merged, OKAY, OKAY]
    assert len(memory.write_bursts) == 6


@pytest.mark.parametrize("code", [SLVERR, DECERR])
@pytest.mark.parametrize("bad", [0, 4, 8])
def test_an_error_response_ends_its_packet_and_no_other(bad, code):
    """On the first, a middle and the last of a row of packets, with responses stalled."""
    config = CONFIGS["demo"]
    draw = random.Random(bad)
    packets = [write(config, draw, PAGE * n, 100) for n in range(9)]
    memory = memory_of(
        config,
        willing=stalls("quarter", bad),
        write_error=lambda burst: code if burst.address == PAGE * bad else OKAY,
    )
    serve(config, packets, memory, codes=[code if n == bad else OKAY for n in range(9)])


def test_a_status_is_held_until_its_answer_is_taken():
    """The link is busy for long; every status is still there, in order, and none is doubled."""
    config = CONFIGS["tiny"]
    draw = random.Random(0)
    count = 3 * OUTSTANDING
    codes = [draw.choice([OKAY, SLVERR, DECERR]) for _ in range(count)]
    packets = [write(config, draw, PAGE * n, 8) for n in range(count)]
    memory = memory_of(config, write_error=lambda burst: codes[burst.address // PAGE])
    busy = pattern("bursts", 3)
    slow = (next(busy) and next(busy) and next(busy) for _ in iter(int, 1))
    serve(config, packets, memory, codes=codes, drain=slow)


def test_an_error_counts_only_where_a_response_is_valid():
    """The bus shows DECERR in every cycle without a valid response; nothing of it is taken."""
    config = CONFIGS["tiny"]
    memory = memory_of(config, willing=stalls("quarter", 1), write_latency=5)
    packets = [write(config, random.Random(n), PAGE * n - 8, 32) for n in range(1, 8)]
    serve(config, packets, memory)
    assert memory.drive["bresp"] == DECERR


@pytest.mark.parametrize("outstanding", [1, 2, None])
def test_a_memory_that_takes_few_bursts_at_once(outstanding):
    config = CONFIGS["tiny"]
    draw = random.Random(2)
    memory = memory_of(config, outstanding=outstanding, write_latency=5)
    serve(config, [write(config, draw, PAGE - 16 + 64 * n, 32) for n in range(12)], memory)


def test_no_more_packets_are_written_than_answers_have_room_for():
    """While no answer leaves, `OUTSTANDING` packets go out and the next one waits."""
    config = CONFIGS["tiny"]
    draw = random.Random(2)
    memory = memory_of(config)
    dut = WriteEngine(config, source=RANK)
    packets = [write(config, draw, PAGE * n, 8) for n in range(OUTSTANDING + 4)]

    async def send(ctx):
        await stream_put(ctx, dut.i, [b for p in packets for b in beats(p)])

    async def bench(ctx):
        await ctx.tick().repeat(20 * len(packets))
        assert len(memory.write_bursts) == OUTSTANDING
        got = await collect_packets(ctx, dut.o, len(packets), header_flits=1)
        assert [p.tag for p in got] == [p.tag for p in packets]

    run(dut, bench, background=[attach(memory, dut), send])


@pytest.mark.parametrize("boundary", [1 << 31, 1 << 32, (1 << 48) - PAGE])
def test_addresses_near_powers_of_two_do_not_wrap(boundary):
    config = CONFIGS["demo"]
    memory = memory_of(config)
    packets = [write(config, random.Random(n), boundary + 48 * n - 96, 100) for n in range(4)]
    serve(config, packets[::3], memory)
    assert min(burst.address for burst in memory.write_bursts) == boundary - 96


def test_the_last_bytes_of_the_address_space():
    config = CONFIGS["demo"]
    serve(config, [write(config, random.Random(0), (1 << 48) - 127, 127)], memory_of(config))


@pytest.mark.parametrize(("flit_bytes", "payload_flits"), [(8, 4), (16, 8), (32, 128), (64, 1)])
def test_packets_are_written_as_fast_as_a_link_brings_them(flit_bytes, payload_flits):
    """A payload flit a cycle, and a header's cycles between packets, which bring no beat."""
    config = configuration(flit_bytes, payload_flits)
    draw = random.Random(0)
    packets = [
        write(config, draw, PAGE - flit_bytes + n * config.payload_bytes, config.payload_bytes)
        for n in range(12 if payload_flits > 8 else 60)
    ]
    memory = memory_of(config, write_latency=3)
    dut = WriteEngine(config, source=RANK)
    start = {}

    async def send(ctx):
        start["first"] = memory.now
        for packet in packets:
            await ctx.tick().repeat(config.header_flits)
            await stream_put(ctx, dut.i, beats(packet))
        start["last"] = memory.now

    async def take(ctx):
        await collect_packets(ctx, dut.o, len(packets), header_flits=config.header_flits)

    run(dut, send, take, background=[attach(memory, dut)], limit=5000)
    ideal = len(packets) * config.packet_flits
    assert ideal / (start["last"] - start["first"]) >= 0.99


@pytest.mark.parametrize("latency", [1, 2, 10])
def test_latency_is_exact(latency):
    """Beat to address and data 1 cycle, response to head 1."""
    config = CONFIGS["demo"]
    memory = memory_of(config, write_latency=latency)
    dut = WriteEngine(config, source=RANK)
    seen = {}

    async def bench(ctx):
        (beat,) = beats(write(config, random.Random(0), 64, 16))
        ctx.set(dut.i.payload, beat)
        await ctx.tick().repeat(3)
        ctx.set(dut.i.valid, 1)
        for cycle in range(latency + 10):
            for name, signal in (
                ("address", dut.awvalid),
                ("data", dut.wvalid),
                ("response", dut.bvalid),
                ("head", dut.o.head.valid),
            ):
                if ctx.get(signal):
                    seen.setdefault(name, cycle)
            await ctx.tick()
            ctx.set(dut.i.valid, 0)

    run(dut, bench, background=[attach(memory, dut)])
    assert seen == {"address": 1, "data": 1, "response": 1 + latency, "head": 2 + latency}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("offset", [0, PAGE - 16, PAGE - 8])
@pytest.mark.parametrize("came", range(4))
def test_a_packet_that_is_cut_is_written_to_the_end_of_its_bursts(came, offset, shape):
    """Whatever has come of it: no burst is left open, bytes that did not come stay as they were,
    and packets behind it are written as ever.
    """
    config = configuration(8, 4, contexts=2)
    draw = random.Random(f"{came} {offset} {shape}")
    memory = memory_of(config, willing=stalls(shape, came))
    dut = WriteEngine(config, source=RANK)
    broken = write(config, draw, offset, config.payload_bytes)
    behind = write(config, draw, 2 * PAGE, config.payload_bytes)

    async def bench(ctx):
        ctx.set(dut.o.head.ready, 1)
        for beat in beats(broken)[:came]:
            await stream_put(ctx, dut.i, [beat])
        ctx.set(dut.cut, 1)
        for _ in range(3):
            await ctx.tick()
        while not ctx.get(dut.idle):
            await ctx.tick()
        ctx.set(dut.cut, 0)
        await stream_put(ctx, dut.i, beats(behind))
        while not ctx.get(dut.idle):
            await ctx.tick()

    run(dut, bench, background=[attach(memory, dut)])
    held = bytes_of(config, broken)[: came * config.flit_bytes]
    rest = bytes([FILL]) * (config.payload_bytes - len(held))
    assert memory.read(offset, config.payload_bytes) == held + rest
    assert memory.read(behind.address, config.payload_bytes) == bytes_of(config, behind)
    beats_written = sum(burst.beats for burst in memory.write_bursts)
    assert beats_written == len(memory.strobes) == config.payload_flits * (1 + (came > 0))
