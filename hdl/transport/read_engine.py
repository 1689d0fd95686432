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

    Members
    -------
    i : read requests (`Beat`, all empty)
    ar*, r* : the read channels of `Axi4Signature`
    o : packets of read data: the flits that hold the bytes asked for. More than a payload is
        answered by several packets, with tags that count up from the request's; no bytes by one
        without payload, and nothing on the bus

    Timing
    ------
    Request to read address: 1 cycle. Data beat to packet: 1 cycle; the header goes first, so a
    packet's first data flit follows two cycles behind its beat. One burst address and one data
    flit a cycle.

    Ordering and stalls
    -------------------
    One AXI ID, so answers come in the order of the requests and stream without a packet buffer.
    An address is issued only with room for its whole burst, so ``rready`` is always 1. A burst
    stays within one 4 KiB page; a packet whose range crosses one is two bursts. Each flit carries
    the response of its own beat.
    """

    def __init__(self, config: SwitchConfig, *, source: int):
        self._config = config
        self._source = source
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
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.pending = pending = Queue(PendingPacket(config), depth=config.endpoint_reads)
        m.submodules.data = flits = Queue(PayloadFlit(config), depth=config.endpoint_read_flits)
        self._issue(m, pending, flits)
        self._answer(m, pending, flits)
        return m

    def _issue(self, m, pending, flits):
        """Cut the request at hand into packets, those into bursts; one address a cycle."""
        config = self._config
        header = self.i.payload.header
        shift = config.flit_address_bits
        page_flits = AXI_PAGE_BYTES >> shift

        offset = header.address[:shift]
        nothing = header.length == 0
        total = Signal(range(config.wave_flits + 2))  # of the request
        done = Signal.like(total)
        in_packet = Signal(range(config.payload_flits + 1))  # already asked of this packet
        packet = Signal(range(config.packets_per_wave + 1))
        first_flit = Signal(config.address_bits - shift)  # address of the burst, in flits
        packet_left = Signal(range(config.payload_flits + 1))
        page_left = Signal(range(page_flits + 1))
        burst = Signal.like(packet_left)
        request_left = Signal.like(total)
        m.d.comb += [
            total.eq(Mux(nothing, 0, (offset + header.length + (config.flit_bytes - 1)) >> shift)),
            request_left.eq(total - done),
            first_flit.eq(header.address[shift : config.address_bits] + done),
            packet_left.eq(
                Mux(
                    request_left > config.payload_flits - in_packet,
                    config.payload_flits - in_packet,
                    request_left,
                )
            ),
            page_left.eq(page_flits - (first_flit & (page_flits - 1))),
            burst.eq(Mux(packet_left > page_left, page_left, packet_left)),
        ]

        room = Signal(range(config.endpoint_read_flits + 1), init=config.endpoint_read_flits)
        issue = Signal()
        starts_packet = in_packet == 0
        m.d.comb += issue.eq(
            self.i.valid
            & (~self.arvalid | self.arready)
            & (room >= burst)
            & (pending.i.ready | ~starts_packet)
        )
        left = flits.o.valid & flits.o.ready
        m.d.sync += room.eq(room - Mux(issue, burst, 0) + left)

        with m.If(self.arready):
            m.d.sync += self.arvalid.eq(0)
        ends_packet = burst == packet_left
        ends_request = burst == request_left
        with m.If(issue):
            m.d.sync += [
                self.arvalid.eq(~nothing),
                self.araddr.eq(first_flit << shift),
                self.arlen.eq(burst - 1),
                done.eq(done + burst),
                in_packet.eq(in_packet + burst),
            ]
            with m.If(ends_packet):
                m.d.sync += [in_packet.eq(0), packet.eq(packet + 1)]
            with m.If(ends_request):
                m.d.sync += [done.eq(0), packet.eq(0)]
        m.d.comb += [
            self.i.ready.eq(issue & ends_request),
            pending.i.valid.eq(issue & starts_packet),
            pending.i.payload.destination.eq(header.source),
            pending.i.payload.context.eq(header.context),
            pending.i.payload.generation.eq(header.generation),
            pending.i.payload.tag.eq(header.tag + packet),
            pending.i.payload.flits.eq(packet_left),
        ]

    def _answer(self, m, pending, flits):
        config = self._config
        head = self.o.head
        begins = flits.o.valid | (pending.o.payload.flits == 0)
        m.d.comb += [
            self.rready.eq(1),  # room was reserved with the address
            flits.i.valid.eq(self.rvalid),
            flits.i.payload.data.eq(self.rdata),
            flits.i.payload.response.eq(self.rresp),
            head.valid.eq(pending.o.valid & begins),
            pending.o.ready.eq(head.ready & begins),
            head.payload.flits.eq(pending.o.payload.flits),
            head.payload.header.message_class.eq(MessageClass.READ_DATA),
            head.payload.header.inc.eq(1),
            head.payload.header.source.eq(self._source),
            head.payload.header.destination.eq(pending.o.payload.destination),
            head.payload.header.context.eq(pending.o.payload.context),
            head.payload.header.generation.eq(pending.o.payload.generation),
            head.payload.header.tag.eq(pending.o.payload.tag),
            head.payload.header.length.eq(pending.o.payload.flits << config.flit_address_bits),
        ]
        wiring.connect(m, flits.o, wiring.flipped(self.o.payload))
