"""The reducer in another design: adds two vectors of four fp16 numbers a cycle."""

from amaranth import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.arithmetic.reducer import Reducer
from hdl.config import SwitchConfig
from hdl.interfaces import Format


class VectorAdder(wiring.Component):
    """``sum`` is a + b, `Reducer.delay` cycles later, with ``sum_valid``."""

    valid: In(1)
    a: In(64)
    b: In(64)
    sum: Out(64)
    sum_valid: Out(1)

    def elaborate(self, platform):
        # -- snippet
        m = Module()
        m.submodules.reducer = reducer = Reducer(SwitchConfig.preset("arty", ranks=2))
        m.d.comb += [
            reducer.i.valid.eq(self.valid),
            reducer.i.payload.operands.eq(Cat(self.a, self.b)),
            reducer.i.payload.keep.eq(0b1111),  # all four lanes
            reducer.i.payload.sources.eq(0b11),  # both operands
            reducer.i.payload.format.eq(Format.FP16),
            self.sum.eq(reducer.o.payload.data),
            self.sum_valid.eq(reducer.o.valid),
        ]
        # -- end
        return m
