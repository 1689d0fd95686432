"""`LinkEnd`: two ends agree on when a link begins anew, whatever its lines lose and when."""

import itertools
import random

import pytest
from amaranth import Module
from amaranth.lib.wiring import connect

from formal.inside import Inside
from hdl.config import SwitchConfig
from hdl.interfaces import LinkState, MessageClass
from hdl.transport import channels
from hdl.transport.endpoint import Endpoint
from hdl.transport.link import Link
from hdl.transport.link_end import LinkEnd
from hdl.transport.port import Port
from tests.lib.axi import DECERR, AxiMemory, attach
from tests.lib.packets import Packet, random_header, send_packets
from tests.lib.simulate import idle, pattern, run, stream_get, stream_put, until

UP, DOWN, CLEAN, SILENT = LinkState
#: UPs of an end that the search tells apart.
PERIODS = 3


def transitions() -> dict:
    """What the hardware does: (state, heard, clean) to (next state, takes, lost)."""
    dut, table = LinkEnd(), {}
    # A way to each state from UP: what is heard, clean.
    ways = {UP: [], DOWN: [(SILENT, 0)], CLEAN: [(SILENT, 0), (DOWN, 1)]}
    back = [(SILENT, 1), (DOWN, 1), (CLEAN, 1)]

    async def bench(ctx):
        async def hear(heard, clean):
            ctx.set(dut.heard, heard)
            ctx.set(dut.clean, clean)
            _, _, takes, lost = await ctx.tick().sample(dut.takes, dut.lost)
            return ctx.get(dut.state), takes, lost

        for state, heard, clean in itertools.product(ways, LinkState, (0, 1)):
            for step in ways[state]:
                await hear(*step)
            assert ctx.get(dut.state) == state
            table[state, heard, clean] = await hear(heard, clean)
            while ctx.get(dut.state) != UP:
                for step in back[1:] if ctx.get(dut.state) == DOWN else back[:1]:
                    await hear(*step)

    run(dut, bench)
    return table


class Search:
    """Every state that two ends and two lines of `latency` cycles can come to.

    An end is (state, number of its UP, whether it has sent in it, whose UP it takes from); a line
    carries (state, UP, first of it) a cycle. Each end sends in every cycle that it is UP.
    """

    def __init__(self, table: dict, latency: int):
        self.table = table
        self.dead = ((SILENT, 0, False),) * latency

    def end(self, end, heard, clean):
        state, period, sent, taken = end
        following, takes, _lost = self.table[state, heard[0], clean]
        if takes:
            assert heard[2] == (taken is None), "what is taken first was sent first, and only that"
            assert taken in (None, heard[1]), "flits of two UPs are taken in one"
            taken = heard[1]
        if following != UP:
            return following, period, False, None
        if state != UP:
            return UP, (period + 1) % PERIODS, False, None
        return UP, period, True, taken

    def step(self, state, ups, cleans):
        """What follows from a state."""
        ends, lines = state
        heard = [line[-1] if up else self.dead[0] for line, up in zip(lines, ups, strict=True)]
        after = tuple(
            self.end(end, heard[1 - n], clean)
            for n, (end, clean) in enumerate(zip(ends, cleans, strict=True))
        )
        says = [
            (end[0], end[1] if end[0] == UP else 0, end[0] == UP and not end[2]) for end in ends
        ]
        carried = tuple(
            (said, *line[:-1]) if up else self.dead
            for said, line, up in zip(says, lines, ups, strict=True)
        )
        return after, carried

    def reached(self) -> set:
        """All states from reset on; lines carry nothing in the first cycles."""
        first = (((UP, 0, False, None),) * 2, (self.dead,) * 2)
        seen, front = {first}, [first]
        bits = list(itertools.product((0, 1), repeat=2))
        while front:
            state = front.pop()
            for ups, cleans in itertools.product(bits, bits):
                following = self.step(state, ups, cleans)
                if following not in seen:
                    seen.add(following)
                    front.append(following)
        return seen


def test_a_link_is_lost_where_it_leaves_up():
    for (state, _heard, _clean), (following, takes, lost) in transitions().items():
        assert lost == (state == UP and following != UP)
        assert not (lost and takes)


@pytest.mark.parametrize("latency", [1, 2, 3])
def test_every_state_that_two_ends_can_come_to(latency):
    """What is taken in one UP was sent in one UP, without a gap; and both always come back.

    With both lines up and both ends clean they are UP for good within nine latencies and two
    cycles, from wherever they are.
    """
    search = Search(transitions(), latency)
    states = search.reached()
    assert len(states) > 500
    for state in states:
        last = 0
        for cycle in range(1, 12 * latency + 8):
            state = search.step(state, (1, 1), (1, 1))
            if any(end[0] != UP for end in state[0]):
                last = cycle
        assert last <= 9 * latency + 2


CONFIG = SwitchConfig.preset("tiny", contexts=2, core="forward")
PAYLOAD = CONFIG.payload_bytes
#: Cycles in which all that is under way in these small systems comes to its end.
SETTLES = 300
#: What the port sends, and the endpoint: sources by name, with their class and whether INC.
FROM_PORT = {
    "requests": (MessageClass.READ_REQUEST, 1),
    "writes": (MessageClass.WRITE_DATA, 1),
    "core_requests": (MessageClass.READ_REQUEST, 0),
    "core_writes": (MessageClass.WRITE_DATA, 0),
}
FROM_ENDPOINT = {
    "requests": (MessageClass.READ_REQUEST, 0),
    "writes": (MessageClass.WRITE_DATA, 0),
}


class Pair:
    """A port, a link and an endpoint with a memory, and traffic of every kind between them.

    Tags count up, so an answer tells when its request was sent.
    """

    def __init__(self, seed: int, latency: int, slices: str):
        print("seed", seed, "latency", latency, "slices", slices)
        config = CONFIG.replace(register_slices=slices)
        self.draw = random.Random(f"{seed} {latency}")
        top = Module()
        names = ("port", "endpoint", "there", "back")
        parts = Port(config), Endpoint(config, rank=0), Link(config), Link(config)
        for name, part in zip(names, parts, strict=True):
            top.submodules[name] = part
        self.port, self.endpoint, self.there, self.back = parts
        for source, sink in (
            (self.port.tx, self.there.i), (self.there.o, self.endpoint.rx),
            (self.endpoint.tx, self.back.i), (self.back.o, self.port.rx),
        ):  # fmt: skip
            connect(top, source, sink)
        self.inside = Inside(top)
        self.latency = latency
        self.memory = AxiMemory(
            CONFIG.flit_bytes, contents=lambda n: n, read_latency=self.draw.randrange(1, 8),
            willing={name: pattern("half", f"{seed} {name}") for name in ("aw", "w", "b", "ar")},
        )  # fmt: skip
        self.initial = {
            f"{end}.transmitter.credits_{number}.available": count
            for end, table in (
                ("port", channels.credits_to_rank(config)),
                ("endpoint", channels.credits_to_switch(config)),
            )
            for number, count in table.items()
        }
        self.tag = 0
        self.first = 0  # tag of the first request that was sent in this UP
        self.asks = True  # traffic goes on
        self.answered = 0
        self.outages = 0

    def credits(self, ctx) -> dict:
        return {name: ctx.get(self.inside.signal(name)) for name in self.initial}

    def up(self, ctx) -> bool:
        return ctx.get(self.port.state) == UP and ctx.get(self.endpoint.up) == 1

    def packet(self, message_class, inc) -> Packet:
        flits = self.draw.randrange(1, CONFIG.payload_flits + 1)
        window = self.draw.randrange(CONFIG.memory_bytes // PAYLOAD) * PAYLOAD
        header = random_header(
            self.draw, message_class, inc=inc, source=0, destination=0, tag=self.tag,
            address=window, length=flits * CONFIG.flit_bytes, status=0,
        )  # fmt: skip
        self.tag += 1
        if message_class is MessageClass.READ_REQUEST:
            return Packet(header)
        return Packet(header, [self.draw.getrandbits(CONFIG.flit_bits) for _ in range(flits)])

    def traffic(self, source, message_class, inc, is_up):
        """A bench that offers packets while the link is up, as who draws on it does."""

        async def bench(ctx):
            while True:
                await idle(ctx, self.draw.choice([1, 1, 2, 30]))
                if self.asks and is_up(ctx):
                    await send_packets(ctx, source, [self.packet(message_class, inc)])

        return bench

    def answers(self, beats):
        """A bench that takes answers. While the link is up none is to a request from before an
        outage; while it is not, those that had come are given.
        """

        async def bench(ctx):
            ctx.set(beats.ready, 1)
            seen = beats.valid, beats.payload, self.port.state
            async for _, _, valid, payload, state in ctx.tick().sample(*seen):
                if valid:
                    header = payload.beat.header if hasattr(payload, "beat") else payload.header
                    assert state != UP or header.tag >= self.first, "from before the outage"
                    self.answered += 1

        return bench

    async def whole(self, ctx):
        """Ordinary writes leave the port whole or not at all."""
        beats, flits = self.port.to_core_writes, 0
        ctx.set(beats.ready, 1)
        ctx.set(self.port.to_core_requests.ready, 1)
        async for _, _, valid, payload in ctx.tick().sample(beats.valid, beats.payload):
            if valid:
                assert payload.beat.first == (flits == 0)
                flits += 1
                if payload.beat.last:
                    assert flits * CONFIG.flit_bytes == payload.beat.header.length
                    flits = 0

    async def watch(self, ctx):
        """Note which requests belong to this UP: those whose tag is drawn from its begin on."""
        before = UP
        async for _, _, state in ctx.tick().sample(self.port.state):
            if state != UP and before == UP:
                self.outages += 1
            if state != UP:
                self.first = self.tag
            before = state

    def run(self, bench, *more, limit=40_000):
        port, endpoint = self.port, self.endpoint

        def port_up(ctx):
            return ctx.get(port.state) == UP

        def endpoint_up(ctx):
            return ctx.get(endpoint.up) == 1

        background = [attach(self.memory, endpoint.axi), self.watch, self.whole]
        for name, kind in FROM_PORT.items():
            background.append(self.traffic(getattr(port, name), *kind, port_up))
        for name, kind in FROM_ENDPOINT.items():
            background.append(self.traffic(getattr(endpoint, name), *kind, endpoint_up))
        for beats in (
            port.read_data, port.write_responses, port.to_core_read_data,
            port.to_core_write_responses,
        ):  # fmt: skip
            background.append(self.answers(beats))

        async def set_up(ctx):
            for line in (self.there, self.back):
                ctx.set(line.latency, self.latency)
            await bench(ctx)

        run(self.inside.fragment, set_up, background=[*background, *more], limit=limit)

    async def cut(self, ctx, lines, cycles):
        for line in lines:
            ctx.set(line.up, 0)
        await ctx.tick().repeat(cycles)
        for line in lines:
            ctx.set(line.up, 1)

    async def settle(self, ctx):
        """Let traffic end: everything is idle, and every credit is back."""
        self.asks = False
        await ctx.tick().repeat(SETTLES)
        assert self.up(ctx)
        assert self.credits(ctx) == self.initial
        self.asks = True


def outages(seed: int, latency: int, rounds: int, slices: str = "none"):
    """Outages of both lines or of one, short and long, one behind the other, amid traffic."""
    pair = Pair(seed, latency, slices)
    draw = pair.draw

    async def bench(ctx):
        for _ in range(rounds):
            await ctx.tick().repeat(draw.randrange(20, 150))
            for _ in range(draw.choice([1, 1, 2, 4])):
                lines = draw.choice([[pair.there, pair.back], [pair.there], [pair.back]])
                await pair.cut(ctx, lines, draw.choice([1, 2, latency, 60]))
                await ctx.tick().repeat(draw.choice([1, latency, 3 * latency]))
            await pair.settle(ctx)
            before = pair.answered
            await ctx.tick().repeat(100)
            assert pair.answered > before

    pair.run(bench)
    assert pair.outages >= rounds


@pytest.mark.parametrize(("seed", "latency", "slices"), [(1, 2, "none"), (2, 5, "all")])
def test_outages_amid_traffic_lose_no_credit_and_replay_nothing(seed, latency, slices):
    """No burst is cut on the bus; what comes afterwards is whole, and answers what was asked
    afterwards; when all is idle every credit is back.
    """
    outages(seed, latency, rounds=4, slices=slices)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 20))
def test_many_outages(seed):
    outages(seed, latency=2 + seed % 7, rounds=20, slices=["none", "all"][seed % 2])


@pytest.mark.parametrize(("seed", "slices"), [(1, "none"), (2, "all")])
def test_arrivals_come_one_after_the_other_across_outages(seed, slices):
    """A rank that says again what was lost is heard: each arrival comes, none after a later one,
    and none that is offered while the link is down is taken for gone.
    """
    pair = Pair(seed, 3, slices)
    pair.asks = False
    port, endpoint, draw = pair.port, pair.endpoint, pair.draw
    came, said, count = [], [], 12

    async def doorbell(ctx):
        while True:
            (beat,) = await stream_get(ctx, port.arrivals, 1)
            came.append(beat.data & 0xFFFF_FFFF)
            header = random_header(draw, MessageClass.WRITE_RESPONSE, inc=1, status=0)
            await send_packets(ctx, port.answers, [Packet(header)])

    async def rank(ctx):
        for epoch in range(1, count + 1):
            await idle(ctx, draw.randrange(20))
            lost = True
            while lost:
                await stream_put(ctx, endpoint.arrival, [{"epoch": epoch}])
                (lost,) = await until(ctx, endpoint.acknowledged, endpoint.arrivals_lost)
        said.append(count)

    async def bench(ctx):
        while not said:
            lines = draw.choice([[pair.there, pair.back], [pair.there], [pair.back]])
            await pair.cut(ctx, lines, draw.choice([1, 3, 60]))
            await ctx.tick().repeat(draw.randrange(1, 60))

    pair.run(bench, rank, doorbell)
    assert list(dict.fromkeys(came)) == list(range(1, count + 1))
    assert came == sorted(came)
    assert len(came) > count, "nothing was lost"


@pytest.mark.parametrize("cycles", [1, 60])
@pytest.mark.parametrize("answered", [0, 3, 9])
def test_arrivals_without_an_answer_have_one_here_before_the_end_is_clean(answered, cycles):
    """Each once, and those that the switch has answered no second one; however long it lasts."""
    count = 9
    pair = Pair(answered, 2, "none")
    pair.asks = False
    port, endpoint = pair.port, pair.endpoint
    given, lost = [], []

    async def doorbell(ctx):
        await stream_get(ctx, port.arrivals, count)
        for _ in range(answered):
            header = random_header(pair.draw, MessageClass.WRITE_RESPONSE, inc=1, status=0)
            await send_packets(ctx, port.answers, [Packet(header)])

    async def rank(ctx):
        await stream_put(ctx, endpoint.arrival, [{"epoch": 1 + n} for n in range(count)])

    async def note(ctx):
        seen = endpoint.acknowledged, endpoint.acknowledgement, endpoint.arrivals_lost
        async for _, _, told, response, gone, state in ctx.tick().sample(*seen, endpoint.tx.state):
            if told:
                (lost if gone else given).append(response.value)
            assert state != CLEAN or len(given) + len(lost) == count

    async def bench(ctx):
        await ctx.tick().repeat(SETTLES)
        assert (given, lost) == ([0] * answered, [])
        await pair.cut(ctx, [pair.there, pair.back], cycles)
        await pair.settle(ctx)

    pair.run(bench, rank, doorbell, note)
    assert pair.outages == 1
    assert (given, lost) == ([0] * answered, [DECERR] * (count - answered))
