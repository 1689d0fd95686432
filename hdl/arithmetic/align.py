"""Places one lane's operands in the fixed-point window that they are added in."""

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import (
    BF16,
    BF16_WINDOW_BITS,
    FP16_REFERENCE,
    SIGNIFICAND_BITS,
    WINDOW_BITS,
    exponent_bits,
    headroom_bits,
)
from .pipeline import register, tree_levels

__all__ = ["Align", "fixed_headroom"]

#: Window bits below a significand at the top.
BELOW = WINDOW_BITS - SIGNIFICAND_BITS
#: Window bits that bf16 does not use.
CUT = WINDOW_BITS - BF16_WINDOW_BITS
#: A shift by 2^5 places leaves nothing that bf16 keeps, and fp16 shifts by 29 at most.
SHIFT_BITS = 5


def fixed_headroom(ranks: int, formats: tuple[str, ...]) -> int | None:
    """The headroom of every sum where only fp16 is built, since E is fixed there; else None."""
    return FP16_REFERENCE + tree_levels(ranks) - 1 if formats == ("fp16",) else None


class Align(wiring.Component):
    """Shifts one lane's significands to their places in the window; one register.

    The window's top bit weighs 2^E, E being the largest exponent. That holds every bit of an fp16
    number whatever E is; of bf16, bits below 2^(E-31) are cut off. Where only fp16 is built, E is
    its largest finite exponent instead, which needs no search and gives the same sums.

    Parameters
    ----------
    ranks : number of operands
    formats : names of the formats built

    Ports
    -----
    valid : operands are there in this cycle
    exponents, significands : from `Decode`
    largest : from `LargestExponent`; without effect where only fp16 is built
    bf16 : format of the operands
    magnitudes : the operands as integers
    headroom : bits by which the sum may be shifted up before its exponent reaches 1
    """

    delay = 1

    def __init__(self, ranks: int, formats: tuple[str, ...]):
        self._ranks = ranks
        self._formats = formats
        super().__init__(
            {
                "valid": In(1),
                "exponents": In(unsigned(exponent_bits(formats))).array(ranks),
                "significands": In(unsigned(SIGNIFICAND_BITS)).array(ranks),
                "largest": In(BF16.exponent_bits),
                "bf16": In(1),
                "magnitudes": Out(unsigned(WINDOW_BITS)).array(ranks),
                "headroom": Out(headroom_bits(formats)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        if self._formats == ("fp16",):
            placed = [self._placed_fp16(m, rank) for rank in range(self._ranks)]
            m.d.comb += self.headroom.eq(fixed_headroom(self._ranks, self._formats))
        else:
            placed = [self._placed(m, rank) for rank in range(self._ranks)]
            growth = tree_levels(self._ranks) - 1
            headroom = (self.largest + growth)[: len(self.headroom)]
            headroom = register(m, headroom, valid=self.valid, name="headroom_register")
            m.d.comb += self.headroom.eq(headroom)
        for rank, value in enumerate(placed):
            magnitude = register(m, value, valid=self.valid, name=f"magnitude_{rank}")
            m.d.comb += self.magnitudes[rank].eq(magnitude)
        return m

    def _placed_fp16(self, m, rank):
        # 30 - e is one less than ~e, so a shift by ~e starts one bit higher.
        window = Signal(WINDOW_BITS + 1, name=f"window_{rank}")
        raised = Cat(Const(0, BELOW + 1), self.significands[rank])
        m.d.comb += window.eq(raised >> ~self.exponents[rank])
        return window[:WINDOW_BITS]

    def _placed(self, m, rank):
        distance = Signal(BF16.exponent_bits, name=f"distance_{rank}")
        window = Signal(WINDOW_BITS, name=f"window_{rank}")
        m.d.comb += [
            distance.eq(self.largest - self.exponents[rank]),
            window.eq(Cat(Const(0, BELOW), self.significands[rank]) >> distance[:SHIFT_BITS]),
        ]
        low = Const(0, CUT)
        if "fp16" in self._formats:
            low = Mux(self.bf16, 0, window[:CUT])
        return Mux(distance[SHIFT_BITS:].any(), 0, Cat(low, window[CUT:]))
