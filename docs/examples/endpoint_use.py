"""The endpoint in another design: a memory controller on one side, a link on the other."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.config import SwitchConfig
from hdl.interfaces import Axi4Signature, LinkSignature
from hdl.transport.endpoint import Arrival, Endpoint


class MyAccelerator(wiring.Component):
    """Rank 2: its memory is behind ``axi``, and ``operand_ready`` sends its arrivals."""

    def __init__(self, config: SwitchConfig):
        self.config = config
        axi = Axi4Signature(address_bits=config.address_bits, data_bytes=config.flit_bytes)
        super().__init__(
            {
                "from_switch": In(LinkSignature(config)),
                "to_switch": Out(LinkSignature(config)),
                "axi": Out(axi),
                "operand_ready": In(stream.Signature(Arrival)),
            }
        )

    def elaborate(self, platform):
        # -- snippet
        m = Module()
        m.submodules.endpoint = endpoint = Endpoint(self.config, rank=2)
        connect(m, flipped(self.from_switch), endpoint.rx)
        connect(m, endpoint.tx, flipped(self.to_switch))
        connect(m, endpoint.axi, flipped(self.axi))
        connect(m, flipped(self.operand_ready), endpoint.arrival)
        # -- end
        return m
