"""LEDs, the PLL, and what the boards check."""

import pytest
from amaranth.sim import Simulator

from fpga.boards import BOARDS
from fpga.ecp5_pll import DIVIDERS, LEAST_PHASE_DETECTOR_HZ, VCO_HZ, PllSettings
from fpga.indicator import Indicator
from fpga.self_test import Fault
from hdl.config import ConfigError, SwitchConfig

BUSY, PASS, FAIL, WRONG_DATA = 0b0001, 0b0010, 0b0100, 0b1000


def shown(hold, *, cycles, **result) -> list[int]:
    """LEDs in each cycle after a test that was busy for three."""
    dut = Indicator(hold=hold)
    leds = []

    async def bench(ctx):
        ctx.set(dut.busy, 1)
        await ctx.tick().repeat(3)
        assert ctx.get(dut.leds) == BUSY
        ctx.set(dut.busy, 0)
        for name, value in result.items():
            ctx.set(getattr(dut, name), value)
        for _ in range(cycles):
            leds.append(ctx.get(dut.leds))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    return leds


@pytest.mark.parametrize(
    ("result", "leds"),
    [
        (dict(passed=1), PASS),
        (dict(failed=1, fault=Fault.TIME_OUT), FAIL),
        (dict(failed=1, fault=Fault.STATUS), FAIL),
        (dict(failed=1, fault=Fault.DATA), FAIL | WRONG_DATA),
    ],
)
def test_busy_is_held_and_the_result_follows(result, leds):
    assert shown(5, cycles=8, **result) == [BUSY] * 5 + [leds] * 3


@pytest.mark.parametrize("mhz", [20, 25, 40, 50, 62.5, 75, 80, 100, 125])
def test_pll_makes_the_clock_within_its_limits(mhz):
    output = int(mhz * 1_000_000)
    found = PllSettings.find(25_000_000, output)
    assert 25_000_000 * found.feedback == output * found.reference
    assert VCO_HZ[0] <= output * found.output <= VCO_HZ[1]
    assert 25_000_000 / found.reference >= LEAST_PHASE_DETECTOR_HZ
    assert {found.reference, found.feedback, found.output} <= set(DIVIDERS)


def test_a_clock_that_no_dividers_make_is_refused():
    rule = r"^clock_hz: must be one that the board's PLL makes exactly from 25000000, not 80000001$"
    with pytest.raises(ConfigError, match=rule):
        PllSettings.find(25_000_000, 80_000_001)


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_takes_its_own_preset(name):
    board = BOARDS[name]
    board.check(SwitchConfig.preset(board.preset))
    assert board.name == name
