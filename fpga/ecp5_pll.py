"""The ECP5's PLL: one clock made from another."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth import ClockDomain, Instance, Module, Signal
from amaranth.lib.cdc import ResetSynchronizer

from hdl.config import ConfigError

__all__ = ["PllSettings", "add_pll"]

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


def add_pll(m: Module, source, settings: PllSettings) -> Signal:
    """The domain ``sync`` from clock `source`, in reset until the PLL has locked; its clock."""
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
    m.submodules.reset = ResetSynchronizer(~locked, domain="sync")
    return clock
