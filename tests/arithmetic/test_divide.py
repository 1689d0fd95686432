# amaranth: UnusedElaboratable=no
"""The division alone: every divisor, against rationals."""

import random
from dataclasses import dataclass
from fractions import Fraction

from amaranth.sim import Simulator

from hdl.arithmetic.divide import DIVIDEND_BITS, Divide
from hdl.arithmetic.normalize import NORMALIZED_BITS

SEED = 11
HEADROOM_BITS = 9
TOP = 1 << (DIVIDEND_BITS - 1)


@dataclass
class Case:
    """A sum as `Normalize` gives it: `magnitude` in units of its last bit, and more if `sticky`."""

    magnitude: int
    negative: bool
    sticky: bool
    room: int
    divisor: int
    sign: bool

    @property
    def dividend(self) -> int:
        """In two's complement a negative magnitude with something cut off is inverted."""
        if not self.negative:
            return self.magnitude
        inverted = self.magnitude if self.sticky else self.magnitude - 1
        return inverted ^ ((1 << DIVIDEND_BITS) - 1)

    def check(self, quotient, sticky, room, minus):
        exact = Fraction(self.magnitude, self.divisor)
        places = self.room + 1 - room  # by which the quotient was shifted up
        # Bits below those kept; the dividend's top bit stands one lower than the quotient's.
        below = DIVIDEND_BITS + 1 - NORMALIZED_BITS - places
        kept = exact / Fraction(2) ** below
        assert quotient == kept.numerator // kept.denominator, self
        assert sticky == (self.sticky or kept.denominator != 1), self
        assert 0 <= room <= self.room + 1, self
        # As far up as it may go: gradual underflow ends where no room is left.
        assert quotient >> (NORMALIZED_BITS - 1) or room == 0 or not self.magnitude, self
        negative = (self.negative != self.sign) and (self.magnitude != 0 or self.sticky)
        assert minus == negative, self


def random_case(draw):
    """Normalized, unless there was no room to."""
    room = draw.choice([0, 1, 2, 3, 4, 5, 6, 40, 257])
    low = 0 if room == 0 else TOP
    magnitude = draw.choice([TOP, 2 * TOP - 1, draw.randrange(low, 2 * TOP), low])
    negative = draw.random() < 0.5
    sticky = draw.random() < 0.5
    if negative and not sticky and draw.random() < 0.2:
        magnitude = 2 * TOP  # its inverse has one bit less
    if negative and not sticky and not magnitude:
        negative = False  # nothing is not negative
    return Case(magnitude, negative, sticky, room, draw.randrange(1, 17), draw.random() < 0.5)


def run(cases):
    dut = Divide(HEADROOM_BITS)

    async def bench(ctx):
        for now in range(len(cases) + dut.delay):
            ctx.set(dut.valid, now < len(cases))
            if now < len(cases):
                case = cases[now]
                for name in ("dividend", "negative", "sticky", "room", "sign"):
                    ctx.set(getattr(dut, name), int(getattr(case, name)))
                ctx.set(dut.divisor_less_one, case.divisor - 1)
            if now >= dut.delay:
                cases[now - dut.delay].check(
                    ctx.get(dut.quotient), ctx.get(dut.quotient_sticky),
                    ctx.get(dut.quotient_room), ctx.get(dut.minus),
                )  # fmt: skip
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def test_every_divisor_of_the_edges():
    edges = (TOP, TOP + 1, 2 * TOP - 1, 3 * TOP // 2, TOP + 5)
    run([
        Case(magnitude, negative, sticky, room, divisor, False)
        for divisor in range(1, 17)
        for magnitude in edges
        for negative in (False, True)
        for sticky in (False, True)
        for room in (0, 3, 300)
    ])  # fmt: skip


def test_random_sums():
    print("seed", SEED)
    draw = random.Random(SEED)
    run([random_case(draw) for _ in range(1500)])


def test_delay():
    assert Divide(HEADROOM_BITS).delay == 7
