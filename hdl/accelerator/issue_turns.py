"""Whose wave is issued next."""

from amaranth import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import SwitchConfig
from ..transport.arbiter import RoundRobin
from .merge import one_of
from .wave_controller import GENERATION_BITS, Reservation

__all__ = ["IssueTurns"]


class IssueTurns(wiring.Component):
    """Lets one context a cycle take an entry and issue its wave, in turn.

    Members
    -------
    wants : by context, it has a wave and an entry for it
    reserve : by context (`Reservation`); valid only in its turn
    issuers_ready : by context, every issuer that its wave needs can take it
    turn : by context: it may issue
    reserved : of the context whose turn it is, with the entry's own generation where there are
        several contexts, since an entry may come from one to another

    Fairness
    --------
    A context that wants waits for at most one wave of each other one.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        contexts = config.contexts
        super().__init__(
            {
                "wants": In(contexts),
                "reserve": In(Reservation(config)).array(contexts),
                "issuers_ready": In(contexts),
                "turn": Out(contexts),
                "reserved": Out(Reservation(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        contexts = self._config.contexts
        if contexts == 1:
            m.d.comb += self.turn.eq(self.issuers_ready)
            connect(m, flipped(self.reserve[0]), flipped(self.reserved))
            return m
        m.submodules.round_robin = robin = RoundRobin(contexts)
        m.d.comb += [
            robin.requests.eq(self.wants & self.issuers_ready),
            self.turn.eq(robin.grant),
        ]
        for context, reserve in enumerate(self.reserve):
            m.d.comb += robin.used[context].eq(reserve.valid)
        for name in self.reserved.signature.members:
            values = [(each.valid, getattr(each, name)) for each in self.reserve]
            if name == "context":
                values = [(each.valid, number) for number, each in enumerate(self.reserve)]
            if name != "generation":
                m.d.comb += getattr(self.reserved, name).eq(one_of(values))
        m.d.comb += self.reserved.generation.eq(self._generation(m))
        return m

    def _generation(self, m):
        """Uses of the entry that is taken, whoever took it."""
        waves = self._config.waves
        uses = Array(Signal(GENERATION_BITS, name=f"uses_{entry}") for entry in range(waves))
        entry = self.reserved.entry[: (waves - 1).bit_length()]
        for number, each in enumerate(uses):
            with m.If(self.reserved.valid & (entry == number)):
                m.d.sync += each.eq(each + 1)
        return uses[entry]
