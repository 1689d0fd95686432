"""A flit of one of the ranks, as it is."""

from functools import reduce
from operator import or_

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import LANE_BITS
from .pipeline import register

__all__ = ["Copy"]


class Copy(wiring.Component):
    """Gives the flit of the one rank that takes part.

    Parameters
    ----------
    ranks : number of operands
    lanes : 16-bit lanes

    Ports
    -----
    valid : operands are there in this cycle
    operands : rank r's flit
    sources : the rank that takes part, as one bit; of several, the result has no meaning
    result : its flit, after `delay` cycles
    """

    delay = 1

    def __init__(self, ranks: int, lanes: int):
        bits = lanes * LANE_BITS
        super().__init__(
            {
                "valid": In(1),
                "operands": In(bits).array(ranks),
                "sources": In(ranks),
                "result": Out(bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        masked = []
        for rank, flit in enumerate(self.operands):
            part = Signal(len(flit), name=f"part_{rank}")
            m.d.comb += part.eq(Mux(self.sources[rank], flit, 0))
            masked.append(part)
        copied = register(m, reduce(or_, masked), valid=self.valid, name="copied")
        m.d.comb += self.result.eq(copied)
        return m
