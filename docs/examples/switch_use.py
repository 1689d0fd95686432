"""The switch in another design: links come in, and a host reaches its registers over AXI4-Lite."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.config import SwitchConfig
from hdl.interfaces import Axi4LiteSignature, LinkSignature
from hdl.registers import Axi4LiteBridge
from hdl.switch import Switch


class MySwitch(wiring.Component):
    """One link each way a rank, and the registers."""

    def __init__(self, config: SwitchConfig):
        self.config = config
        super().__init__(
            {
                "from_rank": In(LinkSignature(config)).array(config.ranks),
                "to_rank": Out(LinkSignature(config)).array(config.ranks),
                "host": In(Axi4LiteSignature()),
            }
        )

    def elaborate(self, platform):
        # -- snippet
        m = Module()
        m.submodules.switch = switch = Switch(self.config)
        m.submodules.bridge = bridge = Axi4LiteBridge()
        connect(m, flipped(self.host), bridge.axil)
        connect(m, bridge.bus, switch.bus)
        for rank in range(self.config.ranks):
            connect(m, flipped(self.from_rank[rank]), switch.rx[rank])
            connect(m, switch.tx[rank], flipped(self.to_rank[rank]))
        m.d.sync += switch.now.eq(switch.now + 1)  # time stamps count cycles
        # -- end
        return m
