"""Asking: the requests of a traffic generator become packets, no faster than its rate."""

from amaranth import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import MessageClass, PacketSource
from ..stream import Queue
from .sequence import Choice
from .settings import GENERATION_BITS, RATE_BITS, RATE_ONE
from .words import flit_words

__all__ = ["TrafficRequester"]

#: Writes whose head is taken and whose payload is not all sent.
WRITES_UNDER_WAY = 2


class TrafficRequester(wiring.Component):
    """Offers the request at hand as a packet, and sends the payload of those that write.

    Parameters
    ----------
    rank
        This rank's number.

    Members
    -------
    choice : the request at hand; goes when there is one and a ``tag`` for it
    tag : the tag that it will have; generation: what goes with it, where contexts outlive failures
    taken : its head is taken in this cycle
    size, flits : bytes and payload flits of every request
    rate, seed : see `traffic_settings`
    requests, writes : packets to the endpoint

    Timing
    ------
    A head a cycle at most. The budget earns ``rate`` a cycle, and a request costs its data
    packet's flits, so requests are as far apart as those would take.
    """

    def __init__(self, config: SwitchConfig, *, rank: int):
        self._config = config
        self._rank = rank
        super().__init__(
            {
                "choice": In(Choice(config)),
                "goes": In(1),
                "tag": In(range(config.traffic_requests)),
                "taken": Out(1),
                "size": In(range(config.payload_bytes + 1)),
                "flits": In(range(config.payload_flits + 1)),
                "rate": In(RATE_BITS),
                "seed": In(32),
                "requests": Out(PacketSource(config)),
                "writes": Out(PacketSource(config)),
            }
            | ({"generation": In(GENERATION_BITS)} if config.recovers else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.under_way = under_way = Queue(Choice(self._config), depth=WRITES_UNDER_WAY)
        affordable = self._spend(m)
        goes = Signal()
        m.d.comb += goes.eq(self.goes & affordable & under_way.i.ready)
        takes = []
        for source, write, message_class in (
            (self.requests, 0, MessageClass.READ_REQUEST),
            (self.writes, 1, MessageClass.WRITE_DATA),
        ):
            self._describe(m, source.head.payload, message_class)
            m.d.comb += source.head.valid.eq(goes & (self.choice.write == write))
            takes.append(source.head.valid & source.head.ready)
        m.d.comb += [
            self.writes.head.payload.flits.eq(self.flits),
            self.taken.eq(Cat(takes).any()),
            under_way.i.valid.eq(takes[1] & (self.flits != 0)),
            under_way.i.payload.eq(self.choice),
        ]
        self._pay_out(m, under_way.o)
        return m

    def _spend(self, m):
        """Whether a request may go."""
        config = self._config
        cost = (self.flits + config.header_flits) * RATE_ONE
        most = (config.packet_flits * RATE_ONE).bit_length() + 1
        budget = Signal(signed(most))
        earned = Signal(signed(max(most, RATE_BITS + 1) + 1))
        full = RATE_ONE - 1  # less than a flit: what was not used is not saved up
        m.d.comb += earned.eq(budget + self.rate)
        m.d.sync += budget.eq(Mux(earned > full, full, earned) - Mux(self.taken, cost, 0))
        return budget >= 0

    def _describe(self, m, head, message_class):
        header, choice = head.header, self.choice
        window_bits = (self._config.map_window_bytes - 1).bit_length()
        local = Signal(window_bits)
        m.d.comb += [
            local.eq(choice.address),
            header.message_class.eq(message_class),
            header.source.eq(self._rank),
            header.destination.eq(choice.destination),
            header.tag.eq(self.tag),
            header.address.eq(Cat(local, choice.destination)),
            header.length.eq(self.size),
        ]
        if self._config.recovers:
            m.d.comb += header.generation.eq(self.generation)

    def _pay_out(self, m, write):
        """Payload of the writes under way, flit by flit."""
        config = self._config
        flit = Signal(range(config.payload_flits + 1))
        payload = self.writes.payload
        shift = config.flit_address_bits
        last = flit + 1 == self.flits
        moves = payload.valid & payload.ready
        address = (write.payload.address >> shift) + flit
        m.d.comb += [
            payload.valid.eq(write.valid),
            payload.payload.data.eq(
                flit_words(
                    config.flit_bytes,
                    address,
                    Const(self._rank, 4),
                    write.payload.destination,
                    self.seed,
                )
            ),
            write.ready.eq(moves & last),
        ]
        with m.If(moves):
            m.d.sync += flit.eq(Mux(last, 0, flit + 1))
