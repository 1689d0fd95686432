"""`CoreOutput` and `DeficitRoundRobin`: whole packets, room before they start, turns by flits."""

from __future__ import annotations

from amaranth import Cat, Mux, Signal
from amaranth.lib import data

from hdl.interfaces import MessageClass, PacketHead
from hdl.transport.arbiter import DeficitRoundRobin
from hdl.transport.core import OUTPUT_HEADS, OUTPUT_PACKETS, CoreOutput

from .proof import BOUNDED, Fault, Proof
from .sizes import SMALL, describe
from .specification import Specification

__all__ = ["PROOFS"]

FORWARDING = SMALL.replace(core="forward")
PORT = 1


class DeficitRoundRobinContract(Specification):
    """Turns by flits, charged in the cycle of the grant, as an output of the core does."""

    def __init__(self, count: int, longest: int):
        self._count, self._longest = count, longest
        super().__init__(DeficitRoundRobin(count, longest=longest))

    def specify(self, m):
        turns, longest = self.component, self._longest
        self.assume("used_is_granted", (turns.used == turns.grant) | (turns.used == 0))
        self.assume("charges_at_once", turns.charged == turns.used)
        self.assume("packets_have_flits", (turns.flits != 0) & (turns.flits <= longest))
        self.always(
            "grants_one_who_asks",
            ((turns.grant & (turns.grant - 1)) == 0) & ((turns.grant & ~turns.requests) == 0),
            "At most one is granted, and only who asks.",
            trace=turns.grant.any(),
        )
        self.always(
            "grants_while_somebody_asks",
            turns.grant.any(),
            "Somebody is granted in every cycle in which somebody asks.",
            when=turns.requests.any(),
        )
        who = self.any_constant(range(self._count), "who")
        other = self.any_constant(range(self._count), "other")
        asks, served = turns.requests.bit_select(who, 1), turns.used.bit_select(who, 1)
        # Flits of the other since this one asks.
        most = 2 * longest
        sent = Signal(range(most + longest + 1))
        with m.If(~asks | served):
            m.d.sync += sent.eq(0)
        with m.Elif(turns.used.bit_select(other, 1)):
            m.d.sync += sent.eq(sent + turns.flits)
        self.assume("another", who != other)
        self.always(
            "waits_for_two_packets_of_each_other_at_most",
            sent <= most,
            "Who keeps asking is granted before any other has sent more than two packets' flits.",
            trace=sent > longest,
        )
        last = self.inside.signal("last")
        self.lemma("one_turn", (last & (last - 1)) == 0)
        self.lemma("who_is_one", (who < self._count) & (other < self._count))
        self.lemma("order_is_one", self.inside.signal("order.last") < self._count)


class CoreOutputContract(Specification):
    """An output against whole packets from every input, in any order."""

    def __init__(self, config):
        super().__init__(CoreOutput(config, message_class=MessageClass.WRITE_DATA, port=PORT))
        self._config = config

    def specify(self, m):
        output, config = self.component, self._config
        taken = Cat(source.valid & source.ready for source in output.i)
        current = Signal(config.ranks)  # one-hot, whose packet is under way
        remaining = Signal(range(config.payload_flits + 1))
        for number, source in enumerate(output.i):
            self._assume_packets(number, source, current[number], remaining)
            with m.If(taken[number]):
                beat, flits = source.payload.beat, source.payload.flits
                m.d.sync += [
                    current.eq(Mux(beat.last, 0, 1 << number)),
                    remaining.eq(Mux(beat.first, flits, remaining) - 1),
                ]
        starts = taken.any() & (current == 0)
        self.always(
            "takes_one_packet_at_a_time",
            (taken & (taken - 1)) == 0,
            "Of all inputs one beat is taken at a time.",
            trace=taken.any() & (Cat(source.valid for source in output.i).all()),
        )
        self.always(
            "never_interrupts_a_packet",
            (taken & ~current) == 0,
            "Once a packet has started, only its own input is taken from until its end.",
            when=current.any(),
        )
        self.always(
            "waits_for_its_own_input_only",
            taken == current,
            "A packet that has started waits for its own input, and for nothing else.",
            when=(current & Cat(source.valid for source in output.i)).any(),
        )
        self.always(
            "payload_always_has_room",
            self.inside.signal("payload.i__ready"),
            "Forward progress, rule 5: a packet is taken only with room for the whole of it, so no "
            "beat of it is refused.",
            when=self.inside.signal("payload.i__valid"),
        )
        self.always(
            "head_always_has_room",
            self.inside.signal("heads.i__ready"),
            "A packet starts only with room for its head.",
            when=starts,
        )
        offered = Cat(source.valid for source in output.i).any()
        self.always(
            "starts_while_there_is_room",
            taken.any(),
            "A packet that waits is taken as soon as no other is under way, and there is room for "
            "the longest and for its head.",
            when=offered
            & (current == 0)
            & (self.inside.signal("payload.level") <= config.payload_flits)
            & (self.inside.signal("heads.level") <= OUTPUT_HEADS),
        )
        self._streams(m, output, starts, taken)
        most = OUTPUT_PACKETS * config.payload_flits
        level = self.inside.signal("payload.level")
        room = self.inside.signal("room")
        inner = self.inside.signal("current")
        self.lemma("current", inner == current)
        self.lemma("one_current", (current & (current - 1)) == 0)
        self.lemma("remaining", (remaining != 0) == current.any())
        self.lemma("room", room + level + Mux(current.any(), remaining, 0) == most)
        self._queue("heads", OUTPUT_HEADS + 1)
        self._queue("payload", most + 1)
        last = self.inside.signal("turn.last")
        self.lemma("one_turn", (last & (last - 1)) == 0)
        self.lemma("order_is_one", self.inside.signal("turn.order.last") < config.ranks)

    def _assume_packets(self, number, source, under_way, remaining):
        """Beats of an input are whole packets, each as long as its first beat says."""
        beat, flits = source.payload.beat, source.payload.flits
        left = Mux(under_way, remaining, flits)
        most = self._config.payload_flits
        self.assume(
            f"input_{number}_has_packets",
            ~source.valid
            | (
                (beat.first == ~under_way)
                & (left != 0)
                & (left <= most)
                & (beat.last == (left == 1))
                & ~beat.empty
            ),
        )
        self.assume(f"input_{number}_is_offered", self.offers(source, f"i_{number}"))

    def _queue(self, name, words):
        """What is known of the addresses of a queue in LUT RAM."""
        level = self.inside.signal(f"{name}.level")
        memory = self.inside.memory(f"{name}.memory")
        read, write = memory.read_address, memory.write_address
        end = read + level
        self.lemma(f"{name}_addresses", (read < words) & (level <= words))
        self.lemma(f"{name}_end", write == Mux(end >= words, end - words, end))

    def _streams(self, m, output, starts, taken):
        for name in ("head", "payload"):
            port = getattr(output.o, name)
            self.always(
                f"stream_contract_of_{name}",
                self.offers(port, name),
                f"A {name} that was not taken is offered again, unchanged.",
                when=self.offer_waits(port, name),
            )
        heads = Signal(range(8), name="heads_held")
        m.d.sync += heads.eq(heads + starts - (output.o.head.valid & output.o.head.ready))
        self.always(
            "a_head_a_packet",
            output.o.head.valid == (heads != 0),
            "A head is offered for each packet that started, once.",
            trace=heads == 2,
        )
        self.lemma("heads_held", self.inside.signal("heads.level") == heads)
        source = Signal(range(self._config.ranks), name="sender")
        for number in range(self._config.ranks):
            with m.If(taken[number]):
                m.d.comb += source.eq(number)
        word = self.inside.signal("heads.i__payload")
        written = data.View(PacketHead(self._config), word).header
        self.always(
            "a_head_names_its_sender_and_its_port",
            (written.source == source)
            & (written.destination == PORT)
            & (written.message_class == MessageClass.WRITE_DATA)
            & ~written.inc,
            "A head says by which port its packet came in, whatever the packet said.",
            when=starts,
        )


PROOFS = [
    Proof(
        name="deficit-round-robin",
        component="DeficitRoundRobin",
        size="2 requesters, 3 flits",
        specify=lambda: DeficitRoundRobinContract(2, 3),
        mode=BOUNDED,
        depth=16,
        quick=False,
        fault_depth=16,
        faults=(
            Fault("a turn never ends", "credit_0", lambda credit: credit | 1),
            Fault("two are granted", "grant", lambda grant: grant | 3),
        ),
    ),
    Proof(
        name="core-output",
        component="CoreOutput",
        size=f"writes; {describe(FORWARDING)}",
        specify=lambda: CoreOutputContract(FORWARDING),
        faults=(
            Fault("takes without room", "room", lambda room: room | 4),
            Fault("interrupts packets", "current", lambda current: current & 0),
            Fault("a packet without a head", "starts", lambda starts: starts & 0),
        ),
    ),
]
