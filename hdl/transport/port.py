"""A switch port: sorts what a rank sends by INC, and shares the link to it."""

from amaranth import Cat, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import SwitchConfig
from ..interfaces import Beat, LinkSignature, LinkState, PacketSource, virtual_channel
from . import channels
from .core import Core
from .core_stub import CoreStub
from .link_end import LinkEnd, join_end
from .receiver import Receiver
from .route import Route, RoutedBeat, everyone
from .transmitter import Transmitter

__all__ = ["Port"]


class Port(wiring.Component):
    """One rank's port.

    Members
    -------
    rx : the link from the rank
    tx : the link to the rank
    read_data, write_responses : for the accelerator, which takes each beat at once
    arrivals : writes to the accelerator's doorbells
    requests : the accelerator's read requests
    writes : its writes of results
    flags : its writes of flags
    answers : its answers to arrivals
    starved : ``requests`` waits for credits
    to_core_requests, to_core_read_data, to_core_writes, to_core_write_responses : where the core
        forwards: ordinary packets from the rank, routed (`RoutedBeat`)
    core_requests, core_read_data, core_writes, core_write_responses : those to the rank
    refused, dropped : an ordinary request is refused, an answer goes nowhere, in this cycle

    Where contexts outlive failures:

    quiet : nothing in the accelerator is on its way to this port
    reachable : ports whose link is UP, to which alone ordinary packets go
    state, lost : of the link's end here (`LinkEnd`)

    Timing
    ------
    Link to accelerator: no latency (arrivals: one cycle). Head to link: one cycle.

    Ordinary packets end in `CoreStub`, which answers each with DECERR; where the core forwards,
    only those that its map has no place for do. Without channels for them none can come.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        sources = {
            spec.name: In(PacketSource(config)) for spec in channels.accelerator_sources(config)
        }
        if config.forwards:
            sources |= {
                f"to_core_{name}": Out(stream.Signature(RoutedBeat(config)))
                for name in Core.CLASSES
            }
            sources |= {f"core_{name}": In(PacketSource(config)) for name in Core.CLASSES}
            sources |= {"refused": Out(2), "dropped": Out(2)}
        if config.recovers:
            sources |= {
                "quiet": In(1, init=1),
                "reachable": In(config.ranks, init=everyone(config)),
            }
            sources |= {"state": Out(LinkState), "lost": Out(1)}
        super().__init__(
            {
                "rx": In(LinkSignature(config)),
                "tx": Out(LinkSignature(config)),
                "read_data": Out(stream.Signature(Beat(config))),
                "write_responses": Out(stream.Signature(Beat(config))),
                "arrivals": Out(stream.Signature(Beat(config))),
                "starved": Out(1),
            }
            | sources
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        accelerator = channels.accelerator_sources(config)
        m.submodules.receiver = receiver = Receiver(
            config,
            channels.port_channels(config),
            whole=channels.WHOLE if config.forwards else (),
        )
        m.submodules.transmitter = transmitter = Transmitter(
            config, accelerator + channels.core_sources(config), channels.credits_to_rank(config)
        )
        if config.carries_ordinary:
            m.submodules.core = core = CoreStub(config)
        connect(m, receiver.link, flipped(self.rx))
        connect(m, transmitter.link, flipped(self.tx))
        returned = self._end(m, receiver, transmitter) if config.recovers else self.rx.credit
        m.d.comb += [
            transmitter.link_credit.eq(receiver.credit),
            transmitter.returned.eq(returned),
            self.starved.eq(transmitter.starved[0]),
        ]
        for spec in accelerator:
            connect(m, flipped(getattr(self, spec.name)), getattr(transmitter, spec.name))
        for number, user in (
            (channels.READ_DATA, flipped(self.read_data)),
            (channels.WRITE_RESPONSE, flipped(self.write_responses)),
            (channels.WRITE_DATA, flipped(self.arrivals)),
        ):
            connect(m, getattr(receiver, f"channel_{number}"), user)
        if not config.carries_ordinary:
            return m
        if config.forwards:
            self._forward(m, receiver, transmitter, core)
            return m
        for number, user in (
            (channels.CORE_READ_REQUEST, core.requests),
            (channels.CORE_WRITE_DATA, core.writes),
        ):
            connect(m, getattr(receiver, f"channel_{number}"), user)
        connect(m, core.read_data, transmitter.core_read_data)
        connect(m, core.write_responses, transmitter.core_write_responses)
        return m

    def _end(self, m, receiver, transmitter):
        """The link's end: clean once what was under way is ended. Gives returned credits."""
        m.submodules.link_end = end = LinkEnd()
        returned = join_end(m, end, self.rx, receiver, transmitter)
        m.d.comb += [
            end.clean.eq(receiver.empty & transmitter.idle & self.quiet),
            self.state.eq(end.state),
            self.lost.eq(end.lost),
        ]
        return returned

    def _forward(self, m, receiver, transmitter, stub):
        """Ordinary packets to the core and from it; refused requests to the stub."""
        refused, dropped = [], []
        for name, message_class in Core.CLASSES.items():
            number = virtual_channel(message_class, False)
            route = Route(self._config, message_class=message_class)
            m.submodules[f"route_{name}"] = route
            connect(m, getattr(receiver, f"channel_{number}"), route.i)
            if self._config.recovers:
                m.d.comb += route.reachable.eq(self.reachable)
            if number in channels.WHOLE:
                m.d.comb += route.flits.eq(getattr(receiver, f"flits_{number}"))
            connect(m, route.o, flipped(getattr(self, f"to_core_{name}")))
            connect(m, flipped(getattr(self, f"core_{name}")), getattr(transmitter, f"core_{name}"))
            if name in ("requests", "writes"):
                connect(m, route.refused, getattr(stub, name))
                ends = route.refused.payload.last & route.refused.valid & route.refused.ready
                refused.append(ends)
            else:
                dropped.append(route.dropped)
        connect(m, stub.read_data, transmitter.refused_reads)
        connect(m, stub.write_responses, transmitter.refused_writes)
        m.d.comb += [self.refused.eq(Cat(refused)), self.dropped.eq(Cat(dropped))]
