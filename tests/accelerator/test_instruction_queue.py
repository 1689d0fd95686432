"""`InstructionQueue`: every rule with its code and rank, limits without wrap, slots and order."""

import itertools
import random
from collections import Counter

import pytest
from amaranth.hdl import Fragment

from hdl.accelerator.instruction_queue import InstructionQueue
from hdl.accelerator.layouts import POST_RULES, Status, address_kinds, operation_slots
from hdl.interfaces import Format
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


@pytest.mark.parametrize("rank", range(RANKS))
@pytest.mark.parametrize("kind", ["source", "destination", "flag"])
def test_nothing_that_is_written_during_the_check_slips_through(kind, rank):
    """Not into this instruction, and not into the next one, which uses the same words."""
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
        # The check goes on: a bad address, length and format come, and a second post.
        ctx.set(dut.address, 0x10_0001)
        ctx.set(getattr(dut, f"stage_{kind}"), 1 << rank)
        ctx.set(dut.length, 0x1234)
        ctx.set(dut.format, 3)
        while ctx.get(dut.busy):
            await ctx.tick()
        ctx.set(dut.post, 0)
        ctx.set(getattr(dut, f"stage_{kind}"), 0)
        assert Status(ctx.get(dut.code)) is Status.OK
        await until(ctx, dut.launch.valid)
        launched = ctx.get(dut.launch.payload)
        assert (launched.length, launched.format.value) == (64, 0)
        assert [ctx.get(source) for source in dut.sources] == instruction["sources"]
        assert await post(ctx, dut, **instruction, stage=False) == (Status.OK, 0)

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
        # From here on each that retires makes room for one, and for no more.
        for _ in range(2 * slots):
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


# -- quantized -------------------------------------------------------------------------------------

INQ8 = Format.INQ8.value
KINDS = ("sources", "destinations", "flags", "scale_sources", "scale_destinations")
#: Ranges that may be identical.
IN_PLACE = {("sources", "destinations"), ("scale_sources", "scale_destinations")}
#: 19 flits of codes; 10 scales of 2 bytes, so 2 flits of them.
CODES = 300


def quantizing(**overrides):
    fields = dict(formats=("fp16", "inq8"), block=32, wave_bytes=512)
    return config(**fields | overrides)


def apart(cfg, length=CODES):
    """A quantized instruction that keeps every rule; ranks differ."""
    return dict(
        length=length,
        format=INQ8,
        sources=[0x200 + 0x10 * rank for rank in range(RANKS)],
        destinations=[0x400 + 0x20 * rank for rank in range(RANKS)],
        flags=[0x800 + 8 * rank for rank in range(RANKS)],
        scale_sources=[0xA00 + 0x30 * rank for rank in range(RANKS)],
        scale_destinations=[0xC00 + 0x10 * rank for rank in range(RANKS)],
    )


def claimed(cfg, kind, length, format):
    """Bytes of the range of a kind, as the rules count them."""
    if kind == "flags":
        return 8
    size = cfg.scales_bytes(length) if kind.startswith("scale") else length
    return -(-size // cfg.flit_bytes) * cfg.flit_bytes


def expected(cfg, instruction, *, ranks=None, windows=None):
    """Code and rank by the rules, in plain Python: the model of the check.

    `ranks` : by kind, the mask of those whose address counts; `windows` : by rank, first and last
    byte and one.
    """
    length, format = instruction["length"], instruction["format"]
    if format not in [Format[name.upper()].value for name in cfg.formats]:
        return Status.BAD_FORMAT, 0
    if length % (1 if format == INQ8 else 2) or length >= 1 << 40:
        return Status.BAD_LENGTH, 0
    for rank in range(cfg.ranks):
        ranges = {}
        for kind in KINDS if format == INQ8 else KINDS[:3]:
            if ranks and not ranks[kind] >> rank & 1:
                continue
            low = instruction[kind][rank]
            ranges[kind] = (low, low + claimed(cfg, kind, length, format))
        grid = {kind: 8 if kind == "flags" else cfg.flit_bytes for kind in ranges}
        if any(low % grid[kind] for kind, (low, _) in ranges.items()):
            return Status.UNALIGNED, rank
        if any(high > cfg.memory_bytes for _, high in ranges.values()):
            return Status.OUT_OF_RANGE, rank
        if windows and any(
            low != high and (low < windows[rank][0] or high > windows[rank][1])
            for low, high in ranges.values()
        ):
            return Status.OUT_OF_WINDOW, rank
        for pair in itertools.combinations(ranges, 2):
            (low, high), (other_low, other_high) = (ranges[kind] for kind in pair)
            if pair in IN_PLACE and low == other_low:
                continue
            if max(low, other_low) < min(high, other_high):
                return Status.OVERLAP, rank
    return Status.OK, 0


async def launched(ctx, dut, cfg):
    """The operation that was posted: its length, format, and addresses by kind; it is retired."""
    ctx.set(dut.launch.ready, 1)
    names = [f"{kind}s" for kind in address_kinds(cfg)]
    early = [name for name in names if name.endswith("sources")]
    first = [source for name in early for source in getattr(dut, name)]
    operation, *sources = await until(ctx, dut.launch.valid, dut.launch.payload, *first)
    ctx.set(dut.launch.ready, 0)
    result = {name: sources[cfg.ranks * n :][: cfg.ranks] for n, name in enumerate(early)}
    ctx.set(dut.destination_slot, operation.slot)
    ctx.set(dut.flag_slot, operation.slot)
    await ctx.tick()
    for name in names:
        if name not in early:
            result[name] = [ctx.get(address) for address in getattr(dut, name)]
    ctx.set(dut.retire, 1)
    await ctx.tick()
    ctx.set(dut.retire, 0)
    return operation.length, operation.format.value, result


def judged(cfg, instructions, limit=100_000):
    """Post one after the other: each ends as the model says, and what is queued is what was posted.

    The codes, counted.
    """
    dut = InstructionQueue(cfg)
    codes = Counter()

    async def bench(ctx):
        for number, instruction in enumerate(instructions):
            got = await post(ctx, dut, **instruction)
            assert got == expected(cfg, instruction), f"instruction {number}: {instruction}"
            codes[got[0]] += 1
            if got[0] is not Status.OK:
                continue
            length, format, addresses = await launched(ctx, dut, cfg)
            assert (length, format) == (instruction["length"], instruction["format"])
            for kind in KINDS if format == INQ8 else KINDS[:3]:
                # The very end of a memory that fills the address space has no address.
                whole = [address % (1 << cfg.address_bits) for address in instruction[kind]]
                assert addresses[kind] == whole, f"instruction {number}, {kind}"

    run(dut, bench, limit=limit)
    return codes


def moved(cfg, kind, address):
    """`apart` with the range of one kind moved at one rank."""
    instruction = apart(cfg)
    instruction[kind][BAD_RANK] = address
    return instruction


@pytest.mark.parametrize("pair", [*itertools.combinations(KINDS, 2)], ids="-".join)
def test_each_pair_of_ranges_may_touch_but_not_overlap(pair):
    """By a flit at either end, or identical; a flag by its word at each end."""
    cfg = quantizing()
    # The flag is the smallest step, so it is the one that moves.
    fixed, moving = reversed(pair) if pair[0] == "flags" else pair
    low = apart(cfg)[fixed][BAD_RANK]
    size = claimed(cfg, fixed, CODES, INQ8)
    other = claimed(cfg, moving, CODES, INQ8)
    step = 8 if moving == "flags" else cfg.flit_bytes
    cases = {
        low - other: Status.OK,
        low - other + step: Status.OVERLAP,
        low: Status.OK if pair in IN_PLACE else Status.OVERLAP,
        low + size - step: Status.OVERLAP,
        low + size: Status.OK,
    }
    for address, code in cases.items():
        rank = BAD_RANK if code is Status.OVERLAP else 0
        assert expected(cfg, moved(cfg, moving, address)) == (code, rank), hex(address)
    codes = judged(cfg, [moved(cfg, moving, address) for address in cases])
    assert codes[Status.OVERLAP] in (2, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_each_quantized_range_at_its_limits(kind):
    cfg = quantizing()
    end = cfg.memory_bytes - claimed(cfg, kind, CODES, INQ8)
    step = 8 if kind == "flags" else cfg.flit_bytes
    past = [end + step, cfg.memory_bytes, (1 << 32) - step, 1 << 32, (1 << 32) + 0x100]
    past += [(1 << 48) - step, 1 << 48, (1 << 48) + 0x100, 1 << 63, (1 << 64) - step]
    off = [1, 2, 4, *([8] if kind != "flags" else ()), (1 << 63) + 1]
    cases = {0: Status.OK, end: Status.OK}
    cases |= dict.fromkeys(past, Status.OUT_OF_RANGE)
    cases |= dict.fromkeys(off, Status.UNALIGNED)
    codes = judged(cfg, [moved(cfg, kind, address) for address in cases])
    assert codes == Counter(cases.values())


def test_any_number_of_codes_is_a_length_and_of_plain_bytes_only_an_even_one():
    cfg = quantizing()
    instructions = [
        {**apart(cfg), "length": length, "format": format}
        for length in (0, 1, 2, 31, 32, 33, 63, 299, 301)
        for format in (0, INQ8)
    ]
    codes = judged(cfg, instructions)
    assert codes == {Status.OK: 12, Status.BAD_LENGTH: 6}


@pytest.mark.parametrize("block", [32, 64, 512])
@pytest.mark.parametrize("scale_format", ["fp16", "bf16", "e8m0"])
def test_scales_claim_whole_flits_of_whole_blocks(scale_format, block):
    """Around each length where they need a flit more: to the memory's end, and no further."""
    scale_bytes = 1 if scale_format == "e8m0" else 2
    flit = 16
    codes_per_flit = block * flit // scale_bytes
    memory = 1 << 17
    cfg = quantizing(
        block=block, scale_format=scale_format, wave_bytes=codes_per_flit, memory_bytes=memory
    )
    lengths = [1, block - 1, block, block + 1]
    lengths += [n * codes_per_flit + by for n in (1, 2, 3) for by in (-block, -1, 0, 1, block)]
    instructions, codes = [], []
    for length in lengths:
        blocks = -(-length // block)
        size = -(-blocks * scale_bytes // flit) * flit
        for kind in ("scale_sources", "scale_destinations"):
            for start, code in (
                (memory - size, Status.OK),
                (memory - size + flit, Status.OUT_OF_RANGE),
            ):
                far = dict(sources=[0x1_0000] * RANKS, destinations=[0x1_0000] * RANKS)
                instruction = apart(cfg, length) | far
                instructions.append(instruction | {kind: [start] * RANKS})
                codes.append(code)
    assert [expected(cfg, instruction)[0] for instruction in instructions] == codes
    assert judged(cfg, instructions) == Counter(codes)


def test_an_instruction_of_plain_numbers_does_not_look_at_scales():
    """Whatever is staged for them; but a quantized one that follows does."""
    cfg = quantizing()
    plain = apart(cfg) | dict(format=0)
    stale = [1, 0xFFFF_FFFF_FFFF_FFF0, 0x220]  # off the grid, past the memory, in the source
    instructions = []
    for address in stale:
        for kind in ("scale_sources", "scale_destinations"):
            words = {kind: [address] * RANKS}
            instructions += [plain | words, apart(cfg) | words]
    codes = judged(cfg, instructions)
    assert codes == {
        Status.OK: 6, Status.UNALIGNED: 2, Status.OUT_OF_RANGE: 2, Status.OVERLAP: 2,
    }  # fmt: skip


@pytest.mark.parametrize("length", [(1 << 31) - 1, 1 << 32, (1 << 32) + 17, (1 << 40) - 1])
@pytest.mark.parametrize("flit_bytes", [8, 64])
def test_large_quantized_operands(length, flit_bytes):
    """Where the memory holds them; the scales' far end is compared without a wrap. Else refused."""
    fields = dict(block=512, wave_bytes=512 * flit_bytes, flit_bytes=flit_bytes, payload_bytes=64)
    large = quantizing(memory_bytes=1 << 48, **fields)
    low = 1 << 45
    data, scales = (claimed(large, kind, length, INQ8) for kind in ("sources", "scale_sources"))
    fits = dict(
        length=length,
        format=INQ8,
        sources=[0] * RANKS,
        destinations=[1 << 44] * RANKS,
        flags=[low + scales] * RANKS,
        scale_sources=[low] * RANKS,
        scale_destinations=[low - scales] * RANKS,
    )
    ends = fits | dict(destinations=[(1 << 48) - data] * RANKS)
    behind = fits | dict(destinations=[(1 << 48) - data + flit_bytes] * RANKS)
    cross = fits | dict(flags=[low + scales - 8] * RANKS)
    codes = judged(large, [fits, ends, behind, cross])
    assert codes == {Status.OK: 2, Status.OUT_OF_RANGE: 1, Status.OVERLAP: 1}
    lower = quantizing(memory_bytes=1 << 17, **fields)
    assert judged(lower, [apart(lower, length)]) == {Status.OUT_OF_RANGE: 1}


def test_an_earlier_rule_of_a_rank_wins_and_an_earlier_rank_before_that():
    cfg = quantizing()
    unaligned = dict(scale_destinations=0xC01)  # the address that is looked at last
    outside = dict(sources=1 << 50)
    overlap = dict(scale_sources=0x220)
    for rules, code in (
        ((unaligned, outside, overlap), Status.UNALIGNED),
        ((unaligned, overlap), Status.UNALIGNED),
        ((outside, overlap), Status.OUT_OF_RANGE),
        ((overlap,), Status.OVERLAP),
    ):
        for rank in range(RANKS):
            instruction = apart(cfg)
            for rule in rules:
                for kind, address in rule.items():
                    instruction[kind][rank] = address
            for later in range(rank + 1, RANKS):
                instruction["flags"][later] = 1
            assert expected(cfg, instruction) == (code, rank)
            assert judged(cfg, [instruction]) == {code: 1}


@pytest.mark.parametrize(
    ("cfg", "format", "kinds"),
    [(config(), 0, 3), (quantizing(), 0, 3), (quantizing(), INQ8, 5)],
    ids=["plain", "plain where both are built", "quantized"],
)
def test_a_check_takes_as_long_as_is_said(cfg, format, kinds):
    dut = InstructionQueue(cfg)

    async def bench(ctx):
        instruction = {k: v for k, v in apart(cfg).items() if k in KINDS[: len(address_kinds(cfg))]}
        await post(ctx, dut, length=64, format=format, **instruction)
        await launched(ctx, dut, cfg)
        ctx.set(dut.post, 1)
        cycles = 0
        async for _, _, busy in ctx.tick().sample(dut.busy):
            ctx.set(dut.post, 0)
            if cycles and not busy:
                break
            cycles += 1
        # In the last of these cycles `busy` is low again.
        assert cycles == 2 + RANKS * (kinds * (kinds + 1) // 2 + 3)
        assert Status(ctx.get(dut.code)) is Status.OK

    run(dut, bench)


def drawn(cfg, draw):
    """An instruction whose ranges are often near each other, near the end, or off the grid."""
    flit, memory = cfg.flit_bytes, cfg.memory_bytes
    unknown = draw.random() < 0.05
    built = [Format[name.upper()].value for name in cfg.formats]
    format = draw.choice([1, 3, 4, 5] if unknown else built)
    length = draw.choice(
        [0, 1, 2, flit, draw.randrange(memory // 4), 2 * draw.randrange(memory // 8), 1 << 40]
        if draw.random() < 0.7
        else [4 * flit, 6 * flit, 6 * flit + 2, cfg.block * 4 * flit]
    )
    careful = draw.random() < 0.6  # else ranges fall anywhere, and one overlap is all but sure

    def place(kind, slot):
        size = claimed(cfg, kind, length, format)
        if draw.random() < 0.01:
            return draw.choice([1 << 32, 1 << 48, (1 << 48) + 64, 1 << 63, memory])
        if draw.random() < 0.03:
            return memory - size + draw.choice([0, 0, flit])
        low = slot * memory // 8 if careful else draw.randrange(memory)
        low = low // flit * flit + draw.choice([0, 0, 0, flit, -flit])
        if kind == "flags":
            low += draw.choice([0, 8, flit - 8])
        if draw.random() < 0.02:
            low += draw.choice([1, 2, 4, 8])
        return max(low, 0)

    ranks = []
    for _ in range(cfg.ranks):
        slots = draw.sample(range(8), len(KINDS))
        rank = {kind: place(kind, slot) for kind, slot in zip(KINDS, slots, strict=True)}
        for operand, result in IN_PLACE:
            if draw.random() < 0.4:
                rank[result] = rank[operand] + draw.choice([0, 0, 0, flit])
        if draw.random() < 0.1:  # one range right beside, or a flit into, another
            mover, other = draw.sample(KINDS, 2)
            at = rank[other] + claimed(cfg, other, length, format) * draw.choice([0, 1])
            rank[mover] = max(0, at + draw.choice([0, -flit, -claimed(cfg, mover, length, format)]))
        ranks.append(rank)
    kinds = [f"{kind}s" for kind in address_kinds(cfg)]
    return dict(length=length, format=format) | {k: [rank[k] for rank in ranks] for k in kinds}


RANDOM = {
    "plain": config(),
    "scales of 1 byte": quantizing(scale_format="e8m0", flit_bytes=8),
    "scales of 2 bytes": quantizing(),
    "wide": quantizing(
        flit_bytes=64, payload_bytes=64, block=128, wave_bytes=4096, memory_bytes=1 << 16
    ),
    "a memory that is no power of two": quantizing(memory_bytes=5008, scale_format="bf16"),
    "a memory that fills the addresses": quantizing(address_bits=12),
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("cfg", RANDOM.values(), ids=RANDOM)
def test_random_instructions_against_the_rules(cfg, seed):
    """The seed is in the test's name; every code comes up."""
    draw = random.Random(seed)
    codes = judged(cfg, [drawn(cfg, draw) for _ in range(150)])
    for code in (
        Status.OK, Status.BAD_LENGTH, Status.UNALIGNED, Status.OUT_OF_RANGE, Status.OVERLAP,
    ):  # fmt: skip
        assert codes[code] >= 3, codes


@pytest.mark.parametrize(
    "fields", [{}, {"contexts": 2, "operations": "sum,max", "collectives": "all"}]
)
def test_rules_in_common_are_looked_at_in_the_order_of_their_table(monkeypatch, fields):
    """Docs and help are made of the table."""
    found = []

    def judge(self, m, addresses, refusals, end):
        found.extend(code for _refused, code, _rank in refusals if code is not Status.OK)

    monkeypatch.setattr(InstructionQueue, "_judge", judge)
    Fragment.get(InstructionQueue(small(**fields)), None)
    order = list(POST_RULES)
    assert found == sorted(found, key=order.index)
    assert {Status.QUEUE_FULL, Status.BAD_FORMAT, Status.BAD_LENGTH} <= set(found)
    if fields:
        first = order.index(Status.UNALIGNED)
        assert found == [code for code in order[:first] if code is not Status.MEMBERS_POST]


def random_instruction(cfg, draw, windows):
    """Mostly inside the windows, often near their ends."""

    def address(rank, step):
        low, high = windows[rank]
        near = draw.choice([low, high, *5 * [(low + high) // 2]])
        if draw.random() < 0.02:
            return draw.choice([near + 1, cfg.memory_bytes])
        return max(0, near - near % step + step * draw.randint(-12, 12))

    length = draw.choice([0, 1, 16, 33, 64])
    format = INQ8 if draw.random() < 0.5 else Format.FP16.value
    length -= length % (1 if format == INQ8 else 2)
    return dict(length=length, format=format) | {
        kind: [address(rank, 8 if kind == "flags" else cfg.flit_bytes) for rank in range(RANKS)]
        for kind in KINDS
    }


@pytest.mark.parametrize("seed", range(3))
def test_windows_and_some_of_the_ranks_against_the_model(seed):
    """Windows of each rank of its own; who is not read, written or told may have any address."""
    cfg = quantizing(contexts=2)
    dut = InstructionQueue(cfg)
    draw = random.Random(seed)
    codes = Counter()

    async def bench(ctx):
        ctx.set(dut.enabled, 1)
        for number in range(150):
            members = draw.randint(1, (1 << RANKS) - 1)
            some = [draw.randint(1, (1 << RANKS) - 1) & members or members for _ in range(2)]
            windows = []
            for rank, port in enumerate(dut.windows):
                low = 8 * draw.randrange(cfg.memory_bytes // 16)
                windows.append((low, low + 8 * draw.randint(16, cfg.memory_bytes // 16)))
                ctx.set(port.base, low // 8)
                ctx.set(port.limit, windows[rank][1] // 8)
            told = draw.randint(0, (1 << RANKS) - 1) & members
            ctx.set(dut.members, members)
            ctx.set(dut.present, told)
            ranks = dict(zip(("sources", "destinations"), some, strict=True)) | {"flags": told}
            ranks |= {f"scale_{kind}": ranks[kind] for kind in ("sources", "destinations")}
            instruction = random_instruction(cfg, draw, windows)
            chosen = dict(source_ranks=some[0], destination_ranks=some[1])
            got = await post(ctx, dut, **instruction, **chosen)
            due = expected(cfg, instruction, ranks=ranks, windows=windows)
            assert got == due, f"{number}: {instruction} {ranks} {windows}"
            codes[got[0]] += 1
            if got[0] is Status.OK:
                await launched(ctx, dut, cfg)

    run(dut, bench, limit=100_000)
    met = {Status.OK, Status.OVERLAP, Status.OUT_OF_WINDOW, Status.UNALIGNED, Status.OUT_OF_RANGE}
    assert set(codes) == met, codes
