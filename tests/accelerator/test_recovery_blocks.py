"""What a context falls back on: merged and dropped packets, what ranks owe, watchdog, shares."""

import random

import pytest

from hdl.accelerator.address_check import FLAG_BYTES
from hdl.accelerator.entry_shares import PATIENCE, EntryShares
from hdl.accelerator.late_flags import LateFlags
from hdl.accelerator.layouts import FLAG_TAG, Status, slot_bits
from hdl.accelerator.outstanding import Outstanding
from hdl.accelerator.packet_drop import PacketDrop
from hdl.accelerator.packet_merge import PacketMerge
from hdl.accelerator.recovery import WAITS, Recovery, settle_cycles
from hdl.interfaces import MessageClass
from tests.lib.simulate import SHAPES, pattern, run

from .ports import small

CONTEXTS = 2


async def until(ctx, condition, most=100):
    """Wait for it; the cycles that it took."""
    for cycles in range(most):
        if condition():
            return cycles
        await ctx.tick()
    raise AssertionError(f"does not come within {most} cycles")


def several(**overrides):
    return small(**{"contexts": CONTEXTS} | overrides)


def played(function, *arguments):
    """A bench that calls `function` with its context and these."""

    async def bench(ctx):
        await function(ctx, *arguments)

    return bench


class Source:
    """Packets with numbered payload: heads and flits are offered side by side."""

    def __init__(self, name: int, sizes, willing):
        self.heads = [(name << 8 | number, size) for number, size in enumerate(sizes)]
        self.flits = [name << 16 | number << 8 | flit for number, size in enumerate(sizes)
                      for flit in range(size)]  # fmt: skip
        self.willing = willing

    async def play(self, ctx, port):
        heads, flits = list(self.heads), list(self.flits)
        while heads or flits:
            on = next(self.willing)
            ctx.set(port.head.valid, bool(heads) and on)
            if heads:
                ctx.set(port.head.payload.header.tag, heads[0][0])
                ctx.set(port.head.payload.flits, heads[0][1])
            ctx.set(port.payload.valid, bool(flits))
            if flits:
                ctx.set(port.payload.payload.data, flits[0])
            sampled = await ctx.tick().sample(
                port.head.valid & port.head.ready, port.payload.valid & port.payload.ready
            )
            head, flit = sampled[-2:]
            heads, flits = heads[head:], flits[flit:]
        ctx.set(port.head.valid, 0)
        ctx.set(port.payload.valid, 0)


async def transmit(ctx, port, seen, willing):
    """Take packets as a transmitter does: a head, then from the second cycle on its payload."""
    while True:
        ctx.set(port.head.ready, next(willing))
        *_, taken, tag, flits = await ctx.tick().sample(
            port.head.valid & port.head.ready,
            port.head.payload.header.tag,
            port.head.payload.flits,
        )
        if not taken:
            continue
        ctx.set(port.head.ready, 0)
        await ctx.tick()
        ctx.set(port.payload.ready, 1)
        data = []
        while len(data) < flits:
            *_, valid, flit = await ctx.tick().sample(port.payload.valid, port.payload.payload.data)
            if valid:
                data.append(flit)
        ctx.set(port.payload.ready, 0)
        seen.append((tag, data))


@pytest.mark.parametrize("shape", SHAPES)
def test_merged_packets_stay_whole_and_in_order(shape):
    dut = PacketMerge(several(), count=3)
    draw = random.Random(shape)
    sources = [
        Source(name, [draw.randrange(1, 3) for _ in range(12)], pattern(shape, name))
        for name in range(3)
    ]
    seen = []
    benches = [played(source.play, port) for source, port in zip(sources, dut.i, strict=True)]

    async def taken(ctx):
        head = dut.o.head
        told = [i.head.valid & i.head.ready for i in dut.i]
        while len(seen) < 36:
            sampled = await ctx.tick().sample(dut.taken, head.valid & head.ready, *told)
            _, _, taken, passes, *each = sampled
            assert taken == sum(one << name for name, one in enumerate(each))
            assert (taken != 0) == passes

    run(dut, *benches, taken,
        background=[played(transmit, dut.o, seen, pattern(shape, 9))])  # fmt: skip
    for name, source in enumerate(sources):
        flits = iter(source.flits)
        expected = [(tag, [next(flits) for _ in range(size)]) for tag, size in source.heads]
        assert [packet for packet in seen if packet[0] >> 8 == name] == expected


def test_a_source_that_always_asks_waits_for_one_packet_of_each_other():
    dut = PacketMerge(several(), count=3)
    sources = [Source(name, [1] * 10, pattern("always", name)) for name in range(3)]
    seen = []

    async def taken(ctx):
        while len(seen) < 30:
            await ctx.tick()

    run(dut, *[played(s.play, p) for s, p in zip(sources, dut.i, strict=True)],
        taken,
        background=[played(transmit, dut.o, seen, pattern("always", 9))])  # fmt: skip
    turns = [tag >> 8 for tag, _ in seen]
    for start in range(0, 30, 3):
        assert sorted(turns[start : start + 3]) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(4))
def test_dropped_packets_vanish_whole_and_begun_ones_stay(seed):
    """Whatever comes out is a whole packet, in order; none that came while nothing was dropped is
    lost; and it is empty in the end.
    """
    print("seed", seed)
    draw = random.Random(seed)
    dut = PacketDrop(several())
    sizes = [draw.randrange(1, 3) for _ in range(40)]
    source = Source(1, sizes, pattern("half", seed))
    seen, kept = [], []

    async def announce(ctx):
        ctx.set(dut.coming, 1)
        for _ in sizes:
            await ctx.tick()
        ctx.set(dut.coming, 0)

    async def watch(ctx):
        async for _, _, head, drop, tag in ctx.tick().sample(
            dut.i.head.valid & dut.i.head.ready, dut.drop, dut.i.head.payload.header.tag
        ):
            if head and not drop:
                kept.append(tag)

    async def order(ctx):
        while True:
            ctx.set(dut.drop, draw.random() < 0.3)
            for _ in range(draw.randrange(1, 12)):
                await ctx.tick()

    async def account(ctx):
        """What has begun and not left, and payload of heads that have passed, cycle by cycle."""
        coming = 0
        i, o = dut.i, dut.o
        seen = (
            dut.coming, dut.left, dut.empty, dut.drop, i.head.payload.flits, i.payload.valid,
            i.payload.ready, o.payload.valid, i.head.valid & i.head.ready,
            o.head.valid & o.head.ready,
        )  # fmt: skip
        fates = []
        while True:
            (
                _,
                _,
                begins,
                left,
                empty,
                drop,
                flits,
                valid,
                ready,
                offers,
                head,
                passes,
            ) = await ctx.tick().sample(*seen)
            assert left == head
            assert passes == (head and not drop)
            assert empty == (coming == 0 and not fates)
            assert offers == bool(valid and fates and not fates[0][1])
            if valid and ready:
                fates[0][0] -= 1
                if not fates[0][0]:
                    fates.pop(0)
            if head:
                fates.append([flits, drop])
            coming += begins - left

    async def finish(ctx):
        await source.play(ctx, dut.i)
        for _ in range(30):
            await ctx.tick()
        assert ctx.get(dut.empty)

    run(dut, announce, finish, background=[
        watch, order, account, played(transmit, dut.o, seen, pattern("half", seed + 50)),
    ])  # fmt: skip
    flits = iter(source.flits)
    whole = {tag: [next(flits) for _ in range(size)] for tag, size in source.heads}
    assert [tag for tag, _ in seen] == kept
    assert 0 < len(kept) < len(sizes)
    assert all(data == whole[tag] for tag, data in seen)


def test_what_is_owed_is_counted_by_context_and_kind():
    dut = Outstanding(several(read_request_bytes=32))
    draw = random.Random(3)
    reads, writes = [0] * CONTEXTS, [0] * CONTEXTS

    async def bench(ctx):
        for _ in range(400):
            events = {n: draw.randrange(4) for n in ("asked", "came", "written", "answered")}
            packets = draw.randrange(1, 3)
            if max(reads) > 6:
                events["asked"] = 0
            if max(writes) > 6:
                events["written"] = 0
            lost = draw.random() < 0.02
            for name, value in events.items():
                ctx.set(getattr(dut, name), value)
            ctx.set(dut.asked_packets, packets)
            ctx.set(dut.lost, lost)
            await ctx.tick()
            for context in range(CONTEXTS):
                here = {name: value >> context & 1 for name, value in events.items()}
                # An answer that nobody owes counts nothing.
                reads[context] += packets * here["asked"] - (here["came"] and reads[context] > 0)
                writes[context] += here["written"] - (here["answered"] and writes[context] > 0)
                if lost:
                    reads[context] = writes[context] = 0
                assert ctx.get(dut.reads[context]) == reads[context]
                assert ctx.get(dut.writes[context]) == writes[context]
                assert ctx.get(dut.idle) >> context & 1 == (reads[context] == writes[context] == 0)

    run(dut, bench)


@pytest.mark.parametrize("late", WAITS)
def test_a_watchdog_names_what_is_waited_for(late):
    """After so many cycles without progress, not before; then back to work."""
    config = several()
    dut = Recovery(config)
    time = 40

    async def bench(ctx):
        ctx.set(dut.watchdog, time)
        ctx.set(dut.active, 1)
        ctx.set(dut.live, late != "arrivals")
        ctx.set(dut.idle, 0b11)
        ctx.set(dut.quiet, 1)
        ctx.set(getattr(dut, f"late_{late}"), 0b10)
        if late != "arrivals":
            ctx.set(dut.late_arrivals, 0b01)  # the last thing to blame
        for _ in range(3):  # progress starts the time anew
            for _ in range(time - 2):
                await ctx.tick()
                assert not ctx.get(dut.mark)
            ctx.set(dut.progress, 1)
            await ctx.tick()
            ctx.set(dut.progress, 0)
        waited = 0
        while not ctx.get(dut.mark):
            await ctx.tick()
            waited += 1
        # It counts from the cycle behind the progress, and is a register.
        assert waited == time + 1
        assert (ctx.get(dut.code), ctx.get(dut.rank)) == (WAITS[late][0], 1)
        await ctx.tick()
        assert ctx.get(dut.flushing)
        assert ctx.get(dut.abort_code) == WAITS[late][0]
        for _ in range(4):
            await ctx.tick()
        assert not ctx.get(dut.failing)
        assert ctx.get(dut.aborts) == 1

    run(dut, bench)


def test_ranks_that_do_not_come_to_rest_are_left_behind():
    """The one that is named at once, another one after the watchdog's time; each until it has."""
    dut = Recovery(several(ranks=3))

    async def bench(ctx):
        ctx.set(dut.watchdog, 50)
        ctx.set(dut.active, 1)
        ctx.set(dut.live, 1)
        ctx.set(dut.quiet, 1)
        ctx.set(dut.idle, 0b001)
        ctx.set(dut.late_data, 0b100)
        ctx.set(dut.sending, 1)
        ctx.set(dut.unsent, 0b010)
        while not ctx.get(dut.failing):
            await ctx.tick()
        ctx.set(dut.late_data, 0)
        await ctx.tick()
        await ctx.tick()
        assert ctx.get(dut.skip) == 0b100
        assert ctx.get(dut.hold) == 0b110
        cycles = 0
        while ctx.get(dut.skip) == 0b100:
            await ctx.tick()
            cycles += 1
        assert 50 <= cycles <= 54
        assert ctx.get(dut.skip) == 0b110
        ctx.set(dut.sending, 0)
        ctx.set(dut.active, 0)
        for _ in range(3):
            await ctx.tick()
        assert not ctx.get(dut.failing)
        assert ctx.get(dut.draining) == 0b110
        ctx.set(dut.idle, 0b101)
        await ctx.tick()
        assert ctx.get(dut.draining) == 0b010
        ctx.set(dut.idle, 0b111)
        await ctx.tick()
        assert ctx.get(dut.draining) == 0

    run(dut, bench)


def test_who_has_only_not_arrived_gets_the_flags_of_what_is_aborted_too():
    """Told of the first at once, it owes the answer to that flag: that is no reason to skip it."""
    dut = Recovery(several(ranks=3))

    async def bench(ctx):
        ctx.set(dut.watchdog, 50)
        ctx.set(dut.active, 1)
        ctx.set(dut.idle, 0b111)
        ctx.set(dut.late_arrivals, 0b010)
        ctx.set(dut.queued, 1)
        ctx.set(dut.quiet, 1)
        ctx.set(dut.sending, 1)
        await until(ctx, lambda: ctx.get(dut.flushing))
        assert (ctx.get(dut.abort_code), ctx.get(dut.abort_rank)) == (Status.NOT_ARRIVED, 1)
        ctx.set(dut.idle, 0b101)  # its flag is on the way
        ctx.set(dut.queued, 0)
        await until(ctx, lambda: not ctx.get(dut.flushing))
        for _ in range(20):
            assert ctx.get(dut.skip) == 0
            assert ctx.get(dut.hold) == 0b010, "but behind the answer"
            await ctx.tick()
        ctx.set(dut.unsent, 0b010)
        await until(ctx, lambda: ctx.get(dut.skip) == 0b010)  # unless that does not come

    run(dut, bench)


@pytest.mark.parametrize("kind", [*WAITS, "link"])
def test_of_several_ranks_the_lowest_is_blamed(kind):
    """Whichever they are, and whatever comes behind in the order."""
    dut = Recovery(several(ranks=3))
    behind = list(WAITS)[list(WAITS).index(kind) + 1 :] if kind in WAITS else WAITS
    code = WAITS[kind][0] if kind in WAITS else Status.LINK_DOWN

    async def bench(ctx):
        ctx.set(dut.pending, kind == "link")
        for late in range(1, 8):
            for others in (0, 1, 7):
                ctx.set(dut.down if kind == "link" else getattr(dut, f"late_{kind}"), late)
                for name in behind:
                    ctx.set(getattr(dut, f"late_{name}"), others)
                lowest = (late & -late).bit_length() - 1
                assert (ctx.get(dut.code), ctx.get(dut.rank)) == (code, lowest)

    run(dut, bench)


def test_a_link_that_is_down_ends_what_needs_it():
    """At once, with the lowest such rank; but not what has only flags to send."""
    dut = Recovery(several(ranks=3))

    async def bench(ctx):
        ctx.set(dut.quiet, 1)
        ctx.set(dut.late_data, 0b001)
        ctx.set(dut.down, 0b110)
        ctx.set(dut.live, 1)
        for _ in range(100):
            await ctx.tick()
            assert not ctx.get(dut.mark)  # nothing is pending
        ctx.set(dut.pending, 1)
        assert ctx.get(dut.mark)
        assert ctx.get(dut.spare)
        assert (ctx.get(dut.code), ctx.get(dut.rank)) == (Status.LINK_DOWN, 1)
        await ctx.tick()
        assert ctx.get(dut.flushing)
        # What is live is over, so what is launched next has the cause.
        assert ctx.get(dut.launch_code) == Status.LINK_DOWN
        assert ctx.get(dut.launch_rank) == 1
        ctx.set(dut.pending, 0)
        for _ in range(4):
            await ctx.tick()
        assert not ctx.get(dut.failing)
        assert ctx.get(dut.aborts) == 1

    run(dut, bench)


class Flags:
    """`LateFlags` and what it sends."""

    def __init__(self):
        self.dut = LateFlags(several(ranks=2), context=1)
        self.sent = []  # of (port, address, epoch)
        self.headers = []  # of all heads

    async def watch(self, ctx):
        for o in self.dut.o:
            ctx.set(o.head.ready, 1)
            ctx.set(o.payload.ready, 1)
        address = [0, 0]
        while True:
            seen = [v for o in self.dut.o for v in (o.head, o.payload)]
            values = [v for each in seen for v in (each.valid, each.payload)]
            _, _, *values = await ctx.tick().sample(*values)
            for port in range(2):
                head, header, flit, payload = values[4 * port : 4 * port + 4]
                if head:
                    address[port] = header.header.address
                    self.headers.append((port, header.flits, header.header))
                if flit:
                    self.sent.append((port, address[port], payload.data & 0xFFFFFFFF))

    def at_rest(self, ctx):
        """Every link is up, and nobody owes anything."""
        ctx.set(self.dut.up, 0b11)
        ctx.set(self.dut.idle, 0b11)

    async def pulse(self, ctx, **values):
        for name, value in values.items():
            ctx.set(getattr(self.dut, name), value)
        await ctx.tick()
        for name in values:
            ctx.set(getattr(self.dut, name), 0)

    async def end(self, ctx, epoch, missed=0):
        ctx.set(self.dut.word.epoch, epoch)
        for port, address in enumerate(self.dut.flags):
            ctx.set(address, 64 * (epoch + port))
        await self.pulse(ctx, keep=0b11, missed=missed)


def test_a_flag_that_was_missed_follows_once_its_rank_is_idle_and_up():
    """Each rank has its own last one, whatever others miss."""
    flags = Flags()

    async def bench(ctx):
        ctx.set(flags.dut.up, 0b01)
        await flags.end(ctx, 5, missed=0b10)
        ctx.set(flags.dut.word.epoch, 6)
        await flags.pulse(ctx, keep=0b01)  # an operation without the rank
        ctx.set(flags.dut.idle, 0b11)
        await ctx.tick().repeat(10)
        assert not flags.sent
        ctx.set(flags.dut.up, 0b11)
        await ctx.tick().repeat(10)
        assert flags.sent == [(1, 64 * 6, 5)]
        assert ctx.get(flags.dut.waiting) == 0

    run(flags.dut, bench, background=[flags.watch])


@pytest.mark.parametrize("answered", [False, True])
def test_a_flag_that_the_link_has_lost_is_sent_again(answered):
    flags = Flags()

    async def bench(ctx):
        flags.at_rest(ctx)
        await flags.pulse(ctx, sent=0b11)
        await flags.end(ctx, 3)
        if answered:
            await flags.pulse(ctx, answered=0b10)
        ctx.set(flags.dut.up, 0b01)
        await ctx.tick().repeat(20)
        assert ctx.get(flags.dut.waiting) == (0 if answered else 0b10)
        ctx.set(flags.dut.up, 0b11)
        await ctx.tick().repeat(20)
        assert flags.sent == ([] if answered else [(1, 64 * 4, 3)])

    run(flags.dut, bench, background=[flags.watch])


@pytest.mark.parametrize("port", [0, 1])
def test_a_late_flag_is_a_write_like_any_flag(port):
    """At each port: once, to its address, with a tag that names flag and context."""
    flags = Flags()

    async def bench(ctx):
        flags.at_rest(ctx)
        await flags.end(ctx, 9, missed=1 << port)
        await ctx.tick().repeat(20)
        assert flags.sent == [(port, 64 * (9 + port), 9)]
        ((at, flits, header),) = flags.headers
        assert (at, flits, header.source, header.destination) == (port, 1, port, port)
        assert (header.message_class, header.inc) == (MessageClass.WRITE_DATA, 1)
        assert (header.context, header.length) == (1, FLAG_BYTES)
        assert header.tag == FLAG_TAG | 1 << slot_bits(several(ranks=2))

    run(flags.dut, bench, background=[flags.watch])


@pytest.mark.parametrize("port", [0, 1])
def test_each_flag_that_was_sent_must_be_answered(port):
    """One answer too few, and the last is sent again; an answer in the cycle of a flag counts."""
    flags = Flags()

    async def bench(ctx):
        flags.at_rest(ctx)
        here = 1 << port
        for count in (2, 3):
            for lacking in (0, 1):
                flags.sent.clear()
                await flags.pulse(ctx, sent=here)
                for _ in range(count - 1):
                    await flags.pulse(ctx, sent=here, answered=here)
                await flags.end(ctx, 3)
                await ctx.tick().repeat(3)
                for _ in range(1 - lacking):
                    await flags.pulse(ctx, answered=here)
                await flags.pulse(ctx, answered=0b11 ^ here)  # nobody waits for that one
                ctx.set(flags.dut.up, 0b11 ^ here)
                await ctx.tick()
                ctx.set(flags.dut.up, 0b11)
                await ctx.tick().repeat(10)
                assert flags.sent == [(port, 64 * (3 + port), 3)] * lacking

    run(flags.dut, bench, background=[flags.watch])


def test_a_flag_that_goes_while_the_link_is_down_is_lost():
    flags = Flags()

    async def bench(ctx):
        flags.at_rest(ctx)
        await flags.end(ctx, 4)
        ctx.set(flags.dut.up, 0b10)
        await flags.pulse(ctx, sent=0b01)
        await ctx.tick().repeat(3)
        ctx.set(flags.dut.up, 0b11)
        await ctx.tick().repeat(10)
        assert flags.sent == [(0, 64 * 4, 4)]

    run(flags.dut, bench, background=[flags.watch])


def test_without_a_watchdog_only_a_host_ends_anything():
    config = several()
    dut = Recovery(config)

    async def bench(ctx):
        ctx.set(dut.active, 1)
        ctx.set(dut.late_data, 1)
        ctx.set(dut.quiet, 1)
        for _ in range(500):
            await ctx.tick()
            assert not ctx.get(dut.mark)
        ctx.set(dut.abort, 1)
        assert ctx.get(dut.mark)
        assert ctx.get(dut.spare), "some members may know that what is over has ended well"
        assert (ctx.get(dut.code), ctx.get(dut.rank)) == (Status.ABORTED, 0)
        await ctx.tick()
        ctx.set(dut.abort, 0)
        # Healthy ranks have a time to answer in, all the same.
        ctx.set(dut.sending, 1)
        ctx.set(dut.unsent, 1)
        cycles = 0
        while not ctx.get(dut.skip):
            await ctx.tick()
            cycles += 1
        # One to flush, then the time as with a watchdog, and what is given up is a register.
        assert cycles == 1 + settle_cycles(config) + 2

    run(dut, bench)


@pytest.mark.parametrize("pending", [0, 1])
def test_a_context_that_is_disabled_ends_what_is_under_way(pending):
    """As a host's abort does, but with its own code; where there is nothing, nothing."""
    dut = Recovery(several(ranks=3))

    async def bench(ctx):
        ctx.set(dut.quiet, 1)
        ctx.set(dut.live, 1)
        ctx.set(dut.late_data, 0b010)
        ctx.set(dut.pending, pending)
        await ctx.tick()
        assert not ctx.get(dut.mark)
        ctx.set(dut.disabled, 1)
        assert ctx.get(dut.mark) == ctx.get(dut.spare) == pending
        if pending:
            assert (ctx.get(dut.code), ctx.get(dut.rank)) == (Status.DISABLED, 0)
            await ctx.tick()
            assert ctx.get(dut.failing)
            assert (ctx.get(dut.abort_code), ctx.get(dut.abort_rank)) == (Status.DISABLED, 0)
            ctx.set(dut.pending, 0)
            await until(ctx, lambda: not ctx.get(dut.failing))
        for _ in range(20):
            assert not ctx.get(dut.mark)
            await ctx.tick()

    run(dut, bench)


def test_shares_of_entries():
    """Neighbouring entries, nobody's twice; none is taken while shares change."""
    config = several(waves=8, contexts=4)
    dut = EntryShares(config)

    async def bench(ctx):
        for enabled in (0b0001, 0b0101, 0b1111, 0b0001, 0b1110, 0b0000, 0b1000):
            ctx.set(dut.enabled, enabled)
            ctx.set(dut.reading[0], 2)
            for _ in range(10):
                await ctx.tick()
                assert ctx.get(dut.hold) == 0b1111  # context 0 still reads
            ctx.set(dut.reading[0], 0)
            while ctx.get(dut.hold):
                await ctx.tick()
            count = enabled.bit_count()
            taken = set()
            for context in range(4):
                base, share = ctx.get(dut.base[context]), ctx.get(dut.share[context])
                assert share == (8 // count if enabled >> context & 1 else 0)
                assert share or base == 0
                entries = set(range(base, base + share))
                assert not entries & taken
                taken |= entries
            assert taken <= set(range(8))

    run(dut, bench)


def test_a_context_that_hangs_does_not_hold_the_others_for_ever():
    """Held alone after a time, until it has given its entries back; the change comes then."""
    config = several(waves=8, contexts=3)
    dut = EntryShares(config)

    async def bench(ctx):
        ctx.set(dut.enabled, 0b011)
        await until(ctx, lambda: not ctx.get(dut.hold), 10)
        await ctx.tick()
        ctx.set(dut.reading[1], 3)  # for ever
        ctx.set(dut.reading[0], 1)
        ctx.set(dut.enabled, 0b111)
        waited = await until(ctx, lambda: ctx.get(dut.hold) != 0b111, PATIENCE + 2)
        assert waited == PATIENCE
        assert ctx.get(dut.hold) == 0b011, "a slow one is waited for, too"
        ctx.set(dut.reading[0], 0)
        await ctx.tick()
        for _ in range(2 * PATIENCE):
            ctx.set(dut.reading[0], ctx.get(dut.reading[0]) ^ 2)  # goes on as before
            await ctx.tick()
            assert ctx.get(dut.hold) == 0b010
            assert [ctx.get(dut.share[each]) for each in range(3)] == [4, 4, 0]
        ctx.set(dut.reading[0], 1)
        ctx.set(dut.reading[1], 0)
        await until(ctx, lambda: ctx.get(dut.hold) == 0b111, 3)
        # The next one has the whole time again.
        waited = await until(ctx, lambda: ctx.get(dut.hold) == 0b001, PATIENCE + 2)
        assert waited == PATIENCE
        ctx.set(dut.reading[0], 0)
        await until(ctx, lambda: not ctx.get(dut.hold), 10)
        assert [ctx.get(dut.share[each]) for each in range(3)] == [2, 2, 2]
        # A change that is taken back is none.
        ctx.set(dut.reading[2], 1)
        ctx.set(dut.enabled, 0b110)
        await until(ctx, lambda: ctx.get(dut.hold) == 0b100, PATIENCE + 2)
        ctx.set(dut.enabled, 0b111)
        await until(ctx, lambda: not ctx.get(dut.hold), 10)
        assert [ctx.get(dut.share[each]) for each in range(3)] == [2, 2, 2]

    run(dut, bench, limit=6 * PATIENCE)


@pytest.mark.parametrize("dropped", [0, 1])
def test_ranks_that_have_arrived_for_what_is_not_posted_are_told(dropped):
    """An operation of those is made, with the cause; if even that cannot be, all goes on."""
    dut = Recovery(several(ranks=3))

    async def bench(ctx):
        ctx.set(dut.quiet, 1)
        ctx.set(dut.unformed, 1)
        ctx.set(dut.late_arrivals, 0b100)
        ctx.set(dut.active, 1)
        ctx.set(dut.watchdog, 5)
        while not ctx.get(dut.mark):
            await ctx.tick()
        ctx.set(dut.active, 0)
        while not ctx.get(dut.form):
            await ctx.tick()
        await ctx.tick().repeat(20)
        assert ctx.get(dut.form)
        assert ctx.get(dut.force)
        assert ctx.get(dut.failing)
        assert (ctx.get(dut.launch_code), ctx.get(dut.launch_rank)) == (Status.NOT_ARRIVED, 2)
        ctx.set(dut.dropped if dropped else dut.take, 1)
        await ctx.tick()
        ctx.set(dut.dropped, 0)
        ctx.set(dut.take, 0)
        ctx.set(dut.sending, not dropped)
        # The cause is given: what follows is only aborted.
        assert ctx.get(dut.launch_code) == Status.ABORTED
        await ctx.tick().repeat(3)
        assert not ctx.get(dut.form)
        ctx.set(dut.sending, 0)
        await ctx.tick().repeat(2)
        assert not ctx.get(dut.failing)
        assert ctx.get(dut.aborts) == 1

    run(dut, bench)
