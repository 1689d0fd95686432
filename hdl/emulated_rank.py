"""An accelerator as the switch meets it: endpoint, memory, and a program that arrives and waits."""

from amaranth import Array, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .accelerator.window import WINDOW_WORDS, WORD_BITS, window_words
from .axi_slice import AxiSlice
from .config import SwitchConfig
from .emulated_memory import EmulatedMemory
from .interfaces import LinkSignature, Response, StorageSignature
from .registers import RANK_PAGE, RegisterBank, RegisterBus, program_register, rank_registers
from .traffic.generator import TrafficGenerator
from .traffic.settings import traffic_settings, traffic_totals
from .transport.endpoint import Arrival, Endpoint, arrival_layout

__all__ = ["EmulatedRank", "FlagWatch", "RankProgram"]

FLAG_BITS = 64


class FlagWatch(wiring.Component):
    """Notices when this rank's flag is written to its memory, as a polling rank would.

    Members
    -------
    storage write port (``write_enable``, ``write_address``, ``write_data``, ``write_strobe``)
    address : byte address of the flag, a multiple of 8
    moved : the address changes, and what was seen elsewhere is no flag; where there are several
        contexts
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
            | ({"moved": In(1)} if config.contexts > 1 else {})
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
        if self._config.contexts > 1:
            with m.If(self.moved):
                m.d.sync += self.flag.eq(0)
        return m


class RankProgram(wiring.Component):
    """For each of ``count`` operations: wait ``delay`` cycles, arrive, wait for the flag.

    What the link may have lost is said again, from the first word on: if it had come, it is refused
    the second time, and counts once.

    Members
    -------
    go : start
    posts, words : where there are several contexts: write the words of the context's window before
        each arrival, but for the first, which is that
    hasty : likewise: go on as soon as the arrival is issued, as a rank does that is out of step
    lost : likewise: an arrival may not have come
    count, epoch, delay : see the registers of the same name
    arrival : to the endpoint
    flag_epoch : epoch of the last flag; the wait ends when it is the awaited one or a later one
    arriving : the arrival is issued in this cycle
    done : not running
    """

    def __init__(self, config: SwitchConfig | None = None):
        self._windows = config is not None and config.contexts > 1
        arrival = arrival_layout(config) if self._windows else Arrival
        super().__init__(
            {
                "go": In(1),
                "count": In(16),
                "epoch": In(32),
                "delay": In(32),
                "arrival": Out(stream.Signature(arrival)),
                "flag_epoch": In(32),
                "arriving": Out(1),
                "done": Out(1, init=1),
            }
            | (self._posting(config) if self._windows else {})
        )

    @staticmethod
    def _posting(config):
        words = In(WORD_BITS).array(len(window_words(config)) - 1)
        return {"posts": In(1), "words": words, "hasty": In(1), "lost": In(1)}

    def elaborate(self, platform):
        m = Module()
        left = Signal(16)
        epoch = Signal(32)
        waited = Signal(32)
        word = Signal(range(len(WINDOW_WORDS) + 1))  # that is written next
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
                    if self._windows:
                        self._begin(m, word)
            if self._windows:
                with m.State("POST"):
                    last = word == len(self.words)
                    m.d.comb += [
                        self.arrival.valid.eq(1),
                        self.arrival.payload.word.eq(word),
                        self.arrival.payload.value.eq(Array(self.words)[word - 1]),
                    ]
                    with m.If(self.arrival.ready):
                        m.d.sync += word.eq(word + 1)
                        with m.If(last):
                            m.next = "ARRIVE"
                    with m.If(self.lost):
                        self._begin(m, word)
            with m.State("ARRIVE"):
                m.d.comb += self.arrival.valid.eq(1)
                with m.If(self.arrival.ready):
                    m.next = "WAIT"
                if self._windows:
                    with m.If(self.lost):
                        self._begin(m, word)
            with m.State("WAIT"):
                if self._windows:
                    with m.If(self.lost):
                        m.next = "ARRIVE"
                        self._begin(m, word)
                with m.If((reached | self.hasty) if self._windows else reached):
                    m.d.sync += [left.eq(left - 1), epoch.eq(epoch + 1), waited.eq(0)]
                    m.next = "DELAY"
                    with m.If(left == 1):
                        m.d.sync += self.done.eq(1)
                        m.next = "IDLE"
        return m

    def _begin(self, m, word):
        """Write the words of the window first, if it writes any."""
        m.d.sync += word.eq(1)
        with m.If(self.posts):
            m.next = "POST"


class ArrivalMerge(wiring.Component):
    """The arrivals of several contexts' programs, one after the other.

    Members
    -------
    i : by context; what context it is for stands in its place only
    o : to the endpoint; one that is offered stays until it is taken
    """

    def __init__(self, config: SwitchConfig):
        self._contexts = config.contexts
        arrival = stream.Signature(arrival_layout(config))
        super().__init__({"i": In(arrival).array(config.contexts), "o": Out(arrival)})

    def elaborate(self, platform):
        m = Module()
        chosen, busy = Signal(range(self._contexts)), Signal()
        m.d.comb += [
            self.o.valid.eq(busy),
            self.o.payload.context.eq(chosen),
        ]
        for name in ("epoch", "word", "value"):
            offered = Array(getattr(i.payload, name) for i in self.i)
            m.d.comb += getattr(self.o.payload, name).eq(offered[chosen])
        with m.If(busy):
            m.d.sync += busy.eq(~self.o.ready)
        with m.Else():
            for context, i in enumerate(self.i):
                with m.If(i.valid):
                    m.d.sync += [chosen.eq(context), busy.eq(1)]
        for context, i in enumerate(self.i):
            m.d.comb += i.ready.eq(busy & (chosen == context) & self.o.ready)
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
    go, done : by context, the program
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
                "go": In(config.contexts),
                "done": Out(config.contexts),
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
        connect(m, flipped(self.bus), registers.bus)
        connect(m, flipped(self.rx), endpoint.rx)
        connect(m, endpoint.tx, flipped(self.tx))
        if config.sliced:
            self._connect_sliced(m, endpoint.axi, memory)
        else:
            connect(m, endpoint.axi, memory.axi)
            connect(m, memory.storage, flipped(self.storage))
        programs = [
            self._program(m, registers, context, endpoint) for context in range(config.contexts)
        ]
        self._connect_arrivals(m, programs, endpoint)
        self._set_memory(m, registers, memory)

        refused = Signal(16)
        m.d.comb += registers.refused.eq(refused)
        m.d.sync += refused.eq(
            refused + (endpoint.acknowledged & (endpoint.acknowledgement != Response.OKAY))
        )
        if config.forwards:
            m.d.comb += memory.read_first.eq(registers.read_first)
            self._make_traffic(m, registers, endpoint)
        return m

    def _program(self, m, registers, context, endpoint):
        """One context's program and what it polls; with their registers."""
        config = self._config
        prefix = "" if config.contexts == 1 else f"{context}_"
        m.submodules[f"{prefix}program"] = program = RankProgram(config)
        m.submodules[f"{prefix}watch"] = watch = FlagWatch(config)

        def register(name):
            return getattr(registers, program_register(config, name, context))

        for name in ("write_enable", "write_address", "write_data", "write_strobe"):
            m.d.comb += getattr(watch, name).eq(getattr(self.storage, name))
        m.d.comb += [
            program.go.eq(self.go[context]),
            program.count.eq(register("count")),
            program.epoch.eq(register("epoch")),
            program.delay.eq(register("delay")),
            program.flag_epoch.eq(watch.flag[:32]),
            *([program.lost.eq(endpoint.arrivals_lost)] if config.recovers else []),
            self.done[context].eq(program.done),
            watch.address.eq(register("flag_address")),
            register("flag").eq(watch.flag),
        ]
        if config.contexts > 1:
            before = Signal(config.address_bits, name=f"flag_address_{context}_before")
            m.d.sync += before.eq(watch.address)
            m.d.comb += [
                watch.moved.eq(before != watch.address),
                program.posts.eq(register("posts")),
                program.hasty.eq(registers.hasty[context]),
                *(
                    word.eq(register(f"window_{name}"))
                    for word, name in zip(program.words, window_words(config)[1:], strict=True)
                ),
            ]
        for event, name in ((program.arriving, "arrive_time"), (watch.seen, "flag_time")):
            kept = program_register(config, name, context)
            stamp = Signal(32, name=f"{kept}_stamp")
            with m.If(event):
                m.d.sync += stamp.eq(self.now)
            m.d.comb += getattr(registers, kept).eq(stamp)
        return program

    def _connect_arrivals(self, m, programs, endpoint):
        if len(programs) == 1:
            connect(m, programs[0].arrival, endpoint.arrival)
            return
        m.submodules.arrivals = merge = ArrivalMerge(self._config)
        for program, i in zip(programs, merge.i, strict=True):
            connect(m, program.arrival, i)
        connect(m, merge.o, endpoint.arrival)

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
            *([traffic.up.eq(endpoint.up)] if config.recovers else []),
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
        if self._config.recovers:
            for name in ("hold", "bad_read", "read_error", "bad_write", "write_error"):
                m.d.comb += getattr(memory, name).eq(getattr(registers, name))
        # The strobe comes with the write; the register holds the seed one cycle later.
        m.d.sync += memory.reseed.eq(registers.seed_written)
