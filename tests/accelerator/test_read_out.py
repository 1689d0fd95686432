"""`ReadOut`: never starts without room everywhere, no bubble, drops, errors, look-up in time."""

import random
from collections import deque

import pytest

from hdl.accelerator.wave_table import READ_DELAY
from hdl.interfaces import Format, Response
from tests.lib.simulate import run

from .ports import ReadOutAlone, small

RANKS = 2


class Bench:
    """Plays wave order, tables, tracker and write-backs around a `ReadOut`.

    Each step drives everything from the state before it and then checks what the unit did.
    """

    def __init__(self, config, waves):
        """`waves`: dicts of size, slot, first, last, and ready_at, errors (by rank)."""
        self.config, self.dut = config, ReadOutAlone(config)
        self.waves = deque(
            {"slot": 0, "first": 1, "last": 1, "ready_at": 0, "errors": {}, "format": 0} | wave
            | {"entry": number % config.waves}
            for number, wave in enumerate(waves)
        )  # fmt: skip
        self.now = 0
        self.room = (1 << RANKS) - 1
        self.slot_free = 1
        self.failed = 0
        self.reads = []  # cycles of read flits
        self.starts = []  # (cycle, flits, size, opens, slot)
        self.closed = []  # (cycle, written, last, operation)
        self.errors = []  # (rank, response)
        self.operands = []  # (cycle, keep, format)
        self.current = None  # the wave that was taken and has not ended
        self.looked_up = None  # the operation whose destinations are at hand
        self.in_packet = 0
        self.position = 0

    async def step(self, ctx):
        dut = self.dut
        wave = self.waves[0] if self.waves else None
        ctx.set(dut.waves.valid, wave is not None)
        if wave:
            fields = {n: wave[n] for n in ("slot", "entry", "size", "first", "last")}
            ctx.set(dut.waves.payload, fields | {"format": Format(wave["format"])})
        ready, errors = self.answers()
        ctx.set(dut.ready, ready)
        for rank in range(RANKS):
            ctx.set(dut.response[rank], errors.get(rank, Response.OKAY))
        ctx.set(dut.room, self.room)
        ctx.set(dut.slot_free, self.slot_free)
        ctx.set(dut.write_slot, 1)
        ctx.set(dut.failed, self.failed)
        names = ("read_enable", "read_flit", "close", "close_last", "open", "written", "operation",
                 "read_error", "read_error_rank", "read_error_response", "release",
                 "operands_valid", "keep", "format", "waits_data", "waits_room",
                 "read_entry", "destinations_of", "taken")  # fmt: skip
        start = dut.start
        _, _, *values = await ctx.tick().sample(
            *(getattr(dut, name) for name in names), dut.waves.ready, start.valid, start.flits,
            start.size, start.opens, start.write_slot,
        )  # fmt: skip
        seen = dict(zip((*names, "take", "start", "flits", "size", "opens", "write_slot"), values,
                        strict=True))  # fmt: skip
        assert seen["taken"] == bool(wave and seen["take"] and wave["size"]), (
            "entries are taken once"
        )
        self.check(self.current, seen)
        if seen["close"]:
            self.current = None
        if wave and seen["take"]:
            assert self.current is None, "one wave at a time"
            assert self.now >= wave["ready_at"] or not wave["size"], "data is missing"
            self.current = self.waves.popleft()
        self.looked_up = seen["destinations_of"]
        self.now += 1
        return seen

    def answers(self):
        """What the tables say of the oldest wave: ranks whose data is there, errors by rank."""
        if not self.waves:
            return 0, {}
        wave = self.waves[0]
        ready = (1 << RANKS) - 1 if self.now >= wave["ready_at"] else 0b10
        return (ready if wave["size"] else 0), wave["errors"]

    def check(self, wave, seen):
        config = self.config
        if seen["operands_valid"]:
            self.operands.append((self.now, seen["keep"], seen["format"]))
        if seen["start"]:
            assert not self.in_packet
            assert self.room == (1 << RANKS) - 1, "no room at some port"
            assert not wave["errors"]
            if self.position == 0:
                assert self.slot_free
                assert seen["open"]
                assert seen["opens"] == wave["first"]
                if wave["first"]:
                    assert self.looked_up == wave["slot"], "destinations are not looked up yet"
            else:
                assert not seen["open"]
                assert not seen["opens"]
            self.in_packet = seen["flits"]
            left = wave["size"] - self.position * config.flit_bytes
            assert seen["size"] == min(left, config.payload_bytes)
            assert seen["flits"] == -(-seen["size"] // config.flit_bytes)
            self.starts.append((self.now, seen["size"], seen["opens"], seen["write_slot"]))
        assert seen["read_enable"] == bool(self.in_packet), "a packet under way does not stop"
        if seen["read_enable"]:
            assert seen["read_entry"] == wave["entry"]
            assert seen["read_flit"] == self.position
            self.reads.append(self.now)
            self.position += 1
            self.in_packet -= 1
        if seen["read_error"]:
            self.errors.append((seen["read_error_rank"], Response(seen["read_error_response"])))
        if seen["close"]:
            assert seen["release"] == (wave["size"] > 0)
            if seen["written"]:
                assert self.position == -(-wave["size"] // config.flit_bytes)
            else:
                assert self.position == 0
                assert seen["open"]
                assert self.slot_free
            assert seen["operation"] == wave["slot"]
            self.closed.append((self.now, seen["written"], seen["close_last"], wave["slot"]))
            self.position = 0

    def play(self, until, each=None):
        async def bench(ctx):
            while not until():
                if each:
                    each()
                await self.step(ctx)
            for _ in range(3):
                await self.step(ctx)

        run(self.dut, bench)


def operation(config, length, slot=0, **fields):
    """The waves of one operation."""
    starts = range(0, length, config.wave_bytes)
    return [
        dict(size=min(config.wave_bytes, length - start), slot=slot, first=int(start == 0),
             last=int(start == starts[-1]), **fields)
        for start in starts
    ]  # fmt: skip


@pytest.mark.parametrize("payload", [8, 16, 24, 64])
def test_waves_stream_without_a_bubble(payload):
    """Packets and waves of one operation follow each other cycle by cycle."""
    config = small(payload_bytes=payload, wave_bytes=192)
    bench = Bench(config, operation(config, 192 * 4 - 30, slot=2))
    bench.play(lambda: len(bench.closed) == 4)
    count = -(-(192 * 4 - 30) // 8)
    assert bench.reads == list(range(bench.reads[0], bench.reads[0] + count))
    assert [cycle for cycle, *_ in bench.operands] == [cycle + READ_DELAY for cycle in bench.reads]
    assert [last for _, _, last, _ in bench.closed] == [0, 0, 0, 1]


def test_one_cycle_between_operations_for_their_destinations():
    config = small()
    bench = Bench(config, operation(config, 64, slot=1) + operation(config, 64, slot=2))
    bench.play(lambda: len(bench.closed) == 2)
    gaps = [b - a for a, b in zip(bench.reads, bench.reads[1:], strict=False)]
    assert sorted(gaps) == [1] * 14 + [2]


def test_lanes_beyond_the_end_are_masked():
    config = small(flit_bytes=16, payload_bytes=32)
    for length in range(2, 66, 2):
        bench = Bench(config, operation(config, length))
        bench.play(lambda bench=bench: len(bench.closed) == 1)
        kept = [keep for _, keep, _ in bench.operands]
        values = length // 2
        full = (1 << 8) - 1
        assert kept == [full] * (values // 8) + ([(1 << values % 8) - 1] if values % 8 else [])


@pytest.mark.parametrize("seed", range(4))
def test_random_room_slots_and_data(seed):
    """A packet starts only with room at every port, and a wave with a slot; order is kept."""
    print("seed", seed)
    draw = random.Random(seed)
    config = small(payload_bytes=24, wave_bytes=192, waves=4)
    waves = []
    for number in range(12):
        length = draw.choice([0, 2, 24, 26, 192, 200, 500])
        waves += operation(config, length, slot=number % 4, ready_at=draw.randrange(0, 900),
                           format=number % 2) or [dict(size=0, slot=number % 4)]  # fmt: skip
    bench = Bench(config, waves)

    def disturb():
        bench.room = draw.choice([0b11, 0b11, 0b01, 0b10, 0])
        bench.slot_free = draw.random() < 0.6

    bench.play(lambda: len(bench.closed) == len(waves), disturb)
    assert [slot for *_, slot in bench.closed] == [wave["slot"] for wave in waves]
    assert [written for _, written, *_ in bench.closed] == [wave["size"] > 0 for wave in waves]


def test_a_wave_waits_for_room_at_one_port_and_says_so():
    config = small()
    bench = Bench(config, operation(config, 64))
    bench.room = 0b01

    async def body(ctx):
        for _ in range(10):
            seen = await bench.step(ctx)
        assert not bench.starts
        assert seen["waits_room"] == 0b10
        assert seen["waits_data"] == 0
        bench.room = 0b11
        while not bench.closed:
            await bench.step(ctx)

    run(bench.dut, body)


def test_a_wave_waits_for_one_ranks_data_and_says_whose():
    config = small()
    bench = Bench(config, operation(config, 64, ready_at=10))

    async def body(ctx):
        for _ in range(10):
            seen = await bench.step(ctx)
            assert seen["waits_data"] == 0b01
            assert not seen["waits_room"]
        while not bench.closed:
            await bench.step(ctx)
        assert bench.starts[0][0] == 11

    run(bench.dut, body)


def test_a_wave_with_an_error_is_dropped_and_names_the_lowest_rank():
    config = small()
    for errors, named in (
        ({1: Response.SLVERR}, (1, Response.SLVERR)),
        ({0: Response.DECERR, 1: Response.SLVERR}, (0, Response.DECERR)),
    ):
        bench = Bench(config, operation(config, 64, errors=errors))
        bench.play(lambda bench=bench: len(bench.closed) == 1)
        assert bench.errors == [named]
        assert not bench.starts
        ((_, written, last, _),) = bench.closed
        assert (written, last) == (0, 1)


def test_exokay_is_no_error():
    dut = ReadOutAlone(small())

    async def body(ctx):
        ctx.set(dut.waves.payload, {"size": 64})
        ctx.set(dut.waves.valid, 1)
        ctx.set(dut.ready, 0b11)
        ctx.set(dut.slot_free, 1)
        for response, error in ((Response.EXOKAY, 0), (Response.SLVERR, 1)):
            ctx.set(dut.response[1], response)
            ctx.set(dut.waves.valid, 1)
            await ctx.tick()
            ctx.set(dut.waves.valid, 0)
            assert ctx.get(dut.open) == error  # without room nothing but a drop opens a slot
            assert ctx.get(dut.read_error) == error
            ctx.set(dut.room, 0b11)
            await ctx.tick().repeat(10)
            ctx.set(dut.room, 0)

    run(dut, body)


def test_later_waves_of_a_failed_operation_are_dropped_and_others_are_not():
    config = small()
    waves = operation(config, 192, slot=1) + operation(config, 64, slot=2)
    bench = Bench(config, waves)
    bench.failed = 1 << 1
    bench.play(lambda: len(bench.closed) == 4)
    assert [written for _, written, *_ in bench.closed] == [0, 0, 0, 1]
    assert not bench.errors


def test_a_failure_during_a_wave_lets_it_end():
    """What has started is written whole: a wave is old or new."""
    config = small(payload_bytes=8)
    bench = Bench(config, operation(config, 128, slot=1))

    async def body(ctx):
        while len(bench.reads) < 3:
            await bench.step(ctx)
        bench.failed = 1 << 1
        while len(bench.closed) < 2:
            await bench.step(ctx)
        assert [written for _, written, *_ in bench.closed] == [1, 0]
        assert len(bench.reads) == 8

    run(bench.dut, body)
