"""`ReadOut` with codes: runs, sums behind codes, flits of two cycles, what goes beside operands."""

import itertools
import random

import pytest

from hdl.accelerator.wave_table import READ_DELAY
from hdl.interfaces import Format, Response
from tests.lib.simulate import run

from .ports import ReadOutAlone, quantizing

RANKS = 2
EVERY_PORT = (1 << RANKS) - 1
SLOT = 1  # in the write phase
CONFIGS = {
    "two packets a block": dict(),
    "a packet of two blocks": dict(payload_bytes=64),
    "a packet of one and a half": dict(payload_bytes=96, block=64, wave_bytes=768),
    "packets of a flit": dict(payload_bytes=8),
    "two packets of scales": dict(wave_bytes=384),
    "two blocks a flit": dict(flit_bytes=64, payload_bytes=64, wave_bytes=1024),
    "scales of a byte": dict(scale_format="e8m0", payload_bytes=32, wave_bytes=256),
    "codes only": dict(formats=("inq8",)),
    "two cycles a flit": dict(inq_reducer="shared"),
    "two cycles a flit, packets of a flit": dict(inq_reducer="shared", payload_bytes=8),
}


class Bench:
    """Plays wave order, tables, tracker and write-backs, and keeps what the unit does by cycle."""

    def __init__(self, config, waves, *, inq_lead=0):
        """`waves`: of `operation`."""
        self.config, self.waves, self.inq_lead = config, waves, inq_lead
        self.dut = ReadOutAlone(config, inq_lead=inq_lead)
        self.seen = []  # by cycle: outputs by name, and the room that there was
        self.room = lambda: EVERY_PORT
        self.slot_free = lambda: True

    def stride(self, wave):
        """Cycles of a flit."""
        return 2 if wave["format"] == Format.INQ8 and self.config.inq_reducer == "shared" else 1

    async def play(self, ctx):
        dut, closed, next_wave = self.dut, 0, 0
        names = ("read_enable", "read_flit", "read_entry", "open", "close", "close_last", "written",
                 "operation", "release", "operands_valid", "keep", "format", "ends_wave",
                 "ends_blocks", "scale_packets", "destinations_of", "read_error")  # fmt: skip
        of_start = ("valid", "flits", "size", "opens", "write_slot", "quantized", "begins", "ends",
                    "scale_size")  # fmt: skip
        signals = [getattr(dut, name) for name in names]
        signals += [getattr(dut.start, name) for name in of_start]
        keys = names + tuple(f"start_{name}" for name in of_start)
        ctx.set(dut.write_slot, SLOT)
        idle = 0
        while idle < READ_DELAY + 3:
            room, slot_free = self.room(), self.slot_free()
            ctx.set(dut.room, room)
            ctx.set(dut.slot_free, slot_free)
            wave = self.waves[next_wave] if next_wave < len(self.waves) else None
            ctx.set(dut.waves.valid, wave is not None)
            if wave:
                fields = ("slot", "entry", "size", "first", "last", "format")
                ctx.set(dut.waves.payload, {name: wave[name] for name in fields})
                ctx.set(dut.ready, EVERY_PORT)
                ctx.set(dut.response[1], Response.SLVERR if wave["bad"] else Response.OKAY)
            _, _, taken, *values = await ctx.tick().sample(dut.waves.ready, *signals)
            seen = dict(zip(keys, values, strict=True)) | {"room": room, "slot_free": slot_free}
            self.seen.append(seen)
            next_wave += bool(wave) and taken
            closed += seen["close"]
            idle += closed == len(self.waves)

    def run(self):
        run(self.dut, self.play, limit=20_000)
        self.check()

    def cycles(self, name):
        return [cycle for cycle, seen in enumerate(self.seen) if seen[name]]

    def check(self):
        """Every wave of the list in its turn, every operand beside what it needs."""
        reads, starts = iter(self.cycles("read_enable")), iter(self.cycles("start_valid"))
        opens, closes = self.cycles("open"), self.cycles("close")
        assert len(opens) == len(closes) == len(self.waves)
        operands = {}  # by cycle
        free_from = 0  # the cycle from which the next flit may be read
        sums_from = 0
        for wave, opened, closed in zip(self.waves, opens, closes, strict=True):
            seen = self.seen[closed]
            assert (seen["operation"], seen["close_last"]) == (wave["slot"], wave["last"])
            assert seen["written"] == (not wave["bad"] and wave["size"] > 0)
            assert seen["release"] == (wave["size"] > 0)
            assert self.seen[opened]["slot_free"]
            if wave["bad"] or not wave["size"]:
                assert opened == closed
                assert self.seen[opened]["scale_packets"] == 0, "none will be acknowledged"
                continue
            flits = -(-wave["size"] // self.config.flit_bytes)
            wave["reads"] = list(itertools.islice(reads, flits))
            assert wave["reads"][0] == opened
            assert wave["reads"][-1] == closed
            earliest = free_from if wave["format"] == Format.INQ8 else max(free_from, sums_from)
            assert opened >= earliest
            self.check_packets(wave, starts)
            operands |= self.operands_of(wave)
            free_from = closed + self.stride(wave)
            if wave["format"] == Format.INQ8:
                sums_from = closed + self.inq_lead + 1
        assert next(reads, None) is next(starts, None) is None
        assert self.cycles("operands_valid") == sorted(operands)
        for cycle, wanted in operands.items():
            assert {name: self.seen[cycle][name] for name in wanted} == wanted

    def check_packets(self, wave, starts):
        """A run starts with room and goes on to its end whatever the room."""
        config, stride = self.config, self.stride(wave)
        quantized = wave["format"] == Format.INQ8
        scale_size = config.scales_bytes(wave["size"]) if quantized else 0
        assert self.seen[wave["reads"][0]]["scale_packets"] == -(
            -scale_size // config.payload_bytes
        )
        for position, cycle in enumerate(wave["reads"]):
            seen = self.seen[cycle]
            assert (seen["read_entry"], seen["read_flit"]) == (wave["entry"], position)
            byte = position * config.flit_bytes
            if byte % config.run_bytes:
                assert cycle == wave["reads"][position - 1] + stride, "a run was interrupted"
            else:
                assert seen["room"] == EVERY_PORT
            if byte % config.payload_bytes:
                assert not seen["start_valid"]
                continue
            assert next(starts) == cycle
            size = min(config.payload_bytes, wave["size"] - byte)
            first, last = byte == 0, byte + size == wave["size"]
            wanted = dict(size=size, flits=-(-size // config.flit_bytes), write_slot=SLOT,
                          opens=first and wave["first"], quantized=quantized, begins=first,
                          ends=last, scale_size=scale_size)  # fmt: skip
            assert {name: seen[f"start_{name}"] for name in wanted} == wanted
            if first and wave["first"]:
                assert self.seen[cycle - 1]["destinations_of"] == wave["slot"]

    def operands_of(self, wave):
        """What must stand beside the operands of each cycle."""
        config, size, result = self.config, wave["size"], {}
        last_block = (size - 1) // config.block
        for position, cycle in enumerate(wave["reads"]):
            byte = position * config.flit_bytes
            last = byte + config.flit_bytes >= size
            wanted = dict(format=wave["format"],
                          keep=(1 << min(config.flit_bytes, size - byte)) - 1)  # fmt: skip
            if wave["format"] == Format.INQ8:
                blocks_end = byte + config.flit_bytes > last_block * config.block
                wanted |= dict(ends_wave=last, ends_blocks=blocks_end)
            for later in range(self.stride(wave)):
                result[cycle + READ_DELAY + later] = wanted
        return result


def operation(config, size, *, format, slot=0, bad=()):
    """The waves of one operation; `bad` are the numbers of those with an error."""
    starts = range(0, size, config.wave_bytes)
    return [
        dict(size=min(config.wave_bytes, size - start), slot=slot, first=int(number == 0),
             last=int(start == starts[-1]), format=format, bad=number in bad, entry=0)
        for number, start in enumerate(starts)
    ] or [dict(size=0, slot=slot, first=1, last=1, format=format, bad=False, entry=0)]  # fmt: skip


def numbered(config, waves):
    return [wave | {"entry": number % config.waves} for number, wave in enumerate(waves)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", CONFIGS)
def test_random_operations_room_and_slots(name, seed):
    """Codes and sums of any length, errors between, room and slots that come and go."""
    print("seed", seed)
    config = quantizing(**CONFIGS[name])
    draw = random.Random(f"{name} {seed}")
    lead = draw.randrange(1, 40) if config.sum_formats else 0
    waves = []
    for number in range(12):
        format = draw.choice([Format.FP16, Format.INQ8]) if config.sum_formats else Format.INQ8
        step = 1 if format == Format.INQ8 else 2
        size = draw.choice([0, 2, draw.randrange(step, 3 * config.wave_bytes, step),
                            draw.randrange(step, config.wave_bytes, step)])  # fmt: skip
        bad = (0,) if number % 4 == 3 else (draw.randrange(6),)
        waves += operation(config, size, format=format, slot=number % 4, bad=bad)
    bench = Bench(config, numbered(config, waves), inq_lead=lead)
    bench.room = lambda: draw.choice([EVERY_PORT, EVERY_PORT, 1, 2, 0])
    bench.slot_free = lambda: draw.random() < 0.6
    bench.run()


@pytest.mark.parametrize("name", CONFIGS)
def test_codes_stream_without_a_bubble(name):
    """Flits follow each other across packets, blocks and waves, at one or two cycles each."""
    config = quantizing(**CONFIGS[name])
    waves = operation(config, 3 * config.wave_bytes + 1, format=Format.INQ8)
    bench = Bench(config, numbered(config, waves))
    bench.run()
    reads, stride = bench.cycles("read_enable"), bench.stride(waves[0])
    assert reads == list(range(reads[0], reads[0] + stride * len(reads), stride))
    assert len(reads) == 3 * config.wave_flits + 1


@pytest.mark.parametrize("tail", range(1, 34))
def test_codes_beyond_the_end_are_masked(tail):
    """Every number of codes in the last flit, and in the last block."""
    config = quantizing(flit_bytes=16, payload_bytes=64, wave_bytes=256)
    waves = operation(config, config.block + tail, format=Format.INQ8)
    Bench(config, numbered(config, waves)).run()


@pytest.mark.parametrize("name", [n for n in CONFIGS if "codes only" not in n])
@pytest.mark.parametrize("lead", [1, 7, 30])
def test_sums_wait_behind_codes_and_codes_do_not_behind_sums(name, lead):
    """The first sum comes in the cycle behind the last code, and from then on each in its own."""
    config = quantizing(**CONFIGS[name])
    codes = operation(config, config.wave_bytes, format=Format.INQ8, slot=1)
    sums = operation(config, 2 * config.wave_bytes, format=Format.FP16, slot=2)
    again = operation(config, 1, format=Format.INQ8, slot=3)
    bench = Bench(config, numbered(config, codes + sums + again), inq_lead=lead)
    bench.run()
    first, second, third, fourth = (wave["reads"] for wave in bench.waves)
    # An operation behind another starts a cycle later, since its destinations are looked up.
    stride = bench.stride(codes[0])
    assert second[0] == first[-1] + max(lead + 1, 2, stride)
    assert third[0] == second[-1] + 1
    assert fourth[0] == third[-1] + 2


@pytest.mark.parametrize("name", ["two packets a block", "a packet of one and a half"])
def test_a_run_that_has_begun_does_not_wait_for_room(name):
    """Room for its first packet only: it goes on to its end, and the next run waits."""
    config = quantizing(**CONFIGS[name])
    waves = operation(config, config.wave_bytes, format=Format.INQ8)
    bench = Bench(config, numbered(config, waves))
    rooms = itertools.chain([EVERY_PORT] * 2, itertools.repeat(0, 60), itertools.repeat(EVERY_PORT))
    bench.room = lambda: next(rooms)
    bench.run()
    run_flits = config.run_bytes // config.flit_bytes
    reads = bench.cycles("read_enable")
    assert reads[:run_flits] == list(range(reads[0], reads[0] + run_flits))
    assert reads[run_flits] >= 60
