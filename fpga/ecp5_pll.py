"""The ECP5's PLL: one clock made from another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amaranth import ClockDomain, Instance, Module, Signal
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer

from hdl.config import ConfigError

__all__ = ["PllSettings", "add_pll", "clock_by_pll"]

#: Limits of the EHXPLLL (ECP5 and ECP5-5G Family Data Sheet, FPGA-DS-02012).
DIVIDERS = range(1, 129)
LEAST_PHASE_DETECTOR_HZ = 3_125_000
VCO_HZ = (400_000_000, 800_000_000)
#: The oscillator settles best in the middle of its range.
BEST_VCO_HZ = 600_000_000


@dataclass(frozen=True)
class PllSettings:
    """Dividers of the reference, of the feedback (from the output) and of the output."""

    reference: int
    feedback: int
    output: int

    @classmethod
    def find(cls, input_hz: int, output_hz: int) -> PllSettings:
        """Dividers that make exactly `output_hz`.

        Raises
        ------
        ConfigError
            There are none.
        """
        low, high = VCO_HZ
        for reference in DIVIDERS:
            feedback, rest = divmod(output_hz * reference, input_hz)
            if rest or feedback not in DIVIDERS:
                continue
            if input_hz / reference < LEAST_PHASE_DETECTOR_HZ:
                continue
            outputs = [divider for divider in DIVIDERS if low <= output_hz * divider <= high]
            if outputs:
                output = min(outputs, key=lambda divider: abs(output_hz * divider - BEST_VCO_HZ))
                return cls(reference, feedback, output)
        raise ConfigError(
            f"clock_hz: must be one that the board's PLL makes exactly from {input_hz}, "
            f"not {output_hz}"
        )


def add_pll(m: Module, source, settings: PllSettings, *, reset=None) -> Signal:
    """The domain ``sync`` from clock `source`; its clock.

    It is in reset until the PLL has locked, and while `reset`, where one is given, is 1.
    """
    clock = Signal(name="pll_clock")
    locked = Signal(name="pll_locked")
    m.submodules.pll = Instance(
        "EHXPLLL",
        a_ICP_CURRENT="12",
        a_LPF_RESISTOR="8",
        a_MFG_ENABLE_FILTEROPAMP="1",
        a_MFG_GMCREF_SEL="2",
        p_CLKI_DIV=settings.reference,
        p_CLKFB_DIV=settings.feedback,
        p_CLKOP_DIV=settings.output,
        p_CLKOP_ENABLE="ENABLED",
        p_CLKOP_CPHASE=settings.output - 1,
        p_CLKOP_FPHASE=0,
        p_FEEDBK_PATH="CLKOP",
        i_CLKI=source,
        i_CLKFB=clock,
        i_RST=0,
        i_STDBY=0,
        i_PHASESEL0=0,
        i_PHASESEL1=0,
        i_PHASEDIR=0,
        i_PHASESTEP=0,
        i_PHASELOADREG=0,
        i_PLLWAKESYNC=0,
        i_ENCLKOP=0,
        o_CLKOP=clock,
        o_LOCK=locked,
    )
    m.domains.sync = domain = ClockDomain("sync")
    m.d.comb += domain.clk.eq(clock)
    m.submodules.reset = ResetSynchronizer(
        ~locked if reset is None else ~locked | reset, domain="sync"
    )
    return clock


def clock_by_pll(
    settings: PllSettings, clock_hz: int, *, oscillator: str, button: str | None = None
) -> Callable[[Module, object], None]:
    """Makes the domain ``sync`` at `clock_hz` in a board's top, of its platform's resources.

    `oscillator` and `button` name resources; the domain is in reset while the button is pressed.
    """

    def make(m: Module, platform):
        m.submodules.oscillator = source = _input(platform, oscillator)
        reset = None
        if button is not None:
            m.submodules.reset_button = pressed = _input(platform, button)
            reset = pressed.i
        platform.add_clock_constraint(add_pll(m, source.i, settings, reset=reset), clock_hz)

    return make


def _input(platform, name: str) -> io.Buffer:
    return io.Buffer("i", platform.request(name, 0, dir="-"))
