"""From the 16 bits of a number to sign, exponent, significand and class."""

from amaranth import Cat, Const, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.interfaces import Format

from .formats import BF16, FP16, SIGNIFICAND_BITS

__all__ = ["Decode"]


class Decode(wiring.Component):
    """Takes one operand apart; combinational.

    Parameters
    ----------
    formats : names of the formats built

    Ports
    -----
    operand : the number's bits
    format : how to read them; without effect where one format is built
    sign : 1 for negative
    exponent : the biased exponent; a subnormal's is 1, so that its significand needs no other rule
    significand : hidden bit and fraction, aligned to the top
    infinite, nan : class of the number
    """

    delay = 0

    def __init__(self, formats: tuple[str, ...]):
        self._formats = formats
        super().__init__(
            {
                "operand": In(16),
                "format": In(Format),
                "sign": Out(1),
                "exponent": Out(BF16.exponent_bits if "bf16" in formats else FP16.exponent_bits),
                "significand": Out(SIGNIFICAND_BITS),
                "infinite": Out(1),
                "nan": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        widen = Const(0, FP16.fraction_bits - BF16.fraction_bits)
        fields = {
            "fp16": (self.operand[:10], self.operand[10:15], self.operand[10:15].all()),
            "bf16": (Cat(widen, self.operand[:7]), self.operand[7:15], self.operand[7:15].all()),
        }
        fraction, exponent, ones = fields[self._formats[0]]
        if len(self._formats) > 1:
            bf16 = self.format == Format.BF16
            fraction, exponent, ones = (
                Mux(bf16, b, f) for f, b in zip(fields["fp16"], fields["bf16"], strict=True)
            )
        nonzero = exponent.any()
        m.d.comb += [
            self.sign.eq(self.operand[15]),
            self.exponent.eq(exponent | ~nonzero),
            self.significand.eq(Cat(fraction, nonzero)),
            self.infinite.eq(ones & ~fraction.any()),
            self.nan.eq(ones & fraction.any()),
        ]
        return m
