"""Instructions that members post themselves, each its part, by arriving."""

from amaranth import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from .instruction_queue import Posting
from .layouts import Status, address_kinds
from .window import COMMON_WORDS, FORMAT_WORD, WORD_BITS, window_words, word_number

__all__ = ["MemberPosts"]


class MemberPosts(wiring.Component):
    """Makes one instruction of what a context's members have staged.

    Each member has a slot of words (`WINDOW_WORDS`) that it writes through its own doorbell. Its
    arrival commits them: they stay as they are until they have been read. When all have arrived,
    addresses are taken from each one's slot, and what they have in common (`COMMON_WORDS`) is
    compared.

    Members
    -------
    on : the context's instructions come from its members, not from a host
    stage, words, values : by rank, a word is written
    locked : by rank, its slot is committed
    arrived, early, complete : see `Barrier`
    members : ranks of the context
    halt : nothing new is begun
    form : an operation is made of those who have arrived, only to end it
    posting, flags_only, present : to the `InstructionQueue`
    take : the operation is launched
    code, rank : as what it is launched, unless OK
    forming : an instruction is being made
    idle : none is made or waits for its launch
    drop : the epoch ends without an operation, since not even flags could be written (one cycle)

    Errors
    ------
    Where common fields differ, DISAGREES and the odd rank: the lowest that differs from the lowest
    member, or the lowest member if two or more others all differ from it. What the queue refuses
    ends the operation with that code. In both cases nothing is read or written but flags. A member
    whose flag is refused gets none. Where all are, there is no operation: the code stands in the
    queue's registers only.

    Latency
    -------
    Complete to posted: a cycle for each word of each rank but its first, and 2, then the queue's
    check.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        self._words = window_words(config)
        ranks = config.ranks
        super().__init__(
            {
                "on": In(1),
                "stage": In(ranks),
                "words": In(range(len(self._words))).array(ranks),
                "values": In(WORD_BITS).array(ranks),
                "locked": Out(ranks),
                "arrived": In(ranks),
                "early": In(ranks),
                "complete": In(1),
                "members": In(ranks),
                "halt": In(1),
                "form": In(1),
                "posting": Out(Posting(config)),
                "flags_only": Out(1),
                "present": Out(ranks),
                "take": In(1),
                "code": Out(Status),
                "rank": Out(4),
                "forming": Out(1),
                "idle": Out(1),
                "drop": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        self._member = Signal(range(config.ranks))  # whose slot is looked at
        self._word = Signal(range(len(self._words)))
        self._collected = Signal()
        value = self._slots(m)
        reads = Signal()
        common = self._compare(m, reads, value)
        self._stage(m, reads, value)
        self._make(m, reads)
        fields = data.View(FORMAT_WORD, common["format"])
        # No rank at all, where one is named that the switch has not: both are BAD_RANKS.
        sources, destinations = (
            Mux(named[config.ranks :].any() | self.flags_only, 0, named)
            for named in (fields.source_ranks, fields.destination_ranks)
        )
        m.d.comb += [
            self.posting.length.eq(Mux(self.flags_only, 0, common["length"])),
            # What no field has a place for makes the format, or the collective, an unknown one.
            self.posting.format.eq(
                Cat(fields.format, fields.operation, fields.collective, fields.reserved.any())
            ),
            self.posting.source_ranks.eq(sources),
            self.posting.destination_ranks.eq(destinations),
            self.locked.eq(
                Mux(self.on, (self.arrived & ~self._collected.replicate(config.ranks)), 0)
                | Mux(self.on, self.early, 0)
            ),
        ]
        if config.chunks:
            m.d.comb += self.posting.chunk.eq(common["chunk"])
        return m

    def _slots(self, m):
        """A memory a rank, which alone writes it; the word that is looked at."""
        read = []
        for rank in range(self._config.ranks):
            m.submodules[f"slot_{rank}"] = slot = Memory(
                shape=unsigned(WORD_BITS), depth=len(self._words), init=[]
            )
            write, look = slot.write_port(), slot.read_port(domain="comb")
            m.d.comb += [
                write.en.eq(self.stage[rank]),
                write.addr.eq(self.words[rank]),
                write.data.eq(self.values[rank]),
                look.addr.eq(self._word),
            ]
            read.append(look.data)
        return Array(read)[self._member]

    @property
    def _last_word(self):
        """The last word of a slot is looked at."""
        return self._word == len(self._words) - 1

    @property
    def _counts(self):
        """The slot that is looked at is one of those that the operation is made of."""
        return self.present.bit_select(self._member, 1)

    def _stage(self, m, reads, value):
        """Addresses go to the queue's own staging."""
        m.d.comb += self.posting.address.eq(value)
        for kind in address_kinds(self._config):
            here = reads & self._counts & (self._word == word_number(kind))
            strobes = getattr(self.posting, f"stage_{kind}")
            m.d.comb += strobes.eq(Mux(here, 1 << self._member, 0))

    def _compare(self, m, reads, value):
        """Common fields of the lowest member; who differs from it."""
        names = [name for name in COMMON_WORDS if name in self._words]
        common = {name: Signal(WORD_BITS, name=f"common_{name}") for name in names}
        seen = Signal()  # of a member before this one
        differs = Signal()  # this one does, as far as it has been read
        wrong = Signal()
        self._lowest, self._odd = Signal(4), Signal(4)
        self._members, self._others = Signal(range(self._config.ranks + 1)), Signal(4)
        for name, word in common.items():
            here = reads & self._counts & (self._word == word_number(name))
            with m.If(here & ~seen):
                m.d.sync += word.eq(value)
            with m.If(here & seen & (word != value)):
                m.d.comb += wrong.eq(1)
                m.d.sync += differs.eq(1)
        last = reads & self._counts & self._last_word
        with m.If(last):
            m.d.sync += [seen.eq(1), differs.eq(0), self._members.eq(self._members + 1)]
            with m.If(~seen):
                m.d.sync += self._lowest.eq(self._member)
            with m.If(differs | wrong):
                m.d.sync += self._others.eq(self._others + 1)
                with m.If(self._others == 0):
                    m.d.sync += self._odd.eq(self._member)
        with m.If(self.idle):
            m.d.sync += [seen.eq(0), differs.eq(0), self._members.eq(0), self._others.eq(0)]
        return common

    def _make(self, m, reads):
        begins = self.on & Mux(self.form, self.arrived.any(), self.complete & ~self.halt)
        alone = (self._others == self._members - 1) & (self._members > 2)
        # Of flags alone nothing but an address is refused for a rank's sake.
        refused = self.posting.code != Status.QUEUE_FULL
        refused &= self.present.bit_select(self.posting.rank, 1)
        others = self.present & ~(1 << self.posting.rank)[: self._config.ranks]
        with m.FSM(name="member_posts") as fsm:
            m.d.comb += [
                self.idle.eq(fsm.ongoing("IDLE")),
                self.forming.eq(~fsm.ongoing("IDLE") & ~fsm.ongoing("POSTED")),
            ]
            with m.State("IDLE"):
                with m.If(begins & ~self.posting.busy):
                    m.d.sync += [
                        self.present.eq(self.members & Mux(self.form, self.arrived, -1)),
                        self.flags_only.eq(self.form),
                        self.code.eq(Status.OK),
                        self.rank.eq(0),
                        self._member.eq(0),
                        self._word.eq(1),
                    ]
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += reads.eq(1)
                m.d.sync += self._word.eq(Mux(self._last_word, 1, self._word + 1))
                with m.If(self._last_word):
                    m.d.sync += self._member.eq(self._member + 1)
                    with m.If(self._member == self._config.ranks - 1):
                        m.d.sync += self._collected.eq(1)
                        m.next = "JUDGE"
            with m.State("JUDGE"):
                with m.If((self._others != 0) & ~self.flags_only):
                    m.d.sync += [
                        self.code.eq(Status.DISAGREES),
                        self.rank.eq(Mux(alone, self._lowest, self._odd)),
                        self.flags_only.eq(1),
                    ]
                m.next = "POST"
            with m.State("POST"):
                m.d.comb += self.posting.post.eq(1)
                m.next = "CHECK"
            with m.State("CHECK"):
                with m.If(~self.posting.busy):
                    with m.If(self.posting.code == Status.OK):
                        m.next = "POSTED"
                    with m.Elif(~self.flags_only):
                        m.d.sync += [
                            self.code.eq(self.posting.code),
                            self.rank.eq(self.posting.rank),
                            self.flags_only.eq(1),
                        ]
                        m.next = "POST"
                    with m.Elif(refused & others.any()):
                        m.d.sync += self.present.eq(others)
                        m.next = "POST"
                    with m.Else():
                        m.d.comb += self.drop.eq(1)
                        m.d.sync += self._collected.eq(0)
                        m.next = "IDLE"
            with m.State("POSTED"):
                with m.If(self.take):
                    m.d.sync += self._collected.eq(0)
                    m.next = "IDLE"
