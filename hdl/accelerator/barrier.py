"""Who has arrived, for this epoch and the next."""

from amaranth import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig

__all__ = ["Barrier"]

EPOCH_BITS = 32


class Barrier(wiring.Component):
    """Keeps one bit a rank for the current epoch and one for the next.

    Parameters
    ----------
    first_epoch
        The epoch that is collected after a reset.

    Members
    -------
    arrive : by rank, an arrival this cycle; any number of ranks may arrive at once
    epochs : by rank, the epoch that the arrival names
    refused : by rank, combinational: the arrival is a second one, or for neither epoch
    members : ranks that belong to it, where that may be some of them; an arrival of another one is
        refused
    early : those that have arrived for the next epoch; likewise
    complete : every member has arrived for ``epoch``
    epoch : the epoch that is being collected
    take : the operation of this epoch starts (only while ``complete``); the next epoch is current
        from the next cycle on, with the arrivals that were kept for it

    Timing
    ------
    An arrival counts in ``complete`` one cycle later. Nothing stalls.
    """

    def __init__(self, config: SwitchConfig, *, first_epoch: int = 1):
        self._ranks = config.ranks
        self._subsets = config.subsets
        ranks = config.ranks
        members = {"members": In(ranks), "early": Out(ranks)} if config.subsets else {}
        super().__init__(
            {
                "arrive": In(config.ranks),
                "epochs": In(EPOCH_BITS).array(config.ranks),
                "refused": Out(config.ranks),
                "complete": Out(1),
                "arrived": Out(config.ranks),
                "epoch": Out(EPOCH_BITS, init=first_epoch),
                "take": In(1),
            }
            | members
        )

    def elaborate(self, platform):
        m = Module()
        arrived = self.arrived
        early = self.early if self._subsets else Signal(self._ranks)  # for the next epoch
        now_current = Signal(self._ranks)
        now_early = Signal(self._ranks)
        next_epoch = Signal(EPOCH_BITS)
        members = self.members if self._subsets else Const(-1, self._ranks)
        missing = members & ~arrived
        m.d.comb += next_epoch.eq(self.epoch + 1)
        m.d.comb += self.complete.eq(~missing.any() & members.any())
        for rank in range(self._ranks):
            current = (self.epochs[rank] == self.epoch) & members[rank]
            coming = (self.epochs[rank] == next_epoch) & members[rank]
            fresh = (current & ~arrived[rank]) | (coming & ~early[rank])
            m.d.comb += [
                self.refused[rank].eq(self.arrive[rank] & ~fresh),
                now_current[rank].eq(arrived[rank] | (self.arrive[rank] & current)),
                now_early[rank].eq(early[rank] | (self.arrive[rank] & coming)),
            ]
        m.d.sync += [
            arrived.eq(Mux(self.take, now_early, now_current)),
            early.eq(Mux(self.take, 0, now_early)),
            self.epoch.eq(Mux(self.take, next_epoch, self.epoch)),
        ]
        return m
