"""`WaveTable`: packets of several entries in any order, strays, errors, and nothing overwritten."""

import random

import pytest

from hdl.accelerator.layouts import packet_bits
from hdl.accelerator.wave_table import READ_DELAY, WaveTable
from hdl.interfaces import Response
from tests.lib.simulate import run

from .ports import beat, small

SHAPES = {
    "two entries": dict(waves=2),
    "one entry": dict(waves=1),
    "one packet a wave": dict(waves=2, payload_bytes=64),
    "three flits a packet, eight packets": dict(waves=4, payload_bytes=24, wave_bytes=192),
    "three packets a wave": dict(waves=4, payload_bytes=64, wave_bytes=192),
    "one flit a wave": dict(flit_bytes=64, payload_bytes=64, waves=4),
}
OLD = 0xDEAD


class Bench:
    """A table, and packets for it."""

    def __init__(self, config):
        self.config = config
        self.dut = WaveTable(config)
        self.strays = 0

    def packet(self, entry, number, generation, flits, responses=None, context=0):
        """Beats of one packet; every flit of the table is told apart by its contents."""
        responses = responses or [0] * flits
        tag = entry << packet_bits(self.config) | number
        return [
            beat(
                data=self.word(entry, generation, number * self.config.payload_flits + index),
                response=responses[index],
                first=int(index == 0),
                last=int(index == flits - 1),
                tag=tag,
                generation=generation,
                context=context,
            )
            for index in range(flits)
        ]

    @staticmethod
    def word(entry, generation, flit):
        return 0x1_0000_0000 * generation + 0x1_0000 * entry + flit + 1

    def packets(self, entry, generation, flits):
        """The packets of a wave of so many flits."""
        most = self.config.payload_flits
        return [
            self.packet(entry, number, generation, min(most, flits - number * most))
            for number in range(-(-flits // most))
        ]

    async def reserve(self, ctx, entry, generation, flits, context=0):
        dut = self.dut
        if self.config.contexts > 1:
            ctx.set(dut.reserve.context, context)
        count = -(-flits // self.config.payload_flits)
        every = (1 << self.config.packets_per_wave) - 1
        ctx.set(dut.reserve.entry, entry)
        ctx.set(dut.reserve.generation, generation)
        ctx.set(dut.reserve.absent, every & ~((1 << count) - 1))
        ctx.set(dut.reserve.valid, 1)
        await self.tick(ctx)
        ctx.set(dut.reserve.valid, 0)

    async def send(self, ctx, beats, pause=lambda: False):
        for each in beats:
            while pause():
                await self.tick(ctx)
            ctx.set(self.dut.i.payload, each)
            ctx.set(self.dut.i.valid, 1)
            await self.tick(ctx)
            ctx.set(self.dut.i.valid, 0)

    async def tick(self, ctx):
        _, _, stray = await ctx.tick().sample(self.dut.stray)
        self.strays += stray

    async def read(self, ctx, entry, flits, port=0):
        """Take the entry and read it; a tick with `taken`, then a flit a tick."""
        dut, words = self.dut, []
        ctx.set(dut.look_ups[port].entry, entry)
        ctx.set(dut.look_ups[port].taken, 1)
        await self.tick(ctx)
        ctx.set(dut.look_ups[port].taken, 0)
        ctx.set(dut.read_entry, entry)
        for flit in range(flits + READ_DELAY - 1):
            ctx.set(dut.read_enable, flit < flits)
            ctx.set(dut.read_flit, flit % flits)
            await self.tick(ctx)
            words.append(ctx.get(dut.data))
        ctx.set(dut.read_enable, 0)
        return words[READ_DELAY - 1 :]

    def ready(self, ctx, entry):
        ctx.set(self.dut.look_ups[0].entry, entry)
        return ctx.get(self.dut.look_ups[0].ready)

    def response(self, ctx, entry):
        ctx.set(self.dut.look_ups[0].entry, entry)
        return Response(ctx.get(self.dut.look_ups[0].response))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_entries_fill_in_any_order(shape, seed):
    """Every entry in use at once, packets in random order among each other, short waves too."""
    print("seed", seed)
    draw = random.Random(f"{shape} {seed}")
    config = small(**SHAPES[shape])
    bench = Bench(config)

    async def run_waves(ctx):
        for generation in (0, 1, 2, 15, 0):
            sizes = [draw.randint(1, config.wave_flits) for _ in range(config.waves)]
            left, queue = {}, []
            for entry, flits in enumerate(sizes):
                await bench.reserve(ctx, entry, generation, flits)
                packets = bench.packets(entry, generation, flits)
                left[entry] = len(packets)
                queue += [(entry, packet) for packet in packets]
            draw.shuffle(queue)
            for entry, packet in queue:
                assert not bench.ready(ctx, entry)
                await bench.send(ctx, packet, lambda: draw.random() < 0.3)
                left[entry] -= 1
                for other in range(config.waves):
                    assert bench.ready(ctx, other) == (left[other] == 0)
            for entry, flits in enumerate(sizes):
                expected = [bench.word(entry, generation, flit) for flit in range(flits)]
                assert await bench.read(ctx, entry, flits) == expected
                assert bench.response(ctx, entry) == Response.OKAY
        assert bench.strays == 0

    run(bench.dut, run_waves)


def test_strays_are_counted_and_change_nothing():
    """A second answer, an old generation, an entry never reserved, a packet that a wave lacks."""
    config = small(waves=2)
    bench = Bench(config)
    flits = config.payload_flits

    async def run_strays(ctx):
        await bench.send(ctx, bench.packet(0, 0, 0, flits))  # never reserved
        assert bench.strays == 1
        await bench.reserve(ctx, 0, 3, 3 * flits)
        wave = bench.packets(0, 3, 3 * flits)
        await bench.send(ctx, wave[1])
        spoiled = [dict(each, data=OLD, response=Response.DECERR) for each in wave[1]]
        await bench.send(ctx, spoiled)  # a second answer
        assert bench.strays == 2
        for generation in (2, 4):
            old = [dict(each, data=OLD) for each in bench.packet(0, 0, generation, flits)]
            await bench.send(ctx, old)
        assert bench.strays == 4
        absent = [dict(each, data=OLD) for each in bench.packet(0, 3, 3, flits)]
        await bench.send(ctx, absent)  # the wave has three packets
        assert bench.strays == 5
        await bench.send(ctx, bench.packet(1, 0, 0, flits))  # the other entry, not reserved
        await bench.send(ctx, bench.packet(2, 0, 3, flits))  # no such entry
        assert bench.strays == 7
        await bench.send(ctx, wave[0])
        assert not bench.ready(ctx, 0)
        await bench.send(ctx, wave[2])
        assert bench.ready(ctx, 0)
        assert bench.response(ctx, 0) == Response.OKAY
        expected = [bench.word(0, 3, flit) for flit in range(3 * flits)]
        assert await bench.read(ctx, 0, 3 * flits) == expected

    run(bench.dut, run_strays)
    assert bench.strays == 7


def test_a_packet_that_no_wave_has_is_a_stray():
    """Three packets a wave: the tag has room for a fourth."""
    config = small(**SHAPES["three packets a wave"])
    bench = Bench(config)

    async def run_fourth(ctx):
        for entry in range(config.waves):
            await bench.reserve(ctx, entry, 0, config.wave_flits)
        await bench.send(ctx, bench.packet(1, 3, 0, config.payload_flits))
        assert bench.strays == 1

    run(bench.dut, run_fourth)


def test_a_stray_packet_of_an_entry_that_is_complete_is_dropped():
    config = small(waves=1)
    bench = Bench(config)

    async def run_late(ctx):
        await bench.reserve(ctx, 0, 0, 2)
        (packet,) = bench.packets(0, 0, 2)
        await bench.send(ctx, packet)
        assert bench.ready(ctx, 0)
        await bench.send(ctx, [dict(each, data=OLD) for each in packet])
        assert bench.strays == 1
        assert await bench.read(ctx, 0, 2) == [bench.word(0, 0, flit) for flit in range(2)]

    run(bench.dut, run_late)


@pytest.mark.parametrize("number", range(4))
def test_a_packet_longer_than_a_payload_stays_in_its_place(number):
    """Its first flits are kept; the neighbours in the entry and the other entry are not touched."""
    config = small(waves=2)
    bench = Bench(config)
    flits = config.payload_flits

    async def run_long(ctx):
        await bench.reserve(ctx, 0, 0, config.wave_flits)
        await bench.reserve(ctx, 1, 0, config.wave_flits)
        for packet in bench.packets(1, 0, config.wave_flits):
            await bench.send(ctx, packet)
        others = [n for n in range(config.packets_per_wave) if n != number]
        for other in others:
            await bench.send(ctx, bench.packet(0, other, 0, flits))
        long = bench.packet(0, number, 0, 5 * flits)
        long = [dict(each, data=each["data"] if i < flits else OLD) for i, each in enumerate(long)]
        await bench.send(ctx, long)
        for entry in range(2):
            expected = [bench.word(entry, 0, flit) for flit in range(config.wave_flits)]
            assert await bench.read(ctx, entry, config.wave_flits) == expected
        # The next packet is placed from its own beginning.
        await bench.reserve(ctx, 0, 1, flits)
        await bench.send(ctx, bench.packet(0, 0, 1, flits))
        assert await bench.read(ctx, 0, flits) == [bench.word(0, 1, i) for i in range(flits)]

    run(bench.dut, run_long)


@pytest.mark.parametrize("response", [Response.SLVERR, Response.DECERR])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_the_worst_response_of_a_wave_is_kept(response, place):
    """On any beat of any packet, in the entry that it belongs to, until it is reserved anew."""
    config = small(waves=2, payload_bytes=32, wave_bytes=64)
    bench = Bench(config)
    flits = config.payload_flits
    bad = {"first": 0, "middle": 1, "last": flits - 1}[place]

    async def run_error(ctx):
        for entry in range(2):
            await bench.reserve(ctx, entry, 0, config.wave_flits)
        responses = [0] * flits
        responses[bad] = response.value
        await bench.send(ctx, bench.packet(0, 1, 0, flits, responses))
        await bench.send(ctx, bench.packet(0, 0, 0, flits))
        for packet in bench.packets(1, 0, config.wave_flits):
            await bench.send(ctx, packet)
        assert bench.response(ctx, 0) == response
        assert bench.ready(ctx, 0)
        assert bench.response(ctx, 1) == Response.OKAY
        await bench.reserve(ctx, 0, 1, flits)
        assert bench.response(ctx, 0) == Response.OKAY

    run(bench.dut, run_error)


def test_decerr_is_worse_than_slverr_and_exokay_is_none():
    config = small(waves=1)
    bench = Bench(config)

    async def run_merge(ctx):
        for responses, worst in (
            ([3, 2], Response.DECERR), ([2, 3], Response.DECERR), ([2, 0], Response.SLVERR),
            ([1, 0], Response.EXOKAY),
        ):  # fmt: skip
            await bench.reserve(ctx, 0, 0, 2)
            await bench.send(ctx, bench.packet(0, 0, 0, 2, responses))
            assert bench.response(ctx, 0) == worst

    run(bench.dut, run_merge)


@pytest.mark.parametrize("status", list(Response))
def test_an_answer_without_payload_is_an_error(status):
    """It completes its packet, so that nothing waits for data that will not come."""
    config = small(waves=1)
    bench = Bench(config)

    async def run_empty(ctx):
        await bench.reserve(ctx, 0, 0, 2)
        await bench.send(ctx, [beat(empty=1, status=status, tag=0, generation=0)])
        assert bench.ready(ctx, 0)
        worst = Response.DECERR if status == Response.DECERR else Response.SLVERR
        assert bench.response(ctx, 0) == worst

    run(bench.dut, run_empty)


def test_an_entry_is_its_contexts():
    """Data that names another context is a stray; each context looks at entries of its own."""
    config = small(waves=4, contexts=2)
    bench = Bench(config)
    ports = bench.dut.look_ups

    async def body(ctx):
        await bench.reserve(ctx, 1, 3, config.payload_flits, context=1)
        await bench.reserve(ctx, 2, 3, config.payload_flits, context=0)
        for entry, owner in ((1, 1), (2, 0)):
            for context in (1 - owner, owner, owner):
                packet = bench.packet(entry, 0, 3, config.payload_flits, context=context)
                await bench.send(ctx, packet)
            assert bench.strays == 2
            bench.strays = 0
        for port in range(2):
            for entry in range(config.waves):
                ctx.set(ports[port].entry, entry)
                assert ctx.get(ports[port].ready) == (entry in (1, 2))
        # Both take in one cycle, each another one.
        for port, entry in enumerate((2, 1)):
            ctx.set(ports[port].entry, entry)
            ctx.set(ports[port].taken, 1)
        await bench.tick(ctx)
        for port in ports:
            ctx.set(port.taken, 0)
            assert not ctx.get(port.ready)

    run(bench.dut, body)


@pytest.mark.parametrize("sent", [0, 1, 3])
@pytest.mark.parametrize("entry", range(4))
@pytest.mark.parametrize("port", range(2))
def test_what_has_not_come_as_an_entry_is_taken_comes_as_a_stray(port, entry, sent):
    """A context that ends takes what is not complete: its late data must not fill the entry."""
    config = small(waves=4, contexts=2)
    bench = Bench(config)

    async def body(ctx):
        await bench.reserve(ctx, entry, 5, config.wave_flits)
        packets = bench.packets(entry, 5, config.wave_flits)
        for packet in packets[:sent]:
            await bench.send(ctx, packet)
        assert not bench.ready(ctx, entry)
        await bench.read(ctx, entry, 1, port)
        for packet in packets[sent:]:
            await bench.send(ctx, packet)
            assert not bench.ready(ctx, entry)
        assert bench.strays == len(packets) - sent

    run(bench.dut, body)
