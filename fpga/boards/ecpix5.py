"""LambdaConcept ECPIX-5 with the ECP5-5G 85F, placed and routed by open tools."""

from amaranth_boards.ecpix5 import ECPIX585Platform

from hdl.config import SwitchConfig

from ..ecp5_pll import PllSettings, clock_by_pll
from ..top import BoardTop
from .board import Board
from .ecp5 import ECP5_85F

__all__ = ["ECPIX5_85F"]

#: The board's oscillator.
OSCILLATOR_HZ = 100_000_000

#: Its LEDs have three colours each: blue for busy, green for pass, red for both kinds of fail.
LEDS = (("rgb_led", 0, "b"), ("rgb_led", 1, "g"), ("rgb_led", 2, "r"), ("rgb_led", 3, "r"))


def _check_clock(config: SwitchConfig):
    PllSettings.find(OSCILLATOR_HZ, config.clock_hz)


def _top(config: SwitchConfig) -> BoardTop:
    settings = PllSettings.find(OSCILLATOR_HZ, config.clock_hz)
    clock = clock_by_pll(settings, config.clock_hz, oscillator="clk100", button="rst")
    # Its one button resets, after which a test starts, too.
    return BoardTop(config, button=None, leds=LEDS, clock=clock)


ECPIX5_85F = Board(
    name="ecpix5-85f",
    summary="LambdaConcept ECPIX-5 with ECP5-5G 85F: bitstream by Yosys, nextpnr and Trellis",
    device="LFE5UM5G-85F-8BG554C",
    preset="ecpix5-85f",
    platform=ECPIX585Platform,
    check_clock=_check_clock,
    top=_top,
    next_command="openFPGALoader --board ecpix5 {folder}/top.bit",
    **ECP5_85F,
)
