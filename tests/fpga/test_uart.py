"""The UART at bit level: lines drawn by hand, rates that are off, glitches and breaks."""

import itertools
import random

import pytest

from fpga.uart import Uart, UartReceiver, UartTransmitter, divisor
from hdl.config import ConfigError
from tests.lib.simulate import SHAPES, pattern, run, stream_put

#: From the fewest cycles a bit to a board's.
DIVISORS = (4, 5, 8, 50)


def bits(byte: int, stop: int = 1) -> list[int]:
    return [0, *(byte >> index & 1 for index in range(8)), stop]


def levels(bits, length: float):
    """The line in each cycle, where a bit takes `length` cycles, which need not be whole."""
    count = int(len(bits) * length)
    return [bits[min(int(cycle / length), len(bits) - 1)] for cycle in range(count)]


def receive(divisor: int, line) -> tuple[bytes, int]:
    """What a receiver makes of a line: bytes, and framing errors."""
    dut, came, errors = UartReceiver(divisor), [], []

    async def bench(ctx):
        for level in itertools.chain(line, [1] * (12 * divisor)):
            ctx.set(dut.rx, level)
            _, _, valid, byte, error = await ctx.tick().sample(
                dut.o.valid, dut.o.payload, dut.framing_error
            )
            if valid:
                came.append(byte)
            errors.extend([1] * error)

    run(dut, bench, limit=100_000)
    return bytes(came), len(errors)


def sentence(seed: int, size: int = 24) -> bytes:
    return bytes([0x00, 0xFF, 0x55, 0xAA]) + random.Random(seed).randbytes(size)


@pytest.mark.parametrize("divisor", DIVISORS)
def test_receiver_back_to_back(divisor):
    data = sentence(divisor)
    line = itertools.chain.from_iterable(levels(bits(byte), divisor) for byte in data)
    assert receive(divisor, line) == (data, 0)


@pytest.mark.parametrize("off", [-0.03, 0.03])
@pytest.mark.parametrize("divisor", [16, 50])
def test_receiver_at_a_rate_that_is_off(divisor, off):
    """Half a bit in ten, less the cycles that two samples of an edge leave open."""
    data = sentence(1)
    line = levels([bit for byte in data for bit in bits(byte)], divisor * (1 + off))
    assert receive(divisor, line) == (data, 0)


@pytest.mark.parametrize("seed", range(3))
def test_receiver_with_pauses_of_any_length(seed):
    draw, data = random.Random(seed), sentence(seed)
    line = [1] * 7
    for byte in data:
        line += levels(bits(byte), 8) + [1] * draw.randrange(30)
    assert receive(8, line) == (data, 0)


def test_a_glitch_is_no_start_bit():
    """Shorter than half a bit, at every place in a quiet line, then a byte."""
    for length in range(1, 4):
        line = ([0] * length + [1] * 20) * 5 + levels(bits(0xA5), 8)
        assert receive(8, line) == (b"\xa5", 0)


def test_a_wrong_stop_bit_drops_the_byte():
    line = levels(bits(0x0F, stop=0), 8) + [1] * 8 + levels(bits(0x3C), 8)
    assert receive(8, line) == (b"\x3c", 1)


@pytest.mark.parametrize("length", [100, 1000])
def test_a_break_is_one_error(length):
    line = levels(bits(0x11), 8) + [0] * length + [1] * 9 + levels(bits(0x22), 8)
    assert receive(8, line) == (b"\x11\x22", 1)


def test_noise_ends_and_bytes_come_again():
    draw = random.Random(7)
    line = [draw.getrandbits(1) for _ in range(3000)] + [1] * 100
    came, errors = receive(8, line + levels(bits(0x42), 8))
    assert came[-1:] == b"\x42"
    assert errors > 10


@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_transmitter_draws_the_line(divisor, shape):
    """Each bit `divisor` cycles, at least one stop bit, the line at 1 between bytes."""
    data, line = sentence(divisor, 8), []
    dut = UartTransmitter(divisor)

    async def source(ctx):
        await stream_put(ctx, dut.i, data, pattern(shape, divisor))
        await ctx.tick().repeat(11 * divisor)

    async def watch(ctx):
        async for _, _, level in ctx.tick().sample(dut.tx):
            line.append(level)

    run(dut, source, background=[watch], limit=20_000)
    at, came = 0, []
    while 0 in line[at:]:
        at = line.index(0, at)
        frame = line[at : at + 10 * divisor]
        samples = [frame[divisor * index : divisor * (index + 1)] for index in range(10)]
        assert all(len(set(bit)) == 1 for bit in samples), "a bit changes within its cycles"
        assert samples[0][0] == 0
        assert samples[9][0] == 1
        came.append(sum(bit[0] << index for index, bit in enumerate(samples[1:9])))
        at += 10 * divisor
    assert bytes(came) == data
    if shape == "always":
        assert len(line) - at <= 12 * divisor  # nothing was lost between bytes


def test_transmitter_is_back_to_back():
    dut, taken = UartTransmitter(5), []

    async def source(ctx):
        ctx.set(dut.i.valid, 1)
        for cycle in range(200):
            _, _, ready = await ctx.tick().sample(dut.i.ready)
            if ready:
                taken.append(cycle)

    run(dut, source)
    assert {later - sooner for sooner, later in itertools.pairwise(taken)} == {50}


@pytest.mark.parametrize("divisor", [4, 9])
def test_both_ends_understand_each_other(divisor):
    dut, came, data = Uart(divisor), [], sentence(3)

    async def source(ctx):
        await stream_put(ctx, dut.sends, data)
        await ctx.tick().repeat(12 * divisor)

    async def wire(ctx):
        async for _, _, level in ctx.tick().sample(dut.tx):
            ctx.set(dut.rx, level)

    async def sink(ctx):
        async for _, _, valid, byte in ctx.tick().sample(dut.received.valid, dut.received.payload):
            if valid:
                came.append(byte)

    async def check(ctx):
        await ctx.tick().repeat(12 * divisor * len(data))
        assert ctx.get(dut.framing_errors) == 0

    run(dut, source, check, background=[wire, sink], limit=20_000)
    assert bytes(came) == data


def test_framing_errors_are_counted():
    dut = Uart(4)

    async def bench(ctx):
        for number in range(3):
            for level in levels(bits(0x77, stop=0), 4) + [1] * 12:
                ctx.set(dut.rx, level)
                await ctx.tick()
            assert ctx.get(dut.framing_errors) == number + 1

    run(dut, bench)


@pytest.mark.parametrize(
    ("clock_hz", "baud", "cycles"),
    [(100_000_000, 1_000_000, 100), (50_000_000, 1_000_000, 50), (99_500_000, 1_000_000, 100)],
)
def test_divisor(clock_hz, baud, cycles):
    assert divisor(clock_hz, baud) == cycles


@pytest.mark.parametrize("clock_hz", [3_000_000, 5_400_000, 10_480_000])
def test_a_clock_that_makes_no_baud_rate_is_refused(clock_hz):
    with pytest.raises(ConfigError, match=f"^clock_hz: must be a multiple of .*, not {clock_hz}$"):
        divisor(clock_hz, 1_000_000)
