"""`WaveController`: waves of an operation, entries before requests, order, and early ends."""

import random

import pytest

from hdl.accelerator.wave_controller import WaveController
from hdl.interfaces import Format
from tests.lib.simulate import pattern, run

from .ports import quantizing, small

FAR = 1 << 40


class Bench:
    """Plays queue, barrier, issuers, read-out order and read-out around a controller."""

    def __init__(self, config, *, ready="always", order="always", release="always", seed=0):
        self.config = config
        self.dut = WaveController(config)
        self.willing = [
            pattern(shape, f"{seed} {name}")
            for name, shape in (("issue", ready), ("order", order), ("release", release))
        ]
        self.issued = []  # (cycle, entry, generation, addresses, size)
        self.waves = []  # (cycle, wave)
        self.scales = []  # (scale addresses, scale size) of what is issued
        self.reserved = []
        self.taken = []  # cycles of starts
        self.cycle = -1
        self.outstanding = 0
        self.hold_releases = False
        self.share, self.held = None, False  # where there are several contexts

    async def offer(self, ctx, slot, length, sources, format=0, complete_after=0, scale_sources=()):
        """Launch an operation; its barrier is complete after so many cycles."""
        dut = self.dut
        ctx.set(dut.launch.payload, {"slot": slot, "format": format, "length": length})
        ctx.set(dut.launch.valid, 1)
        for rank, source in enumerate(sources):
            ctx.set(dut.sources[rank], source)
        for rank, source in enumerate(scale_sources):
            ctx.set(dut.scale_sources[rank], source)
        ctx.set(dut.complete, 0)
        for _ in range(complete_after):
            await self.tick(ctx)
        ctx.set(dut.complete, 1)
        taken = len(self.taken)
        while len(self.taken) == taken:
            await self.tick(ctx)
        ctx.set(dut.launch.valid, 0)
        ctx.set(dut.complete, 0)

    async def finish(self, ctx, waves):
        while len(self.waves) < waves or self.outstanding:
            await self.tick(ctx)

    async def tick(self, ctx):
        dut = self.dut
        issue, order, release = (next(each) for each in self.willing)
        release = release and self.outstanding > 0 and not self.hold_releases
        ctx.set(dut.issue_ready, issue)
        ctx.set(dut.waves.ready, order)
        ctx.set(dut.release, release)
        if self.config.quantizes:
            scales = [*dut.issue.scale_address, dut.issue.scale_size]
        else:
            scales = []
        _, _, *values = await ctx.tick().sample(
            *scales,
            dut.take, dut.launch.valid, dut.launch.ready,
            dut.issue.valid, dut.issue.entry, dut.issue.generation,
            dut.issue.size, dut.waves.valid, dut.waves.payload, dut.reserve.valid,
            dut.reserve.entry, dut.reserve.generation, dut.reserve.absent, dut.reading,
            dut.complete, dut.busy, dut.waits_barrier, dut.waits_entry, *dut.issue.address,
        )  # fmt: skip
        scales, values = values[: len(scales)], values[len(scales) :]
        (take, launch_valid, launch_ready, issued, entry, generation, size, valid, wave, reserved,
         reserved_entry, reserved_generation, absent, reading, complete, busy, waits_barrier,
         waits_entry, *addresses) = values  # fmt: skip
        self.cycle += 1
        assert reading == self.outstanding, "entries taken"
        assert take == (launch_valid and launch_ready), "an operation is lost, or taken twice"
        assert waits_barrier == (launch_valid and not busy and not complete)
        most = self.config.waves if self.share is None else self.share
        assert waits_entry <= (busy and (reading == most or self.held))
        if take:
            self.taken.append(self.cycle)
        assert issued == reserved, "an entry is taken with the wave"
        if issued:
            assert issue, "the issuers cannot take it"
            assert valid, "a wave that read-out does not hear of"
            assert order
            assert (entry, generation) == (reserved_entry, reserved_generation)
            self.issued.append((self.cycle, entry, generation, tuple(addresses), size))
            self.reserved.append(absent)
            self.scales.append((tuple(scales[:-1]), scales[-1]) if scales else None)
            self.outstanding += 1
            assert self.outstanding <= self.config.waves
        if valid and order:
            self.waves.append((self.cycle, wave))
            assert bool(wave.size) == bool(issued)
        self.outstanding -= release


SHAPES = ("always", "half", "bursts")


@pytest.mark.parametrize("length", [2, 8, 16, 32, 48, 62, 64, 66, 128, 190, 192])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_operation_is_cut_into_waves(length, shape):
    config = small(waves=2, memory_bytes=1 << 48)
    bench = Bench(config, ready=shape, order=shape, release=shape, seed=length)
    sources = [0x100, FAR]

    async def body(ctx):
        await bench.offer(ctx, 3, length, sources)
        count = -(-length // config.wave_bytes)
        await bench.finish(ctx, count)
        for _ in range(10):
            await bench.tick(ctx)
        assert len(bench.waves) == len(bench.issued) == count
        for number, ((_, wave), (_, entry, generation, addresses, size)) in enumerate(
            zip(bench.waves, bench.issued, strict=True)
        ):
            start = number * config.wave_bytes
            assert addresses == tuple(source + start for source in sources)
            assert size == wave.size == min(config.wave_bytes, length - start)
            assert (wave.first, wave.last) == (number == 0, number == count - 1)
            assert wave.slot == 3
            assert wave.entry == entry == number % config.waves
            assert generation == number // config.waves
            packets = -(-size // config.payload_bytes)
            assert bench.reserved[number] == 0b1111 & ~((1 << packets) - 1)

    run(bench.dut, body)


def test_length_zero_is_one_wave_that_takes_no_entry():
    bench = Bench(small(memory_bytes=1 << 48))

    async def body(ctx):
        await bench.offer(ctx, 5, 0, [0, 0])
        await bench.finish(ctx, 1)
        ((_, wave),) = bench.waves
        assert (wave.slot, wave.size, wave.first, wave.last) == (5, 0, 1, 1)
        assert not bench.issued

    run(bench.dut, body)


def test_no_wave_before_its_barrier_and_no_wave_without_an_entry():
    config = small(waves=4, memory_bytes=1 << 48)
    bench = Bench(config)
    bench.hold_releases = True

    async def body(ctx):
        await bench.offer(ctx, 0, 10 * config.wave_bytes, [0, 0], complete_after=20)
        assert bench.taken == [20]
        assert not bench.issued
        for _ in range(30):
            await bench.tick(ctx)
        assert len(bench.issued) == config.waves
        assert ctx.get(bench.dut.waits_entry)
        bench.hold_releases = False
        await bench.finish(ctx, 10)

    run(bench.dut, body)


def test_a_wave_a_cycle_and_one_cycle_between_operations():
    config = small(waves=8, memory_bytes=1 << 48)
    bench = Bench(config)

    async def body(ctx):
        await bench.offer(ctx, 0, 3 * config.wave_bytes, [0, 0])
        await bench.offer(ctx, 1, 3 * config.wave_bytes, [0, 0])
        await bench.finish(ctx, 6)
        cycles = [cycle for cycle, *_ in bench.issued]
        assert [cycle - cycles[0] for cycle in cycles] == [0, 1, 2, 4, 5, 6]
        assert cycles[0] == bench.taken[0] + 1

    run(bench.dut, body)


@pytest.mark.parametrize("after", [1, 2, 5])
def test_a_failed_operation_ends_with_an_empty_wave(after):
    config = small(waves=8, memory_bytes=1 << 48)
    bench = Bench(config)

    async def body(ctx):
        await bench.offer(ctx, 2, 20 * config.wave_bytes, [0, 0])
        while len(bench.waves) < after:
            await bench.tick(ctx)
        ctx.set(bench.dut.failed, 1 << 2)
        await bench.tick(ctx)
        assert len(bench.waves) == after + 1
        wave = bench.waves[-1][1]
        assert (wave.size, wave.first, wave.last, wave.slot) == (0, 0, 1, 2)
        # Another operation's failure is not this one's.
        await bench.offer(ctx, 1, 2 * config.wave_bytes, [0x40, 0x80])
        await bench.finish(ctx, after + 3)
        assert [wave.size for _, wave in bench.waves[-2:]] == [config.wave_bytes] * 2

    run(bench.dut, body)


@pytest.mark.parametrize("length", [(1 << 31) + 2, (1 << 32) - 2, (1 << 40) - 2])
def test_lengths_of_40_bits(length):
    """Every wave is whole, however long the operation."""
    config = small(waves=8, memory_bytes=1 << 44)
    bench = Bench(config)

    async def body(ctx):
        await bench.offer(ctx, 0, length, [FAR, 0])
        while len(bench.waves) < 40:
            await bench.tick(ctx)
        assert {size for *_, size in bench.issued} == {config.wave_bytes}
        assert not any(wave.last for _, wave in bench.waves)
        assert bench.issued[39][3] == (FAR + 39 * config.wave_bytes, 39 * config.wave_bytes)

    run(bench.dut, body)


@pytest.mark.parametrize("waves", [1, 2, 4])
def test_generations_count_uses_of_an_entry(waves):
    config = small(waves=waves, memory_bytes=1 << 48)
    bench = Bench(config)
    draw = random.Random(waves)

    async def body(ctx):
        total = 0
        for slot in range(8):
            count = draw.randint(1, 6 * waves)
            await bench.offer(ctx, slot % 8, count * config.wave_bytes, [0, 0])
            total += count
            await bench.finish(ctx, total)
        seen = [(entry, generation) for _, entry, generation, *_ in bench.issued]
        assert seen == [(n % waves, n // waves % 16) for n in range(total)]

    run(bench.dut, body)


QUANTIZING = {
    "a packet of scales": dict(),
    "two packets of scales, the last one short": dict(wave_bytes=384),
    "four packets of scales": dict(wave_bytes=1024),
    "scales of a byte": dict(scale_format="e8m0", wave_bytes=768),
    "two blocks a flit": dict(flit_bytes=64, payload_bytes=64, wave_bytes=1024),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", QUANTIZING)
def test_waves_of_codes_name_their_scales(name, shape):
    """Operations of codes of many lengths, and of sums between, which have no scales."""
    config = quantizing(**QUANTIZING[name], memory_bytes=1 << 48)
    bench = Bench(config, ready=shape, order=shape, release=shape, seed=name)
    draw = random.Random(f"{name} {shape}")
    full, payload = config.wave_bytes, config.payload_bytes
    lengths = [1, config.block, config.block + 1, full - 1, full, full + 1, 3 * full]
    lengths += [draw.randint(1, 3 * full) for _ in range(4)]

    async def body(ctx):
        issued = 0
        for number, length in enumerate(lengths):
            for format in (Format.INQ8, Format.FP16):
                length += length % 2 if format == Format.FP16 else 0
                sources, scale_sources = (
                    [draw.randrange(1 << 32) * config.flit_bytes for _ in range(2)]
                    for _ in range(2)
                )
                await bench.offer(ctx, number % 8, length, sources, format.value,
                                  scale_sources=scale_sources)  # fmt: skip
                await bench.finish(ctx, issued + -(-length // full))
                for start in range(0, length, full):
                    size = min(full, length - start)
                    scale_size = config.scales_bytes(size) if format == Format.INQ8 else 0
                    scales, asked = bench.scales[issued]
                    assert asked == scale_size
                    if scale_size:
                        before = start // config.block * config.scale_bytes
                        assert scales == tuple(source + before for source in scale_sources)
                    assert bench.issued[issued][3] == tuple(source + start for source in sources)
                    packets = -(-size // payload)
                    scale_packets = -(-scale_size // payload)
                    there = (1 << packets) - 1
                    there |= ((1 << scale_packets) - 1) << config.packets_per_wave
                    every = (1 << config.packets_per_wave + config.scale_packets) - 1
                    assert bench.reserved[issued] == every & ~there
                    issued += 1
        assert len(bench.issued) == issued

    run(bench.dut, body, limit=10_000)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_context_uses_its_share_of_the_entries_and_changes_it_while_held(shape):
    """One after the other from its base on; behind a hold, once none is in use, from a new one."""
    config = small(waves=8, contexts=2, memory_bytes=1 << 48)
    bench = Bench(config, ready=shape, order=shape, release=shape, seed=shape)
    dut = bench.dut

    def give(ctx, base, share):
        ctx.set(dut.base, base)
        ctx.set(dut.share, share)
        bench.share = share

    async def use(ctx, base, share):
        """An operation of seven waves."""
        begun = len(bench.issued)
        await bench.offer(ctx, 1, 7 * config.wave_bytes, [0x100, FAR])
        while len(bench.issued) < begun + 7:
            await bench.tick(ctx)
            assert bench.outstanding <= share
        entries = [entry for _, entry, *_ in bench.issued[begun:]]
        assert entries == [base + number % share for number in range(7)]

    async def change(ctx, base, share):
        ctx.set(dut.hold, 1)
        bench.held = True
        give(ctx, base, share)
        while bench.outstanding:
            await bench.tick(ctx)
        for _ in range(4):
            await bench.tick(ctx)
        ctx.set(dut.hold, 0)
        bench.held = False

    async def body(ctx):
        give(ctx, 0, 4)
        await change(ctx, 4, 3)
        await use(ctx, 4, 3)
        await change(ctx, 1, 7)
        await use(ctx, 1, 7)
        await change(ctx, 7, 1)
        await use(ctx, 7, 1)

    run(dut, body)


def test_a_hold_lets_no_wave_go_and_keeps_what_is_in_use():
    """Behind a hold in the middle of an operation the ring of entries goes on where it was."""
    config = small(waves=4, contexts=2, memory_bytes=1 << 48)
    bench = Bench(config)
    dut = bench.dut

    async def body(ctx):
        ctx.set(dut.base, 0)
        ctx.set(dut.share, 3)
        bench.share = 3
        bench.hold_releases = True
        await bench.offer(ctx, 1, 5 * config.wave_bytes, [0x100, FAR])
        while len(bench.issued) < 2:
            await bench.tick(ctx)
        ctx.set(dut.hold, 1)
        bench.held = True
        for _ in range(10):
            assert not ctx.get(dut.wants)
            await bench.tick(ctx)
        assert len(bench.issued) == 2
        ctx.set(dut.hold, 0)
        bench.held = bench.hold_releases = False
        await bench.finish(ctx, 5)
        assert [entry for _, entry, *_ in bench.issued] == [0, 1, 2, 0, 1]

    run(dut, body)


def test_halt_takes_no_operation_and_force_takes_one_without_its_barrier():
    config = small(waves=4, contexts=2, memory_bytes=1 << 48)
    bench = Bench(config)
    dut = bench.dut

    async def body(ctx):
        ctx.set(dut.share, 4)
        ctx.set(dut.launch.payload, {"slot": 1, "format": 0, "length": 64})
        ctx.set(dut.launch.valid, 1)
        for complete, halt, force in ((1, 1, 0), (0, 0, 0), (0, 1, 0)):
            for name, value in dict(complete=complete, halt=halt, force=force).items():
                ctx.set(getattr(dut, name), value)
            await bench.tick(ctx)
            assert not bench.taken
        ctx.set(dut.force, 1)
        await bench.tick(ctx)
        assert len(bench.taken) == 1

    run(dut, body)
