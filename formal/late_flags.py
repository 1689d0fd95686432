"""`LateFlags`: a flag that was missed is kept until its rank owes nothing, and sent then."""

from __future__ import annotations

from amaranth import Cat, Const, Mux, Signal

from hdl.accelerator.address_check import FLAG_BYTES
from hdl.accelerator.flag_writer import FlagWord
from hdl.accelerator.late_flags import LateFlags
from hdl.accelerator.layouts import FLAG_TAG, operation_slots, slot_bits

from .proof import Fault, Proof
from .sizes import TENANTS, describe
from .specification import Specification

__all__ = ["PROOFS"]


class LateFlagsContract(Specification):
    """Late flags, rank by rank, against the last operation that ended with it."""

    def __init__(self, config):
        self._config = config
        self._context = config.contexts - 1
        super().__init__(LateFlags(config, context=self._context))

    def specify(self, m):
        for rank, port in enumerate(self.component.o):
            self._rank(m, rank, port)

    def _rank(self, m, rank, port):
        late = self.component
        waiting, idle, up = late.waiting[rank], late.idle[rank], late.up[rank]
        head_taken = port.head.valid & port.head.ready
        word_taken = port.payload.valid & port.payload.ready
        begun = Signal(name=f"begun_at_{rank}")  # the head went, the word did not
        address = Signal.like(late.flags[rank], name=f"kept_address_{rank}")
        word = Signal(len(late.word.as_value()), name=f"kept_word_{rank}")
        with m.If(late.keep[rank]):
            m.d.sync += [address.eq(late.flags[rank]), word.eq(late.word)]
        m.d.sync += begun.eq((begun | head_taken) & ~word_taken)
        lost = self._answers(m, rank, head_taken)
        # The context's next operation waits for all that its ranks owe, late flags too.
        self.assume(f"no_operation_ends_meanwhile_{rank}", ~(begun & late.keep[rank]))
        self._wait(rank, waiting, word_taken & up, lost)
        self.always(
            f"sent_once_rank_{rank}_owes_nothing",
            port.head.valid == (waiting & idle & up & ~begun),
            "A late flag is offered whenever one was missed, the rank owes nothing and its link "
            "is UP, and only then; once until its word went.",
            trace=waiting & ~idle & up,
        )
        header = port.head.payload.header
        tag = Const(FLAG_TAG | self._context << slot_bits(self._config), 16)
        self.always(
            f"late_flag_of_rank_{rank}_goes_to_its_address",
            (header.address == address)
            & (header.length == FLAG_BYTES)
            & (header.destination == rank)
            & (header.context == self._context)
            & (header.tag == tag)
            & (port.head.payload.flits == 1),
            "A late flag goes to the address of the rank's flag of the last operation that ended "
            "with it, under the context's own tag.",
            when=port.head.valid,
            trace=port.head.valid & self.past(late.keep[rank], name=f"kept_{rank}"),
        )
        self.always(
            f"late_word_of_rank_{rank}_follows_its_head",
            (port.payload.valid == begun)
            & (~begun | (port.payload.payload.data == Cat([word] * self._words))),
            "A late flag's word follows its head, whatever becomes of the link, and is that of the "
            "same operation.",
            trace=begun & ~up,
        )
        self.lemma(f"begun_{rank}", self.inside.signal(f"begun_{rank}") == begun)
        self.lemma(f"address_{rank}", self.inside.signal(f"address_{rank}") == address)
        kept = self.inside.signal(f"word_{rank}")
        self.lemma(f"word_{rank}", kept == word)
        # A flag that is under way is still waited for.
        self.lemma(f"begun_is_waiting_{rank}", ~begun | waiting)

    @property
    def _words(self):
        return self._config.flit_bytes * 8 // FlagWord.size

    def _answers(self, m, rank, head_taken):
        """Flags that the rank has not answered; gives whether the link is lost before that."""
        late, few = self.component, 2 * operation_slots(self._config)
        unanswered = Signal(range(2 * few), name=f"unanswered_by_{rank}")
        came = late.answered[rank] & (unanswered != 0)
        still = Mux(late.up[rank], unanswered - came, 0)
        self.assume(f"late_flags_are_sent_{rank}", ~head_taken | late.sent[rank])
        # Responses come in the order of writes, so flags are answered before later waves are.
        self.assume(f"few_flags_are_unanswered_{rank}", still + late.sent[rank] < few)
        m.d.sync += unanswered.eq(still + late.sent[rank])
        inside = self.inside.signal(f"unanswered_{rank}")
        self.lemma(f"unanswered_{rank}", inside == unanswered)
        return ~late.up[rank] & (unanswered != 0)

    def _wait(self, rank, waiting, sent, lost):
        missed = self.component.missed[rank]
        self.always(
            f"rank_{rank}_waits_for_what_it_missed",
            waiting,
            "A flag that was not sent is waited for from then on.",
            when=self.past(missed, name=f"missed_{rank}"),
        )
        self.always(
            f"rank_{rank}_waits_for_what_was_lost",
            waiting,
            "A flag whose link went down before the flag was answered is waited for again.",
            when=self.past(lost, name=f"lost_{rank}"),
        )
        self.always(
            f"rank_{rank}_waits_until_it_was_sent",
            waiting,
            "A late flag is waited for until its word was taken while the link was UP.",
            when=self.past(waiting & ~sent, name=f"waits_{rank}"),
        )
        stops = self.past(~missed & ~lost & (sent | ~waiting), init=1, name=f"stops_{rank}")
        self.always(
            f"rank_{rank}_waits_for_nothing_else",
            ~waiting,
            "A rank waits for no flag that was sent and answered.",
            when=stops,
            trace=stops & self.past(sent, name=f"sent_{rank}"),
        )


PROOFS = [
    Proof(
        name="late-flags",
        component="LateFlags",
        size=describe(TENANTS),
        specify=lambda: LateFlagsContract(TENANTS),
        faults=(
            Fault("does not wait for answers", "o__0__head__valid", lambda valid: valid | 1),
            Fault("a flag that was sent is waited for", "waiting", lambda waiting: waiting | 1),
            Fault("a lost flag is forgotten", "unanswered_1", lambda unanswered: unanswered & 0),
            Fault("the word is another operation's", "word_0", lambda word: word & 0),
        ),
    )
]
