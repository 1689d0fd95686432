"""`Barrier`: opens exactly when every rank has arrived for that epoch."""

from __future__ import annotations

from amaranth import Signal

from hdl.accelerator.barrier import EPOCH_BITS, Barrier

from .proof import Fault, Proof
from .sizes import TINY, describe
from .specification import Specification

__all__ = ["PROOFS"]


class BarrierContract(Specification):
    """A barrier against the arrivals for one epoch, whichever it is."""

    def __init__(self, config):
        super().__init__(Barrier(config))
        self._ranks = config.ranks

    def specify(self, m):
        barrier = self.component
        epoch = self.any_constant(EPOCH_BITS, "epoch")
        current = barrier.epoch == epoch
        # A sum is a bit wider than its terms, but epochs wrap.
        coming = (barrier.epoch + 1)[:EPOCH_BITS] == epoch
        self.assume("starts_only_what_is_complete", ~barrier.take | barrier.complete)

        came = Signal(self._ranks)  # who arrived for it and was not refused
        for rank in range(self._ranks):
            arrives = barrier.arrive[rank] & (barrier.epochs[rank] == epoch)
            with m.If(arrives & ~barrier.refused[rank]):
                m.d.sync += came[rank].eq(1)
            self.always(
                f"refuses_a_second_arrival_of_rank_{rank}",
                barrier.refused[rank] == came[rank],
                "An arrival for the current or the next epoch is refused if it is the rank's "
                "second one for it, and only then.",
                when=arrives & (current | coming),
                trace=arrives & coming & came[rank],
            )
            self.always(
                f"refuses_other_epochs_of_rank_{rank}",
                barrier.refused[rank],
                "An arrival for any other epoch is refused.",
                when=arrives & ~current & ~coming,
            )
        with m.If(barrier.take & current):
            m.d.sync += came.eq(0)

        self.always(
            "opens_exactly_when_all_arrived",
            barrier.complete == came.all(),
            "While an epoch is current, the barrier is complete if every rank has arrived for it, "
            "in this epoch or in the one before, and only then.",
            when=current,
            trace=current & barrier.complete & (epoch == 3),
        )
        self.always(
            "epoch_counts_operations",
            barrier.epoch
            == (
                self.past(barrier.epoch, name="epoch", init=1)
                + self.past(barrier.take, name="take")
            )[:EPOCH_BITS],
            "The epoch goes up by one as an operation starts, and at no other time.",
            trace=self.past(barrier.take, name="taken"),
        )
        self.lemma("current_bits", ~current | (barrier.arrived == came))
        early = self.inside.signal("early")
        self.lemma("early_bits", ~coming | (early == came))
        self.lemma("no_other_bits", current | coming | (came == 0))


PROOFS = [
    Proof(
        name="barrier",
        component="Barrier",
        size=describe(TINY),
        specify=lambda: BarrierContract(TINY),
        solver="z3",
        fault_depth=6,
        faults=(
            Fault("early arrivals are lost", "early", lambda early: early & 0),
            Fault("rank 0 need not arrive", "arrived", lambda arrived: arrived | 1),
            Fault("nothing is refused", "refused", lambda refused: refused & 0),
            Fault("the epoch stays", "next_epoch", lambda epoch: epoch - 1),
        ),
    )
]
