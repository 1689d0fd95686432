"""The emulated rank: its program arrives and waits, its watch sees flags, its registers tell."""

import random

import pytest
from amaranth import Module
from amaranth.lib.wiring import connect

from hdl.accelerator.window import window_words
from hdl.config import SwitchConfig
from hdl.emulated_rank import ArrivalMerge, EmulatedRank, FlagWatch, RankProgram
from hdl.interfaces import MessageClass
from hdl.registers import RANK_PAGE, addresses, rank_registers
from hdl.storage import BlockStorage
from hdl.transport import channels
from tests.lib.axi import DECERR, OKAY, SLVERR
from tests.lib.packets import LinkPeer, Packet, random_header
from tests.lib.simulate import SHAPES, pattern, run, stream_put, until

RANK = 2
FLAG = 256 + 8
#: Whose ranks write windows, of every word that there is.
POSTING = SwitchConfig.preset("tiny", contexts=2, collectives="all")


def configuration(flit_bytes):
    return SwitchConfig(
        ranks=3, flit_bytes=flit_bytes, payload_bytes=64, wave_bytes=256, memory_bytes=4096,
        link_latency=2, memory_latency=3,
    )  # fmt: skip


# -- flag watch ------------------------------------------------------------------------------------


@pytest.mark.parametrize("flit_bytes", [8, 16, 64])
def test_only_a_write_of_the_flag_is_seen(flit_bytes):
    """Its word of its flit, with its first byte strobed; not its neighbours, not a read."""
    dut = FlagWatch(configuration(flit_bytes))
    draw = random.Random(flit_bytes)

    async def bench(ctx):
        ctx.set(dut.address, FLAG)
        flag, place = 0, FLAG % flit_bytes
        for _ in range(300):
            enable, data = draw.randrange(2), draw.getrandbits(8 * flit_bytes)
            address = draw.choice([FLAG // flit_bytes, FLAG // flit_bytes + 1, 0])
            strobe = draw.choice(
                [0, (1 << flit_bytes) - 1, 0xFF << place, 0xFF << place ^ 1 << place]
            )
            strobe &= (1 << flit_bytes) - 1
            ctx.set(dut.write_enable, enable)
            ctx.set(dut.write_address, address)
            ctx.set(dut.write_data, data)
            ctx.set(dut.write_strobe, strobe)
            seen = enable and address == FLAG // flit_bytes and strobe >> place & 1
            assert ctx.get(dut.seen) == bool(seen)
            assert ctx.get(dut.flag) == flag
            await ctx.tick()
            if seen:
                flag = data >> 8 * place & (1 << 64) - 1

    run(dut, bench)


# -- program ---------------------------------------------------------------------------------------


async def start(ctx, dut, count, epoch, delay):
    ctx.set(dut.count, count)
    ctx.set(dut.epoch, epoch)
    ctx.set(dut.delay, delay)
    ctx.set(dut.go, 1)
    await ctx.tick()
    ctx.set(dut.go, 0)


@pytest.mark.parametrize("delay", [0, 1, 9])
def test_the_delay_before_each_arrival_is_exact(delay):
    dut = RankProgram()
    first = 0xFFFFFFFF  # so that the second epoch is 0

    async def bench(ctx):
        ctx.set(dut.flag_epoch, first - 1)
        await start(ctx, dut, 3, first, delay)
        for number in range(3):
            epoch = (first + number) & 0xFFFFFFFF
            for cycle in range(delay + 1):
                assert ctx.get(dut.arriving) == (cycle == delay)
                assert not ctx.get(dut.arrival.valid)
                await ctx.tick()
            for _ in range(4):  # the endpoint takes its time
                assert ctx.get(dut.arrival.valid)
                assert ctx.get(dut.arrival.payload.epoch) == epoch
                await ctx.tick()
            ctx.set(dut.arrival.ready, 1)
            await ctx.tick()
            ctx.set(dut.arrival.ready, 0)
            for _ in range(5):
                assert not ctx.get(dut.arrival.valid)
                assert not ctx.get(dut.done)
                await ctx.tick()
            ctx.set(dut.flag_epoch, epoch)
            await ctx.tick()
        assert ctx.get(dut.done)

    run(dut, bench)


@pytest.mark.parametrize("said", range(len(window_words(POSTING)) + 1))
@pytest.mark.parametrize("posts", [0, 1])
def test_what_the_link_may_have_lost_is_said_again(posts, said):
    """From the first word of its window on, however far it had come; once it has its flag, not."""
    dut = RankProgram(POSTING)
    words = [*range(1, len(window_words(POSTING))), 0] if posts else [0]
    said = min(said, len(words))

    async def take(ctx, count):
        taken = []
        ctx.set(dut.arrival.ready, 1)
        while len(taken) < count:
            seen = dut.arrival.valid, dut.arrival.payload.word
            _, _, valid, word = await ctx.tick().sample(*seen)
            taken += [word] if valid else []
        ctx.set(dut.arrival.ready, 0)
        return taken

    async def bench(ctx):
        ctx.set(dut.posts, posts)
        await start(ctx, dut, 1, 10, 0)
        assert await take(ctx, said) == words[:said]
        ctx.set(dut.lost, 1)
        await ctx.tick()
        ctx.set(dut.lost, 0)
        assert await take(ctx, len(words)) == words
        ctx.set(dut.flag_epoch, 10)
        ctx.set(dut.lost, 1)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.done)
        assert not ctx.get(dut.arrival.valid)

    run(dut, bench)


@pytest.mark.parametrize(
    ("flag", "over"),
    [
        (10, True),
        (9, False),
        (11, True),
        (10 + (1 << 31), False),
        (9 + (1 << 31), True),
        (0, False),
    ],
)
def test_a_wait_ends_with_its_epoch_or_a_later_one(flag, over):
    """(epoch - expected) mod 2^32 < 2^31: an older flag left in memory satisfies no wait."""
    dut = RankProgram()

    async def bench(ctx):
        ctx.set(dut.flag_epoch, flag & 0xFFFFFFFF)
        ctx.set(dut.arrival.ready, 1)
        await start(ctx, dut, 1, 10, 0)
        await ctx.tick().repeat(6)
        assert ctx.get(dut.done) == over

    run(dut, bench)


def test_go_is_ignored_while_running_and_without_a_count():
    dut = RankProgram()

    async def bench(ctx):
        await start(ctx, dut, 0, 1, 0)
        for _ in range(4):
            assert ctx.get(dut.done)
            assert not ctx.get(dut.arrival.valid)
            await ctx.tick()
        await start(ctx, dut, 1, 1, 5)
        await start(ctx, dut, 1, 7, 0)
        await until(ctx, dut.arrival.valid)
        assert ctx.get(dut.arrival.payload.epoch) == 1

    run(dut, bench)


def test_a_hasty_program_arrives_without_its_flags():
    """For one operation after the other, as a rank does that is out of step."""
    dut = RankProgram(configuration(8).replace(contexts=2))

    async def bench(ctx):
        ctx.set(dut.hasty, 1)
        ctx.set(dut.arrival.ready, 1)
        await start(ctx, dut, 3, 10, 2)
        epochs = []
        for _ in range(30):
            if ctx.get(dut.arrival.valid):
                epochs.append(ctx.get(dut.arrival.payload.epoch))
            await ctx.tick()
        assert epochs == [10, 11, 12]
        assert ctx.get(dut.done)

    run(dut, bench)


@pytest.mark.parametrize("shape", SHAPES)
def test_arrivals_of_several_programs_come_one_after_the_other(shape):
    """Each whole, once, under its own context, in its program's order."""
    config = POSTING.replace(contexts=4, waves=8)
    dut = ArrivalMerge(config)
    draw = random.Random(shape)
    count = 30
    fields = ("epoch", "word", "value")
    bits = {name: len(getattr(dut.o.payload, name)) for name in fields}
    sent = [
        [{name: draw.getrandbits(bits[name]) for name in fields} for _ in range(count)]
        for _ in range(config.contexts)
    ]
    came = [[] for _ in range(config.contexts)]

    def ask(context):
        async def body(ctx):
            await stream_put(ctx, dut.i[context], sent[context], pattern(shape, context))

        return body

    async def take(ctx):
        willing, waits = pattern(shape, "taker"), None
        while sum(map(len, came)) < count * config.contexts:
            ctx.set(dut.o.ready, next(willing))
            _, _, valid, ready, beat = await ctx.tick().sample(
                dut.o.valid, dut.o.ready, dut.o.payload
            )
            if waits is not None:
                assert (valid, beat) == (1, waits)
            waits = beat if valid and not ready else None
            if valid and ready:
                came[beat.context].append({name: getattr(beat, name) for name in fields})

    run(dut, take, *(ask(context) for context in range(config.contexts)), limit=8000)
    assert came == sent


# -- whole -----------------------------------------------------------------------------------------


class Bench:
    """A rank over block RAM, with the switch's end of its link in Python."""

    def __init__(self, flit_bytes, **overrides):
        self.config = config = configuration(flit_bytes).replace(**overrides)
        self.dut = EmulatedRank(config, rank=RANK)
        self.storage = BlockStorage(config)
        self.top = Module()
        self.top.submodules.rank, self.top.submodules.storage = self.dut, self.storage
        connect(self.top, self.dut.storage, self.storage.port)
        self.where = addresses(rank_registers(config), RANK_PAGE + RANK)
        self.width = {register.name: register.width for register in rank_registers(config)}
        self.peer = LinkPeer(
            config,
            to_dut=channels.credits_to_rank(config),
            from_dut=channels.credits_to_switch(config),
        )
        self.now = 0

    async def write(self, ctx, name, value):
        bus = self.dut.bus
        for word in range(-(-self.width[name] // 32)):
            address = self.where[name] + 4 * word
            ctx.set(bus.page, address >> 10)
            ctx.set(bus.word, address >> 2 & 0xFF)
            ctx.set(bus.write_data, value >> 32 * word & 0xFFFFFFFF)
            ctx.set(bus.write, 1)
            await ctx.tick()
            ctx.set(bus.write, 0)

    async def read(self, ctx, name):
        bus, value = self.dut.bus, 0
        for word in range(-(-self.width[name] // 32)):
            address = self.where[name] + 4 * word
            ctx.set(bus.page, address >> 10)
            ctx.set(bus.word, address >> 2 & 0xFF)
            ctx.set(bus.read, 1)
            await ctx.tick()
            ctx.set(bus.read, 0)
            await ctx.tick()
            value |= ctx.get(bus.read_data) << 32 * word
        return value

    def packet(self, message_class, address=0, words=(), **fields):
        length = len(words) * self.config.flit_bytes
        fields = {"address": address, "length": length} | fields
        return Packet(random_header(random.Random(0), message_class, **fields), list(words))

    def flag(self, epoch, **fields):
        place = FLAG % self.config.flit_bytes
        header = {"address": FLAG, "length": 8} | fields
        return self.packet(MessageClass.WRITE_DATA, words=[epoch << 8 * place], **header)

    async def clock(self, ctx):
        async for _ in ctx.tick():
            self.now += 1
            ctx.set(self.dut.now, self.now)

    def run(self, bench, limit=3000):
        background = [self.peer.bench(self.dut.rx, self.dut.tx), self.clock]
        run(self.top, bench, background=background, limit=limit)


async def packet_of(ctx, peer, message_class, count):
    while len(peer.take(message_class)) < count:
        await ctx.tick()
    return peer.take(message_class)[count - 1]


@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_operations_back_to_back(flit_bytes):
    """Each arrival waits for the flag before it; stale flags and neighbours do not end a wait."""
    bench = Bench(flit_bytes)
    dut, peer = bench.dut, bench.peer

    async def body(ctx):
        await bench.write(ctx, "flag_address", FLAG)
        await bench.write(ctx, "epoch", 41)
        await bench.write(ctx, "count", 3)
        await bench.write(ctx, "delay", 7)
        ctx.set(dut.go, 1)
        started = bench.now
        await ctx.tick()
        ctx.set(dut.go, 0)
        for number in range(3):
            arrival = await packet_of(ctx, peer, MessageClass.WRITE_DATA, number + 1)
            assert arrival.payload == [41 + number]
            assert (arrival.source, arrival.inc) == (RANK, 1)
            if number == 0:
                assert await bench.read(ctx, "arrive_time") == started + 1 + 7
            peer.send(bench.packet(MessageClass.WRITE_RESPONSE, status=OKAY))
            peer.send(bench.flag(40 + number))  # the last operation's
            neighbour = FLAG + (8 if FLAG % flit_bytes == 0 else flit_bytes)
            peer.send(bench.flag(99, address=neighbour))
            await ctx.tick().repeat(40)
            assert len(peer.take(MessageClass.WRITE_DATA)) == number + 1
            assert not ctx.get(dut.done)
            peer.send(bench.flag(41 + number))
        await until(ctx, dut.done)
        assert await bench.read(ctx, "flag") == 43
        assert await bench.read(ctx, "refused") == 0

    bench.run(body)


@pytest.mark.parametrize("flit_bytes", [8, 16])
def test_the_flag_time_is_the_cycle_in_which_it_is_in_memory(flit_bytes):
    bench = Bench(flit_bytes)
    dut = bench.dut
    written = []

    async def watch(ctx):
        storage = dut.storage
        async for _, _, enable, now in ctx.tick().sample(storage.write_enable, dut.now):
            if enable:
                written.append(now)

    async def body(ctx):
        await bench.write(ctx, "flag_address", FLAG)
        bench.peer.send(bench.flag(1 | 5 << 32))
        await packet_of(ctx, bench.peer, MessageClass.WRITE_RESPONSE, 1)
        assert written == [await bench.read(ctx, "flag_time")]
        assert await bench.read(ctx, "flag") == 1 | 5 << 32
        word = ctx.get(bench.storage.array.data[FLAG // flit_bytes])
        assert word >> 8 * (FLAG % flit_bytes) == 1 | 5 << 32

    background = [bench.peer.bench(dut.rx, dut.tx), bench.clock, watch]
    run(bench.top, body, background=background)


def test_refused_arrivals_are_counted():
    bench = Bench(8)

    async def body(ctx):
        for status in (SLVERR, OKAY, DECERR, OKAY):
            bench.peer.send(bench.packet(MessageClass.WRITE_RESPONSE, status=status))
        await ctx.tick().repeat(20)
        assert await bench.read(ctx, "refused") == 2

    bench.run(body)


@pytest.mark.parametrize(("flit_bytes", "slices"), [(8, "none"), (16, "none"), (8, "all")])
def test_what_is_written_is_read_back_and_beyond_memory_is_decerr(flit_bytes, slices):
    bench = Bench(flit_bytes, register_slices=slices)
    draw = random.Random(0)
    config = bench.config

    async def body(ctx):
        await bench.write(ctx, "stalls", 0x40_40_40_40_40)
        await bench.write(ctx, "jitter", 5)
        await bench.write(ctx, "seed", 7)
        words = [draw.getrandbits(config.flit_bits) for _ in range(config.payload_flits)]
        for address in (64, config.memory_bytes - 64, config.memory_bytes):
            bench.peer.send(bench.packet(MessageClass.WRITE_DATA, address, words))
        await packet_of(ctx, bench.peer, MessageClass.WRITE_RESPONSE, 3)
        statuses = [p.status for p in bench.peer.take(MessageClass.WRITE_RESPONSE)]
        assert statuses == [OKAY, OKAY, DECERR]
        for address in (64, config.memory_bytes - 64, config.memory_bytes):
            bench.peer.send(bench.packet(MessageClass.READ_REQUEST, address, length=64))
        await packet_of(ctx, bench.peer, MessageClass.READ_DATA, 3)
        answers = bench.peer.take(MessageClass.READ_DATA)
        assert [p.payload for p in answers[:2]] == [words, words]
        good, bad = [OKAY] * len(words), [DECERR] * len(words)
        assert [p.responses for p in answers] == [good, good, bad]

    bench.run(body)


@pytest.mark.parametrize("latency", [2, 3, 20])
def test_the_memory_latency_register_counts_at_once(latency):
    bench = Bench(16)

    async def body(ctx):
        await bench.write(ctx, "memory_latency", latency)
        bench.peer.send(bench.packet(MessageClass.READ_REQUEST, 0, length=16))
        sent = bench.peer.now
        await packet_of(ctx, bench.peer, MessageClass.READ_DATA, 1)
        waits.append(bench.peer.received_at[0] - sent)

    waits = []
    bench.run(body)
    # Queue, request, address, transmitter's two, header: see the endpoint; and the peer's own edge.
    assert waits == [latency + 7]
