"""The rank memories as the host's bridge and the self-test reach them, beside the system."""

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.config import SwitchConfig
from hdl.interfaces import StorageSignature

__all__ = ["ELEMENT_BYTES", "READ_DELAY", "HostMemory", "HostMemorySignature"]

#: What the host's side reads and writes at once.
ELEMENT_BYTES = 2
#: Cycles from a read that is taken to its data.
READ_DELAY = 4


class HostMemorySignature(wiring.Signature):
    """Elements of 16 bits, in any rank's memory, seen from its user.

    Members
    -------
    rank, address : which memory, and the byte in it; bit 0 does not count
    read_enable, read_ready : a read is taken in a cycle with both
    read_data : the element, `READ_DELAY` cycles later
    write_enable, write_ready : a write is taken in a cycle with both
    write_data, write_strobe : the element, and which of its bytes
    """

    def __init__(self, config: SwitchConfig):
        self._parameters = config.ranks, config.memory_bytes
        super().__init__(
            {
                "rank": Out(range(config.ranks)),
                "address": Out(range(config.memory_bytes)),
                "read_enable": Out(1),
                "read_ready": In(1),
                "read_data": In(8 * ELEMENT_BYTES),
                "write_enable": Out(1),
                "write_ready": In(1),
                "write_data": Out(8 * ELEMENT_BYTES),
                "write_strobe": Out(ELEMENT_BYTES),
            }
        )

    def __eq__(self, other):
        return isinstance(other, HostMemorySignature) and self._parameters == other._parameters


class HostMemory(wiring.Component):
    """Gives the host the cycles in which the system leaves a memory's port alone.

    Members
    -------
    system : by rank, the system's side (`StorageSignature`)
    storage : by rank, the memory's
    host : the host's side

    Timing
    ------
    The system never waits, and finds what it would without a host. The host's read or write waits
    for the first cycle without one of the system's at that rank.

    What the system must keep
    -------------------------
    It looks at ``read_data`` in the cycle behind ``read_enable`` only: afterwards the host's may
    stand there. An emulated rank does so, since its endpoint never refuses read data
    (docs/forward-progress.md, rule 4).
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        storage = StorageSignature(config)
        super().__init__(
            {
                "system": In(storage).array(config.ranks),
                "storage": Out(storage).array(config.ranks),
                "host": In(HostMemorySignature(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, host = self._config, self.host
        flit = host.address[config.flit_address_bits :]
        lane = host.address[1 : config.flit_address_bits]
        reading = Array(system.read_enable for system in self.system)[host.rank]
        writing = Array(system.write_enable for system in self.system)[host.rank]
        m.d.comb += [host.read_ready.eq(~reading), host.write_ready.eq(~writing)]
        strobe = Cat(Mux(lane == each, host.write_strobe, 0) for each in range(config.lanes))
        for rank in range(config.ranks):
            system, storage = self.system[rank], self.storage[rank]
            here = host.rank == rank
            m.d.comb += [
                system.read_data.eq(storage.read_data),
                storage.read_enable.eq(system.read_enable | (host.read_enable & here)),
                storage.read_address.eq(Mux(system.read_enable, system.read_address, flit)),
                storage.write_enable.eq(system.write_enable | (host.write_enable & here)),
                storage.write_address.eq(Mux(system.write_enable, system.write_address, flit)),
                storage.write_data.eq(
                    Mux(
                        system.write_enable,
                        system.write_data,
                        Cat(host.write_data for _ in range(config.lanes)),
                    )
                ),
                storage.write_strobe.eq(Mux(system.write_enable, system.write_strobe, strobe)),
            ]
        self._read(m, lane)
        return m

    def _read(self, m, lane):
        """Three registers behind the memories: a word of each, the rank's flit, and its element.

        What a block RAM gives comes late in its cycle, and the memories stand far apart.
        """
        asked_rank, rank = Signal.like(self.host.rank), Signal.like(self.host.rank)
        asked_lane, rank_lane, flit_lane = (
            Signal.like(lane, name=f"{name}_lane") for name in ("asked", "rank", "flit")
        )
        flit = Signal(self._config.flit_bits)
        words = Array(
            Signal(self._config.flit_bits, name=f"word_{rank}")
            for rank in range(self._config.ranks)
        )
        for word, storage in zip(words, self.storage, strict=True):
            m.d.sync += word.eq(storage.read_data)
        m.d.sync += [
            asked_rank.eq(self.host.rank),
            rank.eq(asked_rank),
            asked_lane.eq(lane),
            rank_lane.eq(asked_lane),
            flit.eq(words[rank]),
            flit_lane.eq(rank_lane),
            self.host.read_data.eq(flit.word_select(flit_lane, 8 * ELEMENT_BYTES)),
        ]
