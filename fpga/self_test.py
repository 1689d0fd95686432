"""A test without a host: fills the memories, runs an All-Reduce, looks at every byte."""

from amaranth import Array, Module, Mux, Signal
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.config import SwitchConfig
from hdl.interfaces import Axi4LiteSignature

from .host_memory import READ_DELAY, HostMemorySignature
from .pattern import ELEMENT_BYTES, VALUE_DELAY, Pattern, PatternGenerator
from .register_program import RegisterPlayer, all_reduce

__all__ = ["Fault", "SelfTest"]

#: Cycles that the run may take: so many times what moving each memory once by flits would.
PATIENCE = 16
#: Registers that are written and read, and what one access may take.
HOST_CYCLES = 4096
#: From a memory's last element to all that is done with it: its value, and two registers behind.
DRAIN_CYCLES = VALUE_DELAY + 3


class Fault(enum.Enum, shape=2):
    """Why a self-test failed."""

    NONE = 0
    STATUS = 1  # a register answered otherwise than it must
    TIME_OUT = 2
    DATA = 3  # a byte of a memory is wrong


class SelfTest(wiring.Component):
    """A host in hardware beside a system; runs once by itself and then at each start.

    Members
    -------
    start : test again; ignored while a test is under way
    reset : set the system back, whatever it was at; one cycle, before a test
    axil : the system's registers (`Axi4LiteSignature`, manager)
    memory : the rank memories
    busy : a test is under way, from the cycle after ``start`` on; registers and memories are its
    passed : the last test found nothing wrong
    failed : the last test found something wrong; ``fault`` says what
    fault : see `Fault`

    What is tested
    --------------
    One fp16 All-Reduce in place over half of every rank's memory, at another address in each, its
    last flit not full (`Pattern`). The posted instruction's status, the operation's status, every
    rank's flag and every byte of every memory are compared. Nothing is left of what was before.

    Timing
    ------
    Filling and comparing take a cycle an element each, a rank after the other.

    Raises
    ------
    ConfigError
        The configuration has no fp16, or memories too small for the pattern.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        self._pattern = Pattern(config)
        super().__init__(
            {
                "start": In(1),
                "reset": Out(1),
                "axil": Out(Axi4LiteSignature()),
                "memory": Out(HostMemorySignature(config)),
                "busy": Out(1),
                "passed": Out(1),
                "failed": Out(1),
                "fault": Out(Fault),
            }
        )

    @property
    def time_out(self) -> int:
        """Cycles after which a run is given up."""
        config = self._config
        latency = config.round_trip + config.memory_latency
        return PATIENCE * (config.memory_flits + latency) + HOST_CYCLES

    def elaborate(self, platform):
        m = Module()
        config, pattern = self._config, self._pattern
        m.submodules.host = self._host = host = RegisterPlayer(
            all_reduce(config, pattern), time_out=self.time_out
        )
        m.submodules.generator = self._generator = PatternGenerator(pattern)
        connect(m, host.axil, flipped(self.axil))

        self._rank = Signal(range(config.ranks))
        self._element = Signal(range(pattern.memory_elements))
        # The element whose value the generator gives, and what is done with it.
        self._stepping = Signal()
        self._comparing = Signal()
        self._valued = self._delayed(m, "element", self._element, VALUE_DELAY)
        stepped = self._delayed(m, "stepping", self._stepping, VALUE_DELAY)
        compares = self._delayed(m, "comparing", self._comparing, VALUE_DELAY)
        self._fills = stepped & ~compares
        self._compares = stepped & compares
        self._access(m)
        self._sequence(m)
        return m

    @staticmethod
    def _delayed(m, name, value, cycles):
        for cycle in range(1, cycles + 1):
            later = Signal.like(value, name=f"{name}_{cycle}")
            m.d.sync += later.eq(value)
            value = later
        return value

    def _access(self, m):
        """Fill with the generator's values, and read so that an element meets its value.

        Nothing else uses the memories then, so no access waits.
        """
        memory = self.memory
        # One register behind the generator's value stands the one it is compared with.
        read_at = self._delayed(m, "read", self._element, VALUE_DELAY + 1 - READ_DELAY)
        m.d.comb += [
            memory.rank.eq(self._rank),
            memory.address.eq(Mux(self._fills, self._valued, read_at) * ELEMENT_BYTES),
            memory.read_enable.eq(self.busy & ~self._fills),
            memory.write_enable.eq(self._fills),
            memory.write_data.eq(self._generator.value),
            memory.write_strobe.eq((1 << ELEMENT_BYTES) - 1),
        ]

    def _sequence(self, m):
        """Fill, run, compare; power-up counts as a start."""
        host, generator, pattern = self._host, self._generator, self._pattern
        final_rank = self._rank == self._config.ranks - 1
        final_element = self._element == pattern.memory_elements - 1
        starts = Array(pattern.start(rank) for rank in range(self._config.ranks))
        comparing, stepping = self._comparing, self._stepping
        drain = Signal(range(DRAIN_CYCLES))
        wrong = Signal()
        m.d.comb += [
            generator.start.eq(starts[self._rank]),
            generator.advance.eq(stepping),
            generator.weight.eq(
                Mux(comparing & self._inside(), pattern.total_weight, self._rank + 1)
            ),
        ]
        self._compare(m, wrong)

        def next_rank(then):
            """After a memory's last element: drain, then the next rank or `then`."""
            m.d.sync += [self._element.eq(0), drain.eq(drain + 1)]
            with m.If(drain == DRAIN_CYCLES - 1):
                m.d.sync += drain.eq(0)
                with m.If(final_rank):
                    m.d.sync += self._rank.eq(0)
                    m.next = then[0]
                with m.Else():
                    m.d.sync += self._rank.eq(self._rank + 1)
                    m.next = then[1]

        with m.FSM(name="test", init="BEGIN") as fsm:
            with m.State("IDLE"):
                with m.If(self.start):
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += self.reset.eq(1)
                m.d.sync += [
                    self.passed.eq(0),
                    self.failed.eq(0),
                    self.fault.eq(Fault.NONE),
                ]
                m.next = "FILL_LOAD"
            with m.State("FILL_LOAD"):
                m.d.comb += generator.load.eq(1)
                m.next = "FILL"
            with m.State("FILL"):
                m.d.comb += stepping.eq(1)
                m.d.sync += self._element.eq(self._element + 1)
                with m.If(final_element):
                    m.next = "FILL_DRAIN"
            with m.State("FILL_DRAIN"):  # until the last value is written
                next_rank(("RUN", "FILL_LOAD"))
            with m.State("RUN"):
                m.d.comb += host.start.eq(1)
                m.next = "RUNNING"
            with m.State("RUNNING"):
                with m.If(host.done):
                    m.next = "COMPARE_LOAD"
                with m.Elif(host.failed):
                    m.d.sync += [
                        self.failed.eq(1),
                        self.fault.eq(Mux(host.late, Fault.TIME_OUT, Fault.STATUS)),
                    ]
                    m.next = "IDLE"
            with m.State("COMPARE_LOAD"):
                m.d.comb += generator.load.eq(1)
                m.next = "COMPARE"
            with m.State("COMPARE"):
                m.d.comb += [stepping.eq(1), comparing.eq(1)]
                m.d.sync += self._element.eq(self._element + 1)
                with m.If(final_element):
                    m.next = "COMPARE_DRAIN"
            with m.State("COMPARE_DRAIN"):  # until the last element is compared
                next_rank(("END", "COMPARE_LOAD"))
            with m.State("END"):
                m.d.sync += [
                    self.passed.eq(self.fault == Fault.NONE),
                    self.failed.eq(self.fault != Fault.NONE),
                ]
                m.next = "IDLE"
        m.d.comb += self.busy.eq(~fsm.ongoing("IDLE"))
        with m.If(wrong):
            m.d.sync += self.fault.eq(Fault.DATA)

    def _inside(self):
        """Whether the element at hand belongs to the result."""
        pattern = self._pattern
        ranks = range(self._config.ranks)
        first = Array(pattern.offset(rank) for rank in ranks)[self._rank]
        behind = Array(pattern.offset(rank) + pattern.elements for rank in ranks)[self._rank]
        return (self._element >= first) & (self._element < behind)

    def _compare(self, m, wrong):
        """Hold each element read against the generator's value; the flag is no element.

        The flag's own bytes are written by the switch; the host has compared its epoch.
        """
        compared, differs = Signal(), Signal()
        flag_element = self._pattern.flag_address // ELEMENT_BYTES
        expected = Signal.like(self._generator.value)
        m.d.sync += [
            compared.eq(self._compares & (self._valued < flag_element)),
            expected.eq(self._generator.value),
            differs.eq(compared & (self.memory.read_data != expected)),
        ]
        m.d.comb += wrong.eq(differs)
