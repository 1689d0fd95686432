"""`TrafficSequence` and the words of traffic, against golden."""

import random

import numpy as np
import pytest
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.config import SwitchConfig
from hdl.traffic.sequence import TrafficSequence
from hdl.traffic.settings import TrafficPattern
from hdl.traffic.words import flit_words
from sim.golden import traffic as golden
from tests.lib.simulate import run

COUNT = 40


def configuration(ranks, payload_bytes=32):
    return SwitchConfig.preset(
        "tiny", ranks=ranks, payload_bytes=payload_bytes, wave_bytes=24 * 32,
        read_request_bytes=payload_bytes, block=2, core="forward",
    )  # fmt: skip


def settings(draw, ranks, pattern):
    return golden.Traffic(
        pattern=pattern,
        target=draw.randrange(ranks),
        writes=draw.choice([0, 1, 128, 255, 256]),
        count=COUNT,
        slots=1 << draw.randrange(6),
        write_base=8 * draw.randrange(100),
        read_base=8 * draw.randrange(100),
        seed=draw.getrandbits(32),
    )


def give(ctx, dut, traffic):
    for name in ("target", "writes", "count", "write_base", "read_base", "seed"):
        ctx.set(getattr(dut, name), getattr(traffic, name))
    ctx.set(dut.slots, traffic.slots - 1)
    ctx.set(dut.pattern, golden.PATTERNS.index(traffic.pattern))


def test_patterns_have_the_codes_of_golden():
    assert [each.name.lower() for each in TrafficPattern] == list(golden.PATTERNS)


@pytest.mark.parametrize("pattern", golden.PATTERNS)
@pytest.mark.parametrize(("ranks", "payload_bytes"), [(2, 32), (3, 24), (7, 32), (16, 32)])
def test_requests_are_those_of_golden(pattern, ranks, payload_bytes):
    """Each rank's, under several settings, also after a run before; taken now and then."""
    draw = random.Random(f"{pattern} {ranks}")
    config = configuration(ranks, payload_bytes)
    rank = draw.randrange(ranks)
    dut = TrafficSequence(config, rank=rank)

    async def bench(ctx):
        for _ in range(3):
            traffic = settings(draw, ranks, pattern)
            give(ctx, dut, traffic)
            ctx.set(dut.go, 1)
            await ctx.tick()
            ctx.set(dut.go, 0)
            shape = golden.Shape(ranks, payload_bytes)
            for due in golden.requests(shape, traffic, rank):
                for taken in (*[0] * draw.randrange(2), 1):
                    assert ctx.get(dut.more)
                    choice = ctx.get(dut.choice)
                    assert (choice.destination, choice.write, choice.address) == (
                        due.destination, due.write, due.address,
                    )  # fmt: skip
                    ctx.set(dut.taken, taken)
                    await ctx.tick()
                ctx.set(dut.taken, 0)
            assert not ctx.get(dut.more)

    run(dut, bench)


def test_random_destinations_are_the_others_about_equally_often():
    shape = golden.Shape(5, 32)
    traffic = golden.Traffic(pattern="random", count=4000, writes=128, seed=3)
    made = list(golden.requests(shape, traffic, 2))
    times = [sum(each.destination == rank for each in made) for rank in range(5)]
    assert times[2] == 0
    assert all(900 < times[rank] < 1100 for rank in (0, 1, 3, 4))
    assert 1900 < sum(each.write for each in made) < 2100


def test_ranks_with_one_seed_make_different_requests():
    shape = golden.Shape(3, 32)
    traffic = golden.Traffic(pattern="random", count=64, writes=128, seed=0)
    kinds = [[each.write for each in golden.requests(shape, traffic, rank)] for rank in range(3)]
    assert kinds[0] != kinds[1] != kinds[2] != kinds[0]


def test_no_two_ranks_write_one_byte():
    """Whatever they write there: so memories end alike in any order of events."""
    shape = golden.Shape(6, 24)
    traffic = golden.Traffic(pattern="all_to_all", count=200, slots=8, bytes=24)
    seen = {}
    for rank in range(6):
        for each in golden.requests(shape, traffic, rank):
            for byte in range(each.address, each.address + traffic.bytes):
                assert seen.setdefault((each.destination, byte), rank) == rank


class Words(wiring.Component):
    """`flit_words` with ports."""

    def __init__(self, flit_bytes):
        self.flit_bytes = flit_bytes
        super().__init__(
            {"flit": In(40), "writer": In(4), "owner": In(4), "seed": In(32),
             "words": Out(8 * flit_bytes)}
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        words = flit_words(self.flit_bytes, self.flit, self.writer, self.owner, self.seed)
        m.d.sync += Signal().eq(0)
        m.d.comb += self.words.eq(words)
        return m


@pytest.mark.parametrize("flit_bytes", [8, 16, 32, 64])
def test_words_are_those_of_golden(flit_bytes):
    draw = random.Random(flit_bytes)
    dut = Words(flit_bytes)

    async def bench(ctx):
        for _ in range(50):
            drawn = dict(
                flit=draw.getrandbits(36), writer=draw.randrange(16), owner=draw.randrange(16),
                seed=draw.getrandbits(32),
            )  # fmt: skip
            for name, value in drawn.items():
                ctx.set(getattr(dut, name), value)
            flit = drawn.pop("flit")
            due = golden.data(flit * flit_bytes, flit_bytes, **drawn)
            assert ctx.get(dut.words) == int.from_bytes(due.tobytes(), "little")

    run(dut, bench)


def test_words_of_other_addresses_writers_and_owners_differ():
    seen = {}
    for address in range(0, 256, 8):
        for writer in range(4):
            for owner in range(4):
                word = golden.data(address, 8, writer=writer, owner=owner, seed=99).tobytes()
                assert seen.setdefault(word, (address, writer, owner)) == (address, writer, owner)
    assert len(seen) == 32 * 16
    one, other = (golden.data(0, 64, writer=1, owner=2, seed=seed) for seed in (1, 2))
    assert np.any(one != other)
