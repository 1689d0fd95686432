"""`PacketMerge` and `PacketDrop`: packets go on whole, in the order in which heads were taken."""

from __future__ import annotations

from amaranth import Cat, Mux, Signal

from hdl.accelerator.outstanding import outstanding_limit
from hdl.accelerator.packet_drop import PacketDrop
from hdl.accelerator.packet_merge import HEADS_AHEAD, PacketMerge

from .proof import Fault, Proof
from .sizes import TENANTS, describe
from .stream_queue import behind, keeps_its_place
from .turns import Turns

__all__ = ["PROOFS"]

#: Packets whose payload may not have left: a queue holds its depth and one.
MOST = HEADS_AHEAD + 1


class _Packets:
    """Packets with payload whose head was taken, oldest first: `what` of each, and its flits."""

    def __init__(self, specification, m, *, takes, what, flits, moves):
        self.level = Signal(range(MOST + 1), name="packets_ahead")
        self.passed = Signal.like(flits, name="flits_passed")
        self.whats = [Signal(len(what), name=f"what_{place}") for place in range(MOST)]
        self._flits = [Signal.like(flits, name=f"flits_{place}") for place in range(MOST)]
        self.what, self.flits = self.whats[0], self._flits[0]
        self.put = takes & (flits != 0)
        self.last = self.passed == self.flits - 1
        self.ends = moves & self.last
        for words, word in ((self.whats, what), (self._flits, flits)):
            later = [*words[1:], words[-1]]
            for place, (register, following) in enumerate(zip(words, later, strict=True)):
                kept = Mux(self.ends, following, register)
                here = self.put & (self.level == place + self.ends)
                m.d.sync += register.eq(Mux(here, word, kept))
        m.d.sync += self.level.eq(self.level + self.put - self.ends)
        with m.If(moves):
            m.d.sync += self.passed.eq(Mux(self.last, 0, self.passed + 1))
        self._specification = specification

    @property
    def any(self):
        return self.level != 0

    def locate(self, path: str, join):
        """Where they are in the queue at `path`, for induction; `join` makes its words."""
        specification = self._specification
        memory = specification.inside.memory(f"{path}.memory")
        keeps_its_place(specification, path)
        level = specification.inside.signal(f"{path}.level")
        specification.lemma("as_many_packets", level == self.level)
        for place in range(MOST):
            stored = memory.at(behind(memory.read_address, place, memory.words))
            word = join(self.whats[place], self._flits[place])
            specification.lemma(f"packet_{place}", (self.level <= place) | (stored == word))
            has_flits = self._flits[place] != 0
            specification.lemma(f"packet_{place}_has_payload", (self.level <= place) | has_flits)
        specification.lemma("passed", specification.inside.signal("passed") == self.passed)
        under_way = Mux(self.any, self.passed < self.flits, self.passed == 0)
        specification.lemma("passed_are_of_the_oldest", under_way)


class PacketMergeContract(Turns):
    """A merge against the packets whose heads it took."""

    def __init__(self, config, *, count: int):
        self._count = count
        super().__init__(PacketMerge(config, count=count))

    def specify(self, m):
        merge = self.component
        head, payload = merge.o.head, merge.o.payload
        asks, taken, ready, moves = (
            Signal(self._count, name=name) for name in ("asks", "heads", "ready", "moves")
        )
        m.d.comb += [
            asks.eq(Cat(i.head.valid for i in merge.i)),
            taken.eq(Cat(i.head.valid & i.head.ready for i in merge.i)),
            ready.eq(Cat(i.payload.ready for i in merge.i)),
            moves.eq(Cat(i.payload.valid & i.payload.ready for i in merge.i)),
        ]
        packets = _Packets(
            self, m, takes=taken.any(), what=taken, flits=head.payload.flits,
            moves=payload.valid & payload.ready,
        )  # fmt: skip
        self._heads(head, asks, taken, packets)
        self._payload(payload, ready, moves, packets)
        self.wait(
            m,
            asks,
            taken,
            "A source that keeps asking has its head taken after at most one packet of each other "
            "one.",
            robin="round_robin",
        )
        packets.locate("order", Cat)
        for place, source in enumerate(packets.whats):
            is_one = source.any() & ((source & (source - 1)) == 0)
            self.lemma(f"packet_{place}_is_of_one_source", (packets.level <= place) | is_one)

    def _heads(self, head, asks, taken, packets):
        merge = self.component
        self.always(
            "one_head_at_a_time",
            ((taken & (taken - 1)) == 0)
            & (taken.any() == (head.valid & head.ready))
            & (merge.taken == taken),
            "A head is taken of one source at most, and in the cycle in which the output's is.",
            trace=taken.any(),
        )
        for index, i in enumerate(merge.i):
            self.always(
                f"head_of_source_{index}_passes",
                head.payload.as_value() == i.head.payload.as_value(),
                "A head that is taken of a source is the one that is offered, unchanged.",
                when=taken[index],
            )
        self.always(
            "heads_wait_for_room_only",
            head.valid == (asks.any() & (packets.level != MOST)),
            "Some head is offered whenever a source has one and the payload of fewer than three "
            "packets is left, and only then.",
            trace=asks.any() & (packets.level == MOST),
        )

    def _payload(self, payload, ready, moves, packets):
        for index, i in enumerate(self.component.i):
            here = packets.any & packets.what[index]
            self.always(
                f"payload_of_source_{index}_goes_in_its_turn",
                (payload.valid == i.payload.valid)
                & (payload.payload.as_value() == i.payload.payload.as_value())
                & (ready == Mux(payload.ready, 1 << index, 0)),
                "Until the oldest packet's last flit, payload is its source's, unchanged, and no "
                "other source's is taken.",
                when=here,
                trace=here & moves[index] & packets.last & (packets.passed == 1),
            )
        self.always(
            "no_payload_without_a_head",
            ~payload.valid & ~ready.any(),
            "No payload is offered or taken before its packet's head was.",
            when=~packets.any,
        )


class PacketDropContract(Turns):
    """Packets that pass or are dropped, against what was said as each head was taken."""

    def __init__(self, config):
        self._config = config
        super().__init__(PacketDrop(config))

    def specify(self, m):
        drop = self.component
        i, o = drop.i, drop.o
        left = i.head.valid & i.head.ready
        moves = i.payload.valid & i.payload.ready
        packets = _Packets(
            self, m, takes=left, what=drop.drop, flits=i.head.payload.flits, moves=moves
        )
        begun = Signal(range(2 * outstanding_limit(self._config)))  # and their heads not taken
        coming = begun + drop.coming
        m.d.sync += begun.eq(coming - left)
        # What begins at the source is counted there, before its head comes.
        self.assume("heads_are_of_what_began", ~i.head.valid | (begun != 0))
        self.assume("few_begin", coming <= outstanding_limit(self._config))
        room = packets.level != MOST
        self.always(
            "passes_heads_unless_it_drops",
            (o.head.valid == (i.head.valid & room & ~drop.drop))
            & (o.head.payload.as_value() == i.head.payload.as_value()),
            "A head is offered as it comes, in the same cycle, unless it is dropped or the payload "
            "of three packets is left.",
            trace=o.head.valid,
        )
        self.always(
            "takes_heads_once",
            (left == (i.head.valid & room & (drop.drop | o.head.ready))) & (drop.left == left),
            "A head leaves the source as it is taken at the output or dropped, one or the other.",
            trace=left & drop.drop,
        )
        self.always(
            "a_packet_whose_head_went_goes_to_its_end",
            (o.payload.valid == i.payload.valid)
            & (i.payload.ready == o.payload.ready)
            & (o.payload.payload.as_value() == i.payload.payload.as_value()),
            "Payload of a packet whose head was taken at the output goes there, unchanged, up to "
            "its last flit, whatever `drop` says.",
            when=packets.any & ~packets.what,
            trace=moves & packets.any & ~packets.what & packets.last & drop.drop,
        )
        self.always(
            "a_packet_whose_head_was_dropped_is_swallowed",
            ~o.payload.valid & i.payload.ready,
            "Payload of a packet whose head was dropped is taken at once, and not offered.",
            when=packets.any & packets.what,
            trace=moves & packets.any & packets.what & ~drop.drop,
        )
        self.always(
            "no_payload_without_a_head",
            ~o.payload.valid & ~i.payload.ready,
            "No payload is offered or taken before its packet's head was.",
            when=~packets.any,
        )
        self.always(
            "empty_when_nothing_is_under_way",
            drop.empty == ((begun == 0) & ~packets.any),
            "`empty` says that every packet that began has left, to its last flit.",
            trace=drop.empty & self.past(packets.any, name="had_packets"),
        )
        packets.locate("fates", lambda dropped, flits: Cat(flits, dropped))
        self.lemma("under_way", self.inside.signal("under_way") == begun)


PROOFS = [
    Proof(
        name="packet-merge",
        component="PacketMerge",
        size=f"{describe(TENANTS)}, 3 sources",
        specify=lambda: PacketMergeContract(TENANTS, count=3),
        faults=(
            Fault("source 1 is told of every head", "taken", lambda taken: taken | 2),
            Fault("a packet loses its end", "passed", lambda passed: passed + 1),
            Fault("the first source goes first", "round_robin.last", lambda last: last & 0),
        ),
    ),
    Proof(
        name="packet-drop",
        component="PacketDrop",
        size=describe(TENANTS),
        specify=lambda: PacketDropContract(TENANTS),
        faults=(
            Fault("drops what has gone", "o__payload__valid", lambda valid: valid & 0),
            Fault("forgets packets that began", "under_way", lambda under_way: under_way & 0),
            Fault("empty too early", "empty", lambda empty: empty | 1),
            Fault("passes what is dropped", "o__head__valid", lambda valid: valid | 1),
        ),
    ),
]
