"""The quantizing reducer in another design: adds two vectors of eight int8 codes a cycle."""

from amaranth import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.arithmetic.inq_reducer import InqReducer


class BlockAdder(wiring.Component):
    """``codes`` and ``scale`` are a + b, quantized, `InqReducer.delay` cycles later.

    A block is 64 codes, eight cycles without a gap; ``last`` ends a message in the middle of one.
    ``scale`` is valid with a block's first codes.
    """

    valid: In(1)
    last: In(1)
    a: In(64)
    b: In(64)
    scale_a: In(16)
    scale_b: In(16)
    codes: Out(64)
    codes_valid: Out(1)
    scale: Out(16)
    scale_valid: Out(1)

    def elaborate(self, platform):
        # -- snippet
        m = Module()
        m.submodules.adder = adder = InqReducer(ranks=2, flit_bytes=8, block=64)
        operands, result = adder.i.payload, adder.o.payload
        m.d.comb += [
            adder.i.valid.eq(self.valid),
            operands.codes.eq(Cat(self.a, self.b)),
            operands.scales.eq(Cat(self.scale_a, self.scale_b)),
            Cat(operands.keep, operands.sources).eq(-1),  # all eight codes, both operands
            operands.last.eq(self.last),
            Cat(self.codes, self.codes_valid).eq(Cat(result.data, adder.o.valid)),
            Cat(self.scale, self.scale_valid).eq(Cat(result.scales, adder.o.valid & result.blocks)),
        ]
        # -- end
        return m
