"""`WriteBack`: what was let start always has a place, and leaves as packets without a gap."""

from __future__ import annotations

from amaranth import Mux, Signal
from amaranth.lib import wiring

from hdl.accelerator.write_back import WriteBack, write_back_flits

from .proof import BOUNDED, Fault, Proof
from .sizes import SMALL, describe
from .specification import Specification
from .stream_queue import keeps_its_place
from .streams import keeps_contract, streams

__all__ = ["PROOFS"]

#: Cycles from a packet's start to its first result: at least those of a header, and one.
DATA_DELAY = 4


class _WriteBack(Specification):
    """A write-back, and packets that start with room."""

    def __init__(self, config):
        self._config = config
        super().__init__(WriteBack(config, port=0, data_delay=DATA_DELAY))

    def specify(self, m):
        """Results come a fixed time behind their packet's start, a flit a cycle."""
        write_back, config = self.component, self._config
        start = write_back.start
        self._left = left = Signal(range(config.payload_flits + 1), name="flits_to_read")
        m.d.sync += left.eq(Mux(start.valid, start.flits - 1, Mux(left != 0, left - 1, 0)))
        flits = (start.flits != 0) & (start.flits <= config.payload_flits)
        self.assume("starts_with_room", ~start.valid | (write_back.room & flits & (left == 0)))
        self._stages = [start.valid | (left != 0)]
        for stage in range(DATA_DELAY):
            self._stages.append(self.past(self._stages[-1], name=f"results_{stage}"))
        self.assume("results_come_in_time", write_back.result_valid == self._stages[-1])


class WriteBackContract(_WriteBack):
    """Room for whatever was let start."""

    def specify(self, m):
        super().specify(m)
        write_back, config = self.component, self._config
        start = write_back.start
        depth = write_back_flits(config, DATA_DELAY)
        flits = self.inside.signal("flits.level")
        heads = self.inside.signal("heads.level")
        coming = Signal(range(depth + 1), name="results_that_come")
        m.d.sync += coming.eq(coming + Mux(start.valid, start.flits, 0) - write_back.result_valid)
        self.always(
            "results_always_have_room",
            self.inside.signal("flits.i__ready"),
            "Forward progress, rule 3: a result always has a place, since its packet started only "
            "with room for the whole of it.",
            when=write_back.result_valid,
            trace=write_back.result_valid & (flits == depth - 1),
        )
        self.always(
            "heads_always_have_room",
            self.inside.signal("heads.i__ready"),
            "A packet that starts always has a place for its head.",
            when=start.valid,
            trace=start.valid & (heads == depth // 2 - 1),
        )
        free = self.inside.signal("free")
        self.always(
            "room_is_what_is_not_promised",
            free + coming + flits == depth,
            "Free room, results that are still to come and results that wait are the FIFO.",
            trace=coming == 2 * config.payload_flits,
        )
        for name, port in streams(write_back, wiring.Out):
            keeps_contract(self, name, port)
        released = self.inside.signal("released")
        started = self.past(start.valid, name="started")
        self.lemma("started", self.inside.signal("start_delayed_1") == started)
        self.lemma("heads_are_released_a_cycle_late", heads == released + started)
        keeps_its_place(self, "flits")
        keeps_its_place(self, "heads")
        self.lemma("coming", coming == self._left + sum(self._stages[1:]))


class WriteBackPacketsContract(_WriteBack):
    """A transmitter: the header's flits behind the head, then a flit of payload a cycle."""

    def specify(self, m):
        super().specify(m)
        write_back, config = self.component, self._config
        head, payload = write_back.o.head, write_back.o.payload
        taken = head.valid & head.ready
        header = Signal(range(config.header_flits + 2), name="header_cycles")
        owed = Signal(range(config.payload_flits + 1), name="payload_owed")
        wants = (header == 0) & (owed != 0)
        ends = wants & (owed == 1)
        # The next head is taken as the last flit of the packet before is sent, or later.
        self.assume("transmits_one_packet", ~taken | (owed == 0) | ends)
        self.assume("transmits_at_once", payload.ready == wants)
        with m.If(taken):
            m.d.sync += [header.eq(config.header_flits), owed.eq(head.payload.flits)]
        with m.Elif(header != 0):
            m.d.sync += header.eq(header - 1)
        with m.Elif(wants):
            m.d.sync += owed.eq(owed - 1)
        self.always(
            "a_packet_on_the_link_waits_for_nothing",
            payload.valid,
            "Forward progress, rule 6: once a head is taken, its payload is there when the link "
            "is: a packet never waits for the arithmetic, or for another port.",
            when=wants,
            trace=wants & (owed == config.payload_flits),
        )


PROOFS = [
    Proof(
        name="write-back",
        component="WriteBack",
        size=f"{describe(SMALL)}, results after {DATA_DELAY} cycles",
        specify=lambda: WriteBackContract(SMALL),
        faults=(
            Fault("room is given back twice", "free", lambda free: free | 1),
            Fault("starts count a flit too few", "free", lambda free: free + 1),
        ),
    ),
    Proof(
        name="write-back-packets",
        component="WriteBack",
        size=f"{describe(SMALL)}, results after {DATA_DELAY} cycles",
        specify=lambda: WriteBackPacketsContract(SMALL),
        mode=BOUNDED,
        depth=16,
        quick=False,
        faults=(Fault("a head is offered too early", "released", lambda released: released | 1),),
    ),
]
