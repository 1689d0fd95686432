"""A small system with every kind of thing that an engine must carry: the engines' own test bench.

A counter, an AXI4-Lite register, a memory client, two FIFOs, an inner memory, struct and enum
signals, a combinational output, and lanes of multiply, shift and add.
"""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, fifo, memory, wiring
from amaranth.lib.wiring import In, Out

from hdl.config import SwitchConfig
from hdl.interfaces import Axi4LiteSignature, StorageSignature

LANES = 8


class Phase(enum.Enum, shape=2):
    IDLE = 0
    READ = 1
    WRITE = 2
    REST = 3


class Status(data.Struct):
    phase: Phase
    count: unsigned(6)


class MemoryClient(wiring.Component):
    """Reads a word, adds a seed to every byte, and writes it under a moving strobe, for ever."""

    def __init__(self, config: SwitchConfig):
        self._config = config
        super().__init__(
            {
                "seed": In(8),
                "go": In(1),
                "storage": Out(StorageSignature(config)),
                "status": Out(Status),
                "last": Out(config.flit_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        storage = self.storage
        address = Signal.like(storage.read_address)
        status = self.status
        word = Signal(self._config.flit_bits)
        m.d.comb += [
            storage.read_enable.eq(status.phase == Phase.READ),
            storage.read_address.eq(address),
            storage.write_enable.eq(status.phase == Phase.WRITE),
            storage.write_address.eq(address ^ self.seed[:2]),
            storage.write_strobe.eq(~self.seed ^ address),
            storage.write_data.eq(
                Cat(word.word_select(i, 8) + self.seed for i in range(self._config.flit_bytes))
            ),
            word.eq(storage.read_data),
        ]
        m.d.sync += [status.count.eq(status.count + 1), self.last.eq(word)]
        with m.Switch(status.phase):
            with m.Case(Phase.IDLE), m.If(self.go):
                m.d.sync += status.phase.eq(Phase.READ)
            with m.Case(Phase.READ):
                m.d.sync += status.phase.eq(Phase.WRITE)
            with m.Case(Phase.WRITE):
                m.d.sync += [status.phase.eq(Phase.REST), address.eq(address + self.seed + 1)]
            with m.Case(Phase.REST):
                m.d.sync += status.phase.eq(Phase.IDLE)
        return m


class Register(wiring.Component):
    """One 32-bit AXI4-Lite register."""

    bus: In(Axi4LiteSignature(address_bits=8))
    value: Out(32)

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        m.d.comb += [
            bus.awready.eq(bus.wvalid & ~bus.bvalid),
            bus.wready.eq(bus.awvalid & ~bus.bvalid),
            bus.arready.eq(~bus.rvalid),
        ]
        with m.If(bus.awvalid & bus.wvalid & ~bus.bvalid):
            m.d.sync += bus.bvalid.eq(1)
            for i in range(4):
                with m.If(bus.wstrb[i]):
                    m.d.sync += self.value.word_select(i, 8).eq(bus.wdata.word_select(i, 8))
        with m.Elif(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(bus.arvalid & ~bus.rvalid):
            m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(self.value)]
        with m.Elif(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        return m


class Lane(wiring.Component):
    """An aligned sum in small: shift, multiply, add, normalize."""

    def __init__(self):
        super().__init__({"i": In(16), "o": Out(16)})

    def elaborate(self, platform):
        m = Module()
        product = Signal(32)
        wide = Signal(44)
        norm = Signal(44)
        m.d.sync += [
            product.eq(self.i * (self.i ^ 0x5A5A)),
            wide.eq((product << self.i[:4]) + norm[:20]),
        ]
        shift = Signal(range(44))
        for i in range(44):
            with m.If(wide[i]):
                m.d.comb += shift.eq(43 - i)
        m.d.sync += [norm.eq(wide << shift), self.o.eq(norm[28:] + norm[27])]
        return m


class EngineTop(wiring.Component):
    """`ranks` memory clients beside the rest; ports carry the flattened names of their members."""

    def __init__(self, config: SwitchConfig, *, lanes: int = LANES):
        self._config = config
        self._lanes = lanes
        super().__init__(
            {
                "axil": In(Axi4LiteSignature(address_bits=8)),
                "storage": Out(StorageSignature(config)).array(config.ranks),
                "status": Out(Status).array(config.ranks),
                "go": In(1),
                "push": In(1),
                "data": In(16 * lanes),
                "sum": Out(16 * lanes),
                "level": Out(4),
                "parity": Out(1),
                "count": Out(40),
                "done": Out(1),
                "match": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.register = register = Register()
        wiring.connect(m, wiring.flipped(self.axil), register.bus)

        for rank in range(self._config.ranks):
            m.submodules[f"client_{rank}"] = client = MemoryClient(self._config)
            wiring.connect(m, wiring.flipped(self.storage[rank]), client.storage)
            m.d.comb += [
                client.seed.eq(register.value[:8] + 3 * rank + 1),
                client.go.eq(self.go),
                self.status[rank].eq(client.status),
            ]

        m.submodules.queue = queue = fifo.SyncFIFOBuffered(width=16 * self._lanes, depth=8)
        m.d.comb += [
            queue.w_en.eq(self.push),
            queue.w_data.eq(self.data),
            queue.r_en.eq(self.count[0] | register.value[0]),
            self.level.eq(queue.level),
        ]
        m.submodules.table = table = memory.Memory(shape=16 * self._lanes, depth=16, init=[1, 2, 3])
        write, read = table.write_port(), table.read_port()
        m.d.comb += [
            write.en.eq(queue.r_rdy),
            write.addr.eq(self.count),
            write.data.eq(queue.r_data),
            read.en.eq(~register.value[1]),
            read.addr.eq(self.count >> 1),
        ]
        for i in range(self._lanes):
            m.submodules[f"lane_{i}"] = lane = Lane()
            m.d.comb += [
                lane.i.eq(read.data.word_select(i, 16)),
                self.sum.word_select(i, 16).eq(lane.o),
            ]
        m.d.comb += [
            self.parity.eq(self.data.xor() ^ self.count[1]),  # combinational, from an input
            self.match.eq(self.count == register.value),  # combinational, from registers
        ]
        m.d.sync += [
            self.count.eq(self.count + 1),
            self.done.eq(Mux(register.value != 0, self.count + 1 == register.value, 0)),
        ]
        return m
