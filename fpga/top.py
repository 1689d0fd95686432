"""A board's top: the self-test between its clock, a button and four LEDs."""

from collections.abc import Callable

from amaranth import Elaboratable, Module, Signal
from amaranth.lib import io
from amaranth.lib.cdc import FFSynchronizer

from hdl.config import SwitchConfig

from .indicator import LEDS, Indicator
from .self_test import SelfTest

__all__ = ["BoardTop"]

#: "Busy" is shown for a quarter of a second at least.
HOLD_FRACTION = 4


class BoardTop(Elaboratable):
    """The self-test on a board.

    Parameters
    ----------
    button
        Resource (name, number) of the button that starts a test; pressed is 1.
    clock
        Makes the domain ``sync`` at the configuration's ``clock_hz``; None where the platform's
        own clock is it.

    A test starts at power-up, at reset, and at each press of the button while none is under way. A
    button that bounces starts another test at most.
    """

    def __init__(
        self,
        config: SwitchConfig,
        *,
        button: tuple[str, int],
        clock: Callable[[Module, object], None] | None = None,
    ):
        self._config = config
        self._button = button
        self._clock = clock

    def elaborate(self, platform):
        m = Module()
        if self._clock is not None:
            self._clock(m, platform)
        m.submodules.test = test = SelfTest(self._config)
        m.submodules.indicator = indicator = Indicator(hold=self._config.clock_hz // HOLD_FRACTION)
        m.d.comb += [
            test.start.eq(self._pressed(m, platform)),
            indicator.busy.eq(test.busy),
            indicator.passed.eq(test.passed),
            indicator.failed.eq(test.failed),
            indicator.fault.eq(test.fault),
        ]
        for number in range(len(LEDS)):
            led = io.Buffer("o", platform.request("led", number, dir="-"))
            m.submodules[f"led_{number}"] = led
            m.d.comb += led.o.eq(indicator.leds[number])
        return m

    def _pressed(self, m, platform):
        """One cycle at each press."""
        name, number = self._button
        m.submodules.button = button = io.Buffer("i", platform.request(name, number, dir="-"))
        level, before = Signal(), Signal()
        m.submodules.synchronizer = FFSynchronizer(button.i, level)
        m.d.sync += before.eq(level)
        return level & ~before
