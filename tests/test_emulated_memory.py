"""`EmulatedMemory` against a manager in Python that checks every rule of AXI4."""

import random

import pytest
from amaranth import Module
from amaranth.lib.wiring import connect

from hdl.config import SwitchConfig
from hdl.emulated_memory import STALL_CHANNELS, EmulatedMemory, Jitter, RandomBits
from hdl.storage import BlockStorage
from tests.lib.axi import DECERR, OKAY, SLVERR, AxiManager
from tests.lib.simulate import SHAPES, pattern, run

CONFIG = SwitchConfig(
    ranks=2, flit_bytes=8, payload_bytes=32, wave_bytes=256, memory_bytes=3 << 12,
    link_latency=2, memory_latency=8,
)  # fmt: skip
WORDS = CONFIG.memory_flits


class Bench:
    """The memory over block RAM, with every word telling its number."""

    def __init__(self, config=CONFIG, **settings):
        self.settings = dict(latency=2, write_latency=1) | settings
        self.memory = EmulatedMemory(config)
        self.storage = BlockStorage(config)
        self.top = Module()
        self.top.submodules.memory = self.memory
        self.top.submodules.storage = self.storage
        connect(self.top, self.memory.storage, self.storage.port)

    @staticmethod
    def initial(number):
        return number * 0x0001_0001_0001_0001

    def run(self, manager, limit=3000):
        """Everything that `manager` wants; then every word of the array."""
        words = []
        self.accesses = [0, 0]  # reads and writes that reach the array

        async def count(ctx):
            storage = self.memory.storage
            enables = (storage.read_enable, storage.write_enable)
            async for _, _, *values in ctx.tick().sample(*enables):
                self.accesses = [a + b for a, b in zip(self.accesses, values, strict=True)]

        async def set_up(ctx):
            for name, value in self.settings.items():
                ctx.set(getattr(self.memory, name), value)
            for number in range(WORDS):
                ctx.set(self.storage.array.data[number], self.initial(number))
            if "seed" in self.settings:
                ctx.set(self.memory.reseed, 1)
                await ctx.tick()
                ctx.set(self.memory.reseed, 0)
                await ctx.tick().repeat(2)

        async def bench(ctx):
            await set_up(ctx)
            await manager.bench(self.memory.axi, after=5)(ctx)
            words.extend(ctx.get(self.storage.array.data[n]) for n in range(WORDS))

        run(self.top, bench, background=[count], limit=limit)
        return words


def manager(**more):
    return AxiManager(data_bytes=8, **more)


def stalls(**thresholds):
    return sum(thresholds.get(name, 0) << 8 * i for i, name in enumerate(STALL_CHANNELS))


def waits(manager, beats):
    """Cycles from each read address taken to its first beat."""
    firsts = [sum(beats[:n]) for n in range(len(beats))]
    return [
        manager.taken["r"][first] - address
        for first, address in zip(firsts, manager.taken["ar"], strict=True)
    ]


def one_by_one(period):
    """Willing once in `period` cycles: each read finds the memory idle."""
    return (n % period == 0 for n in iter(range(10**9).__iter__().__next__, None))


@pytest.mark.parametrize("latency", [2, 3, 4, 17, 100])
def test_read_latency_is_exact(latency):
    willing = {"ar": one_by_one(latency + 12)}
    reads = [(64 * n, 1 + n) for n in range(6)]
    m = manager(reads=reads, willing=willing)
    Bench(latency=latency).run(m)
    assert waits(m, [beats for _, beats in reads]) == [latency] * 6


def test_reads_that_overlap_wait_only_for_each_other():
    """One beat a cycle from the first on, whatever the latency."""
    m = manager(reads=[(256 * n, 4) for n in range(10)])
    Bench(latency=5).run(m)
    first = m.taken["ar"][0] + 5
    assert m.taken["r"] == list(range(first, first + 40))


@pytest.mark.parametrize("latency", [1, 2, 30])
def test_write_latency_is_exact(latency):
    writes = [(64 * n, [n] * (n + 1), None) for n in range(5)]
    willing = {"aw": one_by_one(latency + 12), "w": one_by_one(2)}
    m = manager(writes=writes, willing=willing)
    Bench(write_latency=latency).run(m)
    lasts, taken = [], iter(m.taken["w"])
    for _, words, _ in writes:
        lasts.append([next(taken) for _ in words][-1])
    assert [b - w for b, w in zip(m.taken["b"], lasts, strict=True)] == [latency] * 5


@pytest.mark.parametrize("jitter", [1, 7, 40])
def test_jitter_adds_up_to_its_limit_and_reaches_both_ends(jitter):
    reads = [(8 * n, 1) for n in range(60 if jitter < 10 else 200)]
    m = manager(reads=reads, willing={"ar": one_by_one(jitter + 8)})
    Bench(latency=4, jitter=jitter, seed=3).run(m, limit=15_000)
    seen = {wait - 4 for wait in waits(m, [1] * len(reads))}
    assert min(seen) == 0
    assert max(seen) == jitter
    assert len(seen) > jitter // 2


@pytest.mark.parametrize("jitter", [1, 7])
def test_jitter_of_writes_adds_up_to_its_limit_and_reaches_both_ends(jitter):
    count = 60
    writes = [(8 * n, [n], None) for n in range(count)]
    m = manager(writes=writes, willing={"aw": one_by_one(jitter + 12)})
    Bench(write_latency=4, jitter=jitter, seed=3).run(m, limit=15_000)
    assert len(m.taken["b"]) == count
    seen = {b - w - 4 for b, w in zip(m.taken["b"], m.taken["w"], strict=True)}
    assert (min(seen), max(seen)) == (0, jitter)


@pytest.mark.parametrize("channel", STALL_CHANNELS)
@pytest.mark.parametrize("threshold", [64, 192])
def test_a_stall_has_its_probability_on_its_channel(channel, threshold):
    """A channel that could go on each cycle does so in 1 - threshold / 256 of them."""
    count = 400
    reads = [(8 * (n % WORDS), 1) for n in range(count)] if channel in ("ar", "r") else []
    writes = [] if reads else [(8 * (n % WORDS), [n], None) for n in range(count)]
    m = manager(reads=reads, writes=writes)
    Bench(stalls=stalls(**{channel: threshold}), seed=9).run(m, limit=6000)
    taken = m.taken[channel]
    rate = (len(taken) - 1) / (taken[-1] - taken[0])
    assert rate == pytest.approx(1 - threshold / 256, abs=0.06)


@pytest.mark.parametrize(("early", "wait"), [(0, 1), (1, 0), (5, 0)])
def test_a_first_beat_is_taken_from_the_cycle_after_its_address_on(early, wait):
    """Offered with its address it waits one cycle, offered later none."""
    bench = Bench()
    axi = bench.memory.axi

    async def drive(ctx):
        for name, value in dict(awvalid=1, awsize=3, awburst=1, wlast=1).items():
            ctx.set(getattr(axi, name), value)
        for cycle in range(early + wait + 1):
            ctx.set(axi.wvalid, cycle >= early)
            taken = ctx.get(axi.wready & axi.wvalid)
            assert taken == (cycle == early + wait)
            await ctx.tick()
            ctx.set(axi.awvalid, 0)

    run(bench.top, drive)


def test_no_stall_without_a_threshold():
    m = manager(reads=[(0, 256)], writes=[(4096, list(range(256)), None)])
    Bench(seed=1).run(m)
    for channel in ("r", "w"):
        taken = m.taken[channel]
        assert taken == list(range(taken[0], taken[0] + 256))


@pytest.mark.parametrize("shape", SHAPES)
def test_any_traffic_under_any_stall_against_a_model(shape):
    """Stalls on all channels and jitter here, any willingness there; every word is compared."""
    draw = random.Random(shape)
    half = WORDS // 2  # reads below, writes above, so that order does not matter
    reads = []
    for _ in range(20):
        start = draw.randrange(half)
        reads.append((8 * start, min(draw.randint(1, 20), half - start, 512 - start % 512)))
    writes, expected = [], [Bench.initial(n) for n in range(WORDS)]
    for _ in range(20):
        start = draw.randrange(half, WORDS)
        count = min(draw.randint(1, 20), WORDS - start, 512 - start % 512)
        words = [draw.getrandbits(64) for _ in range(count)]
        strobes = [draw.choice([0, 0xFF, draw.getrandbits(8)]) for _ in range(count)]
        writes.append((8 * start, words, strobes))
        for i, (word, strobe) in enumerate(zip(words, strobes, strict=True)):
            mask = sum(0xFF << 8 * b for b in range(8) if strobe >> b & 1)
            expected[start + i] = expected[start + i] & ~mask | word & mask
    willing = {name: pattern(shape, name) for name in STALL_CHANNELS}
    m = manager(reads=reads, writes=writes, willing=willing)
    everywhere = stalls(**dict.fromkeys(STALL_CHANNELS, 100))
    words = Bench(latency=3, jitter=9, stalls=everywhere, seed=5).run(m, limit=6000)
    due = [(Bench.initial(a // 8 + i), OKAY, i == n - 1) for a, n in reads for i in range(n)]
    assert m.read_data == due
    assert m.answers == [OKAY] * len(writes)
    assert words == expected


@pytest.mark.parametrize("start", [WORDS, WORDS - 1, WORDS - 2, WORDS + 77, 1 << 20, (1 << 45) - 4])
def test_a_burst_outside_is_answered_with_decerr_and_touches_nothing(start):
    """Also with both answers stalled; the inside accesses behind it are well."""
    count = 3
    reads = [(8 * start, count), (0, 2)]
    writes = [(8 * start, [1, 2, 3], None), (16, [4, 5], None)]
    m = manager(
        reads=reads,
        writes=writes,
        willing={"r": pattern("quarter", 1), "b": pattern("quarter", 2)},
    )
    if start < WORDS:  # crosses the end, which is a page's
        m.checker.burst = lambda channel, bus: None
    bench = Bench()
    words = bench.run(m)
    assert bench.accesses == [2, 2]
    assert [code for _, code, _ in m.read_data] == [DECERR] * count + [OKAY] * 2
    assert [last for *_, last in m.read_data] == [0, 0, 1, 0, 1]
    assert m.answers == [DECERR, OKAY]
    assert words == [Bench.initial(0), Bench.initial(1), 4, 5] + [
        Bench.initial(n) for n in range(4, WORDS)
    ]


def test_the_last_words_are_inside():
    m = manager(reads=[(8 * (WORDS - 2), 2)], writes=[(8 * (WORDS - 1), [7], None)])
    words = Bench().run(m)
    assert [code for _, code, _ in m.read_data] == [OKAY] * 2
    assert (m.answers, words[-1]) == ([OKAY], 7)


def timing(seed, **settings):
    everywhere = stalls(**dict.fromkeys(STALL_CHANNELS, 60))
    reads = [(64 * n, 5) for n in range(12)]
    writes = [(64 * n, [n] * 5, None) for n in range(12)]
    m = manager(reads=reads, writes=writes)
    Bench(jitter=12, stalls=everywhere, seed=seed, **settings).run(m)
    return m.taken


def test_a_seed_replays_and_another_does_not():
    assert timing(1) == timing(1)
    assert timing(1) != timing(2)
    assert timing(0) != timing(1)


async def read_and_hold(ctx, bench, bursts, cycles):
    """Single-beat reads at once, and so many cycles without taking any data."""
    axi = bench.memory.axi
    for name, value in bench.settings.items():
        ctx.set(getattr(bench.memory, name), value)
    await ctx.tick().repeat(2)  # jitter is one cycle behind
    for name, value in dict(arvalid=1, arsize=3, arburst=1, arlen=0).items():
        ctx.set(getattr(axi, name), value)
    await ctx.tick().repeat(bursts)
    ctx.set(axi.arvalid, 0)
    await ctx.tick().repeat(cycles - bursts)


def test_a_burst_that_is_long_overdue_does_not_wait_again():
    """Times are compared modulo their width: 2^15 cycles behind others are no time to come."""
    held = (1 << 15) + 100
    bench = Bench(latency=2)
    axi = bench.memory.axi

    async def drive(ctx):
        await read_and_hold(ctx, bench, 3, held)
        ctx.set(axi.rready, 1)
        for _ in range(3):
            assert ctx.get(axi.rvalid)
            await ctx.tick()

    run(bench.top, drive, limit=held + 100)


def test_the_longest_latency_with_the_largest_jitter():
    """The registers allow 32,767 and 1,023 cycles: their sum must not pass for a time long past."""
    latency, jitter = (1 << 15) - 1, 1023
    bench = Bench(latency=latency, jitter=jitter)
    axi = bench.memory.axi

    async def drive(ctx):
        await read_and_hold(ctx, bench, 1, latency)
        assert not ctx.get(axi.rvalid)
        waited = latency
        while not ctx.get(axi.rvalid):
            await ctx.tick()
            waited += 1
        assert waited <= latency + jitter

    run(bench.top, drive, limit=latency + 2 * jitter)


def test_random_bits_are_xorshift_and_every_seed_works():
    dut = RandomBits()

    def model(state):
        state ^= state << 13 & (1 << 64) - 1
        state ^= state >> 7
        return state ^ (state << 17 & (1 << 64) - 1)

    async def bench(ctx):
        for seed in (0, 1, 0xFFFFFFFF):
            ctx.set(dut.seed, seed)
            ctx.set(dut.load, 1)
            await ctx.tick()
            ctx.set(dut.load, 0)
            state = 0x9E3779B9 << 32 | seed
            for _ in range(20):
                assert ctx.get(dut.bits) == state
                state = model(state)
                await ctx.tick()

    run(dut, bench)


@pytest.mark.parametrize("jitter", [0, 1, 5, 1023])
def test_jitter_scales_its_bits(jitter):
    dut = Jitter()

    async def bench(ctx):
        ctx.set(dut.jitter, jitter)
        for random_bits in (0, 1, 0x7FFF, 0x8000, 0xFFFF):
            ctx.set(dut.random, random_bits)
            await ctx.tick()
            assert ctx.get(dut.extra) == random_bits * (jitter + 1) >> 16

    run(dut, bench)


def test_pulp_axi_423_reads_that_shut_out_writes():
    """With `read_first` no write beat is taken while a read waits; without it both go on."""
    taken = {}
    for read_first in (0, 1):
        bench = Bench(CONFIG.replace(core="forward"), latency=6, read_first=read_first)
        m = manager(
            reads=[(256 * n, 8) for n in range(8)],
            writes=[(0x1000 + 64 * n, [n] * 4, None) for n in range(4)],
        )
        words = bench.run(m)
        assert [words[(0x1000 + 64 * n) // 8] for n in range(4)] == [0, 1, 2, 3]
        assert all(answer == OKAY for answer in m.answers)
        last_read = m.taken["r"][-1]
        taken[read_first] = sum(at < last_read for at in m.taken["w"])
        if read_first:
            # A write may be taken before the first read address is.
            between = [at for at in m.taken["w"] if m.taken["ar"][0] < at < last_read]
            assert not between
    assert taken[0] == 16


@pytest.mark.parametrize("code", [SLVERR, DECERR])
def test_a_flit_that_is_told_to_be_bad_answers_so_and_no_other(code):
    """Of a read each beat has its own response, of a write the burst that touches it."""
    config = CONFIG.replace(contexts=2)
    bad_read, bad_write = 8 * 21, 8 * 99
    bench = Bench(config, bad_read=bad_read, read_error=code, bad_write=bad_write, write_error=code)
    reads = [(8 * 20, 3), (8 * 99, 2), (8 * 21, 1)]
    writes = [(8 * n, [n, n + 1], None) for n in (96, 98, 99, 100, 21)]
    m = manager(reads=reads, writes=writes)
    bench.run(m)
    due = [code if 8 * n == bad_read else OKAY for n in (20, 21, 22, 99, 100, 21)]
    assert [got for _, got, _ in m.read_data] == due
    assert m.answers == [OKAY, code, code, OKAY, OKAY]


@pytest.mark.parametrize("channel", STALL_CHANNELS)
def test_a_channel_that_is_held_stands_still(channel):
    """And only that one: a held read stops no write, and the other way round."""
    bench = Bench(CONFIG.replace(contexts=2), hold=1 << STALL_CHANNELS.index(channel))
    m = manager(reads=[(0, 2)], writes=[(4096, [1, 2], None)])
    with pytest.raises(AssertionError, match="cycles|limit|time"):
        bench.run(m, limit=200)
    done = {"ar": len(m.taken["r"]) == 2, "aw": len(m.taken["b"]) == 1}
    of_reads = channel in ("ar", "r")
    assert done == {"ar": not of_reads, "aw": of_reads}
