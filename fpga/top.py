"""A board's top: the prototype between its clock, a UART, a button and four LEDs."""

from collections.abc import Callable, Sequence

from amaranth import Elaboratable, Module, Signal
from amaranth.lib import io, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out, connect

from hdl.config import SwitchConfig

from .host.frames import BAUD
from .indicator import LEDS, Indicator
from .prototype import Prototype
from .uart import Uart, divisor

__all__ = ["BoardCore", "BoardTop"]

#: "Busy" is shown for a quarter of a second at least.
HOLD_FRACTION = 4

#: A resource by name and number, and the subsignal where it has some.
Resource = tuple[str, int] | tuple[str, int, str]

#: Where the resources of LEDs are the platform's ``led`` 0 to 3.
PLAIN_LEDS: tuple[Resource, ...] = tuple(("led", number) for number in range(len(LEDS)))


class BoardCore(wiring.Component):
    """A board's design without clock and pins.

    Parameters
    ----------
    host
        Whether a host may drive it; without one the self-test is all.
    baud
        Of the UART.

    Members
    -------
    rx, tx : the UART's lines, with a host
    button : pressed is 1, of any clock; each press starts a self-test, one that bounces another
    leds : see `LEDS`; 1 is lit

    Raises
    ------
    ConfigError
        The prototype cannot be built, or the clock makes no such baud rate.
    """

    def __init__(self, config: SwitchConfig, *, host: bool = True, baud: int = BAUD):
        self._config = config
        self._host = host
        self._divisor = divisor(config.clock_hz, baud)
        lines = {"rx": In(1, init=1), "tx": Out(1, init=1)} if host else {}
        super().__init__({**lines, "button": In(1), "leds": Out(len(LEDS))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.prototype = prototype = Prototype(self._config, host=self._host)
        m.submodules.indicator = indicator = Indicator(hold=self._config.clock_hz // HOLD_FRACTION)
        if self._host:
            self._connect_uart(m, prototype)
        m.d.comb += [
            prototype.button.eq(self._pressed(m)),
            indicator.busy.eq(prototype.busy),
            indicator.passed.eq(prototype.passed),
            indicator.failed.eq(prototype.failed),
            indicator.fault.eq(prototype.fault),
            self.leds.eq(indicator.leds),
        ]
        return m

    def _connect_uart(self, m, prototype):
        m.submodules.uart = uart = Uart(self._divisor)
        connect(m, uart.received, prototype.rx)
        connect(m, prototype.tx, uart.sends)
        m.d.comb += [
            uart.rx.eq(self.rx),
            self.tx.eq(uart.tx),
            prototype.framing_errors.eq(uart.framing_errors),
        ]

    def _pressed(self, m):
        """One cycle at each press."""
        level, before = Signal(), Signal()
        m.submodules.synchronizer = FFSynchronizer(self.button, level)
        m.d.sync += before.eq(level)
        return level & ~before


class BoardTop(Elaboratable):
    """The prototype on a board.

    Parameters
    ----------
    button
        Resource (name, number) of the button that starts a test; pressed is 1. None where the board
        has none.
    clock
        Makes the domain ``sync`` at the configuration's ``clock_hz``; None where the platform's
        own clock is it.
    uart
        Number of the resource whose lines go to the host; None for a self-test without one.
    leds
        Resources by number of the `Indicator`'s LEDs. Of an LED with colours a subsignal is named;
        its others stay dark.
    """

    def __init__(
        self,
        config: SwitchConfig,
        *,
        button: tuple[str, int] | None,
        clock: Callable[[Module, object], None] | None = None,
        uart: int | None = 0,
        leds: Sequence[Resource] = PLAIN_LEDS,
    ):
        self._config = config
        self._button = button
        self._clock = clock
        self._uart = uart
        self._leds = tuple(leds)

    def elaborate(self, platform):
        m = Module()
        if self._clock is not None:
            self._clock(m, platform)
        m.submodules.core = core = BoardCore(self._config, host=self._uart is not None)
        if self._uart is not None:
            lines = platform.request("uart", self._uart, dir="-")
            m.submodules.rx = rx = io.Buffer("i", lines.rx)
            m.submodules.tx = tx = io.Buffer("o", lines.tx)
            m.d.comb += [core.rx.eq(rx.i), tx.o.eq(core.tx)]
        if self._button is not None:
            name, number = self._button
            m.submodules.button = button = io.Buffer("i", platform.request(name, number, dir="-"))
            m.d.comb += core.button.eq(button.i)
        for number, resource in enumerate(self._leds):
            self._light(m, platform, number, resource, core.leds[number])
        return m

    @staticmethod
    def _light(m, platform, number: int, resource: Resource, lit):
        name, index, *colour = resource
        port = platform.request(name, index, dir="-")
        pads = vars(port) if colour else {None: port}
        for subsignal, pad in pads.items():
            suffix = f"_{subsignal}" if colour else ""
            m.submodules[f"led_{number}{suffix}"] = led = io.Buffer("o", pad)
            m.d.comb += led.o.eq(lit if subsignal in (None, *colour) else 0)
