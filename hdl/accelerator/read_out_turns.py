"""Whose packet is read out next."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..transport.arbiter import RoundRobin

__all__ = ["ReadOutTurns"]

#: Cycles in which ``room`` does not yet know of a start, where both ways are registered.
START_TO_ROOM = 2


class ReadOutTurns(wiring.Component):
    """Shares the way through the reducer among the contexts, a run of packets each in turn.

    Parameters
    ----------
    inq_lead
        Cycles by which codes take longer than sums; where both are built.

    Members
    -------
    asks : by context, a packet of it could start
    holds : by context, a packet of it is under way, or one that must follow at once
    quantized : by context, its packet is of codes
    reads_codes : by context, it reads a flit of codes
    starts : by context, its packet starts
    turn : by context, combinational: its packet may start
    settled : the ports' room knows of all packets that have started

    Timing
    ------
    A packet of one context may follow another's in the next cycle. Sums wait behind codes until
    they leave the reducer later than those, whoever's they are; where it is their turn the others
    wait with them, or each run of codes would pass them anew.

    Fairness
    --------
    A context that asks waits for at most one run of each other one.
    """

    def __init__(self, config: SwitchConfig, *, inq_lead: int = 0):
        self._config = config
        self._contexts = config.contexts
        self._inq_lead = inq_lead
        each = config.contexts
        super().__init__(
            {name: In(each) for name in ("asks", "holds", "quantized", "reads_codes", "starts")}
            | {"turn": Out(each), "settled": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        in_order = self._in_order(m)
        self._settle(m)
        if self._contexts == 1:
            m.d.comb += self.turn.eq(in_order)
            return m
        free = Signal(self._contexts)  # no other one is under way
        for context in range(self._contexts):
            others = Cat(hold for other, hold in enumerate(self.holds) if other != context)
            m.d.comb += free[context].eq(~others.any())
        m.submodules.round_robin = robin = RoundRobin(self._contexts)
        m.d.comb += [
            robin.requests.eq(self.asks & free),
            robin.used.eq(self.starts),
            self.turn.eq(robin.grant & in_order),
        ]
        return m

    def _settle(self, m):
        if not self._config.sliced:
            m.d.comb += self.settled.eq(1)
            return
        started = Signal(START_TO_ROOM)
        m.d.sync += started.eq(Cat(self.starts.any(), started))
        m.d.comb += self.settled.eq(~started.any())

    def _in_order(self, m):
        """By context: its results would not overtake those of codes on their way."""
        everyone = Signal(self._contexts)
        if self._inq_lead == 0:
            m.d.comb += everyone.eq(-1)
            return everyone
        ahead = Signal(range(self._inq_lead + 1))  # cycles until sums come behind all codes
        with m.If(self.reads_codes.any()):
            m.d.sync += ahead.eq(self._inq_lead)
        with m.Elif(ahead != 0):
            m.d.sync += ahead.eq(ahead - 1)
        m.d.comb += everyone.eq(Mux(ahead == 0, -1, self.quantized))
        return everyone
