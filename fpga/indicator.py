"""What four LEDs say of a self-test."""

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .self_test import Fault

__all__ = ["LEDS", "Indicator"]

#: LED by number, the first one is 0.
LEDS = ("busy", "pass", "fail", "wrong data")


class Indicator(wiring.Component):
    """Holds "busy" long enough to be seen, and shows the result after it.

    Parameters
    ----------
    hold
        Cycles for which "busy" is shown at least.

    Members
    -------
    busy, passed, failed, fault : of the `SelfTest`
    leds : see `LEDS`; 1 is lit
    """

    def __init__(self, *, hold: int):
        self._hold = hold
        super().__init__(
            {
                "busy": In(1),
                "passed": In(1),
                "failed": In(1),
                "fault": In(Fault),
                "leds": Out(len(LEDS)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        left = Signal(range(self._hold + 1))
        with m.If(self.busy):
            m.d.sync += left.eq(self._hold)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        over = ~self.busy & (left == 0)
        m.d.comb += self.leds.eq(
            Cat(
                ~over,
                over & self.passed,
                over & self.failed,
                over & self.failed & (self.fault == Fault.DATA),
            )
        )
        return m
