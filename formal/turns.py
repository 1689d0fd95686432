"""`IssueTurns` and `ReadOutTurns`: what contexts share is given to one at a time, and to each."""

from __future__ import annotations

from amaranth import Array, Cat, Const, Mux, Signal

from hdl.accelerator.issue_turns import IssueTurns
from hdl.accelerator.read_out_turns import START_TO_ROOM, ReadOutTurns

from .proof import Fault, Proof
from .sizes import THREE_CONTEXTS, THREE_CONTEXTS_WITH_SLICES, describe
from .specification import Specification

__all__ = ["PROOFS", "Turns"]

#: Cycles that codes take longer than sums, where there are codes.
INQ_LEAD = 3


def _one_hot(value):
    return (value & (value - 1)) == 0


class Turns(Specification):
    """What both have in common: one context that keeps asking, whichever it is."""

    def wait(self, m, asks, used, bound: str, *, robin: str, kept=0):
        """`asks`, and `used` by whom, begin a turn; `kept`: cycles that change neither."""
        count = len(asks)
        who = self.any_constant(range(count), "who")
        others = Signal(range(count + 1))  # turns that began since it asks
        with m.If(~asks.bit_select(who, 1) | used.bit_select(who, 1)):
            m.d.sync += others.eq(0)
        with m.Elif(used.any()):
            m.d.sync += others.eq(others + 1)
        self.always(
            "waits_for_each_other_once",
            others < count,
            bound,
            trace=others == count - 1,
        )
        last = self.inside.signal(f"{robin}.last")
        in_front = Signal(range(count))  # contexts with an earlier turn
        m.d.comb += in_front.eq(Mux(last < who, who - last - 1, who + (count - 1) - last))
        self.lemma("last_is_one", last < count)
        self.assume("who_is_a_context", who < count)
        self.lemma("each_turn_is_a_step", others + in_front < count)


class IssueTurnsContract(Turns):
    """Turns to issue a wave, against who takes them, and one entry, whichever it is."""

    def __init__(self, config):
        self._config = config
        super().__init__(IssueTurns(config))

    def specify(self, m):
        turns = self.component
        asks = turns.wants & turns.issuers_ready
        reserves = Signal.like(turns.turn, name="reserves")
        m.d.comb += reserves.eq(Cat(each.valid for each in turns.reserve))
        self.assume("takes_an_entry_in_its_turn", (reserves & ~turns.turn) == 0)
        self.always(
            "one_context_has_its_turn",
            _one_hot(turns.turn) & ((turns.turn & ~asks) == 0),
            "At most one context has its turn, and only one that has a wave, an entry for it, and "
            "issuers that can take it.",
            trace=turns.turn.any(),
        )
        self.always(
            "somebody_has_a_turn_while_one_can_use_it",
            turns.turn.any(),
            "Some context has its turn in every cycle in which one can use it.",
            when=asks.any(),
        )
        self.wait(
            m,
            asks,
            reserves,
            "A context that can use its turn has it after at most one wave of each other one.",
            robin="round_robin",
        )
        who = self.any_constant(range(self._config.contexts), "reserver")
        mine = Array(turns.reserve)[who]
        self.assume("reserver_is_a_context", who < self._config.contexts)
        self.always(
            "reserves_for_who_has_its_turn",
            turns.reserved.valid
            & (turns.reserved.context == who)
            & (turns.reserved.entry == mine.entry)
            & (turns.reserved.absent == mine.absent)
            & (turns.reserved.ranks == mine.ranks),
            "The tables take the entry, packets and ranks of the context whose turn it is, and "
            "are told whose they are.",
            when=mine.valid,
            trace=mine.valid & (who == self._config.contexts - 1),
        )
        self.always(
            "reserves_nothing_else",
            reserves.any(),
            "The tables take no entry but that of a context in its turn.",
            when=turns.reserved.valid,
        )
        self._follow(m)

    def _follow(self, m):
        """The uses of one entry."""
        reserved, waves = self.component.reserved, self._config.waves
        entry = self.any_constant(range(waves), "entry")
        taken = reserved.valid & (reserved.entry == entry)
        used, user = Signal(), Signal.like(reserved.context, name="user")
        generation = Signal.like(reserved.generation, name="last_generation")
        with m.If(taken):
            m.d.sync += [
                used.eq(1), generation.eq(reserved.generation), user.eq(reserved.context)
            ]  # fmt: skip
        self.always(
            "generations_differ",
            reserved.generation == (generation + 1)[: len(generation)],
            "An entry's next use has the next generation, whoever used it before, so that late "
            "answers are told apart.",
            when=taken & used,
            trace=taken & used & (user != reserved.context),
        )
        uses = Array(self.inside.signal(f"uses_{number}") for number in range(waves))
        following = (generation + 1)[: len(generation)]
        self.lemma("uses_are_counted", uses[entry] == Mux(used, following, 0))


class ReadOutTurnsContract(Turns):
    """Turns through the reducer, against the runs of packets of contexts that keep to them."""

    def __init__(self, config, *, inq_lead: int = 0):
        self._config = config
        self._inq_lead = inq_lead
        super().__init__(ReadOutTurns(config, inq_lead=inq_lead))

    def specify(self, m):
        turns, count = self.component, self._config.contexts
        self.assume("starts_in_its_turn", (turns.starts & ~turns.turn) == 0)
        # What holds is registered: a packet that started, or one that must follow.
        held, started = self.past(turns.holds, name="holds"), self.past(turns.starts, name="starts")
        self.assume("holds_what_it_started", (turns.holds & ~(held | started)) == 0)
        self.always(
            "one_context_has_its_turn",
            _one_hot(turns.turn) & ((turns.turn & ~turns.asks) == 0),
            "At most one context has its turn, and only one that asks.",
            trace=turns.turn.any(),
        )
        free = Cat(
            (turns.holds & ~(1 << context) & ((1 << count) - 1)) == 0 for context in range(count)
        )
        self.always(
            "no_turn_while_another_is_under_way",
            (turns.turn & ~free) == 0,
            "No context has its turn while a packet of another one is under way, or must follow.",
            when=turns.holds.any(),
            trace=turns.holds.any() & turns.turn.any(),
        )
        self.always(
            "one_context_is_under_way",
            _one_hot(turns.holds),
            "Packets of one context at most are under way.",
            trace=turns.holds.any(),
        )
        waits = self._order(m)
        self.always(
            "somebody_has_a_turn_while_one_can_use_it",
            turns.turn.any(),
            "Some context has its turn in every cycle in which one asks and none but it is under "
            "way, unless the turn is that of sums that would overtake codes.",
            when=(turns.asks & free).any() & ~waits,
        )
        self._settle()
        # A packet that starts while its context holds is of the same run.
        runs = turns.starts & ~turns.holds
        self.lemma("last_holds", ~turns.holds.any() | turns.holds.bit_select(self._last(), 1))
        self.wait(
            m,
            turns.asks,
            runs,
            "A context that keeps asking has its turn after at most one run of each other one.",
            robin="round_robin",
        )

    def _last(self):
        return self.inside.signal("round_robin.last")

    def _order(self, m):
        """Whether sums must wait for codes to be through."""
        turns = self.component
        if self._inq_lead == 0:
            return Const(0)
        since = Signal(range(self._inq_lead + 1), init=self._inq_lead)  # cycles without codes
        with m.If(turns.reads_codes.any()):
            m.d.sync += since.eq(0)
        with m.Elif(since != self._inq_lead):
            m.d.sync += since.eq(since + 1)
        reads = turns.quantized & (turns.starts | turns.holds)
        self.assume("reads_codes_under_way", (turns.reads_codes & ~reads) == 0)
        behind = since != self._inq_lead
        self.always(
            "sums_wait_behind_codes",
            (turns.turn & ~turns.quantized) == 0,
            "Sums do not start while they would leave the reducer before codes that were read, "
            "whoever's those are.",
            when=behind,
            trace=behind & (turns.asks & ~turns.quantized).any(),
        )
        self.lemma("ahead", self.inside.signal("ahead") == self._inq_lead - since)
        return behind

    def _settle(self):
        turns = self.component
        if not self._config.sliced:
            return
        recent = turns.starts.any()
        recently = []
        for cycle in range(START_TO_ROOM):
            recent = self.past(recent, name=f"start_{cycle}")
            recently.append(recent)
        self.always(
            "room_is_settled_behind_starts",
            turns.settled == ~Cat(recently).any(),
            "`settled` says that no packet has started in the cycles before in which ports' room "
            "does not know of it.",
            trace=~turns.settled,
        )


ISSUE_FAULTS = (
    Fault("the first context goes first", "round_robin.last", lambda last: last & 0),
    Fault("a turn without a wave", "turn", lambda turn: turn | 1),
    Fault("the entry's generation stays", "uses_1", lambda uses: uses & 0),
    Fault("the context is not told", "reserved__context", lambda context: context & 0),
)

PROOFS = [
    Proof(
        name="issue-turns",
        component="IssueTurns",
        size=describe(THREE_CONTEXTS),
        specify=lambda: IssueTurnsContract(THREE_CONTEXTS),
        faults=ISSUE_FAULTS,
    ),
    Proof(
        name="read-out-turns",
        component="ReadOutTurns",
        size=describe(THREE_CONTEXTS),
        specify=lambda: ReadOutTurnsContract(THREE_CONTEXTS),
        faults=(
            Fault("the first context goes first", "round_robin.last", lambda last: last & 0),
            Fault("cuts in", "free", lambda free: free | 1),
        ),
    ),
    Proof(
        name="read-out-turns-slices",
        component="ReadOutTurns",
        size=describe(THREE_CONTEXTS_WITH_SLICES),
        specify=lambda: ReadOutTurnsContract(THREE_CONTEXTS_WITH_SLICES),
        depth=START_TO_ROOM,
        faults=(Fault("room is looked at too early", "settled", lambda settled: settled | 1),),
    ),
    Proof(
        name="read-out-turns-codes",
        component="ReadOutTurns",
        size=f"{describe(THREE_CONTEXTS)}, codes {INQ_LEAD} cycles behind sums",
        specify=lambda: ReadOutTurnsContract(THREE_CONTEXTS, inq_lead=INQ_LEAD),
        faults=(Fault("sums overtake codes", "ahead", lambda ahead: ahead & 0),),
    ),
]
