"""New scales, block by block as they come from the reducer, into flits."""

from amaranth import Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from .layouts import flit_scale_bits

__all__ = ["ScaleFlit", "ScalePacker"]


class ScaleFlit(data.StructLayout):
    """A flit of scales; ``last`` of its wave. Bits behind a wave's last scale mean nothing."""

    def __init__(self, config: SwitchConfig):
        super().__init__({"data": unsigned(config.flit_bits), "last": unsigned(1)})


class ScalePacker(wiring.Component):
    """Collects the scales of a wave's blocks.

    Members
    -------
    begins : a flit of codes begins a block, or several that share it; ``scales`` are theirs
    ends : it is the wave's last block, or they are
    valid, o : a flit of scales (`ScaleFlit`)

    Timing
    ------
    A flit is given one cycle after its last scale came. Never stalls.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        super().__init__(
            {
                "begins": In(1),
                "ends": In(1),
                "scales": In(flit_scale_bits(config)),
                "valid": Out(1),
                "o": Out(ScaleFlit(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = flit_scale_bits(self._config)
        parts = self._config.flit_bits // bits
        part = Signal(range(parts))
        full = part == parts - 1
        m.d.sync += self.valid.eq(self.begins & (self.ends | full))
        with m.If(self.begins):
            m.d.sync += [
                self.o.last.eq(self.ends),
                self.o.data.word_select(part, bits).eq(self.scales),
                part.eq(part + 1),
            ]
            with m.If(self.ends | full):
                m.d.sync += part.eq(0)
        return m
