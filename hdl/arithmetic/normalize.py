"""Normalization of a signed sum: finds its leading bit and shifts it to the top."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import SIGNIFICAND_BITS
from .pipeline import register

__all__ = ["NORMALIZED_BITS", "Normalize"]

#: What is kept of a sum: a significand and a guard bit.
NORMALIZED_BITS = SIGNIFICAND_BITS + 1


class Normalize(wiring.Component):
    """Shifts a sum's leading bit up to its top; two registers.

    The shift is found digit by digit in base 4, 16s first, and never passes the headroom: so a
    result below the smallest normal number keeps its fixed place (gradual underflow). The sum stays
    in two's complement; `Round` makes up for that.

    Parameters
    ----------
    width : bits of the sum's magnitude, at most 64
    headroom_bits : width of the headroom
    fixed_headroom : the headroom where it is always the same, else None
    kept : bits that are kept of a sum

    Ports
    -----
    valid : a sum is there in this cycle
    sum : two's complement
    headroom : most places that the sum may be shifted; without effect where it is fixed
    normalized : the top bits of the shifted sum, without the sign; after `delay` cycles
    negative : the sum's sign
    sticky : a bit below those kept was set
    room : headroom that is left: one less than the exponent field of a normal number
    """

    delay = 2

    def __init__(
        self,
        width: int,
        headroom_bits: int,
        fixed_headroom: int | None = None,
        kept: int = NORMALIZED_BITS,
    ):
        self._width = width
        self._kept = kept
        self._fixed_headroom = fixed_headroom
        super().__init__(
            {
                "valid": In(1),
                "sum": In(signed(width + 1)),
                "headroom": In(headroom_bits),
                "normalized": Out(kept),
                "negative": Out(1),
                "sticky": Out(1),
                "room": Out(headroom_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # The first register stands behind the shift by 16s.
        later = Signal()
        m.d.sync += later.eq(self.valid)

        def first(name, value):
            return register(m, value, valid=self.valid, name=f"first_{name}")

        headroom = self.headroom
        if self._fixed_headroom is not None:
            headroom = Const(self._fixed_headroom, len(headroom))
        negative, near = self.sum[-1], ~headroom[6:].any()
        limit = headroom[4:6]
        value, by_16, near = self._digit(m, self.sum[:-1], 16, negative, limit, near)
        value, sticky = _cut(value, self._kept + 15)
        value, sticky = first("value", value), first("sticky", sticky)
        negative, near = first("negative", negative), first("near", near)
        by_16 = first("by_16", by_16)
        if self._fixed_headroom is None:
            headroom = first("headroom", headroom)

        room = Signal(len(headroom))
        m.d.comb += room.eq(headroom - (by_16 << 4))
        value, by_4, near = self._digit(m, value, 4, negative, headroom[2:4], near)
        value, sticky_4 = _cut(value, self._kept + 3)
        value, by_1, _ = self._digit(m, value, 1, negative, headroom[:2], near)
        value, sticky_1 = _cut(value, self._kept)

        results = {
            "normalized": value,
            "negative": negative,
            "sticky": sticky | sticky_4 | sticky_1,
            "room": (room - Cat(by_1, by_4))[: len(room)],
        }
        for name, result in results.items():
            result = register(m, result, valid=later, name=f"second_{name}")
            m.d.comb += getattr(self, name).eq(result)
        return m

    def _digit(self, m, value, step, negative, limit, near):
        """Shifts by one digit; also gives it, and whether the digits so far are the headroom's.

        `near` says so of the digits above: then this one may not pass the headroom's either.
        """
        count, digit = Signal(2, name=f"count_{step}"), Signal(2, name=f"by_{step}")
        still_near = Signal(name=f"near_{step}")
        shifted = Signal(len(value), name=f"shifted_{step}")
        most = min(3, (len(value) - 1) // step)
        m.d.comb += [
            count.eq(_leading_groups(value, step, negative, most)),
            digit.eq(Mux(near & (count > limit), limit, count)),
            still_near.eq(near & (count >= limit)),
            shifted.eq(_shift(value, step, digit)),
        ]
        return shifted, digit, still_near


def _leading_groups(value, step, negative, most):
    """How many groups of `step` bits, at most `most`, equal the sign from the top of `value`."""
    count = Const(most, 2)
    for k in reversed(range(most)):
        top = len(value) - step * k
        group = value[top - step : top]
        count = Mux(Mux(negative, group.all(), ~group.any()), count, Const(k, 2))
    return count


def _shift(value, step, digit):
    """`value` shifted up by `digit` (two bits) times `step`, at its own width."""
    for bit in range(2):
        places = step << bit
        if places < len(value):
            value = Mux(digit[bit], Cat(Const(0, places), value[:-places]), value)
    return value


def _cut(value, bits):
    """The top `bits` of `value`, and whether a bit below them is set."""
    return value[-bits:], value[:-bits].any()
