"""The receiving end of a link: a queue a virtual channel, credits back, packets out."""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import SwitchConfig
from ..interfaces import VIRTUAL_CHANNELS, Beat, Header, LinkSignature, Response
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

    Timing
    ------
    No latency: a payload flit is a `Beat` in the same cycle. Header flits take a cycle each and
    give no beat, but for a packet without payload, whose last header flit is its one beat.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        super().__init__(
            {
                "i": In(stream.Signature(ChannelFlit(config))),
                "o": Out(stream.Signature(Beat(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        i, o = self.i, self.o
        held = Signal(Header)
        low = Signal(config.flit_bits)  # first of two header flits
        arriving = Signal(Header)
        header_flit = Signal()  # this flit completes the header
        if config.header_flits == 1:
            m.d.comb += [arriving.eq(i.payload.data), header_flit.eq(i.payload.first)]
            collecting = 0
        else:
            second = Signal()  # the next flit is a header's second
            m.d.comb += [
                arriving.eq(Cat(low, i.payload.data)),
                header_flit.eq(second),
            ]
            collecting = i.payload.first
            with m.If(i.valid & i.ready):
                m.d.sync += second.eq(i.payload.first)
                with m.If(i.payload.first):
                    m.d.sync += low.eq(i.payload.data)
        after_header = Signal()  # the next beat is the first of its packet
        with m.If(i.valid & i.ready):
            m.d.sync += after_header.eq(header_flit)
            with m.If(header_flit):
                m.d.sync += held.eq(arriving)

        swallowed = collecting | (header_flit & ~i.payload.last)
        m.d.comb += [
            o.valid.eq(i.valid & ~swallowed),
            i.ready.eq(o.ready | swallowed),
            o.payload.header.eq(Mux(header_flit, arriving, held)),
            o.payload.data.eq(i.payload.data),
            o.payload.response.eq(i.payload.response),
            o.payload.empty.eq(header_flit),
            o.payload.first.eq(header_flit | after_header),
            o.payload.last.eq(i.payload.last),
        ]
        return m


class Receiver(wiring.Component):
    """Sorts arriving flits by virtual channel and gives packets as beats.

    Parameters
    ----------
    channels
        By virtual channel: flits that its queue holds, which are the credits that the sender
        starts with. 0 is for a channel whose user takes every beat at once: it has no queue and
        returns a credit as a flit arrives.

    Members
    -------
    link : the link's far end
    channel_N : beats of channel N (`Beat`); of a channel without queue, ``ready`` must stay 1
    credit : credits to return, one bit a channel

    Timing
    ------
    No latency without a queue, one cycle with one. A credit is returned in the cycle in which the
    flit leaves the queue.

    Stalls
    ------
    A channel that is not read fills its own queue and stops nobody else.
    """

    def __init__(self, config: SwitchConfig, channels: dict[int, int]):
        self._config = config
        self._channels = dict(channels)
        super().__init__(
            {"link": In(LinkSignature(config)), "credit": Out(VIRTUAL_CHANNELS)}
            | {
                f"channel_{number}": Out(stream.Signature(Beat(config)))
                for number in self._channels
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        flit = self.link.flit
        for number, depth in self._channels.items():
            m.submodules[f"depacketizer_{number}"] = depacketizer = Depacketizer(config)
            connect(m, depacketizer.o, flipped(getattr(self, f"channel_{number}")))
            arrives = Signal(name=f"arrives_{number}")
            arrived = Signal(ChannelFlit(config), name=f"arrived_{number}")
            m.d.comb += [
                arrives.eq(self.link.valid & (flit.channel == number)),
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
                connect(m, queue.o, depacketizer.i)
                m.d.comb += [
                    queue.i.valid.eq(arrives),  # room is sure: the sender held a credit
                    queue.i.payload.eq(arrived),
                    self.credit[number].eq(queue.o.valid & queue.o.ready),
                ]
        return m
