"""A rank's end of the link: packets to AXI4 and back, arrivals out."""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import SwitchConfig
from ..interfaces import (
    Axi4Signature,
    Beat,
    LinkSignature,
    LinkState,
    MessageClass,
    PacketSource,
    Response,
)
from . import channels
from .axi_share import AxiShare
from .link_end import LinkEnd, join_end
from .read_engine import AXI_INCR, ReadEngine
from .receiver import Receiver
from .transmitter import Transmitter
from .write_engine import WriteEngine

__all__ = ["DOORBELL_SPACING", "Arrival", "Endpoint", "arrival_layout"]

#: Distance of two contexts' doorbells in the accelerator's address space, in bytes.
DOORBELL_SPACING = 4096
#: Words of a context's window, of which the first is its doorbell.
WINDOW_WORD_BYTES = 8
WINDOW_WORD_BITS = 8 * WINDOW_WORD_BYTES
#: Width of a word's number in its window.
WINDOW_PLACE_BITS = 4

#: What a rank says when its operand is ready.
Arrival = data.StructLayout({"epoch": unsigned(32), "context": unsigned(4)})


def arrival_layout(config: SwitchConfig) -> data.StructLayout:
    """`Arrival`; where there are several contexts also what a rank writes to their windows:
    ``value`` at ``word``, unless that is 0, the arrival.
    """
    if config.contexts == 1:
        return Arrival
    members = {name: field.shape for name, field in Arrival}
    word = {"word": unsigned(WINDOW_PLACE_BITS), "value": unsigned(WINDOW_WORD_BITS)}
    return data.StructLayout(members | word)


class Endpoint(wiring.Component):
    """Serves the accelerator's reads and writes from the rank's memory, and rings its doorbell.

    Where the core forwards, it also serves ordinary reads and writes of other ranks, under an AXI
    ID of their own, and sends this rank's.

    Parameters
    ----------
    rank
        The rank's number.

    Members
    -------
    rx : the link from the switch
    tx : the link to the switch
    axi : the rank's memory (`Axi4Signature`, manager)
    arrival : an arrival to send; taken when its packet starts
    acknowledged : the last arrival was answered (one cycle)
    acknowledgement : how, in that cycle
    requests, writes : where the core forwards: this rank's ordinary requests (`PacketSource`)
    read_data, write_responses : their answers (`Beat`), which must be taken at once
    up : the link is UP; arrivals_lost: one that was sent is answered here, since the link has lost
        it or its answer; where contexts outlive failures

    Timing
    ------
    See `ReadEngine` and `WriteEngine`; the receiver's queues and the transmitter add one cycle
    each.

    A link that goes down
    ---------------------
    What has arrived is served as ever, so no burst is cut, and the answers go nowhere. Arrivals
    that were sent and not answered are answered here, with DECERR. Those that were not sent, and
    this rank's own requests, wait until it is UP.
    """

    def __init__(self, config: SwitchConfig, *, rank: int):
        self._config = config
        self._rank = rank
        ordinary = {
            "requests": In(PacketSource(config)),
            "writes": In(PacketSource(config)),
            "read_data": Out(stream.Signature(Beat(config))),
            "write_responses": Out(stream.Signature(Beat(config))),
        }
        super().__init__(
            {
                "rx": In(LinkSignature(config)),
                "tx": Out(LinkSignature(config)),
                "axi": Out(
                    Axi4Signature(address_bits=config.address_bits, data_bytes=config.flit_bytes)
                ),
                "arrival": In(stream.Signature(arrival_layout(config))),
                "acknowledged": Out(1),
                "acknowledgement": Out(Response),
            }
            | (ordinary if config.forwards else {})
            | ({"up": Out(1), "arrivals_lost": Out(1)} if config.recovers else {})
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.receiver = receiver = Receiver(config, channels.endpoint_channels(config))
        m.submodules.transmitter = transmitter = Transmitter(
            config, channels.endpoint_sources(config), channels.credits_to_switch(config)
        )
        m.submodules.reads = reads = ReadEngine(config, source=self._rank)
        m.submodules.writes = writes = WriteEngine(config, source=self._rank)
        connect(m, receiver.link, flipped(self.rx))
        connect(m, transmitter.link, flipped(self.tx))
        returned = self.rx.credit
        if config.recovers:
            m.submodules.link_end = self._end = LinkEnd()
            returned = join_end(m, self._end, self.rx, receiver, transmitter)
            m.d.comb += [
                self.up.eq(self._end.state == LinkState.UP),
                writes.cut.eq(receiver.cut[channels.WRITE_DATA]),
            ]
            self._engines = [reads, writes]
        m.d.comb += [
            transmitter.link_credit.eq(receiver.credit),
            transmitter.returned.eq(returned),
        ]
        connect(m, getattr(receiver, f"channel_{channels.READ_REQUEST}"), reads.i)
        connect(m, getattr(receiver, f"channel_{channels.WRITE_DATA}"), writes.i)
        connect(m, reads.o, transmitter.read_data)
        connect(m, writes.o, transmitter.write_responses)
        if config.forwards:
            self._forward(m, receiver, transmitter, reads, writes)
        else:
            self._connect_axi(m, self.axi, reads, writes)
        self._arrive(m, receiver, transmitter)
        if config.carries_ordinary and not config.forwards:
            # This endpoint asks for nothing, so whatever ordinary answer comes is dropped.
            for number in channels.ORDINARY_ANSWERS:
                m.d.comb += getattr(receiver, f"channel_{number}").ready.eq(1)
        if config.recovers:
            idle = [engine.idle for engine in self._engines]
            m.d.comb += self._end.clean.eq(
                Cat(receiver.empty, transmitter.idle, self._told, *idle).all()
            )
        return m

    def _forward(self, m, receiver, transmitter, reads, writes):
        """Ordinary requests of others, beside the accelerator's, and this rank's own."""
        config, rank = self._config, self._rank
        m.submodules.core_reads = core_reads = ReadEngine(config, source=rank, inc=False)
        m.submodules.core_writes = core_writes = WriteEngine(config, source=rank, inc=False)
        m.submodules.share = share = AxiShare(config)
        self._connect_axi(m, share.managers[0], reads, writes)
        self._connect_axi(m, share.managers[1], core_reads, core_writes)
        connect(m, share.axi, flipped(self.axi))
        for number, user in (
            (channels.CORE_READ_REQUEST, core_reads.i),
            (channels.CORE_WRITE_DATA, core_writes.i),
            (channels.CORE_READ_DATA, flipped(self.read_data)),
            (channels.CORE_WRITE_RESPONSE, flipped(self.write_responses)),
        ):
            connect(m, getattr(receiver, f"channel_{number}"), user)
        connect(m, core_reads.o, transmitter.core_read_data)
        connect(m, core_writes.o, transmitter.core_write_responses)
        connect(m, flipped(self.requests), transmitter.core_requests)
        connect(m, flipped(self.writes), transmitter.core_writes)
        if config.recovers:
            self._engines += [core_reads, core_writes]
            m.d.comb += core_writes.cut.eq(receiver.cut[channels.CORE_WRITE_DATA])
            for source, sink in (
                (self.requests, transmitter.core_requests),
                (self.writes, transmitter.core_writes),
            ):
                m.d.comb += [
                    sink.head.valid.eq(source.head.valid & self.up),
                    source.head.ready.eq(sink.head.ready & self.up),
                ]

    def _connect_axi(self, m, axi, reads, writes):
        size = self._config.flit_address_bits
        for engine, channel in ((reads, "ar"), (writes, "aw")):
            for name in ("addr", "len", "valid"):
                m.d.comb += getattr(axi, channel + name).eq(getattr(engine, channel + name))
            m.d.comb += [
                getattr(axi, channel + "size").eq(size),
                getattr(axi, channel + "burst").eq(AXI_INCR),
                getattr(engine, channel + "ready").eq(getattr(axi, channel + "ready")),
            ]
        for name in ("wdata", "wstrb", "wlast", "wvalid", "bready"):
            m.d.comb += getattr(axi, name).eq(getattr(writes, name))
        for name in ("wready", "bresp", "bvalid"):
            m.d.comb += getattr(writes, name).eq(getattr(axi, name))
        m.d.comb += axi.rready.eq(reads.rready)
        for name in ("rdata", "rresp", "rvalid"):
            m.d.comb += getattr(reads, name).eq(getattr(axi, name))

    def _place(self, arrival):
        """Where it is written in the accelerator's address space."""
        doorbell = arrival.context * DOORBELL_SPACING
        if self._config.contexts == 1:
            return doorbell
        return doorbell + arrival.word * WINDOW_WORD_BYTES

    def _word(self, arrival):
        """What is written; it stands in every place that its address may name."""
        if self._config.contexts == 1:
            return arrival.epoch
        word = Mux(arrival.word == 0, arrival.epoch, arrival.value)
        places = self._config.flit_bytes // WINDOW_WORD_BYTES
        return Cat(word[:WINDOW_WORD_BITS] for _ in range(places))

    def _arrive(self, m, receiver, transmitter):
        arrivals = transmitter.arrivals
        head, payload = arrivals.head, arrivals.payload
        arrival = self.arrival.payload
        answer = getattr(receiver, f"channel_{channels.WRITE_RESPONSE}")
        sent = Signal()  # its head is taken, its payload not yet
        with m.If(head.valid & head.ready):
            m.d.sync += sent.eq(1)
        with m.If(payload.valid & payload.ready):
            m.d.sync += sent.eq(0)
        m.d.comb += [
            head.valid.eq(self.arrival.valid & ~sent),
            head.payload.flits.eq(1),
            head.payload.header.message_class.eq(MessageClass.WRITE_DATA),
            head.payload.header.inc.eq(1),
            head.payload.header.source.eq(self._rank),
            head.payload.header.destination.eq(self._rank),
            head.payload.header.context.eq(arrival.context),
            head.payload.header.address.eq(self._place(arrival)),
            head.payload.header.length.eq(8),
            # Never before its head: a register slice would take it while the link is down.
            payload.valid.eq(self.arrival.valid & sent),
            payload.payload.data.eq(self._word(arrival)),
            self.arrival.ready.eq(payload.ready & sent),
            answer.ready.eq(1),
            self.acknowledged.eq(answer.valid),
            self.acknowledgement.eq(answer.payload.header.status),
        ]
        if self._config.recovers:
            m.d.comb += head.valid.eq(self.arrival.valid & ~sent & self.up)
            self._tell(m, head.valid & head.ready, sent)

    def _tell(self, m, begins, sent):
        """Answer the arrivals that the link has lost, or whose answers it has."""
        # More than a link and its ends hold, each arrival a header and a flit.
        most = self._config.round_trip + channels.FEW
        unanswered = Signal(range(most + 1))
        m.d.comb += self.arrivals_lost.eq(~self.up & ~sent & (unanswered != 0))
        with m.If(self.arrivals_lost):
            m.d.comb += [self.acknowledged.eq(1), self.acknowledgement.eq(Response.DECERR)]
        m.d.sync += unanswered.eq(unanswered + begins - self.acknowledged)
        self._told = ~sent & (unanswered == 0)
