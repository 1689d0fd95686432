"""From one lane's operands to signs, exponents, significands and what is special about them."""

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import BF16, FP16, SIGNIFICAND_BITS, exponent_bits
from .pipeline import register

__all__ = ["Decode"]


class Decode(wiring.Component):
    """Takes one lane's operands apart.

    Registered where bf16 is built, which spends a cycle on the largest exponent anyway; else
    combinational.

    Parameters
    ----------
    ranks : number of operands
    formats : names of the formats built

    Ports
    -----
    valid : operands are there in this cycle
    operands : the numbers' bits; 0 where a rank takes no part
    sources : ranks that take part
    bf16 : how to read the operands; without effect where one format is built
    signs : 1 for negative
    fields : exponents in the operands' own cycle
    exponents : biased; a subnormal's is 1, so that its significand needs no rule of its own
    significands : hidden bit and fraction, aligned to the top
    all_negative : every rank that takes part has its sign set: only then is a zero sum negative
    plus, minus : an infinity of that sign takes part; both, if a NaN does
    """

    def __init__(self, ranks: int, formats: tuple[str, ...]):
        self._ranks = ranks
        self._formats = formats
        super().__init__(
            {
                "valid": In(1),
                "operands": In(16).array(ranks),
                "sources": In(ranks),
                "bf16": In(1),
                "signs": Out(ranks),
                "fields": Out(unsigned(exponent_bits(formats))).array(ranks),
                "exponents": Out(unsigned(exponent_bits(formats))).array(ranks),
                "significands": Out(unsigned(SIGNIFICAND_BITS)).array(ranks),
                "all_negative": Out(1),
                "plus": Out(1),
                "minus": Out(1),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from operands to what they are made of."""
        return 1 if "bf16" in self._formats else 0

    def elaborate(self, platform):
        m = Module()
        ones, fractional = [], []
        for rank in range(self._ranks):
            exponent, fraction = self._fields(m, rank)
            nonzero = exponent.any()
            ones.append(self._all_ones(exponent))
            fractional.append(fraction.any())
            m.d.comb += self.fields[rank].eq(exponent | ~nonzero)
            self._put(m, self.exponents[rank], self.fields[rank])
            self._put(m, self.significands[rank], Cat(fraction, nonzero))
        self._put_flags(m, Cat(ones), Cat(fractional))
        return m

    def _fields(self, m, rank):
        """Exponent field and fraction of an operand, the fraction aligned to the top."""
        operand = self.operands[rank]
        choices = {
            "fp16": (operand[10:15], operand[:10]),
            "bf16": (operand[7:15], Cat(Const(0, BF16.spare_bits), operand[:7])),
        }
        exponent = Signal(exponent_bits(self._formats), name=f"exponent_{rank}")
        fraction = Signal(FP16.fraction_bits, name=f"fraction_{rank}")
        fields = choices[self._formats[0]]
        if len(self._formats) > 1:
            both = zip(choices["bf16"], choices["fp16"], strict=True)
            fields = [Mux(self.bf16, b, f) for b, f in both]
        m.d.comb += [exponent.eq(fields[0]), fraction.eq(fields[1])]
        return exponent, fraction

    def _all_ones(self, exponent):
        """The field of infinities and NaNs; fp16's has zeros above it where bf16 is built."""
        high = exponent[FP16.exponent_bits :]
        if self._formats == ("fp16",):
            return exponent.all()
        if self._formats == ("bf16",):
            return exponent.all()
        return exponent[: FP16.exponent_bits].all() & (high.all() | ~self.bf16)

    def _put_flags(self, m, ones, fractional):
        signs, infinite, nan = (Signal(self._ranks, name=n) for n in ("sign", "infinite", "nan"))
        m.d.comb += [
            signs.eq(Cat(operand[15] for operand in self.operands)),
            infinite.eq(ones),
            nan.eq(ones & fractional),
        ]
        self._put(m, self.signs, signs)
        self._put(m, self.all_negative, (signs == self.sources) & signs.any())
        self._put(m, self.plus, (nan | (infinite & ~signs)).any())
        self._put(m, self.minus, (nan | (infinite & signs)).any())

    def _put(self, m, port, value):
        if self.delay:
            value = register(m, value, valid=self.valid, name=f"{port.name}_register")
        m.d.comb += port.eq(value)
