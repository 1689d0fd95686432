"""`Outstanding`: what a rank owes a context is counted, no more and no less."""

from __future__ import annotations

from amaranth import Array, Mux, Signal

from hdl.accelerator.outstanding import Outstanding, outstanding_limit

from .proof import Fault, Proof
from .sizes import THREE_CONTEXTS, describe
from .specification import Specification

__all__ = ["PROOFS"]


class OutstandingContract(Specification):
    """What is owed one context, whichever it is, by counters that have bits to spare."""

    def __init__(self, config):
        self._config = config
        super().__init__(Outstanding(config))

    def specify(self, m):
        counts, contexts = self.component, self._config.contexts
        context = self.any_constant(range(contexts), "context")
        self.assume("is_a_context", context < contexts)

        def of(name):
            return getattr(counts, name).bit_select(context, 1)

        reads = self._count(
            m, "reads", Mux(of("asked"), counts.asked_packets, 0), of("came"), context
        )
        writes = self._count(m, "writes", of("written"), of("answered"), context)
        self.always(
            "idle_when_nothing_is_owed",
            of("idle") == ((reads == 0) & (writes == 0)),
            "A rank is idle for a context when it owes it neither read data nor a response, and "
            "only then.",
            trace=of("idle") & self.past(writes == 2, name="owed_two"),
        )

    def _count(self, m, name, more, less, context):
        counts, limit = self.component, outstanding_limit(self._config)
        owed = Signal(range(4 * limit), name=f"{name}_owed")
        answered = less & (owed != 0)
        # A context has entries, write-phase slots and operations for so many packets.
        self.assume(f"{name}_are_few", owed + more - answered <= limit)
        m.d.sync += owed.eq(Mux(counts.lost, 0, owed + more - answered))
        self.always(
            f"{name}_are_what_is_owed",
            Array(getattr(counts, name))[context] == owed,
            "A count is what was asked for or written and not answered since the link was last "
            "lost; an answer that is not owed counts nothing, so it never goes below zero.",
            trace=(owed > 1) & less,
        )
        return owed


PROOFS = [
    Proof(
        name="outstanding",
        component="Outstanding",
        size=describe(THREE_CONTEXTS),
        specify=lambda: OutstandingContract(THREE_CONTEXTS),
        faults=(
            Fault("reads are not counted", "reads__1", lambda reads: reads & 0),
            Fault("a write is counted twice", "writes__2", lambda writes: writes + 1),
            Fault("a context is always idle", "idle", lambda idle: idle | 1),
        ),
    )
]
