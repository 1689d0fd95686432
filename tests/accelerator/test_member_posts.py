"""`MemberPosts`: one instruction of what a context's members have staged."""

import pytest

from hdl.accelerator.layouts import Status
from hdl.accelerator.member_posts import MemberPosts
from hdl.accelerator.window import format_word, word_number
from tests.lib.simulate import run

from .ports import small


def several(**overrides):
    return small(**{"contexts": 2, "ranks": 3} | overrides)


async def stage(ctx, dut, members, words):
    """Who belongs to the context; by rank, what it writes to its window."""
    ctx.set(dut.on, 1)
    ctx.set(dut.members, members)
    for rank, each in enumerate(words):
        for name, value in each.items():
            ctx.set(dut.words[rank], word_number(name))
            ctx.set(dut.values[rank], value)
            ctx.set(dut.stage, 1 << rank)
            await ctx.tick()
    ctx.set(dut.stage, 0)


async def until_posted(ctx, dut):
    while not ctx.get(dut.posting.post):
        await ctx.tick()


async def complete(ctx, dut, arrived):
    """Who has arrived; until it is posted."""
    ctx.set(dut.arrived, arrived)
    ctx.set(dut.complete, ctx.get(dut.members) == arrived)
    await until_posted(ctx, dut)


def test_windows_are_open_where_members_do_not_post():
    """Whoever has arrived: that is for what a host posts."""
    dut = MemberPosts(several())

    async def bench(ctx):
        ctx.set(dut.members, 0b111)
        ctx.set(dut.arrived, 0b111)
        ctx.set(dut.early, 0b011)
        assert ctx.get(dut.locked) == 0
        ctx.set(dut.on, 1)
        assert ctx.get(dut.locked) == 0b111

    run(dut, bench)


@pytest.mark.parametrize(
    ("lengths", "odd"),
    [((64, 64, 64), None), ((64, 32, 64), 1), ((32, 64, 64), 0), ((64, 64, 32), 2),
     ((16, 32, 64), 0)],
)  # fmt: skip
def test_member_posts_compare_common_fields(lengths, odd):
    config = several()
    dut = MemberPosts(config)
    word = format_word(0, 0b111, 0b011)

    async def bench(ctx):
        words = [{"source": 64 + 8 * n, "length": each, "format": word}
                 for n, each in enumerate(lengths)]  # fmt: skip
        await stage(ctx, dut, 0b111, words)
        ctx.set(dut.arrived, 0b111)
        assert ctx.get(dut.locked) == 0b111
        ctx.set(dut.complete, 1)
        sources = {}
        while not ctx.get(dut.posting.post):
            await ctx.tick()
            if ctx.get(dut.posting.stage_source):
                sources[ctx.get(dut.posting.stage_source)] = ctx.get(dut.posting.address)
        assert sources == {1: 64, 2: 72, 4: 80}
        assert ctx.get(dut.locked) == 0
        if odd is None:
            assert ctx.get(dut.code) == Status.OK
            assert ctx.get(dut.posting.length) == 64
            assert ctx.get(dut.posting.source_ranks) == 0b111
            assert ctx.get(dut.posting.destination_ranks) == 0b011
        else:
            assert (ctx.get(dut.code), ctx.get(dut.rank)) == (Status.DISAGREES, odd)
            assert ctx.get(dut.flags_only)
            assert ctx.get(dut.posting.length) == 0

    run(dut, bench)


@pytest.mark.parametrize("members", [0b011, 0b101, 0b110])
def test_of_two_members_the_higher_is_the_odd_one(members):
    """Neither has others on its side."""
    dut = MemberPosts(several())

    async def bench(ctx):
        word = format_word(0, members, 1)
        await stage(ctx, dut, members, [{"length": 64 + n, "format": word} for n in range(3)])
        await complete(ctx, dut, members)
        assert (ctx.get(dut.code), ctx.get(dut.rank)) == (
            Status.DISAGREES,
            members.bit_length() - 1,
        )

    run(dut, bench)


@pytest.mark.parametrize("form", [0, 1])
def test_who_is_present(form):
    """All members, or of those who never all came the ones that did, who are only told so."""
    dut = MemberPosts(several())

    async def bench(ctx):
        await stage(ctx, dut, 0b111, [{"length": 64, "format": format_word(0, 0b111, 1)}] * 3)
        ctx.set(dut.form, form)
        await complete(ctx, dut, 0b101 if form else 0b111)
        assert ctx.get(dut.present) == (0b101 if form else 0b111)
        assert ctx.get(dut.flags_only) == form
        assert ctx.get(dut.posting.length) == (0 if form else 64)

    run(dut, bench)


async def refuse(ctx, dut, code, rank):
    """The queue looks at what is posted, and refuses it."""
    await ctx.tick()
    ctx.set(dut.posting.busy, 1)
    await ctx.tick().repeat(3)
    ctx.set(dut.posting.code, code)
    ctx.set(dut.posting.rank, rank)
    ctx.set(dut.posting.busy, 0)


def test_what_is_refused_is_posted_for_its_flags_and_without_those_that_are_refused():
    """Whoever can be told is, and where nobody can the epoch goes on."""
    dut = MemberPosts(several())

    async def bench(ctx):
        await stage(ctx, dut, 0b111, [{"length": 64, "format": format_word(0, 0b111, 1)}] * 3)
        await complete(ctx, dut, 0b111)
        assert not ctx.get(dut.flags_only)
        await refuse(ctx, dut, Status.OVERLAP, 1)
        present = 0b111
        for rank in (2, 0, 1):
            await until_posted(ctx, dut)
            assert ctx.get(dut.flags_only)
            assert ctx.get(dut.present) == present
            assert (ctx.get(dut.code), ctx.get(dut.rank)) == (Status.OVERLAP, 1)
            assert not ctx.get(dut.drop)
            present &= ~(1 << rank)
            await refuse(ctx, dut, Status.UNALIGNED, rank)
        assert ctx.get(dut.drop)
        ctx.set(dut.complete, 0)  # the epoch goes on
        await ctx.tick()
        assert not ctx.get(dut.drop)
        assert ctx.get(dut.idle)

    run(dut, bench)


@pytest.mark.parametrize(("code", "rank"), [(Status.QUEUE_FULL, 0), (Status.UNALIGNED, 2)])
def test_flags_that_are_refused_for_no_members_sake_are_not_posted_again(code, rank):
    dut = MemberPosts(several())

    async def bench(ctx):
        await stage(ctx, dut, 0b011, [{"length": 64, "format": format_word(0, 0b011, 1)}] * 2)
        ctx.set(dut.form, 1)
        await complete(ctx, dut, 0b011)
        await refuse(ctx, dut, code, rank)
        assert ctx.get(dut.drop)

    run(dut, bench)


@pytest.mark.parametrize("name", ["length", "format", "chunk"])
@pytest.mark.parametrize("odd", range(3))
def test_each_common_word_is_compared(name, odd):
    """And given, where all agree."""
    dut = MemberPosts(several(collectives="all"))
    right = {"length": 64, "format": format_word(0, 0b111, 0b011, collective=1), "chunk": 24}

    async def bench(ctx):
        for wrong in (0, 1):
            words = [dict(right) for _ in range(3)]
            words[odd][name] += wrong
            await stage(ctx, dut, 0b111, words)
            assert not ctx.get(dut.forming)
            await complete(ctx, dut, 0b111)
            assert ctx.get(dut.forming)
            assert ctx.get(dut.code) == (Status.DISAGREES if wrong else Status.OK)
            assert ctx.get(dut.rank) == wrong * odd
            if not wrong:
                assert ctx.get(dut.posting.chunk) == 24
                assert ctx.get(dut.posting.length) == 64
            await ctx.tick().repeat(2)
            assert not ctx.get(dut.forming)  # it is posted
            ctx.set(dut.take, 1)
            await ctx.tick()
            ctx.set(dut.take, 0)
            ctx.set(dut.arrived, 0)
            ctx.set(dut.complete, 0)
            await ctx.tick()

    run(dut, bench)


def test_every_address_of_every_member_is_staged():
    """Once, from its own slot."""
    dut = MemberPosts(several(formats=("fp16", "inq8"), wave_bytes=256))
    kinds = ("source", "destination", "flag", "scale_source", "scale_destination")
    found = []

    async def watch(ctx):
        strobes = [getattr(dut.posting, f"stage_{kind}") for kind in kinds]
        async for _, _, address, *staged in ctx.tick().sample(dut.posting.address, *strobes):
            found.extend(
                (kind, bits, address) for kind, bits in zip(kinds, staged, strict=True) if bits
            )

    async def bench(ctx):
        await stage(ctx, dut, 0b101, [
            {kind: 100 * rank + at for at, kind in enumerate(kinds)} for rank in range(3)
        ])  # fmt: skip
        await complete(ctx, dut, 0b101)

    run(dut, bench, background=[watch])
    assert sorted(found) == sorted(
        (kind, 1 << rank, 100 * rank + at) for rank in (0, 2) for at, kind in enumerate(kinds)
    )


@pytest.mark.parametrize("bit", [16 + 3, 16 + 15, 32 + 3, 32 + 15])
def test_a_rank_that_the_switch_has_not_leaves_none(bit):
    """So it is refused as ranks are."""
    dut = MemberPosts(several())

    async def bench(ctx):
        word = format_word(1, 0b111, 0b111) | 1 << bit
        await stage(ctx, dut, 0b111, [{"length": 64, "format": word}] * 3)
        await complete(ctx, dut, 0b111)
        assert ctx.get(dut.posting.format) == 1
        assert ctx.get(dut.posting.source_ranks) == (0b111 if bit >= 32 else 0)
        assert ctx.get(dut.posting.destination_ranks) == (0b111 if bit < 32 else 0)

    run(dut, bench)


@pytest.mark.parametrize("bit", [56, 63])
def test_what_no_field_has_a_place_for_makes_the_format_unknown(bit):
    dut = MemberPosts(several())

    async def bench(ctx):
        word = format_word(1, 0b111, 0b111) | 1 << bit
        await stage(ctx, dut, 0b111, [{"length": 64, "format": word}] * 3)
        await complete(ctx, dut, 0b111)
        assert ctx.get(dut.posting.format) == 1 | 1 << 24

    run(dut, bench)
