"""`TrafficGenerator`: what it asks is golden's, every answer is checked, timed and counted."""

import random
from dataclasses import dataclass, field

import pytest

from hdl.config import SwitchConfig
from hdl.interfaces import MessageClass
from hdl.traffic.generator import TrafficGenerator
from hdl.traffic.settings import traffic_totals
from sim.golden import traffic as golden
from tests.lib.axi import DECERR, OKAY, SLVERR
from tests.lib.packets import Packet, beats, header_fields
from tests.lib.simulate import run, until

from .test_sequence import give

RANKS, RANK = 3, 1
#: A rate that holds nothing back.
FREE = 0xFFFF


def configuration(flit_bytes=8, requests=8, **more):
    return SwitchConfig.preset(
        "tiny", ranks=RANKS, flit_bytes=flit_bytes, payload_bytes=4 * flit_bytes, wave_bytes=512,
        traffic_requests=requests, core="forward", **more,
    )  # fmt: skip


@dataclass
class Network:
    """The rest of the system: takes packets, and answers each once, in any order, from golden.

    `spoil` makes of an answer the packets that come instead.
    """

    config: SwitchConfig
    traffic: golden.Traffic
    draw: random.Random
    delay: int = 20
    spoil: object = None
    asked: list = field(default_factory=list)
    latencies: list = field(default_factory=list)
    most: int = 0
    now: int = 0
    _due: list = field(default_factory=list)  # (cycle, asked in, packets)

    def answer(self, header, payload):
        config, traffic = self.config, self.traffic
        owner, local = divmod(header["address"], config.map_window_bytes)
        write = header["message_class"] == MessageClass.WRITE_DATA.value
        assert (header["source"], header["destination"], header["inc"]) == (RANK, owner, 0)
        content = golden.data(
            local, traffic.bytes, writer=RANK, owner=owner, seed=traffic.seed
        ).tobytes()
        self.asked.append(golden.Request(owner, write, local))
        assert header["length"] == traffic.bytes
        if write:
            sent = b"".join(word.to_bytes(config.flit_bytes, "little") for word in payload)
            assert sent[: traffic.bytes] == content
            assert len(sent) - len(content) < config.flit_bytes
        kind = MessageClass.WRITE_RESPONSE if write else MessageClass.READ_DATA
        # Bytes behind those asked for are whatever memory holds there.
        content += bytes(self.draw.randrange(256) for _ in range(-len(content) % config.flit_bytes))
        words = [
            int.from_bytes(content[at : at + config.flit_bytes], "little")
            for at in range(0, len(content), config.flit_bytes)
        ]
        packet = Packet(
            {"message_class": kind.value, "source": owner, "destination": RANK,
             "tag": header["tag"], "generation": header["generation"]},
            [] if write else words,
        )  # fmt: skip
        packets = self.spoil(len(self.asked) - 1, packet) if self.spoil else [packet]
        self._due.append((self.now + self.draw.randint(1, self.delay), self.now, packets))
        self.most = max(self.most, len(self._due))

    def bench(self, dut):
        async def clock(ctx):
            async for _ in ctx.tick():
                self.now += 1
                ctx.set(dut.now, self.now)

        async def take(ctx):
            """One packet at a time, as a link would: header, then payload."""
            while True:
                _, _, read, write, head, whead = await ctx.tick().sample(
                    dut.requests.head.valid, dut.writes_out.head.valid,
                    dut.requests.head.payload, dut.writes_out.head.payload,
                )  # fmt: skip
                assert not (read and write)
                if not (read or write) or not up(ctx, dut):
                    continue
                source = dut.writes_out if write else dut.requests
                ctx.set(source.head.ready, 1)
                await until(ctx, source.head.valid)
                ctx.set(source.head.ready, 0)
                words = []
                ctx.set(source.payload.ready, 1)
                for _ in range((whead if write else head).flits):
                    _, _, valid, flit = await ctx.tick().sample(
                        source.payload.valid, source.payload.payload.data
                    )
                    assert valid
                    words.append(flit)
                ctx.set(source.payload.ready, 0)
                self.answer(header_fields((whead if write else head).header), words)

        async def give_back(ctx):
            while True:
                ready = [due for due in self._due if due[0] <= self.now]
                if not ready:
                    await ctx.tick()
                    continue
                due = self.draw.choice(ready)
                self._due.remove(due)
                for packet in due[2]:
                    read = packet.message_class == MessageClass.READ_DATA.value
                    stream = dut.read_data if read else dut.write_responses
                    for beat in beats(packet):
                        ctx.set(stream.payload, beat)
                        ctx.set(stream.valid, 1)
                        assert ctx.get(stream.ready), "an answer had to wait"
                        await ctx.tick()
                        ctx.set(stream.valid, 0)
                        for _ in range(self.draw.randrange(2)):
                            await ctx.tick()

        return [clock, take, give_back]


def up(ctx, dut) -> bool:
    """Whether the rank's link is, where it may be down."""
    return not hasattr(dut, "up") or bool(ctx.get(dut.up))


def generate(
    config, traffic, *, asked=None, seed=0, rate=FREE, limit=6000, timeout=0, outages=(), **more
):
    """Run one sequence; the network, the totals, and the cycles.

    It is asked for requests of `asked` bytes, where that differs from what the network expects.
    Outages are pairs of cycles: so many later the link goes down, for so long.
    """
    dut = TrafficGenerator(config, rank=RANK)
    network = Network(config, traffic, random.Random(seed), **more)
    totals = {}

    async def bench(ctx):
        give(ctx, dut, traffic)
        ctx.set(dut.bytes, traffic.bytes if asked is None else asked)
        ctx.set(dut.rate, rate)
        if timeout:
            ctx.set(dut.timeout, timeout)
        assert ctx.get(dut.done)
        ctx.set(dut.go, 1)
        await ctx.tick()
        ctx.set(dut.go, 0)
        assert not ctx.get(dut.done)
        for after, cycles in outages:
            await ctx.tick().repeat(after)
            ctx.set(dut.up, 0)
            await ctx.tick().repeat(cycles)
            ctx.set(dut.up, 1)
        await until(ctx, dut.done)
        await ctx.tick().repeat(network.delay + 5)
        for total in traffic_totals(config):
            totals[total.name] = ctx.get(getattr(dut, total.name))

    cycles = run(dut, bench, background=network.bench(dut), limit=limit)
    return network, totals, cycles


@pytest.mark.parametrize(
    ("flit_bytes", "pattern", "writes"),
    [(8, pattern, 128) for pattern in golden.PATTERNS]
    + [(16, "all_to_all", 128), (64, "random", 128), (8, "random", 0), (16, "random", 256)],
)
def test_requests_answers_and_totals(flit_bytes, pattern, writes):
    config = configuration(flit_bytes)
    draw = random.Random(f"{flit_bytes} {pattern} {writes}")
    traffic = golden.Traffic(
        pattern=pattern, target=draw.choice([0, 2]), writes=writes, count=50, slots=4,
        bytes=draw.randint(1, config.payload_bytes), write_base=0x800, read_base=0x100,
        seed=draw.getrandbits(32),
    )  # fmt: skip
    network, totals, _ = generate(config, traffic)
    shape = golden.Shape(RANKS, config.payload_bytes)
    assert network.asked == list(golden.requests(shape, traffic, RANK))
    latencies = {name: totals.pop(f"latency_{name}") for name in ("min", "max", "sum")}
    assert totals == dict(
        asked=50, answered=50, moved=50 * traffic.bytes, errors=0, mismatches=0, strays=0
    )
    assert 0 < latencies["min"] <= latencies["sum"] / 50 <= latencies["max"]
    assert latencies["max"] <= network.delay * config.traffic_requests + 200


@pytest.mark.parametrize("beyond", [0, 1, 2, 31])
def test_a_request_has_a_payload_at_most(beyond):
    config = configuration()
    most = config.payload_bytes
    traffic = golden.Traffic(writes=128, count=20, bytes=most, write_base=0x800)
    _, totals, _ = generate(config, traffic, asked=most + beyond)
    assert (totals["answered"], totals["moved"], totals["errors"]) == (20, 20 * most, 0)


def test_the_target_of_a_hot_spot_asks_nothing():
    traffic = golden.Traffic(pattern="hot_spot", target=RANK, count=50)
    network, totals, _ = generate(configuration(), traffic)
    assert not network.asked
    assert totals["asked"] == totals["answered"] == 0


@pytest.mark.parametrize("requests", [1, 2, 16])
def test_axi_121_any_limit_of_outstanding_requests(requests):
    """A counter of IDs that fills stalled writes for ever. It is reached, and not passed."""
    traffic = golden.Traffic(writes=128, count=60, slots=2, bytes=32, write_base=0x800)
    network, totals, _ = generate(configuration(requests=requests), traffic, delay=150, limit=20000)
    assert network.most == requests
    assert totals["answered"] == 60


def test_latency_is_from_head_to_last_beat():
    """One request, answered after a known time."""
    traffic = golden.Traffic(writes=256, count=1, bytes=8)
    _, totals, _ = generate(configuration(), traffic, delay=1)
    assert totals["latency_min"] == totals["latency_max"] == totals["latency_sum"]
    assert 2 <= totals["latency_min"] <= 6


@pytest.mark.parametrize(("rate", "count"), [(256, 60), (64, 40), (13, 12)])
@pytest.mark.parametrize("writes", [0, 256])
def test_a_rate_is_flits_of_data_packets_in_a_cycle(rate, count, writes):
    config = configuration(requests=64)
    traffic = golden.Traffic(writes=writes, count=count, bytes=32, slots=64, write_base=0x1000)
    _, _, cycles = generate(config, traffic, rate=rate, limit=20000)
    flits = (count - 1) * config.packet_flits
    least = flits * 256 / rate
    # Behind the last request: its answer, and the wait of `generate`. The network itself takes up
    # to 10 cycles for a packet or an answer.
    most = max(least, 10 * count) * 1.02 + 100
    assert least <= cycles <= most


def spoiler(victim, change):
    return lambda number, packet: change(packet) if number == victim else [packet]


def wrong_word(packet):
    words = list(packet.payload)
    words[-1] ^= 1 << 3
    return [Packet(packet.header, words)]


def of_another(packet):
    """The same place as another rank would have it."""
    words = [word ^ 1 << 56 for word in packet.payload]
    return [Packet(packet.header, words)]


@pytest.mark.parametrize(
    "change",
    [
        wrong_word, of_another,
        lambda p: [Packet(p.header, p.payload[:-1])],
        lambda p: [Packet(p.header, [*p.payload, 0])],
    ],
    ids=["a bit", "another writer", "a flit less", "a flit more"],
)  # fmt: skip
def test_wrong_read_data_is_noticed(change):
    traffic = golden.Traffic(writes=0, count=20, bytes=32)
    _, totals, _ = generate(configuration(), traffic, spoil=spoiler(7, change))
    assert (totals["mismatches"], totals["errors"], totals["answered"]) == (1, 0, 20)


@pytest.mark.parametrize("code", [SLVERR, DECERR])
@pytest.mark.parametrize("beat", [0, 1, 3, None])
def test_an_error_on_any_beat_is_counted_once(code, beat):
    """First, in the middle, last; or an answer without payload."""

    def change(packet):
        if beat is None:
            return [Packet(packet.header | {"status": code})]
        responses = [code if index == beat else OKAY for index in range(4)]
        return [Packet(packet.header, packet.payload, responses)]

    traffic = golden.Traffic(writes=0, count=20, bytes=32)
    _, totals, _ = generate(configuration(), traffic, spoil=spoiler(5, change))
    assert (totals["errors"], totals["mismatches"]) == (1, 0)
    assert totals["moved"] == 19 * 32


def test_an_error_of_a_write_is_counted():
    change = spoiler(5, lambda p: [Packet(p.header | {"status": SLVERR})])
    traffic = golden.Traffic(writes=256, count=20, bytes=32)
    _, totals, _ = generate(configuration(), traffic, spoil=change)
    assert (totals["errors"], totals["moved"]) == (1, 19 * 32)


@pytest.mark.parametrize(
    "stray",
    [
        lambda p: Packet(p.header | {"source": (p.source + 2) % 4}),
        lambda p: Packet(p.header | {"tag": p.tag | 0x100}),
        lambda p: Packet(p.header | {"message_class": MessageClass.READ_DATA.value}),
    ],
    ids=["another rank", "another tag", "another kind"],
)
def test_an_answer_of_somebody_else_is_a_stray_and_ends_nothing(stray):
    """The right one, behind it, is taken; a second right one is a stray."""
    change = spoiler(5, lambda p: [stray(p), p, p])
    traffic = golden.Traffic(writes=256, count=20, bytes=32)
    _, totals, _ = generate(configuration(), traffic, spoil=change)
    assert (totals["strays"], totals["answered"], totals["errors"]) == (2, 20, 0)


@pytest.mark.parametrize("requests", [1, 2, 8])
def test_an_answer_that_does_not_come_is_given_up(requests):
    """And one that comes all the same is a stray, though its tag is in use again."""
    late = []

    def change(number, packet):
        if number == 5:
            late.append(packet)
            return []
        return [*late, packet] if number == 70 else [packet]

    traffic = golden.Traffic(writes=0, count=80, bytes=32)
    config = configuration(requests=requests, contexts=2)
    _, totals, _ = generate(config, traffic, spoil=change, timeout=300, delay=8)
    assert (totals["answered"], totals["timeouts"], totals["strays"]) == (79, 1, 1)
    assert (totals["mismatches"], totals["errors"], totals["lost"]) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_outstanding_when_the_link_goes_down_is_lost(seed):
    """Answers from before are strays; what is asked afterwards is answered."""
    traffic = golden.Traffic(writes=128, count=60, bytes=32, write_base=0x800)
    network, totals, _ = generate(
        configuration(contexts=2), traffic, seed=seed, delay=60,
        outages=[(100, 1), (50, 30), (1, 5)],
    )  # fmt: skip
    assert totals["asked"] == len(network.asked) == 60
    assert totals["lost"] > 0
    assert totals["answered"] == 60 - totals["lost"]
    assert (totals["mismatches"], totals["errors"], totals["timeouts"]) == (0, 0, 0)
    assert totals["strays"] <= totals["lost"]
