"""Which wave table entries are whose."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig

__all__ = ["EntryShares"]

#: Cycles until a division has come to the controllers: it is a register, and so are their entries.
SETTLING = 2
#: Cycles in which every context whose ranks answer at all has given its entries back.
PATIENCE = 4096


class EntryShares(wiring.Component):
    """Divides the wave tables' entries evenly among the enabled contexts.

    Each gets ``waves // enabled`` neighbouring entries; a single one has all. What is left over by
    the division is not used.

    Members
    -------
    enabled : by context
    reading : by context, entries that it has taken
    hold : by context, it may take no entry, since the division changes
    base, share : by context, its first entry and how many it has; 0 where it is not enabled

    Timing
    ------
    A change of ``enabled`` holds all contexts until no entry is taken, a round trip, and three
    cycles more.

    Stalls
    ------
    A context whose rank does not answer, and which no watchdog ends, gives nothing back. After
    `PATIENCE` cycles those that still have entries are held alone, and the others go on as before
    the change. Once they, too, have been without any, all are held again. So a change costs others
    at most that time, and comes when what hangs is ended.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        contexts, waves = config.contexts, config.waves
        super().__init__(
            {
                "enabled": In(contexts),
                "reading": In(range(waves + 1)).array(contexts),
                "hold": Out(contexts),
                "base": Out(range(waves)).array(contexts),
                "share": Out(range(waves + 1)).array(contexts),
            }
        )

    def elaborate(self, platform):
        m = Module()
        contexts = self._config.contexts
        divided = Signal(contexts)  # the contexts that the division is for
        settled = Signal(SETTLING)
        changes = Signal()
        uses = Cat(reading != 0 for reading in self.reading)
        m.d.comb += changes.eq((self.enabled != divided) | ~settled.all())
        m.d.sync += settled.eq(Cat(self.enabled == divided, settled))
        stuck = self._give_up_waiting(m, changes, uses)
        m.d.comb += self.hold.eq(Mux(changes, Mux(stuck.any(), stuck, -1), 0))
        with m.If(changes & ~stuck.any() & ~uses.any()):
            m.d.sync += divided.eq(self.enabled)
        self._divide(m, divided)
        return m

    def _give_up_waiting(self, m, changes, uses):
        """Contexts that have not given their entries back in time, until they have."""
        stuck = Signal(self._config.contexts)
        cycles = Signal(range(PATIENCE))
        with m.If(~changes):
            m.d.sync += [stuck.eq(0), cycles.eq(0)]
        with m.Elif(stuck.any()):
            m.d.sync += stuck.eq(stuck & uses)
        with m.Elif(cycles == PATIENCE - 1):
            m.d.sync += [stuck.eq(uses), cycles.eq(0)]
        with m.Else():
            m.d.sync += cycles.eq(cycles + 1)
        return stuck

    def _divide(self, m, divided):
        """Neighbouring entries to each, from the lowest context up."""
        contexts, waves = self._config.contexts, self._config.waves
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
