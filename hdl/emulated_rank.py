"""An accelerator as the switch meets it: endpoint, memory, and a program that arrives and waits."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .axi_slice import AxiSlice
from .config import SwitchConfig
from .emulated_memory import EmulatedMemory
from .interfaces import LinkSignature, Response, StorageSignature
from .registers import RANK_PAGE, RegisterBank, RegisterBus, rank_registers
from .traffic.generator import TrafficGenerator
from .traffic.settings import traffic_settings, traffic_totals
from .transport.endpoint import Arrival, Endpoint

__all__ = ["EmulatedRank", "FlagWatch", "RankProgram"]

FLAG_BITS = 64


class FlagWatch(wiring.Component):
    """Notices when this rank's flag is written to its memory, as a polling rank would.

    Members
    -------
    storage write port (``write_enable``, ``write_address``, ``write_data``, ``write_strobe``)
    address : byte address of the flag, a multiple of 8
    seen : a flag is written in this cycle; ``flag`` holds it from the next on
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        storage = StorageSignature(config).members
        super().__init__(
            {
                name: In(storage[name].shape)
                for name in ("write_enable", "write_address", "write_data", "write_strobe")
            }
            | {"address": In(config.address_bits), "seen": Out(1), "flag": Out(FLAG_BITS)}
        )

    def elaborate(self, platform):
        m = Module()
        shift = self._config.flit_address_bits
        words = self._config.flit_bytes * 8 // FLAG_BITS
        word = self.address[3:shift]
        strobe = Signal()
        data = Signal(FLAG_BITS)
        with m.Switch(word):
            for index in range(words):
                with m.Case(index):
                    m.d.comb += [
                        data.eq(self.write_data.word_select(index, FLAG_BITS)),
                        strobe.eq(self.write_strobe[8 * index]),
                    ]
        m.d.comb += self.seen.eq(
            self.write_enable & strobe & (self.write_address == self.address >> shift)
        )
        with m.If(self.seen):
            m.d.sync += self.flag.eq(data)
        return m


class RankProgram(wiring.Component):
    """For each of ``count`` operations: wait ``delay`` cycles, arrive, wait for the flag.

    Members
    -------
    go : start
    count, epoch, delay : see the registers of the same name
    arrival : to the endpoint
    flag_epoch : epoch of the last flag; the wait ends when it is the awaited one or a later one
    arriving : the arrival is issued in this cycle
    done : not running
    """

    def __init__(self):
        super().__init__(
            {
                "go": In(1),
                "count": In(16),
                "epoch": In(32),
                "delay": In(32),
                "arrival": Out(stream.Signature(Arrival)),
                "flag_epoch": In(32),
                "arriving": Out(1),
                "done": Out(1, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        left = Signal(16)
        epoch = Signal(32)
        waited = Signal(32)
        reached = ~(self.flag_epoch - epoch)[31]
        m.d.comb += self.arrival.payload.epoch.eq(epoch)
        with m.FSM(name="program"):
            with m.State("IDLE"):
                with m.If(self.go & (self.count != 0)):
                    m.d.sync += [
                        left.eq(self.count),
                        epoch.eq(self.epoch),
                        waited.eq(0),
                        self.done.eq(0),
                    ]
                    m.next = "DELAY"
            with m.State("DELAY"):
                m.d.sync += waited.eq(waited + 1)
                with m.If(waited == self.delay):
                    m.d.comb += self.arriving.eq(1)
                    m.next = "ARRIVE"
            with m.State("ARRIVE"):
                m.d.comb += self.arrival.valid.eq(1)
                with m.If(self.arrival.ready):
                    m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(reached):
                    m.d.sync += [left.eq(left - 1), epoch.eq(epoch + 1), waited.eq(0)]
                    m.next = "DELAY"
                    with m.If(left == 1):
                        m.d.sync += self.done.eq(1)
                        m.next = "IDLE"
        return m


class EmulatedRank(wiring.Component):
    """One rank.

    Parameters
    ----------
    rank
        Its number.

    Members
    -------
    rx, tx : the link from and to the switch
    storage : the memory's array
    bus : registers (`RegisterBus`, page 16 + rank)
    go, done : the program
    traffic_go, traffic_done : where the core forwards: the traffic generator
    now : cycles since reset, for time stamps
    """

    def __init__(self, config: SwitchConfig, *, rank: int):
        self._config = config
        self._rank = rank
        super().__init__(
            {
                "rx": In(LinkSignature(config)),
                "tx": Out(LinkSignature(config)),
                "storage": Out(StorageSignature(config)),
                "bus": In(RegisterBus()),
                "go": In(1),
                "done": Out(1),
                "now": In(32),
            }
            | ({"traffic_go": In(1), "traffic_done": Out(1)} if config.forwards else {})
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.registers = registers = RegisterBank(
            rank_registers(config), page=RANK_PAGE + self._rank
        )
        m.submodules.endpoint = endpoint = Endpoint(config, rank=self._rank)
        m.submodules.memory = memory = EmulatedMemory(config)
        m.submodules.program = program = RankProgram()
        m.submodules.watch = watch = FlagWatch(config)
        connect(m, flipped(self.bus), registers.bus)
        connect(m, flipped(self.rx), endpoint.rx)
        connect(m, endpoint.tx, flipped(self.tx))
        if config.sliced:
            self._connect_sliced(m, endpoint.axi, memory)
        else:
            connect(m, endpoint.axi, memory.axi)
            connect(m, memory.storage, flipped(self.storage))
        connect(m, program.arrival, endpoint.arrival)
        self._set_memory(m, registers, memory)
        for name in ("write_enable", "write_address", "write_data", "write_strobe"):
            m.d.comb += getattr(watch, name).eq(getattr(self.storage, name))

        refused = Signal(16)
        m.d.comb += [
            program.go.eq(self.go),
            program.count.eq(registers.count),
            program.epoch.eq(registers.epoch),
            program.delay.eq(registers.delay),
            program.flag_epoch.eq(watch.flag[:32]),
            self.done.eq(program.done),
            watch.address.eq(registers.flag_address),
            registers.flag.eq(watch.flag),
            registers.refused.eq(refused),
        ]
        m.d.sync += refused.eq(
            refused + (endpoint.acknowledged & (endpoint.acknowledgement != Response.OKAY))
        )
        for event, kept in (
            (program.arriving, registers.arrive_time),
            (watch.seen, registers.flag_time),
        ):
            stamp = Signal(32, name=f"{kept.name}_stamp")
            with m.If(event):
                m.d.sync += stamp.eq(self.now)
            m.d.comb += kept.eq(stamp)
        if config.forwards:
            m.d.comb += memory.read_first.eq(registers.read_first)
            self._make_traffic(m, registers, endpoint)
        return m

    def _connect_sliced(self, m, manager, memory):
        """The bus behind slices, and the array behind a register.

        An array's word is a cycle late for the beat that it belongs to, so the beat waits for it.
        That needs an endpoint that never refuses read data, as this one does not.
        """
        m.submodules.axi_slice = slice = AxiSlice(manager.signature)
        connect(m, manager, slice.manager)
        bus = slice.subordinate
        late = ("rvalid", "rid", "rresp", "rlast")
        for name, member in memory.axi.signature.members.items():
            ours, theirs = getattr(memory.axi, name), getattr(bus, name)
            if member.flow is Out:
                m.d["sync" if name in late else "comb"] += theirs.eq(ours)
            else:
                m.d.comb += ours.eq(1 if name == "rready" else theirs)
        for name, member in memory.storage.signature.members.items():
            ours, theirs = getattr(memory.storage, name), getattr(self.storage, name)
            if member.flow is Out:
                m.d.sync += theirs.eq(ours)
            else:
                m.d.comb += ours.eq(theirs)

    def _make_traffic(self, m, registers, endpoint):
        config = self._config
        m.submodules.traffic = traffic = TrafficGenerator(config, rank=self._rank)
        connect(m, traffic.requests, endpoint.requests)
        connect(m, traffic.writes_out, endpoint.writes)
        connect(m, endpoint.read_data, traffic.read_data)
        connect(m, endpoint.write_responses, traffic.write_responses)
        m.d.comb += [
            traffic.go.eq(self.traffic_go),
            traffic.now.eq(self.now),
            self.traffic_done.eq(traffic.done),
        ]
        for value in traffic_settings(config):
            setting = getattr(registers, f"traffic_{value.name}")
            m.d.comb += getattr(traffic, value.name).eq(setting)
        for value in traffic_totals(config):
            total = getattr(registers, f"traffic_{value.name}")
            m.d.comb += total.eq(getattr(traffic, value.name))

    def _set_memory(self, m, registers, memory):
        m.d.comb += [
            memory.latency.eq(registers.memory_latency),
            memory.write_latency.eq(registers.write_latency),
            memory.jitter.eq(registers.jitter),
            memory.stalls.eq(registers.stalls),
            memory.seed.eq(registers.seed),
        ]
        # The strobe comes with the write; the register holds the seed one cycle later.
        m.d.sync += memory.reseed.eq(registers.seed_written)
