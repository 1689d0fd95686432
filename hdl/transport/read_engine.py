"""Endpoint, read side: read requests become AXI4 bursts, read data becomes packets."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import AXI_PAGE_BYTES, SwitchConfig
from ..interfaces import Beat, MessageClass, PacketSource, PayloadFlit
from ..stream import Queue

__all__ = ["ReadEngine"]

#: AXI4 burst type that every burst has.
AXI_INCR = 1


class PendingPacket(data.StructLayout):
    """A packet of read data that the memory owes."""

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "destination": unsigned(4),
                "context": unsigned(4),
                "generation": unsigned(4),
                "tag": unsigned(16),
                "flits": unsigned(config.payload_flits.bit_length()),
            }
        )


class ReadEngine(wiring.Component):
    """Reads memory for the requests that arrive, and answers in their order.

    Parameters
    ----------
    source
        The rank's number, for the headers of its answers.
    inc
        Whether it serves the accelerator.

    Members
    -------
    i : read requests (`Beat`, all empty)
    ar*, r* : the read channels of `Axi4Signature`
    o : packets of read data: the flits that hold the bytes asked for. More than a payload is
        answered by several packets, with tags that count up from the request's; no bytes by one
        without payload, and nothing on the bus
    idle : no request is here and nothing is owed; where contexts outlive failures

    Timing
    ------
    Request to read address: 2 cycles. A packet's head is offered with its first data beat, whose
    flit follows one cycle behind it. One burst address and one data flit a cycle; a request every
    second cycle, which is no less than its answer takes on the link.

    Ordering and stalls
    -------------------
    One AXI ID, so answers come in the order of the requests and stream without a packet buffer.
    An address is issued only with room for its whole burst, so ``rready`` is always 1. A burst
    stays within one 4 KiB page; a packet whose range crosses one is two bursts. Each flit carries
    the response of its own beat.
    """

    def __init__(self, config: SwitchConfig, *, source: int, inc: bool = True):
        self._config = config
        self._source = source
        self._inc = int(inc)
        super().__init__(
            {
                "i": In(stream.Signature(Beat(config))),
                "o": Out(PacketSource(config)),
                "araddr": Out(config.address_bits),
                "arlen": Out(8),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(config.flit_bits),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
            | ({"idle": Out(1)} if config.recovers else {})
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.pending = pending = Queue(PendingPacket(config), depth=config.endpoint_reads)
        m.submodules.data = flits = Queue(PayloadFlit(config), depth=config.endpoint_read_flits)
        burst, starts_packet, issue = self._cut(m, pending)
        self._issue(m, pending, flits, burst, starts_packet, issue)
        self._answer(m, pending, flits)
        return m

    def _cut(self, m, pending):
        """The request at hand, cut into packets and those into bursts: the address to issue next.

        Gives its flits (0 for a packet without any), whether it begins a packet, and the signal
        that takes it. The packet stands at the queue of those pending.
        """
        config = self._config
        shift = config.flit_address_bits
        page_flits = AXI_PAGE_BYTES >> shift
        address_shape = unsigned(config.address_bits - shift)

        # What is left of the request: from where, flits, and flits until its packet is full.
        valid = Signal()
        flit = Signal(address_shape)
        left = Signal(range(config.wave_flits + 2))
        packet_room = Signal(range(config.payload_flits + 1))
        packet_left = Signal.like(packet_room)
        page_left = Signal(range(page_flits + 1))
        burst = Signal.like(packet_room)
        # The least of the three ends the burst: compared side by side, since that is quicker.
        within_packet, within_page, packet_within_page = Signal(), Signal(), Signal()
        m.d.comb += [
            page_left.eq(page_flits - (flit & (page_flits - 1))),
            within_packet.eq(left <= packet_room),
            within_page.eq(left <= page_left),
            packet_within_page.eq(packet_room <= page_left),
            packet_left.eq(Mux(within_packet, left, packet_room)),
            burst.eq(
                Mux(
                    within_packet & within_page,
                    left,
                    Mux(packet_within_page, packet_room, page_left),
                )
            ),
        ]
        ready = Signal()  # to issue the next burst
        advance = valid & ready
        ends_request = within_packet & within_page
        ends_packet = ends_request | (~within_packet & packet_within_page)

        header = self.i.payload.header
        owed = Signal(PendingPacket(config))
        # Not while one is ending: that would tie the queue in front to the room for data behind.
        m.d.comb += self.i.ready.eq(~valid)
        with m.If(advance):
            m.d.sync += [
                flit.eq(flit + burst),
                left.eq(left - burst),
                packet_room.eq(Mux(ends_packet, config.payload_flits, packet_room - burst)),
                owed.tag.eq(owed.tag + ends_packet),
                valid.eq(~ends_request),
            ]
        with m.If(self.i.ready):
            end = header.address[:shift] + header.length + (config.flit_bytes - 1)
            m.d.sync += [
                valid.eq(self.i.valid),
                flit.eq(header.address[shift : config.address_bits]),
                left.eq(Mux(header.length == 0, 0, end >> shift)),
                packet_room.eq(config.payload_flits),
                owed.destination.eq(header.source),
                owed.context.eq(header.context),
                owed.generation.eq(header.generation),
                owed.tag.eq(header.tag),
            ]

        # The burst that is issued next.
        issue = Signal()
        waits = Signal()
        flits = Signal.like(burst)
        starts_packet = Signal()
        m.d.comb += ready.eq(~waits | issue)
        with m.If(ready):
            m.d.sync += [
                waits.eq(valid),
                self.araddr.eq(flit << shift),
                self.arlen.eq(burst - 1),
                flits.eq(burst),
                starts_packet.eq(packet_room == config.payload_flits),
                pending.i.payload.eq(owed),
                pending.i.payload.flits.eq(packet_left),
            ]
        self._cutting = valid | waits
        return Mux(waits, flits, 0), waits & starts_packet, issue

    def _issue(self, m, pending, flits, burst, starts_packet, issue):
        """Issue the burst once there is room for all of its data."""
        most = self._config.endpoint_read_flits
        room = Signal(range(most + 1), init=most)
        may = Signal()
        left = flits.o.valid & flits.o.ready
        m.d.comb += [
            may.eq((room >= burst) & (pending.i.ready | ~starts_packet)),
            self.arvalid.eq(may & (burst != 0)),
            # A packet of no flits has nothing to ask of the memory.
            issue.eq(may & Mux(burst != 0, self.arready, starts_packet)),
            pending.i.valid.eq(issue & starts_packet),
        ]
        m.d.sync += room.eq(room - Mux(issue, burst, 0) + left)
        if self._config.recovers:
            nothing = ~self._cutting & (pending.level == 0)
            m.d.comb += self.idle.eq(nothing & (room == most))

    def _answer(self, m, pending, flits):
        head = self.o.head
        begins = Signal()  # the packet's first flit is there when its header has been sent
        m.d.comb += [
            begins.eq(flits.o.valid | self.rvalid | (pending.o.payload.flits == 0)),
            self.rready.eq(1),  # room was reserved with the address
            flits.i.valid.eq(self.rvalid),
            flits.i.payload.data.eq(self.rdata),
            flits.i.payload.response.eq(self.rresp),
            head.valid.eq(pending.o.valid & begins),
            pending.o.ready.eq(head.ready & begins),
            head.payload.flits.eq(pending.o.payload.flits),
            head.payload.header.message_class.eq(MessageClass.READ_DATA),
            head.payload.header.inc.eq(self._inc),
            head.payload.header.source.eq(self._source),
            head.payload.header.destination.eq(pending.o.payload.destination),
            head.payload.header.context.eq(pending.o.payload.context),
            head.payload.header.generation.eq(pending.o.payload.generation),
            head.payload.header.tag.eq(pending.o.payload.tag),
            head.payload.header.length.eq(
                pending.o.payload.flits << self._config.flit_address_bits
            ),
        ]
        wiring.connect(m, flits.o, wiring.flipped(self.o.payload))
