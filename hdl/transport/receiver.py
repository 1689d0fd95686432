"""The receiving end of a link: a queue a virtual channel, credits back, packets out."""

from collections.abc import Collection

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import SwitchConfig
from ..interfaces import (
    VIRTUAL_CHANNELS,
    Beat,
    Header,
    LinkSignature,
    Response,
    carries_payload,
)
from ..stream import Queue

__all__ = ["Depacketizer", "Receiver"]


class ChannelFlit(data.StructLayout):
    """A flit without its channel number, once it is in that channel's queue."""

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "first": unsigned(1),
                "last": unsigned(1),
                "response": Response,
                "data": unsigned(config.flit_bits),
            }
        )


class Depacketizer(wiring.Component):
    """Takes the header off a packet's flits and holds it beside each payload flit.

    Parameters
    ----------
    has_payload
        Whether packets may carry payload. Where none does the header is not kept, and what should
        follow one all the same is swallowed.

    Members
    -------
    i : flits of one channel
    o : beats
    clear : forget the packet under way; where contexts outlive failures

    Timing
    ------
    No latency: a payload flit is a `Beat` in the same cycle. Header flits take a cycle each and
    give no beat, but for a packet without payload, whose last header flit is its one beat.
    """

    def __init__(self, config: SwitchConfig, *, has_payload: bool = True):
        self._config = config
        self._has_payload = has_payload
        super().__init__(
            {
                "i": In(stream.Signature(ChannelFlit(config))),
                "o": Out(stream.Signature(Beat(config))),
            }
            | ({"clear": In(1)} if config.recovers else {})
        )

    def elaborate(self, platform):
        m = Module()
        i, o = self.i, self.o
        transfer = i.valid & i.ready
        earlier, completes, collecting = self._header_flits(m, transfer)
        # The rest of the header comes with the flit that completes it, and is kept from then on.
        arriving = i.payload.data[: Header.size - len(earlier)]
        rest = arriving
        if self._has_payload:
            kept = Signal(len(arriving))
            with m.If(transfer & completes):
                m.d.sync += kept.eq(arriving)
            rest = Mux(completes, arriving, kept)
        after_header = Signal()  # the next beat is the first of its packet
        with m.If(transfer):
            m.d.sync += after_header.eq(completes)
        if self._config.recovers:
            with m.If(self.clear):
                m.d.sync += after_header.eq(0)

        swallowed = collecting | (completes & ~i.payload.last)
        if not self._has_payload:
            swallowed = ~(completes & i.payload.last)
        m.d.comb += [
            o.valid.eq(i.valid & ~swallowed),
            i.ready.eq(o.ready | swallowed),
            o.payload.header.eq(Cat(earlier, rest)),
            o.payload.data.eq(i.payload.data),
            o.payload.response.eq(i.payload.response),
            o.payload.empty.eq(completes),
            o.payload.first.eq(completes | after_header),
            o.payload.last.eq(i.payload.last),
        ]
        return m

    def _header_flits(self, m, transfer):
        """Header bits kept from a flit before; this flit completes a header; it begins one."""
        i = self.i
        if self._config.header_flits == 1:
            return Const(0, 0), i.payload.first, Const(0, 1)
        earlier = Signal(self._config.flit_bits)
        completes = Signal()
        with m.If(transfer):
            m.d.sync += completes.eq(i.payload.first)
            with m.If(i.payload.first):
                m.d.sync += earlier.eq(i.payload.data)
        if self._config.recovers:
            with m.If(self.clear):
                m.d.sync += completes.eq(0)
        return earlier, completes, i.payload.first


class Receiver(wiring.Component):
    """Sorts arriving flits by virtual channel and gives packets as beats.

    Parameters
    ----------
    channels
        By virtual channel: flits that its queue holds, which are the credits that the sender
        starts with. 0 is for a channel whose user takes every beat at once: it has no queue and
        returns a credit as a flit arrives.
    whole
        Channels with queue and payload whose packets are given when their last flit is in, so that
        a beat follows each cycle.

    Members
    -------
    link : the link's far end
    channel_N : beats of channel N (`Beat`); of a channel without queue, ``ready`` must stay 1
    flits_N : of a channel of ``whole``: flits of payload that the packet at ``channel_N`` has
    credit : credits to return, one bit a channel

    Where contexts outlive failures:

    takes : what arrives in this cycle counts
    open : the link's end is UP; while it is not, packets of which only a part has come are
        forgotten, once those before them have been given
    cut : by channel, nothing more will come of the packet at ``channel_N``
    empty : no queue holds anything

    Timing
    ------
    No latency without a queue, one cycle with one. A credit is returned in the cycle in which the
    flit leaves the queue.

    Stalls
    ------
    A channel that is not read fills its own queue and stops nobody else.
    """

    def __init__(self, config: SwitchConfig, channels: dict[int, int], whole: Collection[int] = ()):
        self._config = config
        self._channels = dict(channels)
        self._whole = tuple(whole)
        super().__init__(
            {"link": In(LinkSignature(config)), "credit": Out(VIRTUAL_CHANNELS)}
            | {
                f"channel_{number}": Out(stream.Signature(Beat(config)))
                for number in self._channels
            }
            | {f"flits_{number}": Out(range(config.payload_flits + 2)) for number in self._whole}
            | (self._recovery() if config.recovers else {})
        )

    @staticmethod
    def _recovery():
        return {
            "takes": In(1, init=1),
            "open": In(1, init=1),
            "cut": Out(VIRTUAL_CHANNELS),
            "empty": Out(1),
        }

    def elaborate(self, platform):
        m = Module()
        config = self._config
        flit = self.link.flit
        taken = self.link.valid & self.takes if config.recovers else self.link.valid
        levels = []
        for number, depth in self._channels.items():
            m.submodules[f"depacketizer_{number}"] = depacketizer = Depacketizer(
                config, has_payload=carries_payload(number)
            )
            connect(m, depacketizer.o, flipped(getattr(self, f"channel_{number}")))
            arrives = Signal(name=f"arrives_{number}")
            arrived = Signal(ChannelFlit(config), name=f"arrived_{number}")
            m.d.comb += [
                arrives.eq(taken & (flit.channel == number)),
                arrived.first.eq(flit.first),
                arrived.last.eq(flit.last),
                arrived.response.eq(flit.response),
                arrived.data.eq(flit.data),
            ]
            if depth == 0:
                m.d.comb += [
                    depacketizer.i.valid.eq(arrives),
                    depacketizer.i.payload.eq(arrived),
                    self.credit[number].eq(arrives),
                ]
            else:
                m.submodules[f"queue_{number}"] = queue = Queue(ChannelFlit(config), depth=depth)
                if number in self._whole:
                    self._hold(m, number, depth, arrives, arrived, queue, depacketizer)
                else:
                    connect(m, queue.o, depacketizer.i)
                m.d.comb += [
                    queue.i.valid.eq(arrives),  # room is sure: the sender held a credit
                    queue.i.payload.eq(arrived),
                    self.credit[number].eq(queue.o.valid & queue.o.ready),
                ]
                levels.append(queue.level)
            if config.recovers:
                held = levels[-1] if depth else 0
                m.d.comb += [
                    self.cut[number].eq(~self.open & (held == 0)),
                    depacketizer.clear.eq(self.cut[number]),
                ]
        if config.recovers:
            m.d.comb += self.empty.eq(~Cat(levels).any())
        return m

    def _hold(self, m, number, depth, arrives, arrived, queue, depacketizer):
        """Lead the queue on only while a whole packet is in it, and count that one's payload."""
        config = self._config
        flits = getattr(self, f"flits_{number}")
        most = config.payload_flits + 1  # and more: too long
        m.submodules[f"packets_{number}"] = packets = Queue(
            flits.shape(), depth=depth // config.header_flits
        )
        counted = Signal.like(flits)  # flits of payload that came before this one
        headers = Signal(range(config.header_flits + 1))  # flits of the header still to come
        in_header = arrived.first | (headers != 0)
        following = Mux(in_header, 0, Mux(counted == most, most, counted + 1))
        with m.If(arrives):
            m.d.sync += [
                counted.eq(following),
                headers.eq(Mux(arrived.first, config.header_flits - 1, headers - in_header)),
            ]
        leaves = queue.o.valid & queue.o.ready & queue.o.payload.last
        m.d.comb += [
            packets.i.valid.eq(arrives & arrived.last),
            packets.i.payload.eq(following),
            flits.eq(packets.o.payload),
            packets.o.ready.eq(leaves),
            depacketizer.i.valid.eq(queue.o.valid & packets.o.valid),
            depacketizer.i.payload.eq(queue.o.payload),
            queue.o.ready.eq(depacketizer.i.ready & packets.o.valid),
        ]
        if config.recovers:
            # What is left when no packet is whole is the beginning of one that was cut.
            with m.If(~self.open & (packets.level == 0)):
                m.d.comb += queue.o.ready.eq(1)
