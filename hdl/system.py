"""Ranks, links and the switch: the design that every engine, cocotb and the boards run."""

from functools import reduce
from operator import and_

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .accelerator.trace import RankTrace
from .config import SwitchConfig
from .emulated_rank import EmulatedRank
from .interfaces import Axi4LiteSignature, StorageSignature
from .registers import (
    SYSTEM_PAGE,
    Axi4LiteBridge,
    RegisterBank,
    join_buses,
    system_registers,
)
from .storage import BlockStorage
from .switch import Switch, observers
from .transport.link import Link

__all__ = ["System"]

#: The shortest link, in cycles; see `Link`.
LINK_LATENCY_MIN = 2


class System(wiring.Component):
    """A switch with an emulated rank at each port.

    Parameters
    ----------
    block_storage
        Rank memories are block RAM inside the design. Otherwise they are ports, ``storage``, and
        whoever runs the design owns their bytes.

    Members
    -------
    axil : registers (`Axi4LiteSignature`, subordinate)
    storage : by rank, the memory's array (`StorageSignature`), unless it is inside
    done : every rank's program has ended
    traffic_done : where the core forwards: every rank's ordinary requests are answered
    trace, rank_trace : for observers
    """

    def __init__(self, config: SwitchConfig, *, block_storage: bool = False):
        self._config = config
        self._block_storage = block_storage
        members = {
            "axil": In(Axi4LiteSignature()),
            "done": Out(1),
            **observers(config),
            "rank_trace": Out(RankTrace(config)).array(config.ranks),
        }
        if config.forwards:
            members["traffic_done"] = Out(1)
        if not block_storage:
            members["storage"] = Out(StorageSignature(config)).array(config.ranks)
        super().__init__(members)

    @property
    def config(self) -> SwitchConfig:
        return self._config

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.switch = switch = Switch(config)
        m.submodules.bridge = bridge = Axi4LiteBridge()
        m.submodules.registers = registers = RegisterBank(
            system_registers(config), page=SYSTEM_PAGE
        )
        connect(m, flipped(self.axil), bridge.axil)
        for name in observers(config):
            inside, outside = getattr(switch, name), getattr(self, name)
            pairs = (
                zip(inside, outside, strict=True) if config.contexts > 1 else [(inside, outside)]
            )
            for seen, shown in pairs:
                connect(m, seen, flipped(shown))
        now = Signal(32)
        m.d.sync += now.eq(now + 1)
        m.d.comb += [switch.now.eq(now), registers.now.eq(now)]

        latency = self._link_latency(m, registers.link_latency)
        done = [Signal(config.ranks, name=f"done_{c}") for c in range(config.contexts)]
        buses = [switch.bus, registers.bus]
        ranks = []
        for rank in range(config.ranks):
            m.submodules[f"rank_{rank}"] = emulated = EmulatedRank(config, rank=rank)
            ranks.append(emulated)
            m.submodules[f"link_up_{rank}"] = up = Link(config)
            m.submodules[f"link_down_{rank}"] = down = Link(config)
            connect(m, emulated.tx, up.i)
            connect(m, up.o, switch.rx[rank])
            connect(m, switch.tx[rank], down.i)
            connect(m, down.o, emulated.rx)
            connect(m, switch.rank_trace[rank], flipped(self.rank_trace[rank]))
            self._connect_storage(m, rank, emulated)
            buses.append(emulated.bus)
            if config.recovers:
                carries = registers.links_up[rank]
                m.d.comb += [up.up.eq(carries), down.up.eq(carries)]
            m.d.comb += [
                up.latency.eq(latency),
                down.latency.eq(latency),
                emulated.go.eq(self._starts(registers)),
                emulated.now.eq(now),
                *(ended[rank].eq(emulated.done[context]) for context, ended in enumerate(done)),
            ]
        everything = reduce(and_, done)
        m.d.comb += [registers.done.eq(everything), self.done.eq(everything.all())]
        if config.contexts > 1:
            m.d.comb += registers.context_done.eq(Cat(ended.all() for ended in done))
        if config.forwards:
            self._connect_traffic(m, registers, ranks)
        join_buses(m, bridge.bus, buses)
        return m

    def _starts(self, registers):
        """By context: its programs start."""
        if self._config.contexts == 1:
            return registers.go_written
        return Mux(registers.go_written, registers.go, 0)

    def _connect_traffic(self, m, registers, ranks):
        for rank, emulated in enumerate(ranks):
            m.d.comb += [
                emulated.traffic_go.eq(registers.traffic_go_written),
                registers.traffic_done[rank].eq(emulated.traffic_done),
            ]
        m.d.comb += self.traffic_done.eq(registers.traffic_done.all())

    def _link_latency(self, m, asked):
        """What the register asks for, within what the links are built for."""
        longest = self._config.link_latency_max
        latency = Signal(range(longest + 1), name="link_latency", init=self._config.link_latency)
        m.d["sync" if self._config.sliced else "comb"] += latency.eq(
            Mux(
                asked > longest,
                longest,
                Mux(asked < LINK_LATENCY_MIN, LINK_LATENCY_MIN, asked),
            )
        )
        return latency

    def _connect_storage(self, m, rank, emulated):
        if self._block_storage:
            m.submodules[f"storage_{rank}"] = storage = BlockStorage(self._config)
            connect(m, emulated.storage, storage.port)
        else:
            connect(m, emulated.storage, flipped(self.storage[rank]))
