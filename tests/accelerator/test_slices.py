"""Blocks with register slices: what is late, and that nothing is decided on what is out of date."""

import random

import pytest

from hdl.accelerator.read_out_turns import START_TO_ROOM
from hdl.accelerator.wave_table import WaveTable, read_delay
from hdl.accelerator.write_tracker import WriteTracker
from hdl.interfaces import Response
from tests.lib.simulate import run

from .ports import small
from .test_read_out import RANKS, Bench, operation


def sliced(**overrides):
    return small(register_slices="all", **overrides)


class LateBench(Bench):
    """`Bench` whose tables answer a cycle late, and whose room knows of a start that is old enough.

    A start that must wait for room never comes sooner than room can know of the one before.
    """

    def __init__(self, config, waves):
        super().__init__(config, waves)
        self.head = None  # the wave that was asked about in the cycle before
        self.starting = -START_TO_ROOM - 1

    def answers(self):
        late, self.head = self.head, self.waves[0] if self.waves else None
        if late is None:
            return 0, {}
        ready = (1 << RANKS) - 1 if self.now > late["ready_at"] else 0b10
        return (ready if late["size"] else 0), late["errors"]

    def check(self, wave, seen):
        if seen["start"]:
            assert self.now - self.starting > START_TO_ROOM
            self.starting = self.now
        super().check(wave, seen)


@pytest.mark.parametrize("payload", [24, 64])
def test_waves_stream_without_a_bubble(payload):
    config = sliced(payload_bytes=payload, wave_bytes=192)
    bench = LateBench(config, operation(config, 192 * 4, slot=2))
    bench.play(lambda: len(bench.closed) == 4)
    assert bench.reads == list(range(bench.reads[0], bench.reads[0] + 4 * 24))
    delay = read_delay(config)
    assert [cycle for cycle, *_ in bench.operands] == [cycle + delay for cycle in bench.reads]


@pytest.mark.parametrize("seed", range(6))
def test_random_room_slots_and_data(seed):
    """Any lengths, entries whose answers differ, errors: each wave is taken on its own answer."""
    print("seed", seed)
    draw = random.Random(seed)
    config = sliced(payload_bytes=24, wave_bytes=192, waves=4)
    waves, good = [], []
    for number in range(12):
        length = draw.choice([0, 2, 8, 24, 26, 192, 200, 500])
        errors = {draw.randrange(RANKS): Response.SLVERR} if draw.random() < 0.3 else {}
        new = operation(config, length, slot=number % 4, ready_at=draw.randrange(0, 900),
                        errors=errors) or [dict(size=0, slot=number % 4)]  # fmt: skip
        waves += new
        good += [wave["size"] > 0 and not errors for wave in new]
    bench = LateBench(config, waves)

    def disturb():
        bench.room = draw.choice([0b11, 0b11, 0b01, 0b10, 0])
        bench.slot_free = draw.random() < 0.6

    bench.play(lambda: len(bench.closed) == len(waves), disturb)
    assert [slot for *_, slot in bench.closed] == [wave["slot"] for wave in waves]
    assert [bool(written) for _, written, *_ in bench.closed] == good


def test_a_table_answers_a_cycle_later():
    config = sliced()
    dut = WaveTable(config)
    words = [0x1000 + flit for flit in range(config.wave_flits)]
    delay = read_delay(config)

    async def bench(ctx):
        ctx.set(dut.reserve.valid, 1)
        ctx.set(dut.reserve.entry, 1)
        await ctx.tick()
        ctx.set(dut.reserve.valid, 0)
        ctx.set(dut.look_ups[0].entry, 1)
        for flit, word in enumerate(words):
            packet, index = divmod(flit, config.payload_flits)
            tag = 1 << (config.packets_per_wave - 1).bit_length() | packet
            ctx.set(dut.i.valid, 1)
            ctx.set(dut.i.payload.header.tag, tag)
            ctx.set(dut.i.payload.data, word)
            ctx.set(dut.i.payload.first, index == 0)
            ctx.set(dut.i.payload.last, index == config.payload_flits - 1)
            assert not ctx.get(dut.look_ups[0].ready)
            await ctx.tick()
        ctx.set(dut.i.valid, 0)
        assert not ctx.get(dut.look_ups[0].ready)
        await ctx.tick()
        assert ctx.get(dut.look_ups[0].ready)
        # Another entry's answer comes a cycle after the question, too.
        ctx.set(dut.look_ups[0].entry, 0)
        assert ctx.get(dut.look_ups[0].ready)
        await ctx.tick()
        assert not ctx.get(dut.look_ups[0].ready)
        ctx.set(dut.look_ups[0].entry, 1)
        await ctx.tick()
        ctx.set(dut.look_ups[0].taken, 1)
        ctx.set(dut.read_entry, 1)
        read = []
        for cycle in range(len(words) + delay - 1):
            ctx.set(dut.read_enable, cycle < len(words))
            ctx.set(dut.read_flit, cycle % len(words))
            await ctx.tick()
            ctx.set(dut.look_ups[0].taken, 0)
            read.append(ctx.get(dut.data))
        assert read[delay - 1 :] == words
        assert not ctx.get(dut.look_ups[0].ready)

    run(dut, bench)


def test_a_wave_of_one_packet_does_not_retire_before_its_answer():
    """It opens, starts its packet and closes in one cycle."""
    dut = WriteTracker(sliced(write_waves=2))

    async def bench(ctx):
        for _ in range(5):
            slot = ctx.get(dut.write_slot)
            for name in ("open", "packet", "close", "written"):
                ctx.set(getattr(dut, name), 1)
            await ctx.tick()
            for name in ("open", "packet", "close"):
                ctx.set(getattr(dut, name), 0)
            for _ in range(6):
                assert not ctx.get(dut.retire)
                await ctx.tick()
            for port in range(RANKS):
                ctx.set(dut.acknowledged_slot[port], slot)
            ctx.set(dut.acknowledge, (1 << RANKS) - 1)
            assert not ctx.get(dut.stray)
            await ctx.tick()
            ctx.set(dut.acknowledge, 0)
            assert ctx.get(dut.retire)
            await ctx.tick()
            assert not ctx.get(dut.retire)

    run(dut, bench)
