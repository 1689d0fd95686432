"""`Queue`: keeps order, never overflows, and offers what it holds until it is taken."""

from __future__ import annotations

from unittest import mock

from amaranth import Const, Mux, Signal

from hdl import stream
from hdl.stream import Queue

from .proof import Fault, Proof
from .specification import Specification

__all__ = ["PROOFS", "behind", "keeps_its_place"]


class QueueContract(Specification):
    """A queue against a count and one transfer that is followed through it."""

    #: From so many bits on a queue is block RAM; all sizes here are below.
    block_ram_bits = stream.BLOCK_RAM_BITS

    def __init__(self, depth: int, width: int):
        with mock.patch.object(stream, "BLOCK_RAM_BITS", self.block_ram_bits):
            super().__init__(Queue(width, depth=depth))

    def specify(self, m):
        queue = self.component
        room = queue.depth + 1
        put, taken = queue.i.valid & queue.i.ready, queue.o.valid & queue.o.ready
        held = Signal(range(room + 2))
        m.d.sync += held.eq(held + put - taken)

        self.always(
            "level_is_what_it_holds",
            queue.level == held,
            "`level` is the number of transfers that came in and did not leave.",
            trace=held == room,
        )
        self.always(
            "never_overflows",
            held <= room,
            "The queue never holds more than its depth and one.",
            trace=held == room,
        )
        self.always(
            "takes_while_there_is_room",
            queue.i.ready == (held != room),
            "The input is ready whenever there is room, and only then.",
            trace=held == room,
        )
        self.always(
            "offers_what_it_holds",
            queue.o.valid == (held != 0),
            "A transfer is offered one cycle after it was taken, and nothing else is.",
            trace=queue.o.valid,
        )
        self.always(
            "stream_contract",
            self.offers(queue.o, "o"),
            "What is offered and not taken is offered again, with the same payload.",
            when=self.offer_waits(queue.o, "o"),
        )
        self._follow(m, put, taken, held)

    def _follow(self, m, put, taken, held):
        """One transfer, whichever it is, comes out behind those that were there before it."""
        queue = self.component
        chosen = self.any_value(1, "chosen")
        following = Signal()
        word = Signal.like(queue.i.payload, name="followed_word")
        ahead = Signal.like(held)
        begins, next_out = put & chosen & ~following, following & (ahead == 0)
        with m.If(begins):
            m.d.sync += [following.eq(1), word.eq(queue.i.payload), ahead.eq(held - taken)]
        with m.Elif(taken & next_out):
            m.d.sync += following.eq(0)
        with m.Elif(taken):
            m.d.sync += ahead.eq(ahead - 1)
        self.always(
            "keeps_order_and_words",
            queue.o.payload == word,
            "A transfer comes out unchanged, behind all that came in before it.",
            when=queue.o.valid & next_out,
            trace=taken & next_out & (self.past(ahead, name="ahead") != 0),
        )
        self.lemma("followed_is_held", ~following | (ahead < held))
        self.locate(m, held, following, ahead, word)

    def locate(self, m, held, following, ahead, word):
        """Where the transfer is that has `ahead` others in front of it; for induction."""
        raise NotImplementedError


class SmallQueueContract(QueueContract):
    """One that is LUT RAM."""

    def locate(self, m, held, following, ahead, word):
        words, memory = self.component.depth + 1, self.inside.memory("memory")
        read, write = memory.read_address, memory.write_address
        self.lemma("addresses_are_inside", (read < words) & (write < words))
        self.lemma("held_lies_between_addresses", write == behind(read, held, words))
        self.lemma(
            "followed_is_in_its_place",
            ~following | (memory.at(behind(read, ahead, words)) == word),
        )


class LargeQueueContract(QueueContract):
    """One that is block RAM, read ahead: a word offered, the one behind it, and the memory.

    The kind depends on the size. So that words stay small, it is chosen for all sizes here.
    """

    block_ram_bits = 0

    def locate(self, m, held, following, ahead, word):
        queue, words, memory = self.component, self.component.depth, self.inside.memory("memory")
        read, write = memory.read_address, memory.write_address
        stored, passed = self.inside.signal("stored"), self.inside.signal("passed")
        in_front = Signal.like(held)
        second = Signal()
        m.d.comb += [
            in_front.eq(held - stored),
            second.eq(in_front - queue.o.valid),
        ]
        # Made in one statement with `passed`: Amaranth names only the last of them.
        fetched = self.inside.signal("$signal")
        behind_offer = Mux(passed, self.inside.signal("passed_word"), memory.read_data)
        place = Mux(
            ahead >= in_front,
            memory.at(behind(read, ahead - in_front, words)),
            Mux((ahead == 0) & queue.o.valid, queue.o.payload, behind_offer),
        )
        self.lemma("addresses_are_inside", (read < words) & (write < words))
        self.lemma("stored_lies_between_addresses", write == behind(read, stored, words))
        self.lemma("memory_holds_no_more_than_it_has", stored <= words)
        self.lemma("offer_is_filled_first", queue.o.valid | (held == 0))
        self.lemma("second_is_filled_before_memory", second | (stored == 0))
        self.lemma("two_are_in_front_at_most", held - stored <= 2)
        self.lemma("second_was_fetched_or_passed", second == (fetched ^ passed))
        self.lemma("followed_is_in_its_place", ~following | (place == word))


def behind(first, offset, words: int):
    """The address `offset` words behind `first`, around the end of the memory."""
    total = first + offset
    return Mux(total >= words, total - words, total)


def keeps_its_place(specification: Specification, path: str):
    """What induction must know of a queue in LUT RAM inside a component: a word that is offered
    lies where nothing is written.
    """
    level = specification.inside.signal(f"{path}.level")
    memory = specification.inside.memory(f"{path}.memory")
    read, write, words = memory.read_address, memory.write_address, memory.words
    inside = (read < words) & (write < words) & (level <= words)
    specification.lemma(f"{path}_is_inside", inside)
    specification.lemma(f"{path}_lies_between_addresses", write == behind(read, level, words))


PROOFS = [
    Proof(
        name="queue",
        component="Queue",
        size="depth 2, 4 bits",
        specify=lambda: SmallQueueContract(depth=2, width=4),
        faults=(
            Fault("counts a transfer that is refused", "level", lambda level: level + 1),
            Fault("never full", "i__ready", lambda ready: Const(1)),
            Fault("writes beside its place", "write__addr", lambda address: address + 1),
        ),
        quick=False,  # minutes on a busy machine; the other kind of queue takes seconds
    ),
    Proof(
        name="queue-block-ram",
        component="Queue",
        size="depth 2, 4 bits, as block RAM",
        specify=lambda: LargeQueueContract(depth=2, width=4),
        faults=(
            Fault("never full", "i__ready", lambda ready: Const(1)),
            Fault("a word that went around the memory is lost", "passed", lambda passed: Const(0)),
        ),
    ),
]
