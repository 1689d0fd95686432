"""Which wave table entries are whose."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig

__all__ = ["EntryShares"]

#: Cycles until a division has come to the controllers: it is a register, and so are their entries.
SETTLING = 2


class EntryShares(wiring.Component):
    """Divides the wave tables' entries evenly among the enabled contexts.

    Each gets ``waves // enabled`` neighbouring entries; a single one has all. What is left over by
    the division is not used.

    Members
    -------
    enabled : by context
    reading : by context, entries that it has taken
    hold : the division changes: no context may take an entry
    base, share : by context, its first entry and how many it has; 0 where it is not enabled

    Timing
    ------
    A change of ``enabled`` holds all contexts until no entry is taken, and three cycles more. Since
    reading waves wait for nobody but their ranks, and a context whose rank does not answer is ended
    by its watchdog, that takes a round trip, or a watchdog's time.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        contexts, waves = config.contexts, config.waves
        super().__init__(
            {
                "enabled": In(contexts),
                "reading": In(range(waves + 1)).array(contexts),
                "hold": Out(1),
                "base": Out(range(waves)).array(contexts),
                "share": Out(range(waves + 1)).array(contexts),
            }
        )

    def elaborate(self, platform):
        m = Module()
        contexts, waves = self._config.contexts, self._config.waves
        divided = Signal(contexts)  # the contexts that the division is for
        settled = Signal(SETTLING)
        idle = Cat(reading == 0 for reading in self.reading).all()
        m.d.comb += self.hold.eq((self.enabled != divided) | ~settled.all())
        m.d.sync += settled.eq(Cat(self.enabled == divided, settled))
        with m.If(idle & self.hold):
            m.d.sync += divided.eq(self.enabled)
        share = Signal(range(waves + 1))
        with m.Switch(sum(divided)):
            for count in range(1, contexts + 1):
                with m.Case(count):
                    m.d.comb += share.eq(waves // count)
        for context in range(contexts):
            below = sum(divided[:context])
            m.d.sync += self.share[context].eq(Mux(divided[context], share, 0))
            if context:
                m.d.sync += self.base[context].eq(Mux(divided[context], share * below, 0))
        return m
