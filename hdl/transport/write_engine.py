"""Endpoint, write side: write packets become AXI4 bursts, responses become packets."""

from amaranth import Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import AXI_PAGE_BYTES, SwitchConfig
from ..interfaces import Beat, MessageClass, PacketSource, Response
from ..stream import Queue

__all__ = ["WriteEngine"]

#: Write packets whose responses may be outstanding in the memory.
OUTSTANDING = 16

PendingWrite = data.StructLayout(
    {
        "destination": unsigned(4),
        "context": unsigned(4),
        "generation": unsigned(4),
        "tag": unsigned(16),
        "bursts": unsigned(2),  # 0 for a packet without payload
    }
)

Answer = data.StructLayout(
    {
        "destination": unsigned(4),
        "context": unsigned(4),
        "generation": unsigned(4),
        "tag": unsigned(16),
        "status": Response,
    }
)


class WriteEngine(wiring.Component):
    """Writes the packets that arrive to memory, and answers each once.

    Parameters
    ----------
    source
        The rank's number, for the headers of its answers.
    inc
        Whether it serves the accelerator.

    Members
    -------
    i : write packets (`Beat`); payload bytes stand in the byte lanes of their address
    aw*, w*, b* : the write channels of `Axi4Signature`
    o : write responses, packets without payload
    cut : nothing more comes of the packet at ``i``; idle : no packet is here and nothing is owed;
        where contexts outlive failures

    Timing
    ------
    Beat to ``wvalid``: 1 cycle; one beat a cycle. Last response of a packet to its head at ``o``:
    1 cycle.

    Ordering and stalls
    -------------------
    One AXI ID: packets are written and answered in order of arrival. A burst stays within one
    4 KiB page; a packet that crosses one is two bursts and has one response, the worse of the two.
    Bytes before the address and behind the length are not strobed. Room for the response is
    reserved before the address goes out, so ``bready`` is always 1. A packet without payload
    touches nothing; it waits until those before it are answered, and is then answered with OKAY.
    A packet that is cut is written to the end of its bursts, with no byte strobed.
    """

    def __init__(self, config: SwitchConfig, *, source: int, inc: bool = True):
        self._config = config
        self._source = source
        self._inc = int(inc)
        super().__init__(
            {
                "i": In(stream.Signature(Beat(config))),
                "o": Out(PacketSource(config)),
                "awaddr": Out(config.address_bits),
                "awlen": Out(8),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(config.flit_bits),
                "wstrb": Out(config.flit_bytes),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
            }
            | ({"cut": In(1), "idle": Out(1)} if config.recovers else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.pending = pending = Queue(PendingWrite, depth=OUTSTANDING)
        m.submodules.answers = answers = Queue(Answer, depth=OUTSTANDING)
        self._write(m, pending, answers)
        self._answer(m, pending, answers)
        return m

    def _write(self, m, pending, answers):
        config = self._config
        beat = self.i.payload
        header = beat.header
        shift = config.flit_address_bits
        page_flits = AXI_PAGE_BYTES >> shift

        # Of the packet at hand, from its header.
        offset = header.address[:shift]
        end = Signal(shift)
        first_flit = header.address[shift : config.address_bits]
        # Beats of the packet and of its page, less one: as AXI counts, and with a carry less.
        beats = Signal(range(config.payload_flits + 1))
        page_left = Signal(range(page_flits))
        two_bursts = Signal()
        m.d.comb += [
            end.eq(offset + header.length),
            beats.eq((offset + header.length - 1)[shift:]),
            page_left.eq(~first_flit),
            two_bursts.eq(beats > page_left),
        ]

        # The second burst's address waits here for the first to be taken.
        second_waits = Signal()
        second_flit = Signal(first_flit.shape())
        second_length = Signal(8)
        room = Signal(range(OUTSTANDING + 1), init=OUTSTANDING)  # for answers
        answered = Signal()  # in the cycle before: the transmitter says late what it takes
        m.d.sync += answered.eq(self.o.head.valid & self.o.head.ready)

        accept = Signal()
        starts = accept & beat.first
        m.d.comb += [
            accept.eq(
                self.i.valid
                & (~self.wvalid | self.wready)
                & (~beat.first | (~self.awvalid & ~second_waits & (room != 0)))
                & (~beat.empty | (pending.level == 0))
            ),
            self.i.ready.eq(accept),
            pending.i.valid.eq(starts),
            pending.i.payload.destination.eq(header.source),
            pending.i.payload.context.eq(header.context),
            pending.i.payload.generation.eq(header.generation),
            pending.i.payload.tag.eq(header.tag),
            pending.i.payload.bursts.eq(Mux(beat.empty, 0, 1 + two_bursts)),
        ]
        m.d.sync += room.eq(room - starts + answered)

        with m.If(self.awready):
            m.d.sync += self.awvalid.eq(0)
        with m.If(second_waits & (~self.awvalid | self.awready)):
            m.d.sync += [
                self.awvalid.eq(1),
                self.awaddr.eq(second_flit << shift),
                self.awlen.eq(second_length),
                second_waits.eq(0),
            ]
        with m.If(starts & ~beat.empty):
            m.d.sync += [
                self.awvalid.eq(1),
                self.awaddr.eq(first_flit << shift),
                self.awlen.eq(Mux(two_bursts, page_left, beats)),
                second_waits.eq(two_bursts),
                second_flit.eq(first_flit + page_left + 1),
                second_length.eq(beats - page_left - 1),
            ]

        to_page_end = Signal(range(page_flits))  # beats of the first burst behind this one
        remaining = Mux(beat.first, page_left, to_page_end)
        with m.If(self.wready):
            m.d.sync += self.wvalid.eq(0)
        with m.If(accept & ~beat.empty):
            m.d.sync += [
                self.wvalid.eq(1),
                self.wdata.eq(beat.data),
                self.wlast.eq(beat.last | (remaining == 0)),
                self.wstrb.eq(self._strobe(beat, offset, end)),
                to_page_end.eq(remaining - 1),
            ]
        if config.recovers:
            under_way = self._pad(m, accept & ~beat.empty, beats, to_page_end)
            waits = under_way | self.awvalid | self.wvalid | second_waits
            owes = (pending.level != 0) | (answers.level != 0)
            m.d.comb += self.idle.eq(~waits & ~owes)

    def _pad(self, m, accepts, beats, to_page_end):
        """Write what a cut packet lacks, with no byte strobed; whether a packet is under way."""
        beat = self.i.payload
        under_way = Signal()
        left = Signal.like(beats)  # of its beats
        pads = self.cut & under_way & ~self.i.valid & (~self.wvalid | self.wready)
        with m.If(accepts):
            m.d.sync += [
                under_way.eq(~beat.last),
                left.eq(Mux(beat.first, beats, left - 1)),
            ]
        with m.Elif(pads):
            m.d.sync += [
                self.wvalid.eq(1),
                self.wstrb.eq(0),
                self.wlast.eq((left == 1) | (to_page_end == 0)),
                to_page_end.eq(to_page_end - 1),
                left.eq(left - 1),
                under_way.eq(left != 1),
            ]
        return under_way

    def _strobe(self, beat, offset, end):
        """Bytes of this beat that the packet covers."""
        every = Const((1 << self._config.flit_bytes) - 1, self._config.flit_bytes)
        after_start = Mux(beat.first, (every << offset)[: len(every)], every)
        before_end = Mux(beat.last & (end != 0), ~(every << end)[: len(every)], every)
        return after_start & before_end

    def _answer(self, m, pending, answers):
        awaits_second = Signal()  # the first of two bursts is answered
        first_status = Signal(Response)
        owed = pending.o.payload
        earlier = Mux(awaits_second, first_status.as_value(), Response.OKAY)
        worse = Mux(earlier > self.bresp, earlier, self.bresp)
        nothing = pending.o.valid & (owed.bursts == 0)  # so no response can come
        completes = nothing | (self.bvalid & (awaits_second | (owed.bursts == 1)))
        m.d.comb += [
            self.bready.eq(1),
            pending.o.ready.eq(completes),
            answers.i.valid.eq(completes),
            answers.i.payload.destination.eq(owed.destination),
            answers.i.payload.context.eq(owed.context),
            answers.i.payload.generation.eq(owed.generation),
            answers.i.payload.tag.eq(owed.tag),
            answers.i.payload.status.eq(Mux(nothing, Response.OKAY, worse)),
        ]
        with m.If(self.bvalid):
            m.d.sync += [awaits_second.eq(~completes), first_status.eq(self.bresp)]

        head = self.o.head
        header = head.payload.header
        answer = answers.o.payload
        m.d.comb += [
            head.valid.eq(answers.o.valid),
            answers.o.ready.eq(head.ready),
            header.message_class.eq(MessageClass.WRITE_RESPONSE),
            header.inc.eq(self._inc),
            header.source.eq(self._source),
            header.destination.eq(answer.destination),
            header.context.eq(answer.context),
            header.generation.eq(answer.generation),
            header.tag.eq(answer.tag),
            header.status.eq(answer.status),
        ]
