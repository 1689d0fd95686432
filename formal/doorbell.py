"""`Doorbell`: each packet of a rank is answered once, in order, and only arrivals arrive."""

from __future__ import annotations

from amaranth import Cat, Const, Mux, Signal

from hdl.accelerator.doorbell import Doorbell
from hdl.interfaces import MessageClass, Response
from hdl.transport.endpoint import DOORBELL_SPACING

from .proof import Fault, Proof
from .sizes import TINY, describe
from .specification import Specification

__all__ = ["PROOFS"]

#: Not the first, so that a port that is left out shows.
PORT = 1
#: Answers that wait at most.
MOST = 2


class DoorbellContract(Specification):
    """A doorbell against one packet, whichever it is."""

    def __init__(self, config):
        super().__init__(Doorbell(config, port=PORT))
        self._config = config

    def specify(self, m):
        doorbell = self.component
        i, head = doorbell.i, doorbell.o.head
        beat = i.payload
        begins = i.valid & i.ready & beat.first
        leaves = head.valid & head.ready
        owed = Signal(range(MOST + 1))  # packets that were begun and not answered
        m.d.sync += owed.eq(owed + begins - leaves)
        places = [number * DOORBELL_SPACING for number in range(self._config.contexts)]
        rings = Cat(beat.header.address == place for place in places).any() & ~beat.empty
        self.always(
            "answers_each_packet_once",
            head.valid == (owed != 0),
            "An answer is offered exactly while packets are begun and not answered.",
            trace=owed == MOST,
        )
        self.always(
            "waits_for_answers_only",
            i.ready == (owed < MOST),
            "A packet waits only while two answers have not left: nothing else of the switch.",
            when=i.valid,
            trace=i.valid & ~i.ready,
        )
        self.always(
            "arrives_with_a_word_at_a_doorbell",
            doorbell.arrive == (begins & rings),
            "An arrival counts with the first word written to a doorbell, and with no other.",
            trace=doorbell.arrive,
        )
        self.always(
            "arrives_for_the_epoch_written",
            doorbell.epoch == beat.data[: len(doorbell.epoch)],
            "An arrival is for the epoch that was written.",
            when=doorbell.arrive,
        )
        self.always(
            "stream_contract",
            self.offers(head, "head"),
            "An answer that was not taken is offered again, unchanged.",
            when=self.offer_waits(head, "head"),
        )
        self.always(
            "answers_have_no_payload",
            ~doorbell.o.payload.valid,
            "An answer is a header alone.",
            when=head.valid,
        )
        self._follow(m, owed, begins, leaves, rings)

    def _follow(self, m, owed, begins, leaves, rings):
        """One packet, whichever it is, until its answer leaves."""
        doorbell = self.component
        header, answer = doorbell.i.payload.header, doorbell.o.head.payload.header
        following = Signal()
        ahead = Signal.like(owed, name="ahead")
        generation = Signal.like(header.generation, name="followed_generation")
        tag = Signal.like(header.tag, name="followed_tag")
        status = Signal(2, name="followed_status")
        known = Mux(doorbell.refused, Response.SLVERR.value, Response.OKAY.value)
        with m.If(begins & ~following & self.any_value(1, "chosen")):
            m.d.sync += [
                following.eq(1),
                generation.eq(header.generation),
                tag.eq(header.tag),
                status.eq(Mux(rings, known, Response.DECERR.value)),
                ahead.eq(owed - leaves),
            ]
        with m.Elif(leaves & (ahead == 0)):
            m.d.sync += following.eq(0)
        with m.Elif(leaves):
            m.d.sync += ahead.eq(ahead - 1)
        turn = following & (ahead == 0)
        self.always(
            "answers_in_order_with_the_packets_tag",
            doorbell.o.head.valid & (answer.tag == tag) & (answer.generation == generation),
            "Answers leave in the order of their packets, each with its own tag and generation.",
            when=turn,
            trace=turn & self.past(ahead != 0, name="waited"),
        )
        self.always(
            "answers_as_the_barrier_says",
            answer.status.as_value() == status,
            "DECERR off the doorbells, SLVERR where the barrier refuses, else OKAY.",
            when=turn,
            trace=turn & (status == Response.SLVERR.value),
        )
        self.always(
            "answers_from_its_own_port",
            (answer.source == PORT)
            & (answer.destination == PORT)
            & (answer.message_class == MessageClass.WRITE_RESPONSE)
            & answer.inc,
            "An answer is a write response of the accelerator's, to the rank that wrote.",
            when=turn,
        )
        self.lemma("followed_waits", ~following | (ahead < owed))
        self.lemma("owed_waits", self.inside.signal("answers.level") == owed)
        queue = self.inside.memory("answers.memory")
        read, write = queue.read_address, queue.write_address
        self.lemma("owed_is_bounded", owed <= MOST)
        self.lemma("addresses", (read < MOST) & (write == _place(read, owed)))
        stored = queue.at(_place(read, ahead))
        self.lemma(
            "followed_is_in_its_place", ~following | (stored == Cat(generation, tag, status))
        )


def _place(first, step):
    """The address `step` words behind `first` in a memory of `MOST`."""
    total = first + step
    return Mux(total >= MOST, total - MOST, total)[: len(first)]


PROOFS = [
    Proof(
        name="doorbell",
        component="Doorbell",
        size=describe(TINY),
        specify=lambda: DoorbellContract(TINY),
        faults=(
            Fault("an arrival counts off the doorbells", "arrive", lambda arrive: arrive | 1),
            Fault("a packet has no answer", "i__valid", lambda valid: valid & 0),
            Fault("another epoch", "epoch", lambda epoch: epoch ^ 1),
            Fault("does not wait for answers", "i__ready", lambda ready: Const(1)),
        ),
    )
]
