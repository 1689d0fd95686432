"""Digilent Arty A7-35T, built by AMD's Vivado."""

from amaranth_boards.arty_a7 import ArtyA7_35Platform

from hdl.building.resources import Resources
from hdl.config import ConfigError, SwitchConfig

from ..top import BoardTop
from .board import Board

__all__ = ["ARTY"]

#: The board's oscillator, which clocks the design directly.
CLOCK_HZ = 100_000_000


def _check_clock(config: SwitchConfig):
    if config.clock_hz != CLOCK_HZ:
        raise ConfigError(f"clock_hz: must be {CLOCK_HZ} on the board arty, not {config.clock_hz}")


def _top(config: SwitchConfig) -> BoardTop:
    return BoardTop(config, button=("button", 0))


ARTY = Board(
    name="arty",
    summary="Digilent Arty A7-35T (Artix-7): plan for Vivado, resources by Yosys",
    device="xc7a35ticsg324-1L",
    family="xc7",
    preset="arty",
    # 7 Series FPGAs Data Sheet: Overview, DS180.
    available=Resources(lut=20_800, ff=41_600, bram=50, dsp=90),
    bram_bytes=4096,
    platform=ArtyA7_35Platform,
    check_clock=_check_clock,
    top=_top,
    constraints="top.xdc",
    vendor_tool="vivado",
)
