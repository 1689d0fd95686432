"""`WriteEngine`: AXI4 on the write channels, one answer for each packet, with room kept for it."""

from __future__ import annotations

from unittest import mock

from amaranth import Const, Mux, Signal

from hdl.config import AXI_MAX_BEATS, AXI_PAGE_BYTES
from hdl.transport import write_engine
from hdl.transport.write_engine import WriteEngine

from .proof import BOUNDED, Fault, Proof
from .sizes import TWO_PAGES, TWO_PAGES_OF_TENANTS, describe
from .specification import Specification

__all__ = ["PROOFS"]


class _WriteEngine(Specification):
    """A write engine, and whole packets that come to it, or such that are cut."""

    def __init__(self, config):
        self._config = config
        super().__init__(WriteEngine(config, source=0))

    def specify(self, m):
        engine, config = self.component, self._config
        beat, shift = engine.i.payload, config.flit_address_bits
        header = beat.header
        self._accepts = engine.i.valid & engine.i.ready
        self._starts = self._accepts & beat.first
        self._index = index = Signal(range(config.payload_flits + 1), name="beat_in_packet")
        in_packet, before = Signal(), Signal.like(header, name="header_before")
        with m.If(self._accepts):
            m.d.sync += [
                in_packet.eq(~beat.last),
                index.eq(Mux(beat.last, 0, index + 1)),
                before.eq(header),
            ]
        self._in_packet = in_packet
        self._pads = Const(0)  # a beat is written that does not come any more
        last_before = self._last_beat(before)
        if config.recovers:
            self._cut(in_packet)
            with m.If(self._pads):
                ends = index == last_before
                m.d.sync += [in_packet.eq(~ends), index.eq(Mux(ends, 0, index + 1))]
        self._last_before = last_before
        # Of the packet: its last beat, and the last that fits its page, both counted from 0.
        self._last = self._last_beat(header)
        self._first_flit = header.address[shift : config.address_bits]
        self._page_last = self._last_in_page(header)
        self._page_last_before = self._last_in_page(before)
        same = header.as_value() == before.as_value()
        fits = header.address[: config.address_bits] + header.length <= 2 * AXI_PAGE_BYTES
        whole = beat.last == (index == self._last)
        self.assume("beats_are_offered", self.offers(engine.i, "i"))
        self.assume("packets_begin_first", ~engine.i.valid | (beat.first == ~in_packet))
        self.assume("packets_keep_their_header", ~(engine.i.valid & in_packet) | same)
        self.assume("packets_are_short", ~engine.i.valid | (self._last < config.payload_flits))
        self.assume("packets_fit_the_memory", ~engine.i.valid | fits)
        self.assume("packets_have_bytes", ~engine.i.valid | beat.empty | (header.length != 0))
        self.assume("empty_is_one_beat", ~beat.empty | (beat.first & beat.last))
        self.assume("packets_are_whole", ~engine.i.valid | beat.empty | whole)
        self.lemma("in_packet", in_packet == (index != 0))
        inside = (last_before < config.payload_flits) & (index <= last_before)
        self.lemma("packet_goes_on", ~in_packet | inside)

    def _cut(self, in_packet):
        """What is cut is a packet of which nothing is left in the receiver's queue; and the link
        does not come back before the engine is idle.
        """
        engine = self.component
        self.assume("cut_with_nothing_left", ~(engine.cut & engine.i.valid))
        self.assume(
            "cut_until_idle", ~self.past(engine.cut & ~engine.idle, name="cut") | engine.cut
        )
        self._pads = engine.cut & in_packet & (~engine.wvalid | engine.wready)

    def _last_beat(self, header):
        """The packet's last beat, counted from its first."""
        shift = self._config.flit_address_bits
        return (header.address[:shift] + header.length - 1)[shift : len(header.length)]

    def _last_in_page(self, header):
        """The beat, counted from the packet's first, that ends its first page."""
        shift = self._config.flit_address_bits
        page_flits = AXI_PAGE_BYTES >> shift
        return (page_flits - 1) - header.address[shift : self._config.address_bits] % page_flits


class WriteEngineContract(_WriteEngine):
    """AXI4, and room for answers."""

    def specify(self, m):
        super().specify(m)
        self._addresses(m)
        self._data(m)
        self._room(m)

    def _addresses(self, m):
        engine, config = self.component, self._config
        shift = config.flit_address_bits
        beats = engine.awlen + 1
        page_offset = engine.awaddr[: AXI_PAGE_BYTES.bit_length() - 1]
        self.always(
            "aw_is_stable",
            engine.awvalid
            & (engine.awaddr == self.past(engine.awaddr, name="awaddr"))
            & (engine.awlen == self.past(engine.awlen, name="awlen")),
            "AXI4: an address that was not taken is offered again, unchanged.",
            when=self.past(engine.awvalid & ~engine.awready, name="aw_waited"),
        )
        self.always(
            "bursts_stay_in_a_page",
            (page_offset + beats * config.flit_bytes <= AXI_PAGE_BYTES)
            & (engine.awaddr[:shift] == 0)
            & (beats <= AXI_MAX_BEATS),
            "AXI4: a burst has at most 256 beats, begins at a whole flit and does not cross an "
            "address that is a multiple of 4 KiB.",
            when=engine.awvalid,
            trace=engine.awvalid & (page_offset + beats * config.flit_bytes == AXI_PAGE_BYTES),
        )
        # The bursts that the packet at hand still has to ask for.
        address = [Signal.like(self._first_flit, name=f"burst_{n}_at") for n in range(2)]
        length = [Signal(8, name=f"burst_{n}_length") for n in range(2)]
        owed = [Signal(name=f"burst_{n}_owed") for n in range(2)]
        two = self._last > self._page_last
        with m.If(self._starts & ~engine.i.payload.empty):
            m.d.sync += [
                owed[0].eq(1),
                address[0].eq(self._first_flit),
                length[0].eq(Mux(two, self._page_last, self._last)),
                owed[1].eq(two),
                address[1].eq(self._first_flit + self._page_last + 1),
                length[1].eq(self._last - self._page_last - 1),
            ]
        with m.Elif(engine.awvalid & engine.awready):
            m.d.sync += [
                owed[0].eq(owed[1]),
                address[0].eq(address[1]),
                length[0].eq(length[1]),
                owed[1].eq(0),
            ]
        self.always(
            "bursts_cover_the_packet",
            owed[0] & (engine.awaddr[shift:] == address[0]) & (engine.awlen == length[0]),
            "A packet is one burst, or two where it crosses a page, which together have its beats.",
            when=engine.awvalid,
            trace=engine.awvalid & owed[1],
        )
        self.always(
            "next_packet_waits_for_addresses",
            ~owed[0],
            "A packet is taken only when the one before has asked for all of its bursts.",
            when=self._starts,
            trace=self._starts & (engine.awlen != 0),
        )
        second = self.inside.signal("second_waits")
        self.lemma("bursts_in_order", owed[0] | ~owed[1])
        self.lemma("awvalid", engine.awvalid == owed[0])
        self.lemma("second_waits", second == owed[1])
        flit, beats_less_one = (
            self.inside.signal("second_flit"),
            self.inside.signal("second_length"),
        )
        self.lemma("second", ~second | ((flit == address[1]) & (beats_less_one == length[1])))
        self.lemma("second_begins_a_page", ~second | (address[1] % (AXI_PAGE_BYTES >> shift) == 0))
        self.lemma("second_is_short", ~second | (length[1] < config.payload_flits))

    def _data(self, m):
        engine, config = self.component, self._config
        beat = engine.i.payload
        comes = self._accepts & ~beat.empty
        came = self.past(comes, name="beat_came")
        padded = self.past(self._pads, name="beat_padded")
        ends = (self._index == self._last) | (self._index == self._page_last)
        if config.recovers:
            self._pad(m, came, padded)
        self.always(
            "w_is_stable",
            engine.wvalid
            & (engine.wdata == self.past(engine.wdata, name="wdata"))
            & (engine.wstrb == self.past(engine.wstrb, name="wstrb"))
            & (engine.wlast == self.past(engine.wlast, name="wlast")),
            "AXI4: a beat that was not taken is offered again, unchanged.",
            when=self.past(engine.wvalid & ~engine.wready, name="w_waited"),
        )
        self.always(
            "wlast_ends_each_burst",
            engine.wvalid
            & (engine.wlast == self.past(ends, name="ends_burst"))
            & (engine.wdata == self.past(beat.data, name="beat_data")),
            "WLAST stands at the last beat of each burst, and at no other; each beat that is "
            "taken is offered one cycle later, unchanged.",
            when=came,
            trace=came & engine.wlast & self.past(~beat.last, name="not_last"),
        )
        self.always(
            "no_beat_of_nothing",
            came | padded | self.past(engine.wvalid & ~engine.wready, name="w_is_kept"),
            "Nothing is offered but beats of packets, and what lacks of one that is cut.",
            when=engine.wvalid,
        )
        covered = []
        start = self._first_flit << config.flit_address_bits
        here = start + self._index * config.flit_bytes
        begin = beat.header.address[: config.address_bits]
        for byte in range(config.flit_bytes):
            at = here + byte
            covered.append((at >= begin) & (at < begin + beat.header.length))
        strobes = sum(bit << byte for byte, bit in enumerate(covered))[: config.flit_bytes]
        self.always(
            "strobes_cover_the_bytes",
            engine.wstrb == self.past(strobes, name="strobes"),
            "A byte is strobed if it lies in the packet's range, and only then.",
            when=came,
            trace=came & (engine.wstrb != (1 << config.flit_bytes) - 1),
        )
        page_flits = AXI_PAGE_BYTES >> config.flit_address_bits
        left = self.inside.signal("to_page_end")
        self.lemma(
            "to_page_end",
            (self._index == 0) | (left == (self._page_last_before - self._index) % page_flits),
        )

    def _pad(self, m, came, padded):
        """A packet that is cut."""
        engine, index = self.component, self._index
        ends = (index == self._last_before) | (index == self._page_last_before)
        self.always(
            "a_cut_packet_is_written_to_its_end",
            engine.wvalid
            & (engine.wstrb == 0)
            & (engine.wlast == self.past(ends, name="ends_padded_burst")),
            "What a packet that is cut lacks is written a beat a cycle, with no byte strobed, up "
            "to the last beat of its last burst, WLAST at the end of each.",
            when=padded,
            trace=padded & engine.wlast,
        )
        self.lemma("under_way", self.inside.signal("under_way") == self._in_packet)
        left = self.inside.signal("left")
        self.lemma("left", ~self._in_packet | (left == self._last_before + 1 - index))

    def _room(self, m):
        engine = self.component
        inside, most = self.inside, write_engine.OUTSTANDING
        pending, answers = inside.signal("pending.level"), inside.signal("answers.level")
        # One ID: the memory answers in order, so what it answers is of the oldest packet.
        oldest = inside.signal("pending.o__payload")
        self.assume(
            "memory_answers_the_oldest",
            ~engine.bvalid | (inside.signal("pending.o__valid") & (oldest[-2:] != 0)),
        )
        self.always(
            "answers_always_have_room",
            engine.bready & inside.signal("answers.i__ready"),
            "Forward progress, rule 1: an answer's room was kept with its address, so B is never "
            "refused.",
            when=engine.bvalid,
            trace=engine.bvalid & (pending + answers == most),
        )
        self.always(
            "packets_always_have_room",
            inside.signal("pending.i__ready"),
            "A packet that is taken has its place among those pending.",
            when=self._starts,
            trace=self._starts & (pending + answers == most - 1),
        )
        under_way = Signal(range(most + 2), name="packets_under_way")
        answered = engine.o.head.valid & engine.o.head.ready
        m.d.sync += under_way.eq(under_way + self._starts - answered)
        self.always(
            "each_packet_is_answered_once",
            (pending + answers == under_way) & (under_way <= most),
            "Packets that were taken, and answers that left, differ by those under way: at most "
            "16.",
            trace=under_way == most,
        )
        if self._config.recovers:
            waits = self._in_packet | engine.awvalid | engine.wvalid
            self.always(
                "idle_when_nothing_is_here",
                engine.idle == (~waits & (under_way == 0)),
                "An engine is idle when it has no packet under way, no address and no beat to "
                "offer, and no packet unanswered, and only then.",
                trace=engine.idle & self.past(engine.cut & (under_way == 1), name="cut_one"),
            )
        room, late = inside.signal("room"), inside.signal("answered")
        self.lemma("room", room + late + under_way == most)


class WriteAnswersContract(_WriteEngine):
    """One packet, whichever it is, and its answer, with a memory that answers bursts in order.

    With so few packets outstanding, queues fill within the depth of the proof.
    """

    outstanding = 2

    def __init__(self, config):
        with mock.patch.object(write_engine, "OUTSTANDING", self.outstanding):
            super().__init__(config)

    def specify(self, m):
        super().specify(m)
        engine = self.component
        beat, head = engine.i.payload, engine.o.head
        count = Signal(6, name="addresses_unanswered")
        whole = Signal(6, name="bursts_unanswered")
        last_taken = engine.wvalid & engine.wready & engine.wlast
        m.d.sync += [
            count.eq(count + (engine.awvalid & engine.awready) - engine.bvalid),
            whole.eq(whole + last_taken - engine.bvalid),
        ]
        due = (count != 0) & (whole != 0)
        self.assume("memory_answers_bursts_once", ~engine.bvalid | due)
        self.always(
            "responses_are_of_packets",
            self.inside.signal("pending.o__valid")
            & (self.inside.signal("pending.o__payload")[-2:] != 0),
            "Each response is of the oldest packet that has bursts unanswered.",
            when=engine.bvalid,
        )
        following, tag = Signal(), Signal.like(beat.header.tag, name="followed_tag")
        packets, bursts = Signal(5, name="packets_ahead"), Signal(6, name="bursts_ahead")
        own, worst = Signal(2, name="own_bursts"), Signal(2, name="worst_response")
        under_way = Signal(5, name="packets_under_way")
        answered = head.valid & head.ready
        bursts_now = Mux(beat.empty, 0, Mux(self._last > self._page_last, 2, 1))
        owed = Signal(6, name="bursts_owed")
        m.d.sync += [
            under_way.eq(under_way + self._starts - answered),
            owed.eq(owed + Mux(self._starts, bursts_now, 0) - engine.bvalid),
        ]
        begins = self._starts & ~following & self.any_value(1, "chosen")
        with m.If(begins):
            m.d.sync += [
                following.eq(1),
                tag.eq(beat.header.tag),
                packets.eq(under_way - answered),
                bursts.eq(owed - engine.bvalid),
                own.eq(bursts_now),
                worst.eq(0),
            ]
        with m.Elif(following):
            with m.If(answered):
                m.d.sync += packets.eq(packets - 1)
                with m.If(packets == 0):
                    m.d.sync += following.eq(0)
            with m.If(engine.bvalid & (bursts != 0)):
                m.d.sync += bursts.eq(bursts - 1)
            with m.Elif(engine.bvalid & (own != 0)):
                m.d.sync += own.eq(own - 1)
                with m.If(engine.bresp > worst):
                    m.d.sync += worst.eq(engine.bresp)
        header = head.payload.header
        turn = following & (packets == 0) & head.valid
        self.always(
            "answers_say_what_became_of_the_packet",
            (own == 0) & (header.tag == tag) & (header.status.as_value() == worst),
            "A packet's answer follows the response of its last burst, has its tag, and the worse "
            "of its responses.",
            when=turn,
            trace=turn & (worst == 2) & (bursts == 0),
        )
        self.always(
            "stream_contract",
            self.offers(head, "head"),
            "An answer that was not taken is offered again, unchanged.",
            when=self.offer_waits(head, "head"),
        )


PROOFS = [
    Proof(
        name="write-engine",
        component="WriteEngine",
        size=describe(TWO_PAGES),
        specify=lambda: WriteEngineContract(TWO_PAGES),
        trace_depth=45,
        quick=False,
        faults=(
            Fault("crosses pages", "page_left", lambda left: left | 1023),
            Fault("WLAST at a packet's end only", "wlast", lambda last: last & 0),
            Fault("bytes beyond the end are strobed", "end", lambda end: end & 0),
            Fault("an address is dropped while it waits", "awvalid", lambda valid: valid & 0),
        ),
    ),
    Proof(
        name="write-engine-of-links-that-go-down",
        component="WriteEngine",
        size=describe(TWO_PAGES_OF_TENANTS),
        specify=lambda: WriteEngineContract(TWO_PAGES_OF_TENANTS),
        trace_depth=45,
        quick=False,
        faults=(
            Fault("idle with answers owed", "idle", lambda idle: idle | 1),
            Fault("pads one beat too few", "left", lambda left: left - 1),
        ),
    ),
    Proof(
        name="write-answers",
        component="WriteEngine",
        size=f"{describe(TWO_PAGES)}, {WriteAnswersContract.outstanding} packets outstanding",
        specify=lambda: WriteAnswersContract(TWO_PAGES),
        mode=BOUNDED,
        depth=9,
        quick=False,
        faults=(
            Fault(
                "the second response is not waited for",
                "awaits_second",
                lambda awaits: awaits | 1,
            ),
            Fault("the first response is forgotten", "first_status", lambda status: status & 0),
        ),
    ),
]
