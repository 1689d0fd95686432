"""Radiona ULX3S with the ECP5-85F, placed and routed by open tools."""

from amaranth_boards.ulx3s import ULX3S_85F_Platform

from hdl.config import SwitchConfig

from ..ecp5_pll import PllSettings, clock_by_pll
from ..top import BoardTop
from .board import Board
from .ecp5 import ECP5_85F

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
    preset="ulx3s-85f",
    platform=ULX3S_85F_Platform,
    check_clock=_check_clock,
    top=_top,
    next_command="openFPGALoader --board ulx3s {folder}/top.bit",
    **ECP5_85F,
)
