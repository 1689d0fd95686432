"""Coarse normalization of a signed sum: shifts by 16s and by 4s."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import SIGNIFICAND_BITS

__all__ = [
    "BELOW_SIGNIFICAND",
    "NORMALIZED_BITS",
    "Normalize",
    "leading_groups",
    "shift_digit",
]

#: What is kept of a sum: the significand, a guard bit, and 3 bits for the last shift.
BELOW_SIGNIFICAND = 1 + 3
NORMALIZED_BITS = SIGNIFICAND_BITS + BELOW_SIGNIFICAND


def leading_groups(value, step, negative, most):
    """How many groups of `step` bits, at most `most`, equal the sign from the top of `value`."""
    count = most
    for k in reversed(range(most)):
        top = len(value) - step * k
        group = value[top - step : top]
        count = Mux(Mux(negative, group.all(), ~group.any()), count, k)
    return count


def shift_digit(value, step, digit):
    """`value` shifted up by `digit` (two bits) times `step`, at its own width."""
    for bit in range(2):
        places = step << bit
        if places < len(value):
            value = Mux(digit[bit], Cat(Const(0, places), value[:-places]), value)
    return value


class Normalize(wiring.Component):
    """Shifts a sum's leading bit up to its top, short of 0 to 3 places; one register.

    The shift is found digit by digit in base 4, and never passes the headroom: so a result below
    the smallest normal number keeps its fixed place (gradual underflow). The sum stays in two's
    complement; `Round` makes up for that.

    Parameters
    ----------
    width : bits of the sum's magnitude
    headroom_bits : width of the headroom

    Ports
    -----
    valid : a sum is there in this cycle
    sum : two's complement
    headroom : most places that the sum may be shifted
    normalized : the top bits of the shifted sum, without the sign
    negative : the sum's sign
    sticky : a bit below those kept was set
    places : shift done, in units of 4
    limited : as many 16s and 4s were shifted as the headroom allows
    """

    delay = 1

    def __init__(self, width: int, headroom_bits: int):
        self._width = width
        super().__init__(
            {
                "valid": In(1),
                "sum": In(signed(width + 1)),
                "headroom": In(headroom_bits),
                "normalized": Out(NORMALIZED_BITS),
                "negative": Out(1),
                "sticky": Out(1),
                "places": Out(4),
                "limited": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        negative = self.sum[-1]
        by_16, most = Signal(2), (self._width - 1) // 16
        by_4 = Signal(2)
        limit_16, limit_4 = self.headroom[4:6], self.headroom[2:4]
        near, nearer = Signal(), Signal()
        # The next shift is by 0 to 15: that many bits below the ones kept must stay.
        coarse = Signal(NORMALIZED_BITS + 12)
        dropped = self._width - len(coarse)
        shifted = Signal(self._width)
        fine = Signal(len(coarse))

        count_16, count_4 = Signal(2), Signal(2)
        m.d.comb += [
            near.eq(~self.headroom[6:].any()),
            count_16.eq(leading_groups(self.sum[:-1], 16, negative, most)),
            by_16.eq(Mux(near & (count_16 > limit_16), limit_16, count_16)),
            nearer.eq(near & (count_16 >= limit_16)),
            shifted.eq(shift_digit(self.sum[:-1], 16, by_16)),
            coarse.eq(shifted[dropped:]),
            count_4.eq(leading_groups(coarse, 4, negative, 3)),
            by_4.eq(Mux(nearer & (count_4 > limit_4), limit_4, count_4)),
            fine.eq(shift_digit(coarse, 4, by_4)),
        ]
        with m.If(self.valid):
            m.d.sync += [
                self.normalized.eq(fine[12:]),
                self.sticky.eq(fine[:12].any() | shifted[:dropped].any()),
                self.negative.eq(negative),
                self.places[:2].eq(by_4),
                self.places[2:].eq(by_16),
                self.limited.eq(nearer & (count_4 >= limit_4)),
            ]
        return m
