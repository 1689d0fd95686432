"""`IssueTurns` and `ReadOutTurns`: whose turn it is, what is reserved, how long others wait."""

import random

import pytest
from amaranth import Module, Signal

from hdl.accelerator.issue_turns import IssueTurns
from hdl.accelerator.read_out_turns import START_TO_ROOM, ReadOutTurns
from hdl.accelerator.wave_controller import GENERATION_BITS
from tests.lib.simulate import run

from .ports import small

CYCLES = 400


def several(contexts, **overrides):
    return small(contexts=contexts, waves=2 * contexts, **overrides)


def bits(contexts, draw, chance):
    return [draw.random() < chance for _ in range(contexts)]


def clocked(dut):
    """A design with a clock, which a single context's turns have not."""
    top = Module()
    top.submodules.dut = dut
    top.d.sync += Signal().eq(1)
    return top


def mask(flags):
    return sum(flag << number for number, flag in enumerate(flags))


class Waits:
    """How many turns of each other one pass while somebody asks."""

    def __init__(self, contexts):
        self.passed = [[0] * contexts for _ in range(contexts)]

    def turn(self, asking, served):
        for context, passed in enumerate(self.passed):
            if context == served or not asking[context]:
                self.passed[context] = [0] * len(passed)
            elif served is not None:
                passed[served] += 1
                assert passed[served] <= 1, (context, served)


# -- issue -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("contexts", [2, 4])
@pytest.mark.parametrize("chance", [0.3, 0.9])
def test_one_that_wants_and_can_takes_an_entry_in_its_turn(contexts, chance):
    """Its reservation goes on whole; each use of an entry, whosever, has the next generation."""
    config = several(contexts)
    dut = IssueTurns(config)
    draw = random.Random(f"{contexts} {chance}")
    uses, waits = [0] * config.waves, Waits(contexts)

    async def bench(ctx):
        for _ in range(CYCLES):
            wants, ready = bits(contexts, draw, 0.8), bits(contexts, draw, chance)
            ctx.set(dut.wants, mask(wants))
            ctx.set(dut.issuers_ready, mask(ready))
            asking = [a and b for a, b in zip(wants, ready, strict=True)]
            turn = ctx.get(dut.turn)
            assert turn & mask(asking) == turn
            assert turn.bit_count() == any(asking)
            served = turn.bit_length() - 1 if turn and draw.random() < 0.9 else None
            taken = {}
            for context, reserve in enumerate(dut.reserve):
                fields = {
                    "entry": draw.randrange(config.waves),
                    "absent": draw.getrandbits(len(reserve.absent)),
                    "generation": draw.getrandbits(GENERATION_BITS),
                }
                if config.subsets:
                    fields["ranks"] = draw.getrandbits(config.ranks)
                for name, value in fields.items():
                    ctx.set(getattr(reserve, name), value)
                ctx.set(reserve.valid, context == served)
                if context == served:
                    entry = fields["entry"]
                    taken = fields | {
                        "context": context, "generation": uses[entry] % (1 << GENERATION_BITS),
                    }  # fmt: skip
            assert ctx.get(dut.reserved.valid) == (served is not None)
            for name, value in taken.items():
                assert ctx.get(getattr(dut.reserved, name)) == value, name
            await ctx.tick()
            waits.turn(asking, served)
            if served is not None:
                uses[taken["entry"]] += 1

    run(dut, bench)
    assert min(uses) > 1 << GENERATION_BITS or contexts > 2 or chance < 0.9


def test_a_single_context_issues_whenever_its_issuers_can():
    dut = IssueTurns(small())

    async def bench(ctx):
        for ready in (0, 1):
            ctx.set(dut.issuers_ready, ready)
            assert ctx.get(dut.turn) == ready
        for name, value in dict(valid=1, entry=1, generation=3, absent=2).items():
            ctx.set(getattr(dut.reserve[0], name), value)
            assert ctx.get(getattr(dut.reserved, name)) == value

    run(clocked(dut), bench)


# -- read-out --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [0, 1, 5])
@pytest.mark.parametrize("contexts", [1, 2, 4])
def test_a_packet_starts_beside_no_other_and_behind_the_codes(contexts, lead):
    """None while another's is under way; sums wait until they leave behind all codes before.

    However it comes out, nobody who asks is passed twice by the same one.
    """
    dut = ReadOutTurns(small() if contexts == 1 else several(contexts), inq_lead=lead)
    draw = random.Random(f"{contexts} {lead}")
    waits = Waits(contexts)

    async def bench(ctx):
        codes_at, holder = None, None
        for cycle in range(CYCLES):
            asks = bits(contexts, draw, 0.8)
            quantized = bits(contexts, draw, 0.5)
            holds = [context == holder for context in range(contexts)]
            reads = bits(contexts, draw, 0.1)
            for name, flags in dict(
                asks=asks, quantized=quantized, holds=holds, reads_codes=reads
            ).items():
                ctx.set(getattr(dut, name), mask(flags))
            behind = lead == 0 or codes_at is None or cycle - codes_at > lead
            in_order = [behind or codes for codes in quantized]
            asking = [ask and holder in (None, context) for context, ask in enumerate(asks)]
            turn = ctx.get(dut.turn)
            assert ctx.get(dut.settled)
            if contexts == 1:  # it knows itself when it asks
                assert turn == in_order[0]
                asking[0] &= in_order[0]
            else:
                assert turn & mask(asking) & mask(in_order) == turn
                assert turn.bit_count() <= 1
                # Nobody's only while it is the turn of one that must wait for codes.
                late = any(ask and not may for ask, may in zip(asking, in_order, strict=True))
                assert turn or late or not any(asking)
            able = turn & mask(asking)
            served = able.bit_length() - 1 if able and draw.random() < 0.9 else None
            ctx.set(dut.starts, 0 if served is None else 1 << served)
            await ctx.tick()
            waits.turn(asking, served)
            codes_at = cycle if any(reads) else codes_at
            if served is not None:
                holder = served if draw.random() < 0.3 else None
            elif draw.random() < 0.5:
                holder = None

    run(clocked(dut), bench)


def test_sums_are_not_passed_by_the_next_run_of_codes():
    """Codes come with gaps too short for sums to leave behind them: sums have their turn still."""
    lead = 5
    dut = ReadOutTurns(several(2), inq_lead=lead)
    starts = [0, 0]

    async def bench(ctx):
        ctx.set(dut.asks, 0b11)
        ctx.set(dut.quantized, 0b01)
        for _ in range(50):
            while not (turn := ctx.get(dut.turn)):
                await ctx.tick()
            ctx.set(dut.starts, turn)
            ctx.set(dut.reads_codes, turn & 0b01)
            await ctx.tick()
            ctx.set(dut.starts, 0)
            ctx.set(dut.reads_codes, 0)
            starts[turn - 1] += 1
            await ctx.tick()

    run(dut, bench, limit=2000)
    assert starts == [25, 25]


def test_behind_registers_room_is_not_known_for_two_cycles():
    dut = ReadOutTurns(several(2, register_slices="all"))

    async def bench(ctx):
        for context in range(2):
            assert ctx.get(dut.settled)
            ctx.set(dut.starts, 1 << context)
            await ctx.tick()
            ctx.set(dut.starts, 0)
            for _ in range(START_TO_ROOM):
                assert not ctx.get(dut.settled)
                await ctx.tick()

    run(dut, bench)
