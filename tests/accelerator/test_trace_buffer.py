"""`TraceBuffer`: what it keeps, counts and shows, against Python, cycle by cycle."""

import random

import pytest

from hdl.accelerator.trace import trace_ports
from hdl.accelerator.trace_buffer import CYCLE_BITS, TraceBuffer, record_fields, record_words
from hdl.config import SwitchConfig
from hdl.registers import (
    PAGE_BYTES,
    PAGE_WORDS,
    TRACE_PAGE,
    TRACE_WINDOW_PAGE,
    addresses,
    trace_registers,
)
from tests.lib.simulate import run

from .ports import small

CONFIG = small(trace_records=64)
FIELDS = record_fields(CONFIG)
EVENTS = trace_ports(CONFIG.ranks)
WORDS = record_words(CONFIG)
WHERE = addresses(trace_registers(CONFIG), TRACE_PAGE)
WIDE = ("recorded", "missed")


class Model:
    """What the buffer must hold, told the events of each cycle and the writes to registers."""

    def __init__(self):
        self.record, self.operations = 1, 0
        self.clear()

    def clear(self):
        self.records, self.missed, self.ended = [], 0, 0

    @property
    def frozen(self):
        return self.operations != 0 and self.ended >= self.operations

    def cycle(self, now, events, ended):
        if any(events[strobe] for strobe in EVENTS):
            if self.record and not self.frozen:
                value, at = now, CYCLE_BITS
                for name, width in FIELDS.items():
                    value |= events[name] << at
                    at += width
                self.records.append(value)
            else:
                self.missed += 1
        if ended and not self.frozen:
            self.ended += 1


class Bench:
    """The buffer under random events, whatever else goes on; `model` follows."""

    def __init__(self, seed, chance):
        print("seed", seed)
        self.draw = random.Random(seed)
        self.chance = chance
        self.dut = TraceBuffer(CONFIG)
        self.model = Model()
        self.now = 0xFFFF_FF00  # the time stamp wraps on the way
        self.quiet = False
        #: A write takes effect behind the cycle in which its strobe is up, one behind its own.
        self.strobe = None

    def _port(self, name):
        owner = self.dut
        for part in name.split("__"):
            owner = owner[int(part)] if part.isdigit() else getattr(owner, part)
        return owner

    async def tick(self, ctx, write=None):
        """One cycle: events, and perhaps a `write` (name, value) on the bus."""
        draw, bus = self.draw, self.dut.bus
        events = {name: draw.getrandbits(width) for name, width in FIELDS.items()}
        for strobe in EVENTS:
            events[strobe] = int(not self.quiet and draw.random() < self.chance)
        ended = int(not self.quiet and draw.random() < 0.02)
        for name, value in events.items():
            ctx.set(self._port(name), value)
        ctx.set(self.dut.ended, ended)
        ctx.set(self.dut.now, self.now & 0xFFFF_FFFF)
        ctx.set(bus.write, write is not None)
        if write is not None:
            name, value = write
            ctx.set(bus.page, WHERE[name] // PAGE_BYTES)
            ctx.set(bus.word, WHERE[name] % PAGE_BYTES // 4)
            ctx.set(bus.write_data, value)
        await ctx.tick()
        if self.strobe is not None and self.strobe[0] == "clear":
            self.model.clear()  # events beside it do not count at all
        else:
            self.model.cycle(self.now & 0xFFFF_FFFF, events, ended)
        if self.strobe is not None and self.strobe[0] != "clear":
            setattr(self.model, *self.strobe)
        self.strobe = write
        self.now += 1

    async def read(self, ctx, page, word):
        """The answer two cycles later, while events go on."""
        bus = self.dut.bus
        ctx.set(bus.page, page)
        ctx.set(bus.word, word)
        ctx.set(bus.read, 1)
        await self.tick(ctx)
        ctx.set(bus.read, 0)
        ctx.set(bus.word, self.draw.getrandbits(8))  # an address holds for its cycle only
        await self.tick(ctx)
        assert ctx.get(bus.known)
        return ctx.get(bus.read_data)

    async def register(self, ctx, name):
        word = WHERE[name] % PAGE_BYTES // 4
        low = await self.read(ctx, TRACE_PAGE, word)
        if name not in WIDE:
            return low
        return low | await self.read(ctx, TRACE_PAGE, word + 1) << 32

    async def check(self, ctx):
        """Stop, and compare everything; go on."""
        was = self.model.record
        await self.tick(ctx, ("record", 0))
        await self.tick(ctx)
        model, depth = self.model, CONFIG.trace_records
        assert await self.register(ctx, "recorded") == len(model.records)
        assert await self.register(ctx, "frozen") == model.frozen
        rows = PAGE_WORDS // WORDS
        for at in range(max(0, len(model.records) - depth), len(model.records)):
            part, row = divmod(at % depth, rows)
            await self.tick(ctx, ("window", part))
            words = [
                await self.read(ctx, TRACE_WINDOW_PAGE, row * WORDS + word) for word in range(WORDS)
            ]
            found = sum(word << 32 * number for number, word in enumerate(words))
            assert found == model.records[at], at
        self.quiet = True
        await self.tick(ctx)
        await self.tick(ctx)
        assert await self.register(ctx, "missed") == model.missed
        assert await self.register(ctx, "ended") == model.ended
        self.quiet = False
        await self.tick(ctx, ("record", was))


@pytest.mark.parametrize(("seed", "chance"), [(1, 0.02), (2, 0.3)])
def test_records_and_counts_are_those_of_the_events(seed, chance):
    bench = Bench(seed, chance)
    draw = bench.draw

    async def body(ctx):
        bench.model.window = 0
        await bench.tick(ctx)
        for length in (5, 40, 300):
            for _ in range(length):
                await bench.tick(ctx)
            await bench.check(ctx)
            await bench.tick(ctx, ("operations", draw.randrange(4)))
            await bench.tick(ctx, ("clear", 1))
        for _ in range(6):
            for _ in range(draw.randrange(60)):
                name = draw.choice([None] * 20 + ["record", "operations", "clear"])
                await bench.tick(ctx, name and (name, draw.randrange(2)))
            await bench.check(ctx)

    run(bench.dut, body, limit=60_000)


def test_a_record_has_every_event_and_number_once():
    for ranks in (2, 16):
        config = SwitchConfig(ranks=ranks, trace_records=64, waves=64, write_waves=128)
        fields = record_fields(config)
        events = [name for event in trace_ports(ranks).items() for name in (event[0], *event[1])]
        assert list(fields) == events
        assert len(set(events)) == 5 + 5 + 10 * ranks
        assert all(fields[strobe] == 1 for strobe in trace_ports(ranks))
        assert PAGE_WORDS % record_words(config) == 0
        bits = CYCLE_BITS + sum(fields.values())
        assert record_words(config) // 2 < -(-bits // 32) <= record_words(config)
        # All parts of the largest buffer can be named.
        parts = (1 << 16) * record_words(config) // PAGE_WORDS
        by_name = {register.name: register for register in trace_registers(config)}
        assert parts <= 1 << by_name["window"].width
