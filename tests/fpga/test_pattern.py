"""The operands of the self-test: hardware gives the values of the formula, exact in fp16."""

import struct
from fractions import Fraction

import pytest
from amaranth.sim import Simulator

from fpga.pattern import VALUE_DELAY, Pattern, PatternGenerator
from hdl.config import ConfigError, SwitchConfig


def tiny(**fields) -> SwitchConfig:
    return SwitchConfig.preset("tiny", **fields)


def fp16(bits: int) -> Fraction:
    return Fraction(struct.unpack("<e", struct.pack("<H", bits))[0])


@pytest.mark.parametrize("ranks", range(2, 17))
def test_every_sum_is_exact_in_fp16(ranks):
    pattern = Pattern(tiny(ranks=ranks))
    for index in range(1 << 16):  # one whole period
        assert abs(pattern.total(index)) < 2048


@pytest.mark.parametrize("ranks", [2, 3, 4, 9, 16])
def test_the_sum_of_the_operands_is_the_total(ranks):
    pattern = Pattern(tiny(ranks=ranks))
    for index in range(-100, 1000):
        total = sum(pattern.operand(rank, index) for rank in range(ranks))
        assert total == pattern.total(index)


def test_ranks_packets_and_lanes_are_told_apart():
    """Else a value from a wrong place could pass."""
    config = tiny(ranks=4)
    pattern = Pattern(config)
    flit, packet = config.flit_bytes // 2, config.payload_bytes // 2
    wave = config.wave_bytes // 2
    for step in (1, flit, packet, wave, config.waves * wave):
        same = sum(pattern.total(i) == pattern.total(i + step) for i in range(2000))
        assert same < 100, step
    for rank in range(1, 4):
        same = sum(pattern.operand(rank, i) == pattern.operand(0, i) for i in range(2000))
        assert same < 100, rank


def test_the_window_lies_within_the_memory_and_before_the_flag():
    for preset in ("tiny", "arty", "ulx3s-85f"):
        for ranks in (2, 4, 16):
            config = SwitchConfig.preset(preset, ranks=ranks)
            pattern = Pattern(config)
            for rank in range(ranks):
                end = pattern.address(rank) + 2 * pattern.elements
                assert config.flit_bytes <= pattern.address(rank)
                assert end < pattern.flag_address
                assert end % config.flit_bytes  # the last flit is not full
            assert len({pattern.address(rank) for rank in range(ranks)}) == ranks


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_generator_gives_the_values_of_the_formula(ranks):
    pattern = Pattern(tiny(ranks=ranks))
    dut = PatternGenerator(pattern)
    count = 300

    async def bench(ctx):
        for rank, weight in ((0, 1), (ranks - 1, ranks), (ranks - 1, pattern.total_weight)):
            ctx.set(dut.load, 1)
            ctx.set(dut.start, pattern.start(rank))
            await ctx.tick()
            ctx.set(dut.load, 0)
            ctx.set(dut.advance, 1)
            ctx.set(dut.weight, weight)
            await ctx.tick().repeat(VALUE_DELAY - 1)
            for element in range(count):
                await ctx.tick()
                expected = pattern.sequence(element - pattern.offset(rank)) * weight
                assert fp16(ctx.get(dut.value)) == expected
            ctx.set(dut.advance, 0)

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()


def test_a_configuration_without_fp16_is_refused():
    with pytest.raises(ConfigError, match=r"^formats: must have fp16 for the self-test, not bf16$"):
        Pattern(tiny(formats=("bf16",)))


def test_a_memory_without_room_is_refused():
    rule = r"^memory_bytes: must be at least 4 waves for the self-test, not 512$"
    with pytest.raises(ConfigError, match=rule):
        Pattern(tiny(memory_bytes=512))
