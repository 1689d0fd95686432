"""`Endpoint` whole: a link in Python on one side, an AXI4 memory in Python on the other."""

import random

import pytest

from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass
from hdl.transport import channels
from hdl.transport.endpoint import DOORBELL_SPACING, Endpoint
from tests.lib.axi import DECERR, OKAY, SLVERR, AxiMemory, attach
from tests.lib.packets import LinkPeer, Packet, random_header
from tests.lib.simulate import SHAPES, pattern, run, stream_put

RANK = 6
PAGE = 4096
#: AXI IDs that the endpoint promises.
IDS = {0}


def configuration(flit_bytes=8, payload_flits=4, packets=4, **more):
    payload = flit_bytes * payload_flits
    fields = dict(
        ranks=2, flit_bytes=flit_bytes, payload_bytes=payload, wave_bytes=packets * payload,
        block=2, memory_bytes=1 << 20, waves=2, link_latency=2, memory_latency=2,
    )  # fmt: skip
    return SwitchConfig(**fields | more)


class Bench:
    """An endpoint between `peer` and `memory`."""

    def __init__(self, config, memory=None, **peer):
        self.config = config
        self.dut = Endpoint(config, rank=RANK)
        self.memory = memory or AxiMemory(config.flit_bytes, contents=lambda n: n)
        self.peer = LinkPeer(
            config,
            to_dut=channels.credits_to_rank(config),
            from_dut=channels.credits_to_switch(config),
            **peer,
        )
        self.cycles = 0

    def run(self, *benches, packets, limit=5000):
        """Run until `packets` have come back and the benches ended, then a few cycles more."""

        async def wait(ctx):
            while len(self.peer.received) < packets:
                await ctx.tick()
            self.cycles = self.peer.now
            await ctx.tick().repeat(20)
            assert len(self.peer.received) == packets

        background = [
            self.peer.bench(self.dut.rx, self.dut.tx),
            attach(self.memory, self.dut.axi, ids=IDS),
        ]
        run(self.dut, *benches, wait, background=background, limit=limit)
        assert self.memory.refused == {"r": 0, "b": 0}
        assert self.peer.credits == self.peer.initial, "credits are not all back"


def request(draw, address, length):
    return Packet(random_header(draw, MessageClass.READ_REQUEST, address=address, length=length))


def write(config, draw, address, length):
    flits = -(-(address % config.flit_bytes + length) // config.flit_bytes)
    header = random_header(draw, MessageClass.WRITE_DATA, address=address, length=length)
    return Packet(header, [draw.getrandbits(config.flit_bits) for _ in range(flits)])


def echoed(answer):
    return answer.destination, answer.context, answer.generation, answer.tag


def asked(packet):
    return packet.source, packet.context, packet.generation, packet.tag


@pytest.mark.parametrize("flit_bytes", [8, 16, 32, 64])
@pytest.mark.parametrize("shape", SHAPES)
def test_reads_writes_and_arrivals_together(flit_bytes, shape):
    """Each has its answers, in order, whatever else goes on and however everything stalls."""
    config = configuration(flit_bytes)
    draw = random.Random(f"{flit_bytes} {shape}")
    memory = AxiMemory(
        flit_bytes,
        contents=lambda n: n,
        read_latency=draw.randint(1, 8),
        write_latency=draw.randint(1, 8),
        willing={name: pattern(shape, name) for name in ("ar", "r", "aw", "w", "b")},
    )
    bench = Bench(config, memory, idle=pattern(shape, 1), drain=pattern(shape, 2))
    size, most = flit_bytes, config.payload_bytes
    reads, writes = [], []
    for _ in range(25):
        address = size * draw.randrange(2 * PAGE // size)
        reads.append(request(draw, address, draw.randint(1, most)))
        address = (1 << 20) + draw.randrange(2 * PAGE)
        writes.append(write(config, draw, address, draw.randint(1, most - address % size)))
    traffic = reads + writes
    draw.shuffle(traffic)
    bench.peer.send(*traffic)
    epochs = [draw.getrandbits(32) for _ in range(6)]

    async def arrive(ctx):
        values = [{"epoch": epoch, "context": n} for n, epoch in enumerate(epochs)]
        await stream_put(ctx, bench.dut.arrival, values, pattern(shape, 3))

    bench.run(arrive, packets=len(traffic) + len(epochs))
    peer = bench.peer
    for packet, answer in zip(
        [p for p in traffic if p in reads], peer.take(MessageClass.READ_DATA), strict=True
    ):
        first = packet.address // size
        assert echoed(answer) == asked(packet)
        assert (answer.inc, answer.source) == (1, RANK)
        assert answer.payload == list(range(first, first + -(-packet.length // size)))
    for packet, answer in zip(
        [p for p in traffic if p in writes], peer.take(MessageClass.WRITE_RESPONSE), strict=True
    ):
        assert echoed(answer) == asked(packet)
        assert (answer.inc, answer.source, answer.status, answer.payload) == (1, RANK, OKAY, [])
    arrivals = peer.take(MessageClass.WRITE_DATA)
    assert [p.payload for p in arrivals] == [[epoch] for epoch in epochs]
    for n, packet in enumerate(arrivals):
        assert (packet.address, packet.length) == (n * DOORBELL_SPACING, 8)
        assert (packet.inc, packet.source, packet.context) == (1, RANK, n)


@pytest.mark.parametrize("flit_bytes", [8, 16])
@pytest.mark.parametrize("outstanding", [1, 2, None])
def test_writes_that_depend_on_reads(flit_bytes, outstanding):
    """Copy in place through the endpoint, against memories that take 1, 2 or any bursts."""
    config = configuration(flit_bytes)
    draw = random.Random(0)
    memory = AxiMemory(
        flit_bytes,
        contents=lambda n: n,
        read_latency=4,
        write_latency=4,
        outstanding=outstanding,
        willing={name: pattern("half", name) for name in ("ar", "r", "aw", "w", "b")},
    )
    bench = Bench(config, memory)
    count, first = 30, PAGE - config.payload_bytes // 2
    reads = [
        request(draw, first + n * config.payload_bytes, config.payload_bytes) for n in range(count)
    ]
    bench.peer.send(*reads)

    async def copy(ctx):
        """Each packet of read data goes back, inverted, where it came from."""
        done = 0
        mask = (1 << config.flit_bits) - 1
        while done < count:
            await ctx.tick()
            for answer in bench.peer.take(MessageClass.READ_DATA)[done:]:
                header = reads[done].header | {"message_class": MessageClass.WRITE_DATA.value}
                bench.peer.send(Packet(header, [word ^ mask for word in answer.payload]))
                done += 1

    bench.run(copy, packets=2 * count)
    mask = (1 << config.flit_bits) - 1
    for number in range(count * config.payload_flits):
        number += first // flit_bytes
        assert memory.word(number) == number ^ mask


@pytest.mark.parametrize("flit_bytes", [8, 16])
@pytest.mark.parametrize("code", [SLVERR, DECERR])
def test_errors_of_both_directions_reach_the_switch(flit_bytes, code):
    """Bad reads and writes in between good ones; the traffic goes on."""
    config = configuration(flit_bytes)
    draw = random.Random(0)
    bad_page = 5
    memory = AxiMemory(
        flit_bytes,
        read_error=lambda address, beat: code if address // PAGE == bad_page else OKAY,
        write_error=lambda burst: code if burst.address // PAGE == bad_page else OKAY,
        willing={name: pattern("half", name) for name in ("r", "b")},
    )
    bench = Bench(config, memory, drain=pattern("quarter", 1))
    pages = [1, 5, 2, 5, 5, 3, 1]
    bench.peer.send(*[request(draw, PAGE * page, flit_bytes * 3) for page in pages])
    bench.peer.send(*[write(config, draw, PAGE * page, flit_bytes * 3) for page in pages])
    bench.run(packets=2 * len(pages))
    codes = [code if page == bad_page else OKAY for page in pages]
    reads = bench.peer.take(MessageClass.READ_DATA)
    assert [p.responses for p in reads] == [[c] * 3 for c in codes]
    assert [p.status for p in bench.peer.take(MessageClass.WRITE_RESPONSE)] == codes


@pytest.mark.parametrize("status", [OKAY, SLVERR, DECERR])
@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_an_arrival_is_acknowledged_once(flit_bytes, status):
    config = configuration(flit_bytes)
    bench = Bench(config)
    seen = []

    async def watch(ctx):
        dut = bench.dut
        header = random_header(random.Random(0), MessageClass.WRITE_RESPONSE, status=status)
        bench.peer.send(Packet(header))
        for _ in range(20):
            _, _, event, how = await ctx.tick().sample(dut.acknowledged, dut.acknowledgement)
            if event:
                seen.append(how.value)

    bench.run(watch, packets=0)
    assert seen == [status]


def test_ordinary_answers_that_nobody_asked_for_are_dropped():
    """They sink, with their credits, and disturb nothing."""
    config = configuration(16)
    draw = random.Random(0)
    bench = Bench(config)
    for message_class in (MessageClass.READ_DATA, MessageClass.WRITE_RESPONSE):
        for _ in range(20):
            bench.peer.send(Packet(random_header(draw, message_class, inc=0, status=DECERR)))
    bench.peer.send(request(draw, 0, 64))
    bench.run(packets=1)


@pytest.mark.parametrize(
    ("flit_bytes", "payload_flits", "latency", "count"),
    [(8, 4, 2, 60), (16, 8, 16, 60), (16, 8, 100, 60), (32, 128, 8, 12), (32, 128, 100, 12)],
)
def test_both_directions_at_full_rate(flit_bytes, payload_flits, latency, count):
    """A read request and a write packet in turn: the busier direction of the link never rests."""
    config = configuration(flit_bytes, payload_flits, memory_latency=latency)
    draw = random.Random(0)
    memory = AxiMemory(flit_bytes, contents=lambda n: n, read_latency=latency, write_latency=3)
    bench = Bench(config, memory)
    for n in range(count):
        bench.peer.send(request(draw, n * config.payload_bytes, config.payload_bytes))
        address = (1 << 19) + n * config.payload_bytes
        bench.peer.send(write(config, draw, address, config.payload_bytes))
    bench.run(packets=2 * count, limit=20_000)
    times = [
        at
        for at, p in zip(bench.peer.received_at, bench.peer.received, strict=True)
        if p.message_class == MessageClass.READ_DATA.value
    ]
    # Skip the start, where the memory's latency shows, and the end, where requests run out.
    first, last = count // 5, count - 1 - count // 5
    ideal = (last - first) * (config.packet_flits + config.header_flits)
    assert ideal / (times[last] - times[first]) >= 0.99


@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_latency_from_request_to_data(flit_bytes):
    """Queue 1, request 1, address 1, memory, transmitter 2: five cycles and the memory's."""
    config = configuration(flit_bytes)
    latency = 5
    memory = AxiMemory(flit_bytes, read_latency=latency)
    bench = Bench(config, memory)
    flits = request(random.Random(0), 0, flit_bytes).flits(config)
    waited = {}

    async def drive(ctx):
        rx, tx = bench.dut.rx, bench.dut.tx
        await ctx.tick().repeat(3)
        for cycle in range(40):
            ctx.set(rx.valid, cycle < len(flits))
            if cycle < len(flits):
                ctx.set(rx.flit, flits[cycle])
            if ctx.get(tx.valid):
                waited.setdefault("header", cycle - len(flits) + 1)
                if ctx.get(tx.flit.last):
                    waited.setdefault("last", cycle - len(flits) + 1)
            await ctx.tick()

    run(bench.dut, drive, background=[attach(memory, bench.dut.axi, ids=IDS)])
    header = 5 + latency
    assert waited == {"header": header, "last": header + config.header_flits}


@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_latency_of_a_write_and_its_response(flit_bytes):
    """First payload flit to address and data 2 cycles, response of the memory to the link 3."""
    config = configuration(flit_bytes)
    memory = AxiMemory(flit_bytes, write_latency=5)
    bench = Bench(config, memory)
    flits = write(config, random.Random(0), 0, flit_bytes).flits(config)
    seen = {}

    async def drive(ctx):
        rx, tx, axi = bench.dut.rx, bench.dut.tx, bench.dut.axi
        await ctx.tick().repeat(3)
        for cycle in range(40):
            ctx.set(rx.valid, cycle < len(flits))
            if cycle < len(flits):
                ctx.set(rx.flit, flits[cycle])
            for name, signal in (
                ("address", axi.awvalid),
                ("data", axi.wvalid),
                ("response", axi.bvalid),
                ("answer", tx.valid),
            ):
                if ctx.get(signal):
                    seen.setdefault(name, cycle - config.header_flits)
            await ctx.tick()

    run(bench.dut, drive, background=[attach(memory, bench.dut.axi, ids=IDS)])
    assert seen == {"address": 2, "data": 2, "response": 7, "answer": 10}
