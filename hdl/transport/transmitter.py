"""The sending end of a link: picks packets, spends credits, puts flits on the wire."""

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import (
    VIRTUAL_CHANNELS,
    LinkSignature,
    MessageClass,
    PacketSource,
    Response,
    virtual_channel,
)
from .arbiter import LinkArbiter

__all__ = ["CreditCounter", "SourceSpec", "Transmitter"]


@dataclass(frozen=True)
class SourceSpec:
    """A queue of packets at a transmitter.

    Parameters
    ----------
    name
        Names the port of the transmitter.
    message_class, inc
        All of its packets are of this class; together they give the virtual channel.
    payload_flits
        Flits of its longest payload; 0 for packets that are a header alone.
    """

    name: str
    message_class: MessageClass
    inc: bool = True
    payload_flits: int = 0

    @property
    def channel(self) -> int:
        return virtual_channel(self.message_class, self.inc)

    @property
    def has_payload(self) -> bool:
        return self.payload_flits > 0


class CreditCounter(wiring.Component):
    """Flits that the far end of one virtual channel has room for.

    Members
    -------
    available : credits in hand
    spend : credits that a packet takes as it starts, 0 for none; never more than ``available``
    returned : the far end freed the room of one flit
    """

    def __init__(self, initial: int, *, longest: int):
        self._initial = initial
        super().__init__(
            {
                "available": Out(range(initial + 1), init=initial),
                "spend": In(range(longest + 1)),
                "returned": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.available.eq(self.available - self.spend + self.returned)
        return m


class Transmitter(wiring.Component):
    """Sends the packets of several sources over one link.

    Parameters
    ----------
    sources
        The sources; each becomes a port of its name (`PacketSource`).
    credits
        Flits that the far end buffers, by virtual channel.

    Members
    -------
    link : what is sent, registered
    link_credit : credits to send along (they are for the other direction)
    returned : credits that came back, one bit a channel
    starved : by source: a head waits and lacks credits

    Timing
    ------
    A head offered in one cycle is on ``link`` in the next; no idle cycle between packets.

    Ordering and stalls
    -------------------
    A packet starts only with credits for all of it and is never interrupted, so it waits only
    where its payload does. Who goes next: `LinkArbiter`.
    """

    def __init__(
        self, config: SwitchConfig, sources: Sequence[SourceSpec], credits: dict[int, int]
    ):
        self._config = config
        self._sources = tuple(sources)
        self._credits = dict(credits)
        for source in self._sources:
            longest = config.header_flits + source.payload_flits
            if self._credits.get(source.channel, 0) < longest:
                raise ValueError(
                    f"credits: channel {source.channel} of source {source.name!r} needs at least "
                    f"{longest}, not {self._credits.get(source.channel, 0)}"
                )
        super().__init__(
            {source.name: In(PacketSource(config)) for source in self._sources}
            | {
                "link": Out(LinkSignature(config)),
                "link_credit": In(VIRTUAL_CHANNELS),
                "returned": In(VIRTUAL_CHANNELS),
                "starved": Out(len(self._sources)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        ports = [getattr(self, source.name) for source in self._sources]
        count = len(ports)

        start = Signal()  # no packet under way
        in_header = Signal()  # the second flit of a header is due
        in_payload = Signal()
        current = Signal(count)  # one-hot, whose packet is under way
        chosen = Signal(count)  # one-hot, whose header is being sent
        m.d.comb += start.eq(~in_header & ~in_payload)

        header = Signal(ports[0].head.payload.header.shape())
        channel = Signal(range(VIRTUAL_CHANNELS))
        flits = Signal(range(config.payload_flits + 1))
        for index, (spec, port) in enumerate(zip(self._sources, ports, strict=True)):
            with m.If(chosen[index]):
                m.d.comb += [
                    header.eq(port.head.payload.header),
                    channel.eq(spec.channel),
                    flits.eq(port.head.payload.flits if spec.has_payload else 0),
                ]

        m.submodules.arbiter = arbiter = LinkArbiter(
            [spec.inc for spec in self._sources],
            longest=config.packet_flits,
            by_flits=config.link_share == "flits",
        )
        starts = start & chosen.any()
        begun = Mux(in_header, current, 0)  # its head still waits, its credits are spent
        m.d.comb += [
            arbiter.requests.eq(self._eligible(m, ports, starts, begun, channel, flits)),
            arbiter.flits.eq(flits + config.header_flits),
            arbiter.taken.eq(starts),
            chosen.eq(Mux(in_header, current, Mux(in_payload, 0, arbiter.grant))),
        ]

        payload, payload_valid = self._payload(m, ports, current, in_payload)
        remaining = Signal.like(flits)
        flit = self.link.flit
        bits = header.as_value()
        two = config.header_flits == 2
        m.d.sync += [
            self.link.credit.eq(self.link_credit),
            self.link.valid.eq(chosen.any() | (in_payload & payload_valid)),
            flit.first.eq(start),
            flit.response.eq(Response.OKAY),
        ]
        with m.If(start):
            m.d.sync += [
                flit.channel.eq(channel),
                flit.data.eq(bits[: config.flit_bits]),
                flit.last.eq((flits == 0) & (not two)),
                current.eq(chosen),
                remaining.eq(flits),
                in_header.eq(starts & two),
                in_payload.eq(starts & (flits != 0) & (not two)),
            ]
        if two:
            with m.If(in_header):
                m.d.sync += [
                    flit.data.eq(bits[config.flit_bits :]),
                    flit.last.eq(remaining == 0),
                    in_header.eq(0),
                    in_payload.eq(remaining != 0),
                ]
        with m.If(in_payload):
            m.d.sync += [
                flit.data.eq(payload.data),
                flit.response.eq(payload.response),
                flit.last.eq(remaining == 1),
            ]
            with m.If(payload_valid):
                m.d.sync += [
                    remaining.eq(remaining - 1),
                    in_payload.eq(remaining != 1),
                ]
        # The head is released with the last flit that it fills.
        for index, port in enumerate(ports):
            m.d.comb += port.head.ready.eq(chosen[index] & (in_header if two else start))
        return m

    def _eligible(self, m, ports, starts, begun, channel, flits):
        """Credit counters of the channels in use; sources whose packet has its credits."""
        config = self._config
        counters = {}
        for number in sorted({spec.channel for spec in self._sources}):
            m.submodules[f"credits_{number}"] = counter = CreditCounter(
                self._credits[number], longest=config.packet_flits
            )
            counters[number] = counter
            with m.If(starts & (channel == number)):
                m.d.comb += counter.spend.eq(flits + config.header_flits)
            m.d.comb += counter.returned.eq(self.returned[number])
        eligible = []
        for index, (spec, port) in enumerate(zip(self._sources, ports, strict=True)):
            needed = (
                port.head.payload.flits + config.header_flits
                if spec.has_payload
                else (config.header_flits)
            )
            covered = Signal(name=f"{spec.name}_covered")
            m.d.comb += [
                covered.eq(counters[spec.channel].available >= needed),
                self.starved[index].eq(port.head.valid & ~covered & ~begun[index]),
            ]
            eligible.append(port.head.valid & covered)
        return Cat(eligible)

    def _payload(self, m, ports, current, in_payload):
        """The payload stream of the packet under way."""
        payload = Signal(ports[0].payload.payload.shape())
        valid = Signal()
        for index, (spec, port) in enumerate(zip(self._sources, ports, strict=True)):
            if spec.has_payload:
                with m.If(current[index]):
                    m.d.comb += [
                        payload.eq(port.payload.payload),
                        valid.eq(port.payload.valid),
                        port.payload.ready.eq(in_payload),
                    ]
        return payload, valid
