"""Radiona ULX3S with the ECP5-85F, placed and routed by open tools."""

from amaranth_boards.ulx3s import ULX3S_85F_Platform

from hdl.building.resources import Resources
from hdl.config import SwitchConfig

from ..ecp5_pll import PllSettings, clock_by_pll
from ..top import BoardTop
from .board import Board

__all__ = ["ULX3S_85F"]

#: The board's oscillator.
OSCILLATOR_HZ = 25_000_000


def _check_clock(config: SwitchConfig):
    PllSettings.find(OSCILLATOR_HZ, config.clock_hz)


def _top(config: SwitchConfig) -> BoardTop:
    settings = PllSettings.find(OSCILLATOR_HZ, config.clock_hz)
    clock = clock_by_pll(settings, config.clock_hz, oscillator="clk25")
    return BoardTop(config, button=("button_fire", 0), clock=clock)


ULX3S_85F = Board(
    name="ulx3s-85f",
    summary="Radiona ULX3S with ECP5-85F: bitstream by Yosys, nextpnr and Trellis",
    device="LFE5U-85F-6BG381C",
    family="ecp5",
    preset="ulx3s-85f",
    # ECP5 and ECP5-5G Family Data Sheet, FPGA-DS-02012, as nextpnr counts them.
    available=Resources(lut=83_640, ff=83_640, bram=208, dsp=156),
    bram_bytes=2048,
    platform=ULX3S_85F_Platform,
    check_clock=_check_clock,
    top=_top,
    constraints="top.lpf",
    # The electrostatic placer needs a quarter less wire than the default one, after which no router
    # ended in reasonable time; the negotiating router then settles. A build that misses its clock
    # still says by how much.
    options={
        "nextpnr_opts": "--report timing.json --timing-allow-fail --placer static --router router2"
    },
    next_command="openFPGALoader --board ulx3s {folder}/top.bit",
)
