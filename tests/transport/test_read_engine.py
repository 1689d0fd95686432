"""`ReadEngine` against an AXI4 memory in Python that checks every rule of the bus."""

import random

import pytest

from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass
from hdl.transport.read_engine import ReadEngine
from tests.lib.axi import DECERR, OKAY, SLVERR, AxiMemory, attach
from tests.lib.packets import Packet, beats, collect_packets, random_header
from tests.lib.simulate import SHAPES, pattern, run, stream_put

RANK = 5
PAGE = 4096


def configuration(flit_bytes=8, payload_flits=4, packets=8, request_packets=1, **more):
    payload = flit_bytes * payload_flits
    fields = dict(
        ranks=2, flit_bytes=flit_bytes, payload_bytes=payload, wave_bytes=packets * payload,
        block=2, read_request_bytes=request_packets * payload, memory_bytes=1 << 20,
        waves=2, link_latency=2, memory_latency=2,
    )  # fmt: skip
    return SwitchConfig(**fields | more)


CONFIGS = {
    "tiny": configuration(8, 4, 8, 4),
    "demo": configuration(16, 8, 8, 8),
    "wide": configuration(64, 3, 4, 2),  # a payload that is no power of two
    "page": configuration(16, 256, 2, 2),  # bursts of 256 beats
}


def contents(number: int) -> int:
    """A word that tells its place, in every byte."""
    return random.Random(number).getrandbits(512)


def memory_of(config, **more):
    mask = (1 << config.flit_bits) - 1
    return AxiMemory(config.flit_bytes, contents=lambda n: contents(n) & mask, **more)


def request(draw, address, length):
    header = random_header(draw, MessageClass.READ_REQUEST, address=address, length=length)
    header["tag"] %= 1 << 15
    return Packet(header)


def answers(config, memory, asked):
    """The packets that must come back."""
    size = config.flit_bytes
    first = asked.address // size
    end = -(-(asked.address + asked.length) // size) if asked.length else first
    packets = []
    for index, start in enumerate(range(first, max(end, first + 1), config.payload_flits)):
        numbers = range(start, min(start + config.payload_flits, end))
        header = {
            "message_class": MessageClass.READ_DATA.value,
            "inc": 1,
            "source": RANK,
            "destination": asked.source,
            "context": asked.context,
            "generation": asked.generation,
            "tag": asked.tag + index,
            "length": len(numbers) * size,
        }
        payload = [memory.word(n) for n in numbers]
        packets.append((header, payload, numbers))
    return packets


def serve(config, requests, memory, *, idle=None, drain=None, limit=30_000):
    """Ask for everything; the packets that came, checked but for their responses, and cycles."""
    dut = ReadEngine(config, source=RANK)
    due = [packet for asked in requests for packet in answers(config, memory, asked)]
    times, got = [], []

    async def ask(ctx):
        await stream_put(ctx, dut.i, [b for p in requests for b in beats(p)], idle)

    async def take(ctx):
        for header, payload, _ in due:
            (packet,) = await collect_packets(
                ctx, dut.o, 1, header_flits=config.header_flits, willing=drain
            )
            got.append(packet)
            times.append(memory.now)
            assert packet.header == Packet(header).header
            assert packet.payload == payload
        await ctx.tick().repeat(5)
        assert not ctx.get(dut.o.head.valid), "more packets than were asked for"

    run(dut, ask, take, background=[attach(memory, dut)], limit=limit)
    assert memory.refused["r"] == 0
    return got, times


def stalls(shape, seed):
    return {name: pattern(shape, f"{seed} {name}") for name in ("ar", "r")}


def interesting(config):
    """Addresses and lengths at the edges of flits, payloads and pages."""
    size, payload, most = config.flit_bytes, config.payload_bytes, config.read_request_bytes
    lengths = [1, size - 1, size, size + 1, payload - 1, payload, most - 1, most]
    offsets = [0, size, PAGE - size, PAGE - payload, PAGE - payload + size, PAGE // 2]
    return [
        (PAGE * (3 + i) + offset, min(length, most))
        for i, offset in enumerate(offsets)
        for length in lengths
        if offset % size == 0
    ]


@pytest.mark.parametrize("name", CONFIGS)
def test_edges_of_flits_payloads_and_pages(name):
    config = CONFIGS[name]
    draw = random.Random(name)
    cases = interesting(config)
    if name == "page":
        cases = cases[::3]
    memory = memory_of(config)
    serve(config, [request(draw, *case) for case in cases], memory)
    assert all(burst.address % config.flit_bytes == 0 for burst in memory.read_bursts)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["tiny", "demo", "wide"])
def test_random_requests_under_random_stalls(name, shape):
    """Any address, off the flit grid too, any length, any stall of addresses, data and link."""
    config = CONFIGS[name]
    draw = random.Random(f"{name} {shape}")
    requests = []
    for _ in range(24):
        address = draw.randrange(1 << 20)
        most = config.read_request_bytes - address % config.flit_bytes
        requests.append(request(draw, address, draw.randint(1, most)))
    memory = memory_of(config, read_latency=draw.randint(1, 9), willing=stalls(shape, name))
    idle, drain = pattern(draw.choice(SHAPES), 1), pattern(draw.choice(SHAPES), 2)
    serve(config, requests, memory, idle=idle, drain=drain)


def test_every_flit_offset_in_a_page():
    """A payload from each flit of a page on: one burst, or two where it crosses, never more."""
    config = CONFIGS["tiny"]
    draw = random.Random(0)
    offsets = range(0, PAGE, config.flit_bytes)
    memory = memory_of(config)
    serve(config, [request(draw, PAGE + o, config.payload_bytes) for o in offsets], memory)
    crossing = sum(o + config.payload_bytes > PAGE for o in offsets)
    assert crossing == config.payload_flits - 1
    assert len(memory.read_bursts) == len(offsets) + crossing


def test_a_transfer_longer_than_two_pages_stays_inside_pages():
    """From 0x0FC0, more than 8 KiB: the first burst ends at the page, as all others do."""
    config = configuration(16, 16, 64, 64)  # requests of up to 16 KiB
    memory = memory_of(config)
    serve(config, [request(random.Random(0), 0x0FC0, 8 * 1024 + 200)], memory)
    pages = {burst.address // PAGE for burst in memory.read_bursts}
    assert pages == {0, 1, 2, 3}
    assert memory.read_bursts[0].address == 0x0FC0
    assert memory.read_bursts[0].beats == 4


@pytest.mark.parametrize("shape", ["always", "half", "bursts"])
def test_bursts_of_256_beats_back_to_back_under_stalls(shape):
    config = CONFIGS["page"]
    draw = random.Random(shape)
    requests = [request(draw, PAGE * n, 2 * PAGE) for n in range(0, 6, 2)]
    memory = memory_of(config, willing=stalls(shape, 1))
    serve(config, requests, memory, drain=pattern(shape, 2))
    assert [burst.beats for burst in memory.read_bursts] == [256] * 6


@pytest.mark.parametrize("length", [0, 1])
@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_no_bytes_are_no_beat_and_an_answer_at_once(flit_bytes, length):
    """Length 0 must not become 256 beats; what is asked for around it is answered in order."""
    config = configuration(flit_bytes)
    draw = random.Random(1)
    requests = [
        request(draw, address, n)
        for address, n in [(64, length), (128, 8), (192 + 3, 0), (256, 0), (320, 16), (4096 - 8, 0)]
    ]
    memory = memory_of(config)
    got, _ = serve(config, requests, memory)
    assert len(memory.read_bursts) == 2 + (length > 0)
    assert [p.status for p in got] == [OKAY] * len(requests)


@pytest.mark.parametrize("code", [SLVERR, DECERR])
@pytest.mark.parametrize("where", ["first", "middle", "last"])
@pytest.mark.parametrize("name", ["tiny", "page"])
def test_an_error_on_any_beat_stays_with_its_flit(name, where, code):
    config = CONFIGS[name]
    draw = random.Random(where)
    start = PAGE - 2 * config.flit_bytes  # two bursts, so that first and last are of each
    flits = config.payload_flits
    bad = {"first": 0, "middle": flits // 2, "last": flits - 1}[where] + start // config.flit_bytes
    memory = memory_of(
        config,
        willing=stalls("half", 1),
        read_error=lambda address, beat: code if address == bad * config.flit_bytes else OKAY,
    )
    requests = [request(draw, start, config.payload_bytes), request(draw, 64, config.flit_bytes)]
    got, _ = serve(config, requests, memory)
    numbers = range(start // config.flit_bytes, start // config.flit_bytes + flits)
    assert got[0].responses == [code if n == bad else OKAY for n in numbers]
    assert got[1].responses == [OKAY]


def test_an_error_counts_only_where_data_is_valid():
    """The bus shows DECERR and noise in every cycle without valid data; none of it is taken."""
    config = CONFIGS["tiny"]
    memory = memory_of(config, willing=stalls("quarter", 1), read_latency=7)
    got, _ = serve(config, [request(random.Random(n), 64 * n, 64) for n in range(6)], memory)
    assert all(response == OKAY for packet in got for response in packet.responses)
    assert memory.drive["rresp"] == DECERR


@pytest.mark.parametrize("outstanding", [1, 2, None])
def test_a_memory_that_takes_few_bursts_at_once(outstanding):
    config = CONFIGS["tiny"]
    draw = random.Random(2)
    memory = memory_of(config, outstanding=outstanding, read_latency=5)
    serve(config, [request(draw, PAGE - 16 + 64 * n, 100) for n in range(8)], memory)


def test_read_data_of_two_ids_cannot_be_mixed_as_one_id_is_used():
    """A memory that mixes IDs at will still gives one ID's beats in order."""
    config = CONFIGS["demo"]
    memory = memory_of(config, interleave=3)
    serve(config, [request(random.Random(n), 512 * n, 256) for n in range(8)], memory)
    assert {burst.id for burst in memory.read_bursts} == {0}


@pytest.mark.parametrize("boundary", [1 << 31, 1 << 32, (1 << 48) - PAGE])
def test_addresses_near_powers_of_two_do_not_wrap(boundary):
    config = CONFIGS["demo"]
    memory = memory_of(config)
    serve(config, [request(random.Random(0), boundary - 512 - 16, 1024)], memory)
    assert min(burst.address for burst in memory.read_bursts) == boundary - 528


def test_the_last_bytes_of_the_address_space():
    config = CONFIGS["demo"]
    memory = memory_of(config)
    serve(config, [request(random.Random(0), (1 << 48) - 256, 256)], memory)


@pytest.mark.parametrize(
    ("flit_bytes", "payload_flits", "latency", "packets"),
    [
        (8, 4, 2, 120),  # tiny
        (8, 4, 100, 120),
        (16, 8, 16, 80),  # demo
        (16, 8, 100, 80),
        (32, 128, 8, 10),  # paper-fpga
        (32, 128, 100, 10),
        (64, 1, 30, 200),  # the shortest packets there are
    ],
)
def test_reads_outstanding_cover_the_latency(flit_bytes, payload_flits, latency, packets):
    """Packets leave without a gap: their data and headers alone fill the link."""
    config = configuration(flit_bytes, payload_flits, 16, 1, memory_latency=latency)
    draw = random.Random(0)
    first = PAGE - config.flit_bytes  # off the grid of payloads, so that some are two bursts
    requests = [
        request(draw, first + n * config.payload_bytes, config.payload_bytes)
        for n in range(packets)
    ]
    memory = memory_of(config, read_latency=latency)
    _, times = serve(config, requests, memory)
    settled = len(times) // 10
    ideal = (len(times) - 1 - settled) * config.packet_flits
    assert ideal / (times[-1] - times[settled]) >= 0.99


@pytest.mark.parametrize("latency", [1, 2, 10])
@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_latency_is_exact(flit_bytes, latency):
    """Request to address 2 cycles; the head comes with the first beat."""
    config = configuration(flit_bytes)
    memory = memory_of(config, read_latency=latency)
    dut = ReadEngine(config, source=RANK)
    seen = {}

    async def bench(ctx):
        ctx.set(dut.i.payload, beats(request(random.Random(0), 64, 16))[0])
        ctx.set(dut.o.payload.ready, 1)
        await ctx.tick().repeat(3)
        ctx.set(dut.i.valid, 1)
        for cycle in range(latency + 10):
            for name, signal in (
                ("address", dut.arvalid),
                ("beat", dut.rvalid),
                ("head", dut.o.head.valid),
            ):
                if ctx.get(signal):
                    seen.setdefault(name, cycle)
            taken = ctx.get(dut.i.ready)
            await ctx.tick()
            if taken:
                ctx.set(dut.i.valid, 0)

    run(dut, bench, background=[attach(memory, dut)])
    assert seen == {"address": 2, "beat": 2 + latency, "head": 2 + latency}
