"""Digilent Arty A7, with either of its devices, built by AMD's Vivado."""

from amaranth_boards.arty_a7 import ArtyA7_35Platform, ArtyA7_100Platform

from hdl.building.resources import Resources
from hdl.config import ConfigError, SwitchConfig

from ..top import BoardTop
from .board import Board

__all__ = ["ARTY", "ARTY_100", "ARTY_ALONE"]

#: The board's oscillator, which clocks the design directly.
CLOCK_HZ = 100_000_000


def _arty(
    name: str, *, preset: str, summary: str, device: str, platform, available: Resources,
    host: bool = True,
) -> Board:  # fmt: skip
    def check_clock(config: SwitchConfig):
        if config.clock_hz != CLOCK_HZ:
            rule = f"must be {CLOCK_HZ} on the board {name}"
            raise ConfigError(f"clock_hz: {rule}, not {config.clock_hz}")

    return Board(
        name=name,
        summary=f"{summary}: plan for Vivado, resources by Yosys",
        device=device,
        family="xc7",
        preset=preset,
        available=available,
        bram_bytes=4096,
        platform=platform,
        check_clock=check_clock,
        top=lambda config: BoardTop(config, button=("button", 0), uart=0 if host else None),
        host=host,
        constraints="top.xdc",
        vendor_tool="vivado",
    )


# Sizes: 7 Series FPGAs Data Sheet: Overview, DS180.
SMALL = dict(
    preset="arty",
    device="xc7a35ticsg324-1L",
    platform=ArtyA7_35Platform,
    available=Resources(lut=20_800, ff=41_600, bram=50, dsp=90),
)
ARTY = _arty("arty", summary="Digilent Arty A7-35T (Artix-7)", **SMALL)
ARTY_ALONE = _arty(
    "arty-alone", summary="the same with the self-test alone, no host", host=False, **SMALL
)
ARTY_100 = _arty(
    "arty-100",
    preset="arty-100",
    summary="Digilent Arty A7-100T (Artix-7)",
    device="xc7a100ticsg324-1L",
    platform=ArtyA7_100Platform,
    available=Resources(lut=63_400, ff=126_800, bram=135, dsp=240),
)
