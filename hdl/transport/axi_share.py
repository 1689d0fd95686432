"""Two managers at one AXI4 memory: the accelerator's requests and ordinary ones."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import Axi4Signature
from ..stream import Queue
from .arbiter import DeficitRoundRobin

__all__ = ["AxiShare"]

MANAGERS = 2
#: Write bursts whose address is on offer or taken and whose data has not ended.
WRITE_BURSTS = 4
ADDRESS_SIGNALS = ("addr", "len", "size", "burst")


class AxiShare(wiring.Component):
    """Leads two managers to one memory, with an AXI ID each.

    Members
    -------
    managers : `Axi4Signature`, subordinate; their IDs are ignored, and they take each R and B at
        once
    axi : the memory; manager k has ID k

    Timing
    ------
    No latency. While both managers have addresses to give they have equally many beats.

    Ordering and stalls
    -------------------
    An address that is offered stays until it is taken. Write data goes in the order in which the
    addresses were offered, as AXI4 asks, which has no write interleaving: a manager's data waits
    until the other's burst, whose address was first, has ended. It does not wait for the memory to
    take an address. Answers of the two may come in any order, R also beat by beat.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        axi = Axi4Signature(address_bits=config.address_bits, data_bytes=config.flit_bytes)
        super().__init__({"managers": In(axi).array(MANAGERS), "axi": Out(axi)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.order = order = Queue(range(MANAGERS), depth=WRITE_BURSTS)
        self._address(m, "ar", 1)
        new, index = self._address(m, "aw", order.i.ready)
        passed = self._data(m, order, new, index)
        m.d.comb += [order.i.valid.eq(new & ~passed), order.i.payload.eq(index)]
        self._answers(m)
        return m

    def _address(self, m, channel, may):
        """One address channel, which offers a new address where it `may`.

        Gives whether it offers a new one, and whose.
        """
        config = self._config
        turn = DeficitRoundRobin(MANAGERS, longest=config.payload_flits)
        m.submodules[f"{channel}_turn"] = turn
        offers = Signal(MANAGERS, name=f"{channel}_offers")
        offered = Signal(MANAGERS, name=f"{channel}_offered")  # and not taken yet
        grant = Signal(MANAGERS, name=f"{channel}_grant")
        valid, ready = getattr(self.axi, f"{channel}valid"), getattr(self.axi, f"{channel}ready")
        length = getattr(self.axi, f"{channel}len")
        taken = valid & ready
        m.d.comb += [
            offers.eq(Cat(getattr(manager, f"{channel}valid") for manager in self.managers)),
            turn.requests.eq(offers),
            grant.eq(Mux(offered.any(), offered, turn.grant)),
            valid.eq(offered.any() | (grant.any() & may)),
            turn.used.eq(Mux(taken, grant, 0)),
            turn.charged.eq(turn.used),
            turn.flits.eq(length + 1),
            getattr(self.axi, f"{channel}id").eq(grant[1]),
        ]
        m.d.sync += offered.eq(Mux(valid & ~ready, grant, 0))
        for index, manager in enumerate(self.managers):
            m.d.comb += getattr(manager, f"{channel}ready").eq(grant[index] & valid & ready)
            with m.If(grant[index]):
                for name in ADDRESS_SIGNALS:
                    name = f"{channel}{name}"
                    m.d.comb += getattr(self.axi, name).eq(getattr(manager, name))
        return valid & ~offered.any(), grant[1]

    def _data(self, m, order, new, newest):
        """Lead write data on, of the oldest burst whose data is due: that of the address which is
        first offered in this cycle, if there is none before.

        Gives whether that burst, of one beat, is over already.
        """
        axi = self.axi
        ends = axi.wvalid & axi.wready & axi.wlast
        whose = Mux(order.o.valid, order.o.payload, newest)
        for index, manager in enumerate(self.managers):
            turn = (order.o.valid | new) & (whose == index)
            with m.If(turn):
                m.d.comb += axi.wvalid.eq(manager.wvalid)
                for name in ("wdata", "wstrb", "wlast"):
                    m.d.comb += getattr(axi, name).eq(getattr(manager, name))
            m.d.comb += manager.wready.eq(turn & axi.wready)
        m.d.comb += order.o.ready.eq(ends)
        return ends & ~order.o.valid

    def _answers(self, m):
        axi = self.axi
        m.d.comb += [axi.rready.eq(1), axi.bready.eq(1)]
        for index, manager in enumerate(self.managers):
            m.d.comb += [
                manager.rvalid.eq(axi.rvalid & (axi.rid == index)),
                manager.bvalid.eq(axi.bvalid & (axi.bid == index)),
            ]
            for name in ("rdata", "rresp", "rlast", "bresp"):
                m.d.comb += getattr(manager, name).eq(getattr(axi, name))
