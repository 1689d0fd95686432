"""UART, 8 data bits, no parity, one stop bit: bytes on a line, and from it."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.config import ConfigError

__all__ = ["LEAST_DIVISOR", "Uart", "UartReceiver", "UartTransmitter", "divisor"]

DATA_BITS = 8
#: Cycles a bit that are enough to find its middle.
LEAST_DIVISOR = 4
#: Both ends together may be off by half a bit in the ten of a byte, less the receiver's own
#: uncertainty; this end takes 1 % of it.
TOLERANCE = 0.01


def divisor(clock_hz: int, baud: int) -> int:
    """Cycles a bit.

    Raises
    ------
    ConfigError
        No whole number of cycles is near enough.
    """
    cycles = round(clock_hz / baud)
    if cycles < LEAST_DIVISOR or abs(clock_hz / baud / cycles - 1) > TOLERANCE:
        raise ConfigError(
            f"clock_hz: must be a multiple of {baud} baud, at least {LEAST_DIVISOR} times it and "
            f"within {TOLERANCE:.0%}, not {clock_hz}"
        )
    return cycles


class UartReceiver(wiring.Component):
    """Bytes from a line.

    Parameters
    ----------
    divisor
        Cycles a bit.

    Members
    -------
    rx : the line, of any clock
    o : bytes, for one cycle each
    framing_error : a strobe: a stop bit was 0, and its byte is dropped

    Timing
    ------
    Each bit is sampled in its middle; the byte comes with the middle of its stop bit.

    Errors
    ------
    A start bit that is over by its middle is none. Behind a stop bit of 0 (another rate, noise, a
    break) the line must be 1 before a start bit counts.
    """

    def __init__(self, divisor: int):
        if divisor < LEAST_DIVISOR:
            raise ValueError(f"divisor: must be at least {LEAST_DIVISOR}, not {divisor}")
        self._divisor = divisor
        super().__init__(
            {
                "rx": In(1, init=1),
                "o": Out(stream.Signature(DATA_BITS, always_ready=True)),
                "framing_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.rx, line, init=1)
        wait = Signal(range(self._divisor))  # cycles to the next sample
        bit = Signal(range(DATA_BITS))
        sample = wait == 0
        m.d.sync += wait.eq(wait - 1)
        with m.If(sample):
            m.d.sync += wait.eq(self._divisor - 1)
        m.d.sync += self.o.valid.eq(0)
        with m.FSM(name="receiver"):
            with m.State("IDLE"):
                m.d.sync += [wait.eq(self._divisor // 2 - 1), bit.eq(0)]
                with m.If(~line):
                    m.next = "START"
            with m.State("START"):
                with m.If(sample & line):
                    m.next = "IDLE"
                with m.Elif(sample):
                    m.next = "DATA"
            with m.State("DATA"):
                with m.If(sample):
                    m.d.sync += [self.o.payload.eq(Cat(self.o.payload[1:], line)), bit.eq(bit + 1)]
                    with m.If(bit == DATA_BITS - 1):
                        m.next = "STOP"
            with m.State("STOP"):
                with m.If(sample & line):
                    m.d.sync += self.o.valid.eq(1)
                    m.next = "IDLE"
                with m.Elif(sample):
                    m.d.comb += self.framing_error.eq(1)
                    m.next = "BREAK"
            with m.State("BREAK"):
                with m.If(line):
                    m.next = "IDLE"
        return m


class UartTransmitter(wiring.Component):
    """Bytes on a line.

    Parameters
    ----------
    divisor
        Cycles a bit.

    Members
    -------
    i : bytes
    tx : the line

    Timing
    ------
    A byte is taken in the last cycle of the stop bit before it, and takes ten bits.
    """

    def __init__(self, divisor: int):
        if divisor < LEAST_DIVISOR:
            raise ValueError(f"divisor: must be at least {LEAST_DIVISOR}, not {divisor}")
        self._divisor = divisor
        super().__init__({"i": In(stream.Signature(DATA_BITS)), "tx": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        bits = DATA_BITS + 2
        left = Signal(range(bits + 1))  # bits, the one on the line included
        wait = Signal(range(self._divisor))
        rest = Signal(
            bits - 1, init=-1
        )  # bits behind the one on the line, then those of an idle line
        over = wait == 0
        m.d.comb += self.i.ready.eq(over & (left <= 1))
        with m.If(~over):
            m.d.sync += wait.eq(wait - 1)
        with m.Elif(self.i.valid & self.i.ready):
            stop = 1
            m.d.sync += [
                Cat(self.tx, rest).eq(Cat(0, self.i.payload, stop)),
                left.eq(bits),
                wait.eq(self._divisor - 1),
            ]
        with m.Elif(left != 0):
            m.d.sync += [
                Cat(self.tx, rest).eq(Cat(rest, 1)),
                left.eq(left - 1),
                wait.eq(self._divisor - 1),
            ]
        return m


class Uart(wiring.Component):
    """Both directions.

    Parameters
    ----------
    divisor
        Cycles a bit.

    Members
    -------
    rx, tx : the lines
    received : bytes that came
    sends : bytes to send
    framing_errors : bytes that were dropped, modulo 2^16
    """

    def __init__(self, divisor: int):
        self._divisor = divisor
        super().__init__(
            {
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "received": Out(stream.Signature(DATA_BITS, always_ready=True)),
                "sends": In(stream.Signature(DATA_BITS)),
                "framing_errors": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = UartReceiver(self._divisor)
        m.submodules.transmitter = transmitter = UartTransmitter(self._divisor)
        connect(m, receiver.o, flipped(self.received))
        connect(m, flipped(self.sends), transmitter.i)
        m.d.comb += [receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx)]
        with m.If(receiver.framing_error):
            m.d.sync += self.framing_errors.eq(self.framing_errors + 1)
        return m
