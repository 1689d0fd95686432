"""The sending end of a link: picks packets, spends credits, puts flits on the wire."""

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import SwitchConfig
from ..interfaces import (
    VIRTUAL_CHANNELS,
    LinkSignature,
    LinkState,
    MessageClass,
    PacketSource,
    Response,
    virtual_channel,
)
from .arbiter import LinkArbiter
from .packet_slice import PacketSlice

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
    sliced
        Behind register slices where the configuration has them. Not so where packets may be dropped
        as long as they have not gone: the source then has its own slices in front of that.
    """

    name: str
    message_class: MessageClass
    inc: bool = True
    payload_flits: int = 0
    sliced: bool = True

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
    renewed : all are in hand, whatever was spent; where the counter ``renews``
    """

    def __init__(self, initial: int, *, longest: int, renews: bool = False):
        self._initial = initial
        self._renews = renews
        super().__init__(
            {
                "available": Out(range(initial + 1), init=initial),
                "spend": In(range(longest + 1)),
                "returned": In(1),
            }
            | ({"renewed": In(1)} if renews else {})
        )

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.available.eq(self.available - self.spend + self.returned)
        if self._renews:
            with m.If(self.renewed):
                m.d.sync += self.available.eq(self._initial)
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
    starved : by source: a head waits and its channel lacks credits
    state : of the link's end (`LinkState`), to send along; idle : no packet is under way or waits;
        where contexts outlive failures

    Timing
    ------
    A head is taken in the cycle in which it is offered and chosen, and is on ``link`` two cycles
    later; no idle cycle between packets. The next packet is chosen while the last flit of the one
    before goes to ``link``.

    With register slices heads and payload come a cycle later, and what credits cover is a cycle
    old: a head whose channel spent credits in the cycle before waits for one. Such a cycle is only
    lost behind a packet that is a single flit, and behind one that has no payload where its source
    has some as a rule.

    Ordering and stalls
    -------------------
    A packet is taken only with credits for the longest of its source and is never interrupted, so
    it waits only where its payload does. Who goes next: `LinkArbiter`. While its end is not UP all
    credits are in hand, so what is offered goes without waiting; while it is CLEAN none starts.
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
            | ({"state": In(LinkState), "idle": Out(1)} if config.recovers else {})
        )

    def elaborate(self, platform):
        m = Module()
        self._ports = [self._port(m, source) for source in self._sources]
        count = len(self._ports)
        self._granted = Signal(count)  # one-hot, whose header is held and goes to the link next
        self._current = Signal(count)  # one-hot, whose packet is under way
        self._in_header = Signal()  # the second flit of a header is due
        self._in_payload = Signal()
        self._starts = Signal()  # a granted packet's first flit goes to the link
        self._ends = Signal()  # a packet's last flit does
        idle = ~self._in_header & ~self._in_payload
        m.d.comb += self._starts.eq(idle & self._granted.any())

        channel, flits, header = self._held(m)
        self._choose(m, flits, idle)
        self._send(m, channel, flits, header)
        if self._config.recovers:
            outside = [getattr(self, source.name) for source in self._sources]
            waits = Cat(port.head.valid for port in (*self._ports, *outside)).any()
            m.d.comb += [
                self.link.state.eq(self.state),
                self.idle.eq(idle & ~self._granted.any() & ~waits),
            ]
        return m

    def _port(self, m, source):
        """The streams of a source, behind slices where there are any."""
        port = getattr(self, source.name)
        if not (self._config.sliced and source.sliced):
            return port
        m.submodules[source.name] = slice = PacketSlice(
            self._config, has_payload=source.has_payload
        )
        connect(m, flipped(port), slice.i)
        return slice.o

    def _choose(self, m, flits, idle):
        """Grant a source when the link is about to be free; its head is taken."""
        m.submodules.arbiter = arbiter = LinkArbiter(
            [spec.inc for spec in self._sources],
            longest=self._config.packet_flits,
            by_flits=self._config.link_share == "flits",
            core_by_flits=self._config.forwards,
        )
        choose = Signal()
        chosen = Signal(len(self._sources))
        m.d.comb += [
            choose.eq((idle & ~self._granted.any()) | self._ends),
            chosen.eq(Mux(choose, arbiter.grant, 0)),
            arbiter.requests.eq(self._eligible(m, chosen, flits)),
            arbiter.taken.eq(choose),
            arbiter.started.eq(self._starts),
            arbiter.flits.eq(flits + self._config.header_flits),
        ]
        with m.If(choose | self._starts):
            m.d.sync += self._granted.eq(chosen)
        for index, port in enumerate(self._ports):
            m.d.comb += port.head.ready.eq(chosen[index])

    def _held(self, m):
        """The granted packet's channel, payload flits and header.

        A register a source, in front of the choice between them: the choice then needs no look
        into the sources' queues. It follows the head until that is taken. Bits that are constant at
        a source are no registers.
        """
        header = Signal(self._ports[0].head.payload.header.shape())
        channel = Signal(range(VIRTUAL_CHANNELS))
        flits = Signal(range(self._config.payload_flits + 1))
        for index, (spec, port) in enumerate(zip(self._sources, self._ports, strict=True)):
            held = Signal.like(port.head.payload, name=f"{spec.name}_held", reset_less=True)
            with m.If(~self._granted[index] | self._starts):
                m.d.sync += held.eq(port.head.payload)
            with m.If(self._granted[index]):
                m.d.comb += [
                    header.eq(held.header),
                    channel.eq(spec.channel),
                    flits.eq(held.flits if spec.has_payload else 0),
                ]
        return channel, flits, header

    def _eligible(self, m, chosen, flits):
        """Sources that wait and have credits."""
        config = self._config
        available, spent = {}, {}  # by channel; spent in the cycle before
        for number in sorted({spec.channel for spec in self._sources}):
            m.submodules[f"credits_{number}"] = counter = CreditCounter(
                self._credits[number], longest=config.packet_flits, renews=config.recovers
            )
            if config.recovers:
                m.d.comb += counter.renewed.eq(self.state != LinkState.UP)
            available[number] = counter.available
            if config.sliced:
                spent[number] = Signal(name=f"spent_{number}")
                m.d.sync += spent[number].eq(counter.spend != 0)
            m.d.comb += counter.returned.eq(self.returned[number])
            members = [i for i, spec in enumerate(self._sources) if spec.channel == number]
            if any(self._sources[i].has_payload for i in members):
                # Once its length is at hand. A packet with payload ends no sooner than one cycle
                # later, and then the next is chosen.
                started = Cat(self._granted[i] for i in members).any() & self._starts
                m.d.comb += counter.spend.eq(Mux(started, flits + config.header_flits, 0))
            else:
                taken = Cat(chosen[i] for i in members).any()
                m.d.comb += counter.spend.eq(Mux(taken, config.header_flits, 0))
        eligible = []
        for index, (spec, port) in enumerate(zip(self._sources, self._ports, strict=True)):
            # Compared with a constant, not with this packet's own length: that is a look into a
            # queue and a chain of carries less.
            longest = config.header_flits + spec.payload_flits
            covered = Signal(name=f"{spec.name}_covered")
            enough = available[spec.channel] >= longest
            if config.sliced:
                # Of the cycle before, so it does not know yet what was spent in that.
                known = Signal(name=f"{spec.name}_known")
                m.d.sync += known.eq(enough)
                enough = known & ~spent[spec.channel]
            m.d.comb += [
                covered.eq(enough),
                self.starved[index].eq(port.head.valid & ~covered),
            ]
            eligible.append(port.head.valid & covered)
        if config.recovers:
            return Mux(self.state == LinkState.CLEAN, 0, Cat(eligible))
        return Cat(eligible)

    def _send(self, m, channel, flits, header):
        """Header and payload of the granted packet to the link's register."""
        config = self._config
        payload, payload_valid = self._payload(m)
        remaining = Signal.like(flits)
        flit, bits = self.link.flit, header.as_value()
        two = config.header_flits == 2
        # Of packets with payload this is not asked at their header: it would take a look at their
        # length. One without any, a rarity, leaves the link idle for a cycle.
        alone = Cat(self._granted[i] for i, s in enumerate(self._sources) if not s.has_payload)
        m.d.comb += self._ends.eq(
            (self._starts & alone.any() & (not two))
            | (self._in_header & (remaining == 0))
            | (self._in_payload & payload_valid & (remaining == 1))
        )
        m.d.sync += [
            self.link.credit.eq(self.link_credit),
            self.link.valid.eq(self._starts | self._in_header | (self._in_payload & payload_valid)),
            flit.first.eq(self._starts),
            flit.response.eq(Response.OKAY),
        ]
        with m.If(self._starts):
            m.d.sync += [
                flit.channel.eq(channel),
                flit.data.eq(bits[: config.flit_bits]),
                flit.last.eq((flits == 0) & (not two)),
                self._current.eq(self._granted),
                remaining.eq(flits),
                self._in_header.eq(two),
                self._in_payload.eq((flits != 0) & (not two)),
            ]
        if two:
            rest = Signal(config.flit_bits, reset_less=True)
            with m.If(self._starts):
                m.d.sync += rest.eq(bits[config.flit_bits :])
            with m.If(self._in_header):
                m.d.sync += [
                    flit.data.eq(rest),
                    flit.last.eq(remaining == 0),
                    self._in_header.eq(0),
                    self._in_payload.eq(remaining != 0),
                ]
        with m.If(self._in_payload):
            m.d.sync += [
                flit.data.eq(payload.data),
                flit.response.eq(payload.response),
                flit.last.eq(remaining == 1),
            ]
            with m.If(payload_valid):
                m.d.sync += [
                    remaining.eq(remaining - 1),
                    self._in_payload.eq(remaining != 1),
                ]

    def _payload(self, m):
        """The payload stream of the packet under way."""
        payload = Signal(self._ports[0].payload.payload.shape())
        valid = Signal()
        for index, (spec, port) in enumerate(zip(self._sources, self._ports, strict=True)):
            if spec.has_payload:
                with m.If(self._current[index]):
                    m.d.comb += [
                        payload.eq(port.payload.payload),
                        valid.eq(port.payload.valid),
                        port.payload.ready.eq(self._in_payload),
                    ]
        return payload, valid
