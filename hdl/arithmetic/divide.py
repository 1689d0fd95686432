"""Division of a normalized sum by the number of operands, ahead of the one rounding."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .normalize import NORMALIZED_BITS
from .pipeline import register

__all__ = ["DIVIDEND_BITS", "DIVISOR_BITS", "Divide"]

#: The divisor less one: up to 16 operands.
DIVISOR_BITS = 4
#: A division by 16 costs a quotient 4 leading bits, so the dividend has those more than is kept.
DIVIDEND_BITS = NORMALIZED_BITS + DIVISOR_BITS
#: Of the quotient: a negative sum of a power of two is one bit longer than its inverse.
QUOTIENT_BITS = DIVIDEND_BITS + 1
#: Most places that a quotient is shifted up: what the division costs, and that bit.
MOST_PLACES = DIVISOR_BITS + 1
#: Bits of the quotient that are found in one cycle: a subtraction of 5 bits and a choice each.
BITS_PER_STAGE = 4


class Divide(wiring.Component):
    """Divides a sum by 1 to 16, exactly: what does not fit is in ``sticky``.

    The sum comes in two's complement (see `Normalize`), its quotient goes on as a magnitude,
    normalized again, so that `Round` need not know of a division. By 1, a sum stays what it is.

    Ports
    -----
    valid : a sum is there in this cycle
    dividend, negative, sticky, room : from `Normalize`, with `DIVIDEND_BITS` kept
    sign : from `AdderTree`: the sum counts negative
    divisor_less_one : the divisor, less one
    quotient, quotient_sticky, quotient_room : for `Round`, after `delay` cycles
    minus : the sum is below zero
    """

    def __init__(self, headroom_bits: int):
        super().__init__(
            {
                "valid": In(1),
                "dividend": In(DIVIDEND_BITS),
                "negative": In(1),
                "sticky": In(1),
                "room": In(headroom_bits),
                "sign": In(1),
                "divisor_less_one": In(DIVISOR_BITS),
                "quotient": Out(NORMALIZED_BITS),
                "quotient_sticky": Out(1),
                "quotient_room": Out(headroom_bits),
                "minus": Out(1),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from a sum to its quotient: the magnitude, the division, the normalization."""
        return 1 + -(-QUOTIENT_BITS // BITS_PER_STAGE) + 1

    def elaborate(self, platform):
        m = Module()
        valids = [self.valid]
        for cycle in range(1, self.delay):
            later = Signal(name=f"valid_{cycle}")
            m.d.sync += later.eq(valids[-1])
            valids.append(later)

        state = {
            "bits": self._magnitude(m),
            "rest": Const(0, DIVISOR_BITS),
            "divisor": self.divisor_less_one,
            "sticky": self.sticky,
            "room": self.room,
            "below": self.negative ^ self.sign,
        }
        for stage, valid in enumerate(valids[:-1]):
            state = {
                name: register(m, value, valid=valid, name=f"{name}_{stage}")
                for name, value in state.items()
            }
            done = stage * BITS_PER_STAGE
            for bit in range(done, min(done + BITS_PER_STAGE, QUOTIENT_BITS)):
                state |= self._step(m, bit, **state)
        self._normalize(m, valids[-1], **state)
        return m

    def _magnitude(self, m):
        """The sum's magnitude without its fraction.

        A negative sum inverted is one less than its magnitude; with bits cut off below, that is
        the magnitude without its fraction already.
        """
        magnitude = Signal(QUOTIENT_BITS)
        inverted = self.dividend ^ self.negative.replicate(DIVIDEND_BITS)
        m.d.comb += magnitude.eq(inverted + (self.negative & ~self.sticky))
        return magnitude

    def _step(self, m, number, *, bits, rest, divisor, **_):
        """One bit of the quotient: `bits` gives one of the dividend above, takes it below."""
        partial = Cat(bits[-1], rest)
        # By one carry chain: the difference, and whether the divisor fits, as its carry.
        difference = Signal(DIVISOR_BITS + 2, name=f"difference_{number}")
        m.d.comb += difference.eq(partial + Cat(~divisor, 1))
        fits = difference[-1]
        return {
            "bits": Cat(fits, bits[:-1]),
            "rest": Mux(fits, difference[:DIVISOR_BITS], partial[:DIVISOR_BITS]),
        }

    def _normalize(self, m, valid, *, bits, rest, sticky, room, below, **_):
        """Shifts the quotient up again, but never past the room, which is one more: its top bit
        is that of the dividend, doubled.
        """
        wider, count, places = Signal.like(self.room), Signal(3), Signal(3)
        shifted = Signal(QUOTIENT_BITS)
        leading = Const(MOST_PLACES, 3)
        for k in reversed(range(MOST_PLACES)):
            leading = Mux(bits[-1 - k], Const(k, 3), leading)
        m.d.comb += [
            wider.eq(room + 1),
            count.eq(leading),
            places.eq(Mux((wider < MOST_PLACES) & (count > wider[:3]), wider[:3], count)),
            shifted.eq(bits << places),
        ]
        inexact = sticky | rest.any()
        results = {
            "quotient": shifted[-NORMALIZED_BITS:],
            "quotient_sticky": shifted[:-NORMALIZED_BITS].any() | inexact,
            "quotient_room": (wider - places)[: len(wider)],
            "minus": below & (bits.any() | inexact),
        }
        for name, result in results.items():
            result = register(m, result, valid=valid, name=f"{name}_register")
            m.d.comb += getattr(self, name).eq(result)
