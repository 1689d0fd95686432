"""`WaveTable`: written only where an answer is due, ready once and only when all of it is there."""

from __future__ import annotations

from amaranth import Array, Const, Mux, Signal

from hdl.accelerator.layouts import packet_bits
from hdl.accelerator.wave_table import READ_DELAY, WaveTable
from hdl.interfaces import Response

from .proof import Fault, Proof
from .sizes import SMALL, TINY, describe
from .specification import Specification

__all__ = ["PROOFS"]


class WaveTableContract(Specification):
    """A table against one entry and one of its words, whichever they are."""

    def __init__(self, config):
        super().__init__(WaveTable(config))
        self._config = config

    def specify(self, m):
        table, config = self.component, self._config
        header = table.i.payload.header
        self._entry = self.any_constant(range(config.waves), "entry")
        in_packet, index = self._assume_packets(m)
        tag_entry = header.tag >> packet_bits(config)
        tag_packet = header.tag[: packet_bits(config)]
        here = table.i.valid & (tag_entry == self._entry)
        reserves = table.reserve.valid & (table.reserve.entry == self._entry)
        takes = table.look_ups[0].taken & (table.look_ups[0].entry == self._entry)
        reserved, reading = Signal(), Signal()
        generation = Signal.like(table.reserve.generation, name="reserved_generation")
        arrived = Signal(config.packets_per_wave, name="arrived_of_entry")
        worst = Signal(2)
        self.assume("reserves_what_is_free", ~reserves | ~reserved)
        # The wave controller reserves for data; the first packet always has some.
        self.assume("reserves_for_data", ~table.reserve.valid | ~table.reserve.absent[0])
        self.assume("takes_what_is_ready", ~table.look_ups[0].taken | table.look_ups[0].ready)
        self.assume(
            "answers_follow_requests",
            ~(reserves & in_packet & (self._last_entry == self._entry))
            | (self._last_generation != table.reserve.generation),
        )

        expected = Signal()
        m.d.comb += expected.eq(
            reserved
            & (tag_packet < config.packets_per_wave)
            & ~arrived.bit_select(tag_packet, 1)
            & (header.generation == generation)
        )
        accepts = here & expected
        empty = table.i.payload.empty
        refusal = Mux(
            header.status == Response.DECERR, Response.DECERR.value, Response.SLVERR.value
        )
        response = Mux(empty, refusal, table.i.payload.response.as_value())
        with m.If(takes):
            m.d.sync += [reserved.eq(0), reading.eq(1)]
        with m.If(accepts & (response > worst)):
            m.d.sync += worst.eq(response)
        with m.If(accepts & table.i.payload.last):
            m.d.sync += arrived.bit_select(tag_packet, 1).eq(1)
        with m.If(reserves):
            m.d.sync += [
                reserved.eq(1),
                reading.eq(0),
                generation.eq(table.reserve.generation),
                arrived.eq(table.reserve.absent),
                worst.eq(Response.OKAY),
            ]
        self._declare_ready(table, reserved, arrived, worst)
        self.always(
            "unexpected_answers_are_noticed",
            table.stray == ~expected,
            "An answer that nobody waits for (none reserved, a second one, an old generation) is "
            "reported as stray at its last beat, and no other is.",
            when=here & table.i.payload.last,
            trace=here & table.i.payload.last & reserved & ~expected,
        )
        self._store(m, accepts, tag_packet, index, reserved, arrived)
        self._lemmas_of_entry(reserved, generation, arrived, worst)

    def _assume_packets(self, m):
        """Beats are those of whole packets, as `Depacketizer` gives them."""
        table, config = self.component, self._config
        beat = table.i.payload
        in_packet = Signal()
        index = Signal(range(config.payload_flits + 1), name="flit_in_packet")
        before = Signal.like(beat.header, name="header_before")
        with m.If(table.i.valid):
            m.d.sync += [in_packet.eq(~beat.last), before.eq(beat.header)]
            with m.If(beat.last):
                m.d.sync += index.eq(0)
            with m.Elif(index != config.payload_flits):
                m.d.sync += index.eq(index + 1)
        same = beat.header.as_value() == before.as_value()
        self.assume("packets_begin_first", ~table.i.valid | (beat.first == ~in_packet))
        self.assume("packets_keep_their_header", ~(table.i.valid & in_packet) | same)
        self.assume("without_payload_is_one_beat", ~beat.empty | (beat.first & beat.last))
        self._last_entry = before.tag >> packet_bits(config)
        self._last_generation = before.generation
        self.lemma("first_is_flit_0", in_packet | (index == 0))
        self.lemma("index_is_bounded", index <= config.payload_flits)
        position = self.inside.signal("index")
        self.lemma("position", ~in_packet | (position == index))
        return in_packet, index

    def _declare_ready(self, table, reserved, arrived, worst):
        asked = table.look_ups[0].entry == self._entry
        self.always(
            "ready_exactly_when_complete",
            table.look_ups[0].ready == (reserved & arrived.all()),
            "An entry is ready when it is reserved and the last beat of each of its packets has "
            "come, and only then: not before, and not again once it is taken.",
            when=asked,
            trace=asked & table.look_ups[0].ready,
        )
        self.always(
            "reports_the_worst_response",
            table.look_ups[0].response.as_value() == worst,
            "The response of an entry that is ready is the worst among its beats; an answer "
            "without data counts as an error.",
            when=asked & table.look_ups[0].ready,
            trace=asked & table.look_ups[0].ready & (worst == Response.SLVERR),
        )

    def _store(self, m, accepts, tag_packet, index, reserved, arrived):
        table, config = self.component, self._config
        memory = self.inside.memory("data")
        flit_bits = (config.wave_flits - 1).bit_length()
        writes_here = memory.write_enable & (memory.write_address >> flit_bits == self._entry)
        written_packet = memory.write_address[:flit_bits] // config.payload_flits
        self.always(
            "never_written_unreserved",
            reserved & ~arrived.bit_select(written_packet, 1) & accepts,
            "A word of an entry is written only while it is reserved, its packet has not arrived, "
            "and an answer of the entry's generation brings it.",
            when=writes_here,
        )
        place = self.any_constant(range(config.wave_flits), "place")
        at_place = (tag_packet == place // config.payload_flits) & (
            index == place % config.payload_flits
        )
        comes = accepts & ~table.i.payload.empty & at_place & (index < config.payload_flits)
        known = Signal(name="word_is_known")
        word = Signal(config.flit_bits, name="word")
        with m.If(comes):
            m.d.sync += [known.eq(1), word.eq(table.i.payload.data)]
        reads = table.read_enable & (table.read_entry == self._entry) & (table.read_flit == place)
        reads &= ~reserved
        due = [reads & known]
        for cycle in range(READ_DELAY):
            due.append(self.past(due[-1], name=f"read_due_{cycle}"))
        words = [word]
        for cycle in range(READ_DELAY):
            words.append(self.past(words[-1], name=f"read_word_{cycle}"))
        self.always(
            "read_is_what_was_written",
            table.data == words[-1],
            "What is read of an entry that was taken is what the answer with that place brought.",
            when=due[-1],
        )
        stored = memory.at((self._entry << flit_bits) | place)
        self.lemma("word_is_in_its_place", ~known | (stored == word))
        self.lemma("word_is_fetched", ~due[1] | (memory.read_data == words[1]))
        self.lemma("fetch_is_known", ~due[1] | self.inside.signal("_fetched"))

    def _lemmas_of_entry(self, reserved, generation, arrived, worst):
        def of_entry(name):
            entries = range(self._config.waves)
            return Array(self.inside.signal(f"{name}_{entry}") for entry in entries)[self._entry]

        self.lemma("arrived", ~reserved | (of_entry("arrived") == arrived))
        self.lemma("free_is_arrived", reserved | of_entry("arrived").all())
        self.lemma("complete", of_entry("complete") == (reserved & arrived.all()))
        self.lemma("generation", ~reserved | (of_entry("generation") == generation))
        self.lemma("response", ~reserved | (of_entry("response") == worst))


PROOFS = [
    Proof(
        name=f"wave-table-{name}",
        component="WaveTable",
        size=describe(config),
        specify=lambda config=config: WaveTableContract(config),
        quick=name == "small",
        faults=faults,
    )
    for name, config, faults in (
        (
            "small",
            SMALL,
            (
                Fault("old generations are taken", "expected", lambda expected: Const(1)),
                Fault("ready without the last packet", "complete_0", lambda done: Const(1)),
                Fault("strays are written", "stored", lambda stored: Const(1)),
                Fault("read one cycle late", "_fetched", lambda fetched: ~fetched),
            ),
        ),
        ("tiny", TINY, ()),
    )
]
