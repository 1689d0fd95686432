"""A switch port: sorts what a rank sends by INC, and shares the link to it."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import SwitchConfig
from ..interfaces import Beat, LinkSignature, PacketSource
from . import channels
from .core_stub import CoreStub
from .receiver import Receiver
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

    Timing
    ------
    Link to accelerator: no latency (arrivals: one cycle). Head to link: one cycle.

    Ordinary packets end in `CoreStub`, which answers each with DECERR.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        sources = {
            spec.name: In(PacketSource(config)) for spec in channels.accelerator_sources(config)
        }
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
        m.submodules.receiver = receiver = Receiver(config, channels.port_channels(config))
        m.submodules.transmitter = transmitter = Transmitter(
            config, accelerator + channels.core_sources(config), channels.credits_to_rank(config)
        )
        m.submodules.core = core = CoreStub(config)
        connect(m, receiver.link, flipped(self.rx))
        connect(m, transmitter.link, flipped(self.tx))
        m.d.comb += [
            transmitter.link_credit.eq(receiver.credit),
            transmitter.returned.eq(self.rx.credit),
            self.starved.eq(transmitter.starved[0]),
        ]
        for spec in accelerator:
            connect(m, flipped(getattr(self, spec.name)), getattr(transmitter, spec.name))
        for number, user in (
            (channels.READ_DATA, flipped(self.read_data)),
            (channels.WRITE_RESPONSE, flipped(self.write_responses)),
            (channels.WRITE_DATA, flipped(self.arrivals)),
            (channels.CORE_READ_REQUEST, core.requests),
            (channels.CORE_WRITE_DATA, core.writes),
        ):
            connect(m, getattr(receiver, f"channel_{number}"), user)
        connect(m, core.read_data, transmitter.core_read_data)
        connect(m, core.write_responses, transmitter.core_write_responses)
        return m
