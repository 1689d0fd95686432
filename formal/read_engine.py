"""`ReadEngine`: AXI4 on the read channels, and room for every beat before it is asked for."""

from __future__ import annotations

from amaranth import Const, Mux, Signal

from hdl.config import AXI_MAX_BEATS, AXI_PAGE_BYTES
from hdl.transport.read_engine import ReadEngine

from .proof import Fault, Proof
from .sizes import TWO_PAGES, describe
from .specification import Specification

__all__ = ["PROOFS"]


class ReadEngineContract(Specification):
    """A read engine against its requests, and a memory that owes what it was asked for."""

    def __init__(self, config):
        self._config = config
        super().__init__(ReadEngine(config, source=0))

    def specify(self, m):
        engine, config = self.component, self._config
        header = engine.i.payload.header
        self._asked = engine.arvalid & engine.arready
        self._beats = engine.arlen + 1
        end = header.address[: config.address_bits] + header.length
        inside = end <= 2 * AXI_PAGE_BYTES
        short = header.length <= config.wave_bytes
        self.assume("asks_for_what_is_there", ~engine.i.valid | (inside & short))
        self._keep_to_axi(m)
        self._reserve(m)
        self._cover_the_request(m)

    def _keep_to_axi(self, m):
        engine, config = self.component, self._config
        page_offset = engine.araddr[: AXI_PAGE_BYTES.bit_length() - 1]
        bytes_asked = self._beats * config.flit_bytes
        waited = self.past(engine.arvalid & ~engine.arready, name="ar_waited")
        self.always(
            "ar_is_stable",
            engine.arvalid
            & (engine.araddr == self.past(engine.araddr, name="araddr"))
            & (engine.arlen == self.past(engine.arlen, name="arlen")),
            "AXI4: an address that was not taken is offered again, unchanged.",
            when=waited,
        )
        self.always(
            "bursts_are_short_enough",
            (self._beats <= config.payload_flits) & (self._beats <= AXI_MAX_BEATS),
            "AXI4: a burst has at most 256 beats; here at most those of a packet.",
            when=engine.arvalid,
            trace=engine.arvalid & (self._beats == config.payload_flits),
        )
        self.always(
            "bursts_stay_in_a_page",
            page_offset + bytes_asked <= AXI_PAGE_BYTES,
            "AXI4: a burst does not cross an address that is a multiple of 4 KiB.",
            when=engine.arvalid,
            trace=engine.arvalid & (page_offset + bytes_asked == AXI_PAGE_BYTES),
        )
        self.always(
            "bursts_are_aligned",
            engine.araddr[: config.flit_address_bits] == 0,
            "A burst begins at a whole flit.",
            when=engine.arvalid,
        )

    def _reserve(self, m):
        """Rule 4: what the memory owes always has room."""
        engine, most = self.component, self._config.endpoint_read_flits
        owed = Signal(range(most + 1))  # beats
        m.d.sync += owed.eq(owed + Mux(self._asked, self._beats, 0) - engine.rvalid)
        self.assume("memory_answers_what_was_asked", ~engine.rvalid | (owed != 0))
        level = self.inside.signal("data.level")
        self.always(
            "read_data_always_has_room",
            engine.rready & self.inside.signal("data.i__ready"),
            "Forward progress, rule 4: R is never refused, and never overflows.",
            when=engine.rvalid,
            trace=engine.rvalid & (level >= most - 2),
        )
        room = self.inside.signal("room")
        self.lemma("room", room + owed + level == most)
        pending = self.inside.signal("pending.level")
        self.lemma("pending_is_bounded", pending <= self._config.endpoint_reads + 1)
        self.always(
            "packets_always_have_room",
            self.inside.signal("pending.i__ready"),
            "Each packet of read data that is under way has its place among those pending.",
            when=self.inside.signal("pending.i__valid"),
            trace=pending == self._config.endpoint_reads,
        )

    def _cover_the_request(self, m):
        """Bursts at AR are those of the requests, in order and without a gap."""
        engine, config = self.component, self._config
        shift = config.flit_address_bits
        header = engine.i.payload.header
        accepted = engine.i.valid & engine.i.ready & (header.length != 0)
        flits = Signal(range(config.wave_flits + 2), name="flits_of_request")
        end = header.address[:shift] + header.length + (config.flit_bytes - 1)
        m.d.comb += flits.eq(end >> shift)
        first = header.address[shift : config.address_bits]
        # The request that AR is at, and one that was taken behind it.
        at, left = Signal.like(first, name="at"), Signal.like(flits, name="left_at_ar")
        next_at, next_left = Signal.like(at, name="next_at"), Signal.like(left, name="next_left")
        ends = self._asked & (self._beats == left)
        with m.If(accepted & ((left == 0) | (ends & (next_left == 0)))):
            m.d.sync += [at.eq(first), left.eq(flits)]
        with m.Elif(ends):
            m.d.sync += [at.eq(next_at), left.eq(next_left), next_left.eq(0)]
        with m.Elif(self._asked):
            m.d.sync += [at.eq(at + self._beats), left.eq(left - self._beats)]
        with m.If(accepted & (left != 0) & ~(ends & (next_left == 0))):
            m.d.sync += [next_at.eq(first), next_left.eq(flits)]
        self.always(
            "bursts_cover_the_requests",
            (engine.araddr[shift:] == at) & (self._beats <= left),
            "The bursts ask for the flits that hold the bytes of each request: all of them, in "
            "order, each once, and no other.",
            when=engine.arvalid,
            trace=engine.arvalid & (self._beats != left),
        )
        self._know_the_cut(at, left, next_at, next_left)

    def _know_the_cut(self, at, left, next_at, next_left):
        inside, config = self.inside, self._config
        valid, waits = inside.signal("valid"), inside.signal("waits")
        cut_left, flit = inside.signal("left"), inside.signal("flit")
        flits = inside.signal("flits")  # of the burst at AR; 0 of a packet without any
        packet_room = inside.signal("packet_room")
        cut = Mux(valid, cut_left, 0)
        burst = Mux(waits, flits, 0)
        self.lemma("burst_is_bounded", burst <= config.payload_flits)
        self.lemma("arlen", ~waits | (flits == 0) | (self._beats == flits))
        full = config.payload_flits
        self.lemma("packet_room", ~valid | ((packet_room != 0) & (packet_room <= full)))
        self.lemma("nothing_without_waiting", ~self.component.arvalid | (flits != 0))
        one = next_left == 0
        # What is cut and what is at AR are together what is left.
        self.lemma("left_of_one", ~one | (left == cut + burst))
        self.lemma("left_of_two", one | ((left == burst) & (next_left == cut) & (burst != 0)))
        of_cut = Mux(one, at + burst, next_at)
        self.lemma("cut_is_at", (cut == 0) | (flit == of_cut[: len(flit)]))
        offset = self.component.araddr[: config.flit_address_bits]
        self.lemma("ar_is_aligned", offset == 0)
        address = self.component.araddr[config.flit_address_bits :]
        page = AXI_PAGE_BYTES >> config.flit_address_bits
        self.lemma("ar_in_page", (burst == 0) | (address % page + burst <= page))
        self.lemma("ar_is_at", (burst == 0) | (address == at))


PROOFS = [
    Proof(
        name="read-engine",
        component="ReadEngine",
        size=describe(TWO_PAGES),
        specify=lambda: ReadEngineContract(TWO_PAGES),
        trace_depth=30,
        fault_depth=15,  # until there is no room, a packet a cycle
        mutants_depth=12,
        faults=(
            Fault("asks without room", "may", lambda may: Const(1)),
            Fault("crosses pages", "page_left", lambda left: left | 1023),
            Fault("an address changes while it waits", "ready", lambda ready: Const(1)),
            Fault("asks for a beat too many", "burst", lambda burst: burst + 1),
        ),
    )
]
