"""The array behind a rank's memory, as block RAM inside the design."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In

from .config import SwitchConfig
from .interfaces import StorageSignature

__all__ = ["BlockStorage"]


class BlockStorage(wiring.Component):
    """One read and one write port a cycle over `memory_bytes`, as block RAM.

    The other face of the same signature is outside the design: the system's `storage` ports, whose
    bytes an engine owns (`sim.engines`). Both answer a read one cycle later with the old word.

    Attributes
    ----------
    array : the memory; a simulation may look at its words and set them
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        self.array = Memory(shape=config.flit_bits, depth=config.memory_flits, init=[])
        super().__init__({"port": In(StorageSignature(config))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.array = array = self.array
        read = array.read_port()
        write = array.write_port(granularity=8)
        port = self.port
        m.d.comb += [
            read.en.eq(port.read_enable),
            read.addr.eq(port.read_address),
            port.read_data.eq(read.data),
            write.addr.eq(port.write_address),
            write.data.eq(port.write_data),
        ]
        with m.If(port.write_enable):
            m.d.comb += write.en.eq(port.write_strobe)
        return m
