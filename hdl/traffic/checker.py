"""Answers: each finds its request by tag, is compared, timed and counted."""

from amaranth import Cat, Const, Module, Mux, ResetInserter, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import Beat, Response
from ..stream import Queue
from .sequence import Choice
from .settings import GENERATION_BITS, traffic_totals
from .words import flit_words

__all__ = ["TrafficChecker"]


class TrafficChecker(wiring.Component):
    """Keeps the requests that are outstanding, and meets their answers.

    Parameters
    ----------
    rank
        This rank's number.

    Members
    -------
    go : counters begin at zero; nothing is outstanding then
    now : cycles since reset
    tag, room : tag of the next request, and whether there is one
    taken, choice : a request is made with it
    size, flits, seed : of every request
    read_data, write_responses : the answers (`Beat`), at most one of them in a cycle; always taken
    idle : nothing is outstanding
    one member a total (`traffic_totals`)

    An answer is a request's if its tag is outstanding for that kind and for the rank that answers.
    All others are strays. Tags are used again only after all others have been.

    Where contexts outlive failures:

    up : the rank's link is UP. What is outstanding when it goes down counts as lost
    timeout : cycles after which an answer is given up; 0: never
    generation : of the next request. It goes up by one whenever answers are lost or given up, so
        one that comes all the same is a stray, even where its tag is in use again
    """

    def __init__(self, config: SwitchConfig, *, rank: int):
        self._config = config
        self._rank = rank
        beats = stream.Signature(Beat(config))
        super().__init__(
            {
                "go": In(1),
                "now": In(32),
                "tag": Out(range(config.traffic_requests)),
                "room": Out(1),
                "taken": In(1),
                "choice": In(Choice(config)),
                "size": In(range(config.payload_bytes + 1)),
                "flits": In(range(config.payload_flits + 1)),
                "seed": In(32),
                "read_data": In(beats),
                "write_responses": In(beats),
                "idle": Out(1),
            }
            | {value.name: Out(value.width) for value in traffic_totals(config)}
            | (self._recovery() if config.recovers else {})
        )

    @staticmethod
    def _recovery():
        return {"up": In(1, init=1), "timeout": In(32), "generation": Out(GENERATION_BITS)}

    def elaborate(self, platform):
        m = Module()
        self._busy = Signal(self._config.traffic_requests)  # tags that are outstanding
        beat, valid, write = self._answer(m)
        tag = Signal(range(self._config.traffic_requests))
        m.d.comb += tag.eq(beat.header.tag)
        entry, expected = self._keep(m, tag, beat, write)
        ends = Signal()
        m.d.comb += ends.eq(valid & expected & beat.last)
        self._give_tags(m, tag, ends)
        if self._config.recovers:
            self._lose(m, ends)
        bad, wrong = self._compare(m, beat, valid, write, entry)
        self._count(m, ends, bad, wrong, valid & ~expected & beat.last, entry)
        return m

    def _answer(self, m):
        """The beat that arrives, whether there is one, and whether it answers a write."""
        beat = Signal(Beat(self._config))
        m.d.comb += [
            self.read_data.ready.eq(1),
            self.write_responses.ready.eq(1),
            beat.eq(
                Mux(self.read_data.valid, self.read_data.payload, self.write_responses.payload)
            ),
        ]
        return beat, self.read_data.valid | self.write_responses.valid, ~self.read_data.valid

    def _keep(self, m, tag, beat, write):
        """The request of a tag, and whether an answer to it is due."""
        config = self._config
        count = config.traffic_requests
        fields = {"choice": Choice(config), "asked": unsigned(32)}
        if config.recovers:
            fields["generation"] = unsigned(GENERATION_BITS)
        layout = data.StructLayout(fields)
        m.submodules.entries = entries = Memory(
            shape=layout, depth=count, init=[], attrs={"ram_style": "distributed"}
        )
        put, get = entries.write_port(), entries.read_port(domain="comb")
        m.d.comb += [
            put.en.eq(self.taken),
            put.addr.eq(self.tag),
            put.data.choice.eq(self.choice),
            put.data.asked.eq(self.now),
            get.addr.eq(tag),
        ]
        choice = get.data.choice
        expected = (
            self._busy.bit_select(tag, 1)
            & (beat.header.tag < count)
            & (choice.write == write)
            & (choice.destination == beat.header.source)
        )
        if config.recovers:
            m.d.comb += put.data.generation.eq(self.generation)
            expected = expected & (get.data.generation == beat.header.generation) & self.up
            self._entries = entries
        return get.data, expected

    def _give_tags(self, m, tag, ends):
        """Tags that were never used come first, then those given back, the oldest first."""
        count = self._config.traffic_requests
        free = Queue(unsigned(max(1, (count - 1).bit_length())), depth=count)
        m.submodules.free = ResetInserter(~self.up)(free) if self._config.recovers else free
        self._free, self._unused = free, Signal(range(count + 1), name="unused")
        unused = self._unused
        fresh = unused != count
        m.d.comb += [
            free.i.valid.eq(ends),
            free.i.payload.eq(tag),
            free.o.ready.eq(self.taken & ~fresh),
            self.tag.eq(Mux(fresh, unused, free.o.payload)),
            self.room.eq(fresh | free.o.valid),
            self.idle.eq(self._busy == 0),
        ]
        with m.If(self.taken & fresh):
            m.d.sync += unused.eq(unused + 1)
        with m.If(ends):
            m.d.sync += self._busy.bit_select(tag, 1).eq(0)
        with m.If(self.taken):
            m.d.sync += self._busy.bit_select(self.tag, 1).eq(1)

    def _lose(self, m, ends):
        """Answers that will not come: those of a link that went down, and those given up."""
        count = self._config.traffic_requests
        look = self._entries.read_port(domain="comb")
        tag, expires, was_up = Signal(range(count)), Signal(), Signal(init=1)
        late = (self.now - look.data.asked)[: len(self.now)] > self.timeout
        gives_up = self._busy.bit_select(tag, 1) & (self.timeout != 0) & late
        m.d.comb += [look.addr.eq(tag), expires.eq(gives_up & ~ends & self.up)]
        # One tag a cycle is looked at, and given back where no other one is.
        m.d.sync += [tag.eq(Mux(tag == count - 1, 0, tag + 1)), was_up.eq(self.up)]
        with m.If(expires):
            m.d.comb += [self._free.i.valid.eq(1), self._free.i.payload.eq(tag)]
            m.d.sync += self._busy.bit_select(tag, 1).eq(0)
        with m.If(~self.up):
            m.d.sync += [self._busy.eq(0), self._unused.eq(0)]
        with m.If(expires | (was_up & ~self.up)):
            m.d.sync += self.generation.eq(self.generation + 1)
        outstanding = sum(self._busy[index] for index in range(count)) + self.taken
        lost = Mux(self.up, 0, outstanding)
        for total, step in ((self.lost, lost), (self.timeouts, expires)):
            m.d.sync += total.eq(Mux(self.go, 0, total + step))

    def _compare(self, m, beat, valid, write, entry):
        """Whether this answer, so far, has an error response, and whether its data is wrong."""
        config = self._config
        flit = Signal(range(config.payload_flits + 1))
        bad_before, wrong_before = Signal(), Signal()
        owner = entry.choice.destination
        address = (entry.choice.address >> config.flit_address_bits) + flit
        due = flit_words(config.flit_bytes, address, Const(self._rank, 4), owner, self.seed)
        left = Signal(range(config.payload_bytes + 1))
        m.d.comb += left.eq(self.size - (flit << config.flit_address_bits))
        differs = Cat(
            (beat.data.word_select(lane, 8) != due.word_select(lane, 8)) & (left > lane)
            for lane in range(config.flit_bytes)
        )
        response = Mux(beat.empty, beat.header.status.as_value(), beat.response.as_value())
        bad, wrong = Signal(), Signal()
        length = Mux(beat.empty, 0, flit + 1)
        m.d.comb += [
            bad.eq(bad_before | (response != Response.OKAY)),
            wrong.eq(
                ~write
                & (
                    wrong_before
                    | (~beat.empty & differs.any())
                    | (beat.last & (length != self.flits))
                )
            ),
        ]
        with m.If(valid):
            m.d.sync += [
                flit.eq(Mux(beat.last, 0, flit + 1)),
                bad_before.eq(bad & ~beat.last),
                wrong_before.eq(wrong & ~beat.last),
            ]
        if config.recovers:
            with m.If(~self.up):  # the packet under way has no end
                m.d.sync += [flit.eq(0), bad_before.eq(0), wrong_before.eq(0)]
        return bad, wrong

    def _count(self, m, ends, bad, wrong, stray, entry):
        latency = Signal(32)
        m.d.comb += latency.eq(self.now - entry.asked)
        okay = ends & ~bad
        for total, step in (
            (self.asked, self.taken),
            (self.answered, ends),
            (self.errors, ends & bad),
            (self.mismatches, okay & wrong),
            (self.strays, stray),
            (self.moved, Mux(okay, self.size, 0)),
            (self.latency_sum, Mux(ends, latency, 0)),
        ):
            m.d.sync += total.eq(Mux(self.go, 0, total + step))
        with m.If(self.go):
            m.d.sync += [self.latency_min.eq((1 << 32) - 1), self.latency_max.eq(0)]
        with m.Elif(ends):
            with m.If(latency < self.latency_min):
                m.d.sync += self.latency_min.eq(latency)
            with m.If(latency > self.latency_max):
                m.d.sync += self.latency_max.eq(latency)
