"""`InstructionQueue`: every rule with its code and rank, limits without wrap, slots and order."""

import pytest

from hdl.accelerator.instruction_queue import InstructionQueue
from hdl.accelerator.layouts import Status, operation_slots
from tests.lib.simulate import run, until

from .ports import post, small

#: The rank that breaks the rule where one rank does: neither the first nor the last.
BAD_RANK = 1
RANKS = 3


def config(**overrides):
    return small(**{"ranks": RANKS, "flit_bytes": 16, "payload_bytes": 32} | overrides)


def good(length=64):
    """An instruction that keeps every rule, out of place; ranks differ."""
    return dict(
        length=length,
        sources=[0x100 + 0x10 * rank for rank in range(RANKS)],
        destinations=[0x400 + 0x20 * rank for rank in range(RANKS)],
        flags=[0x800 + 8 * rank for rank in range(RANKS)],
    )


def at_bad_rank(**addresses):
    """`good` with addresses of one rank replaced."""
    instruction = good()
    for kind, address in addresses.items():
        instruction[kind][BAD_RANK] = address
    return instruction


def outcome(instruction, cfg=None, **fields):
    """How a first post ends."""
    dut = InstructionQueue(cfg or config())
    result = []

    async def bench(ctx):
        result.append(await post(ctx, dut, **{**instruction, **fields}))
        await ctx.tick().repeat(3)
        assert ctx.get(dut.launch.valid) == (result[0][0] is Status.OK)

    run(dut, bench)
    return result[0]


REFUSED = {
    # One rank's addresses.
    "source off the grid": (at_bad_rank(sources=0x108), Status.UNALIGNED),
    "source off the grid by 1": (at_bad_rank(sources=0x101), Status.UNALIGNED),
    "destination off the grid": (at_bad_rank(destinations=0x408), Status.UNALIGNED),
    "flag off 8 bytes": (at_bad_rank(flags=0x804), Status.UNALIGNED),
    "source ends past the memory": (at_bad_rank(sources=4096 - 48), Status.OUT_OF_RANGE),
    "destination ends past the memory": (at_bad_rank(destinations=4096 - 48), Status.OUT_OF_RANGE),
    "source starts past the memory": (at_bad_rank(sources=4096), Status.OUT_OF_RANGE),
    "flag past the memory": (at_bad_rank(flags=4096), Status.OUT_OF_RANGE),
    "source near 2^32": (at_bad_rank(sources=(1 << 32) - 16), Status.OUT_OF_RANGE),
    "source at 2^32": (at_bad_rank(sources=1 << 32), Status.OUT_OF_RANGE),
    "source ends at 2^48": (at_bad_rank(sources=(1 << 48) - 64), Status.OUT_OF_RANGE),
    "source ends past 2^48": (at_bad_rank(sources=(1 << 48) - 16), Status.OUT_OF_RANGE),
    "source at 2^48": (at_bad_rank(sources=1 << 48), Status.OUT_OF_RANGE),
    "destination ends past 2^48": (at_bad_rank(destinations=(1 << 48) - 16), Status.OUT_OF_RANGE),
    "destination at 2^63": (at_bad_rank(destinations=1 << 63), Status.OUT_OF_RANGE),
    "flag at the end of 2^48": (at_bad_rank(flags=(1 << 48) - 8), Status.OUT_OF_RANGE),
    "flag at 2^48": (at_bad_rank(flags=1 << 48), Status.OUT_OF_RANGE),
    "flag at 2^64 - 8": (at_bad_rank(flags=(1 << 64) - 8), Status.OUT_OF_RANGE),
    "destination a flit behind": (
        at_bad_rank(sources=0x100, destinations=0x110), Status.OVERLAP),
    "destination a flit before": (
        at_bad_rank(sources=0x100, destinations=0xF0), Status.OVERLAP),
    "destination's last flit is the source's first": (
        at_bad_rank(sources=0x130, destinations=0x100), Status.OVERLAP),
    "flag is the source's first word": (at_bad_rank(flags=0x110), Status.OVERLAP),
    "flag is the source's last word": (at_bad_rank(flags=0x148), Status.OVERLAP),
    "flag is the destination's first word": (at_bad_rank(flags=0x420), Status.OVERLAP),
    "flag is the destination's last word": (at_bad_rank(flags=0x458), Status.OVERLAP),
}  # fmt: skip


@pytest.mark.parametrize("rule", REFUSED)
def test_a_rank_that_breaks_a_rule_is_named(rule):
    instruction, code = REFUSED[rule]
    assert outcome(instruction) == (code, BAD_RANK)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        (dict(length=63), Status.BAD_LENGTH),
        (dict(length=1), Status.BAD_LENGTH),
        (dict(length=1 << 40), Status.BAD_LENGTH),
        (dict(length=(1 << 40) + 64), Status.BAD_LENGTH),
        (dict(length=1 << 63), Status.BAD_LENGTH),
        (dict(length=(1 << 40) - 1), Status.BAD_LENGTH),
        (dict(length=(1 << 40) - 2), Status.OUT_OF_RANGE),
        (dict(length=1 << 31), Status.OUT_OF_RANGE),
        (dict(length=(1 << 31) - 2), Status.OUT_OF_RANGE),
        (dict(length=1 << 32), Status.OUT_OF_RANGE),
        (dict(length=(1 << 32) + 64), Status.OUT_OF_RANGE),
        (dict(length=4096), Status.OUT_OF_RANGE),
        (dict(format=1), Status.BAD_FORMAT),
        (dict(format=2), Status.BAD_FORMAT),
        (dict(format=3), Status.BAD_FORMAT),
        (dict(format=4), Status.BAD_FORMAT),
        (dict(format=0x8000_0000), Status.BAD_FORMAT),
    ],
)
def test_common_fields_that_break_a_rule(fields, code):
    assert outcome(good(), **fields) == (code, 0)


@pytest.mark.parametrize("number", [0, 1])
def test_formats_that_are_built(number):
    both = config(formats=("fp16", "bf16"))
    assert outcome(good(), both, format=number) == (Status.OK, 0)
    only = config(formats=("bf16",))
    assert outcome(good(), only, format=number)[0] is (
        Status.OK if number == 1 else Status.BAD_FORMAT
    )


@pytest.mark.parametrize(
    "addresses",
    [
        dict(sources=0x100, destinations=0x100),  # in place
        dict(sources=0x100, destinations=0x140),  # touching
        dict(sources=0x140, destinations=0x100),
        dict(sources=0x100, destinations=0x140, flags=0x180),
        dict(sources=0x100, flags=0xF8),  # the flag right before, and right behind
        dict(sources=0x100, flags=0x140),
        dict(sources=4096 - 64),  # to the memory's end
        dict(flags=4096 - 8),
        dict(sources=0),
    ],
)
def test_ranges_that_touch_or_reach_the_end_are_allowed(addresses):
    assert outcome(at_bad_rank(**addresses)) == (Status.OK, 0)


def test_ranges_are_compared_to_the_flit():
    """A length that ends inside a flit claims the whole flit."""
    instruction = good(length=2) | dict(sources=[0x100] * RANKS, flags=[0x108] * RANKS)
    assert outcome(instruction) == (Status.OVERLAP, 0)


def test_length_zero_claims_nothing():
    same = dict(sources=[0x100] * RANKS, destinations=[0x110] * RANKS, flags=[0x100] * RANKS)
    assert outcome(dict(length=0) | same) == (Status.OK, 0)
    at_the_end = dict(sources=[4096] * RANKS, destinations=[4096] * RANKS, flags=[0] * RANKS)
    assert outcome(dict(length=0) | at_the_end) == (Status.OK, 0)


@pytest.mark.parametrize("length", [(1 << 31) - 16, 1 << 31, (1 << 32) + 16, (1 << 40) - 16])
def test_lengths_beyond_32_bits_where_the_memory_holds_them(length):
    """2^31, 2^32 and 2^40 are crossed without a wrap, in the check and in what is launched."""
    large = config(memory_bytes=1 << 48)
    low = 1 << 44
    instruction = dict(
        length=length,
        sources=[low] * RANKS,
        destinations=[low + length] * RANKS,
        flags=[low - 8] * RANKS,
    )
    dut = InstructionQueue(large)

    async def bench(ctx):
        crossing = instruction | dict(destinations=[low + length - 16] * RANKS)
        assert await post(ctx, dut, **crossing) == (Status.OVERLAP, 0)
        inside = instruction | dict(flags=[low + length - 8] * RANKS)
        assert await post(ctx, dut, **inside) == (Status.OVERLAP, 0)
        assert await post(ctx, dut, **instruction) == (Status.OK, 0)
        await until(ctx, dut.launch.valid)
        assert ctx.get(dut.launch.payload).length == length
        assert ctx.get(dut.sources[2]) == low

    run(dut, bench)


def test_what_is_refused_stays_staged_and_can_be_mended():
    dut = InstructionQueue(config())

    async def bench(ctx):
        bad = at_bad_rank(flags=0x804)
        assert await post(ctx, dut, **bad) == (Status.UNALIGNED, BAD_RANK)
        ctx.set(dut.address, 0x900)
        ctx.set(dut.stage_flag, 1 << BAD_RANK)
        await ctx.tick()
        ctx.set(dut.stage_flag, 0)
        assert await post(ctx, dut, **bad, stage=False) == (Status.OK, 0)
        await until(ctx, dut.launch.valid)
        assert [ctx.get(source) for source in dut.sources] == good()["sources"]
        ctx.set(dut.flag_slot, ctx.get(dut.launch.payload).slot)
        await ctx.tick()
        assert [ctx.get(flag) for flag in dut.flags] == [0x800, 0x900, 0x810]

    run(dut, bench)


def test_words_not_staged_again_are_those_that_were_checked():
    """An instruction that differs in one word runs with the other words of the one before.

    Slots are a ring: what a slot held when it was used last must not come back.
    """
    dut = InstructionQueue(config(queue_depth=1))
    slots = operation_slots(config(queue_depth=1))

    async def bench(ctx):
        assert (await post(ctx, dut, **good()))[0] is Status.OK
        for turn in range(2 * slots):
            await until(ctx, dut.launch.valid)
            slot = ctx.get(dut.launch.payload).slot
            assert ctx.get(dut.launch.payload).length == 64
            assert [ctx.get(x) for x in dut.sources] == [0x100 + 0x10 * turn, 0x110, 0x120]
            ctx.set(dut.destination_slot, slot)
            ctx.set(dut.flag_slot, slot)
            ctx.set(dut.launch.ready, 1)
            await ctx.tick()
            ctx.set(dut.launch.ready, 0)
            assert [ctx.get(x) for x in dut.destinations] == good()["destinations"]
            assert [ctx.get(x) for x in dut.flags] == good()["flags"]
            ctx.set(dut.retire, 1)
            await ctx.tick()
            ctx.set(dut.retire, 0)
            ctx.set(dut.address, 0x100 + 0x10 * (turn + 1))
            ctx.set(dut.stage_source, 1)
            await ctx.tick()
            ctx.set(dut.stage_source, 0)
            assert (await post(ctx, dut, **good(), stage=False))[0] is Status.OK

    run(dut, bench)


def test_nothing_that_is_written_during_the_check_slips_through():
    dut = InstructionQueue(config())

    async def bench(ctx):
        instruction = good()
        assert await post(ctx, dut, **at_bad_rank(sources=1)) == (Status.UNALIGNED, BAD_RANK)
        ctx.set(dut.address, instruction["sources"][BAD_RANK])
        ctx.set(dut.stage_source, 1 << BAD_RANK)
        await ctx.tick()
        ctx.set(dut.stage_source, 0)
        ctx.set(dut.post, 1)
        await ctx.tick()
        # The check goes on: bad addresses, length and format come, and a second post.
        ctx.set(dut.address, 0x10_0001)
        for kind in ("source", "destination", "flag"):
            ctx.set(getattr(dut, f"stage_{kind}"), (1 << RANKS) - 1)
        ctx.set(dut.length, 0x1234)
        ctx.set(dut.format, 3)
        while ctx.get(dut.busy):
            await ctx.tick()
        ctx.set(dut.post, 0)
        for kind in ("source", "destination", "flag"):
            ctx.set(getattr(dut, f"stage_{kind}"), 0)
        assert Status(ctx.get(dut.code)) is Status.OK
        await until(ctx, dut.launch.valid)
        launched = ctx.get(dut.launch.payload)
        assert (launched.length, launched.format.value) == (64, 0)
        assert [ctx.get(source) for source in dut.sources] == instruction["sources"]

    run(dut, bench)


@pytest.mark.parametrize("depth", [1, 2, 4, 5])
def test_a_full_queue_refuses_and_takes_again(depth):
    """`queue_depth` operations wait for their launch; no more slots than the ring has are used."""
    dut = InstructionQueue(config(queue_depth=depth))
    slots = operation_slots(config(queue_depth=depth))

    async def bench(ctx):
        for _ in range(depth):
            assert (await post(ctx, dut, **good()))[0] is Status.OK
        assert await post(ctx, dut, **good()) == (Status.QUEUE_FULL, 0)
        # Launched ones make room until every slot but the one for staging is taken.
        posted = launched = depth
        while posted < slots - 1:
            await launch(ctx)
            launched += 1
            assert (await post(ctx, dut, **good()))[0] is Status.OK
            posted += 1
        await launch(ctx)
        assert await post(ctx, dut, **good()) == (Status.QUEUE_FULL, 0)
        ctx.set(dut.retire, 1)
        await ctx.tick()
        ctx.set(dut.retire, 0)
        assert (await post(ctx, dut, **good()))[0] is Status.OK

    async def launch(ctx):
        ctx.set(dut.launch.ready, 1)
        await until(ctx, dut.launch.valid)
        ctx.set(dut.launch.ready, 0)

    run(dut, bench)


def test_launches_in_order_every_other_cycle():
    dut = InstructionQueue(config(queue_depth=4))
    lengths = [32, 48, 64, 16]

    async def bench(ctx):
        for length in lengths:
            assert (await post(ctx, dut, **good(length)))[0] is Status.OK
        ctx.set(dut.launch.ready, 1)
        seen, cycle = [], 0
        while len(seen) < len(lengths):
            _, _, valid, operation = await ctx.tick().sample(dut.launch.valid, dut.launch.payload)
            if valid:
                seen.append((cycle, operation.slot, operation.length))
            cycle += 1
        assert [length for _, _, length in seen] == lengths
        assert [slot for _, slot, _ in seen] == [0, 1, 2, 3]
        assert [cycle - seen[0][0] for cycle, _, _ in seen] == [0, 2, 4, 6]

    run(dut, bench)
