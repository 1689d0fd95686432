"""`Endpoint` where the core forwards: ordinary requests of others, and of its own rank.

Named after public reports where a test is one's trigger.
"""

import random

import pytest

from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass
from hdl.transport import channels
from hdl.transport.endpoint import Endpoint
from tests.lib.axi import DECERR, OKAY, SLVERR, AxiMemory, attach
from tests.lib.packets import LinkPeer, Packet, random_header, send_packets
from tests.lib.simulate import pattern, run

RANK = 2
PAGE = 4096
#: AXI ID of each side: of ordinary packets, and of the accelerator's (INC).
SIDES = {0: 1, 1: 0}
READ, WRITE = MessageClass.READ_REQUEST, MessageClass.WRITE_DATA
ANSWERS = {READ: MessageClass.READ_DATA, WRITE: MessageClass.WRITE_RESPONSE}


def configuration(flit_bytes=8, payload_flits=4, **more):
    payload = payload_flits * flit_bytes
    return SwitchConfig(
        ranks=4, flit_bytes=flit_bytes, payload_bytes=payload, wave_bytes=max(512, payload),
        memory_bytes=1 << 20, link_latency=2, memory_latency=2, core="forward", **more,
    )  # fmt: skip


def request(draw, inc, address, length):
    return Packet(random_header(draw, READ, inc=inc, address=address, length=length))


def write(config, draw, inc, address, length):
    flits = -(-(address % config.flit_bytes + length) // config.flit_bytes)
    header = random_header(draw, WRITE, inc=inc, address=address, length=length)
    return Packet(header, [draw.getrandbits(config.flit_bits) for _ in range(flits)])


class Bench:
    """An endpoint between a Python switch and a Python memory."""

    def __init__(self, config, memory, **peer):
        self.config, self.memory = config, memory
        self.dut = Endpoint(config, rank=RANK)
        self.peer = LinkPeer(
            config,
            to_dut=channels.credits_to_rank(config),
            from_dut=channels.credits_to_switch(config),
            **peer,
        )

    def run(self, *benches, packets, limit=8000):
        async def wait(ctx):
            if self.config.forwards:
                for stream in (self.dut.read_data, self.dut.write_responses):
                    ctx.set(stream.ready, 1)
            while len(self.peer.received) < packets:
                await ctx.tick()
            await ctx.tick().repeat(20)
            assert len(self.peer.received) == packets

        ids = SIDES.values() if self.config.forwards else [SIDES[1]]
        background = [
            self.peer.bench(self.dut.rx, self.dut.tx),
            attach(self.memory, self.dut.axi, ids=ids),
        ]
        cycles = run(self.dut, *benches, wait, background=background, limit=limit)
        assert self.memory.refused == {"r": 0, "b": 0}
        assert self.peer.credits == self.peer.initial, "credits are not all back"
        return cycles

    def answers(self, kind, inc):
        return [p for p in self.peer.take(ANSWERS[kind]) if p.inc == inc]


def key(packet):
    return packet.context, packet.generation, packet.tag


def check_answers(bench, traffic, status=lambda packet: OKAY):
    """Each request answered once, in the order of its kind and side, back to who asked."""
    for kind in ANSWERS:
        for inc in (0, 1):
            asked = [p for p in traffic if p.message_class == kind.value and p.inc == inc]
            answered = bench.answers(kind, inc)
            assert [key(p) for p in answered] == [key(p) for p in asked]
            assert [p.destination for p in answered] == [p.source for p in asked]
            assert all(p.source == RANK for p in answered)
            for packet, answer in zip(asked, answered, strict=True):
                codes = answer.responses or [answer.status]
                assert max(codes) == status(packet)


def burst_starts(config, packet):
    """Where a packet's bursts begin: at its first flit, and at the page that it crosses into."""
    first = packet.address // config.flit_bytes * config.flit_bytes
    page = (packet.address + packet.length - 1) // PAGE * PAGE
    return [first, page] if page > first else [first]


def mixed(config, draw, count, *, pages=2):
    """Reads from one half of the memory and writes into the other, of both sides."""
    size, most, traffic = config.flit_bytes, config.payload_bytes, []
    for _ in range(count):
        inc = draw.randrange(2)
        address = size * draw.randrange(pages * PAGE // size)
        traffic.append(request(draw, inc, address, draw.randint(1, most)))
        address = (1 << 18) + draw.randrange(pages * PAGE)
        traffic.append(write(config, draw, inc, address, draw.randint(1, most - address % size)))
    draw.shuffle(traffic)
    return traffic


@pytest.mark.parametrize(("flit_bytes", "shape"), [(8, "always"), (8, "half"), (32, "bursts")])
def test_verilog_axi_30_beats_of_two_ids_may_be_mixed(flit_bytes, shape):
    """Read data interleaving was not supported: here both sides read at once, mixed by beats."""
    config = configuration(flit_bytes)
    draw = random.Random(f"{flit_bytes} {shape}")
    memory = AxiMemory(
        flit_bytes, contents=lambda n: n, read_latency=4, write_latency=3, interleave=1,
        willing={name: pattern(shape, name) for name in ("ar", "r", "aw", "w", "b")},
    )  # fmt: skip
    bench = Bench(config, memory, idle=pattern(shape, 1), drain=pattern(shape, 2))
    traffic = mixed(config, draw, 20)
    bench.peer.send(*traffic)
    bench.run(packets=len(traffic))
    check_answers(bench, traffic)
    for inc in (0, 1):
        asked = [p for p in traffic if p.message_class == READ.value and p.inc == inc]
        for packet, answer in zip(asked, bench.answers(READ, inc), strict=True):
            first = packet.address // flit_bytes
            assert answer.payload == list(range(first, first + len(answer.payload)))
    # Each side's bursts are its own ID's, in the order of its requests.
    for kind, bursts in ((READ, memory.read_bursts), (WRITE, memory.write_bursts)):
        for inc, id in SIDES.items():
            packets = [p for p in traffic if p.message_class == kind.value and p.inc == inc]
            starts = [place for packet in packets for place in burst_starts(config, packet)]
            assert [burst.address for burst in bursts if burst.id == id] == starts


@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_what_is_written_is_in_memory(flit_bytes):
    """Byte by byte, of both sides, to places of their own."""
    config = configuration(flit_bytes)
    draw = random.Random(flit_bytes)
    memory = AxiMemory(flit_bytes, willing={"w": pattern("half", 1), "aw": pattern("half", 2)})
    bench = Bench(config, memory)
    places = list(range(0, 60 * 64, 64))
    draw.shuffle(places)
    traffic = [
        write(config, draw, n % 2, place + draw.randrange(flit_bytes), draw.randint(1, 20))
        for n, place in enumerate(places)
    ]
    bench.peer.send(*traffic)
    bench.run(packets=len(traffic))
    check_answers(bench, traffic)
    for packet in traffic:
        sent = b"".join(word.to_bytes(flit_bytes, "little") for word in packet.payload)
        offset = packet.address % flit_bytes
        written = memory.read(packet.address, packet.length)
        assert written == sent[offset : offset + packet.length]
        around = memory.read(packet.address - packet.address % 64, 64)
        assert sum(byte != 0 for byte in around) <= packet.length


@pytest.mark.parametrize("outstanding", [1, 2, None])
def test_axi_121_memories_that_take_one_burst_two_or_any_number(outstanding):
    """A manager whose writes depend on its reads stalled when ID counters were full."""
    config = configuration()
    draw = random.Random(0)
    memory = AxiMemory(
        8, contents=lambda n: n, read_latency=4, write_latency=4, outstanding=outstanding
    )
    bench = Bench(config, memory)
    count = 16
    reads = [request(draw, n % 2, n * 32, 32) for n in range(count)]
    bench.peer.send(*reads)

    async def copy(ctx):
        """Each packet of read data goes back, inverted, where it came from."""
        done = {0: 0, 1: 0}
        while sum(done.values()) < count:
            await ctx.tick()
            for inc in (0, 1):
                asked = [p for p in reads if p.inc == inc]
                for answer in bench.answers(READ, inc)[done[inc] :]:
                    header = asked[done[inc]].header | {"message_class": WRITE.value}
                    bench.peer.send(Packet(header, [~w & (1 << 64) - 1 for w in answer.payload]))
                    done[inc] += 1

    bench.run(copy, packets=2 * count)
    for number in range(count * 4):
        assert memory.word(number) == ~number & (1 << 64) - 1


@pytest.mark.parametrize("flit_bytes", [8])
def test_verilog_axi_12_no_burst_crosses_a_page(flit_bytes):
    """A wrong test of 4 KiB looked at one bit of the address: starts around a page's end."""
    config = configuration(flit_bytes)
    draw = random.Random(0)
    memory = AxiMemory(flit_bytes, contents=lambda n: n)
    bench = Bench(config, memory)
    payload = config.payload_bytes
    traffic = []
    for inc in (0, 1):
        for start in range(PAGE - payload, PAGE + 1, flit_bytes):
            traffic.append(request(draw, inc, start, payload))
            traffic.append(write(config, draw, inc, (1 << 18) + start, payload))
            traffic.append(write(config, draw, inc, (1 << 19) + start + 1, payload - flit_bytes))
    bench.peer.send(*traffic)
    bench.run(packets=len(traffic))  # the memory's checker fails at a burst over a page
    check_answers(bench, traffic)


def test_atfox272_1_a_write_split_in_two_has_one_answer():
    """More B responses than requests: of two bursts the worse response, once."""
    config = configuration()
    draw = random.Random(0)
    memory = AxiMemory(8, write_error=lambda burst: SLVERR if burst.address // PAGE == 3 else OKAY)
    bench = Bench(config, memory)
    traffic = [
        write(config, draw, inc, page * PAGE - 16, 32) for page in (1, 3, 4, 6) for inc in (0, 1, 0)
    ]
    bench.peer.send(*traffic)
    bench.run(packets=len(traffic))
    assert len(memory.write_bursts) == 2 * len(traffic)

    def status(packet):
        pages = {packet.address // PAGE, (packet.address + 31) // PAGE}
        return SLVERR if 3 in pages else OKAY

    check_answers(bench, traffic, status)


@pytest.mark.parametrize("code", [SLVERR, DECERR])
@pytest.mark.parametrize("beat", [0, 1, 3])
def test_wishboneaxi_4_errors_on_any_beat_of_r_and_on_b(code, beat):
    """First, in the middle, last; the other side's requests in between are not touched."""
    config = configuration()
    draw = random.Random(0)
    memory = AxiMemory(
        8,
        read_error=lambda address, number: code if address == PAGE + 8 * beat else OKAY,
        write_error=lambda burst: code if burst.address == 5 * PAGE else OKAY,
        interleave=3,
        willing={name: pattern("half", name) for name in ("r", "b")},
    )
    bench = Bench(config, memory, drain=pattern("quarter", 1))
    traffic = []
    for turn in range(6):
        for inc in (0, 1):
            bad = turn % 3 == 1 and not inc
            traffic.append(request(draw, inc, PAGE if bad else 0, 32))
            traffic.append(write(config, draw, inc, 5 * PAGE if bad else 6 * PAGE, 32))
    bench.peer.send(*traffic)
    bench.run(packets=len(traffic))
    check_answers(
        bench, traffic, lambda packet: code if packet.address in (PAGE, 5 * PAGE) else OKAY
    )


def test_floonoc_162_bursts_of_256_beats_back_to_back_under_stalls():
    """4 KiB over a narrow link became two of 256 beats; a register lost data when stalled."""
    config = configuration(16, payload_flits=256)
    draw = random.Random(0)
    memory = AxiMemory(
        16, contents=lambda n: n, willing={name: pattern("half", name) for name in "rw"}
    )
    bench = Bench(config, memory, drain=pattern("half", 5))
    traffic = []
    for inc in (0, 1):
        traffic.append(request(draw, inc, inc * PAGE, PAGE))
        traffic.append(write(config, draw, inc, (1 << 18) + inc * PAGE, PAGE))
    bench.peer.send(*traffic)
    bench.run(packets=len(traffic), limit=12000)
    check_answers(bench, traffic)
    assert {burst.beats for burst in memory.read_bursts + memory.write_bursts} == {256}
    for packet in traffic:
        if packet.payload:
            first = packet.address // 16
            assert [memory.word(first + n) for n in range(256)] == packet.payload


@pytest.mark.parametrize("kind", [READ, WRITE, None])
@pytest.mark.parametrize("count", [1, 25])
def test_a_side_that_is_idle_costs_the_other_nothing(kind, count):
    """The accelerator's requests alone: answered in the same cycles as where no core forwards."""
    ended = []
    for core in ("stub", "forward"):
        config = configuration().replace(core=core)
        draw = random.Random(0)
        memory = AxiMemory(8, contents=lambda n: n, read_latency=3, write_latency=3)
        bench = Bench(config, memory)
        traffic = []
        for n in range(count):
            if kind in (READ, None):
                traffic.append(request(draw, 1, 64 * n, 32))
            if kind in (WRITE, None):
                traffic.append(write(config, draw, 1, PAGE + 64 * n, 32))
        bench.peer.send(*traffic)
        bench.run(packets=len(traffic))
        check_answers(bench, traffic)
        ended.append(bench.peer.received_at)
    assert ended[0] == ended[1]


@pytest.mark.parametrize("shape", ["always", "half"])
def test_the_ranks_own_requests_and_their_answers(shape):
    """Sent as they are; answers come out at once, also while others' requests are served."""
    config = configuration()
    draw = random.Random(shape)
    memory = AxiMemory(8, contents=lambda n: n)
    bench = Bench(config, memory, drain=pattern(shape, 1))
    reads = [request(draw, 0, 8 * n, 32) for n in range(20)]
    writes = [write(config, draw, 0, 8 * n, 32) for n in range(20)]
    served = mixed(config, draw, 10)
    answers = [
        Packet(random_header(draw, ANSWERS[kind], inc=0), [7, 8, 9] if kind == READ else [])
        for kind in (READ, WRITE)
        for _ in range(10)
    ]
    bench.peer.send(*served, *answers)
    seen = []

    async def ask(ctx):
        await send_packets(ctx, bench.dut.requests, reads, pattern(shape, 2))

    async def store(ctx):
        await send_packets(ctx, bench.dut.writes, writes, pattern(shape, 3))

    async def watch(ctx):
        streams = (bench.dut.read_data, bench.dut.write_responses)
        while len(seen) < len(answers):
            for stream in streams:
                ctx.set(stream.ready, 1)
            _, _, *values = await ctx.tick().sample(
                *(value for stream in streams for value in (stream.valid, stream.payload))
            )
            seen.extend(
                values[i + 1].header.tag for i in (0, 2) if values[i] and values[i + 1].last
            )

    total = len(reads) + len(writes) + len(served)
    bench.run(ask, store, watch, packets=total)
    assert sorted(seen) == sorted(p.tag for p in answers)
    got = [p for p in bench.peer.received if p.message_class in (READ.value, WRITE.value)]
    assert [p for p in got if p.message_class == READ.value] == reads
    assert [p for p in got if p.message_class == WRITE.value] == writes
    check_answers(bench, served)
