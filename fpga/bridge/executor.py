"""Does what a request asks for: registers, memories, identity."""

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hdl.config import SwitchConfig
from hdl.interfaces import Axi4LiteSignature, Response
from hdl.registers import (
    SWITCH_PAGE,
    SYSTEM_PAGE,
    addresses,
    switch_registers,
    system_registers,
)

from ..host.frames import ACCESS_BYTES, NONCE_BYTES, Identity, Opcode, Status, opcode_byte
from ..host_memory import ELEMENT_BYTES, READ_DELAY, HostMemorySignature
from .deframer import RequestLayout
from .enframer import AnswerLayout

__all__ = ["Executor", "SelfTestLayout"]

WORD_BYTES = 4
#: Bytes that registers take in the address space.
REGISTER_BYTES = 1 << 16

#: `fpga.host.frames.Access`, from bit 0 up.
ArgumentLayout = data.StructLayout(
    {
        "address": unsigned(32),
        "size": unsigned(16),
        "rank": unsigned(8),
        "fixed": unsigned(1),
        "unused": unsigned(7),
    }
)

#: `fpga.host.frames.SelfTestState`, from bit 0 up.
SelfTestLayout = data.StructLayout(
    {"built": 1, "busy": 1, "passed": 1, "failed": 1, "fault": 2, "unused": 2}
)


class Executor(wiring.Component):
    """One request at a time.

    Parameters
    ----------
    burst_bytes
        Most data of a request or an answer.
    self_test
        Whether there is a self-test to start.

    Members
    -------
    start : execute ``request``, which stays until it is done
    done : it is, with ``status`` and ``size``, the bytes of data written
    at : which byte of data; of the request's, ``data`` is it a cycle later
    write, written : put byte ``at`` of the answer's data
    axil, memory : what it reaches
    blocked : a self-test goes on, so nothing else than IDENTIFY is done
    reset, start_self_test : strobes of the requests of that name
    damaged_frames, framing_errors, self_test : for the identity

    Timing
    ------
    A byte of memory takes two cycles to write and six to read, and waits for a cycle in which the
    system leaves the memory alone. A register takes 12. Of START the second write is taken as soon
    as the first is answered: four cycles behind it, with a system's registers.

    Errors
    ------
    See `fpga.host.frames.Status`. At a BUS_ERROR, what stands before the address was done.
    """

    def __init__(self, config: SwitchConfig, *, burst_bytes: int, self_test: bool):
        self._config = config
        self._burst_bytes = burst_bytes
        self._self_test = self_test
        answer = AnswerLayout(burst_bytes)
        super().__init__(
            {
                "request": In(RequestLayout()),
                "start": In(1),
                "done": Out(1),
                "status": Out(answer["status"].shape),
                "size": Out(answer["size"].shape),
                "at": Out(range(burst_bytes + 1)),
                "data": In(8),
                "write": Out(1),
                "written": Out(8),
                "axil": Out(Axi4LiteSignature()),
                "memory": Out(HostMemorySignature(config)),
                "blocked": In(1),
                "reset": Out(1),
                "start_self_test": Out(1),
                "damaged_frames": In(16),
                "framing_errors": In(16),
                "self_test": In(SelfTestLayout),
            }
        )

    def elaborate(self, platform):
        m = Module()
        argument = data.View(ArgumentLayout, self.request.argument)
        # Counts up over the end of registers and memories, so that it can be told.
        counting = max(REGISTER_BYTES, self._config.memory_bytes).bit_length()
        self._address, self._left = Signal(32), Signal(16)
        self._word, self._piece = Signal(32), Signal(range(WORD_BYTES))
        self._words, self._writes = Signal(), Signal()
        failing, answers = Signal(), Signal()
        size = Mux(self._words, self._left << 2, self._left)
        axil = self.axil
        for valid, ready in (
            (axil.awvalid, axil.awready),
            (axil.wvalid, axil.wready),
            (axil.arvalid, axil.arready),
        ):
            with m.If(ready):
                m.d.sync += valid.eq(0)

        def advance():
            """To the next word or byte."""
            step = Mux(self._words, Mux(argument.fixed, 0, WORD_BYTES), 1)
            low = self._address[:counting]
            m.d.sync += [low.eq(low + step), self._left.eq(self._left - 1)]
            m.next = "NEXT"

        def end(status):
            m.d.sync += self.status.eq(status)
            m.next = "DONE"

        def fail():
            """The data is the address."""
            m.d.sync += [failing.eq(1), self._word.eq(self._address), self.at.eq(0)]
            m.next = "EMIT"

        def put(byte):
            m.d.comb += [self.write.eq(1), self.written.eq(byte)]
            m.d.sync += [self.at.eq(self.at + 1), answers.eq(1)]

        with m.FSM(name="executor"):
            with m.State("IDLE"):
                m.d.sync += [
                    self._address.eq(argument.address),
                    self._left.eq(argument.size),
                    self._piece.eq(0),
                    self.at.eq(0),
                    failing.eq(0),
                    answers.eq(0),
                ]
                with m.If(self.start):
                    m.next = "DECODE"
            with m.State("DECODE"):
                self._decode(m, end)
            with m.State("CHECK"):
                wanted = ACCESS_BYTES + Mux(self._writes, size, 0)
                with m.If((self.request.length != wanted) | (size > self._burst_bytes)):
                    end(Status.BAD_LENGTH)
                with m.Elif(self.blocked):
                    end(Status.BUSY)
                with m.Else():
                    m.next = "NEXT"
            with m.State("NEXT"):
                with m.If(self._left == 0):
                    end(Status.OK)
                with m.Elif(self._outside(argument)):
                    fail()
                with m.Elif(self._words & self._writes):
                    m.next = "COLLECT"
                with m.Elif(self._words):
                    m.d.sync += axil.arvalid.eq(1)
                    m.next = "REGISTER"
                with m.Elif(self._writes):
                    m.next = "WRITE_BYTE"
                with m.Else():
                    m.next = "READ_BYTE"
            with m.State("COLLECT"):  # a byte of a word to write; the next one is a cycle away
                m.d.sync += [
                    self._word.eq(Cat(self._word[8:], self.data)),
                    self._piece.eq(self._piece + 1),
                    self.at.eq(self.at + 1),
                ]
                m.next = "FETCH"
                with m.If(self._piece == WORD_BYTES - 1):
                    m.d.sync += [axil.awvalid.eq(1), axil.wvalid.eq(1)]
                    m.next = "REGISTER"
            with m.State("FETCH"):
                m.next = "COLLECT"
            with m.State("REGISTER"):
                m.d.comb += [axil.bready.eq(1), axil.rready.eq(1)]
                with m.If(axil.bvalid):
                    with m.If(axil.bresp == Response.OKAY):
                        advance()
                    with m.Else():
                        fail()
                with m.If(axil.rvalid):
                    with m.If(axil.rresp == Response.OKAY):
                        m.d.sync += self._word.eq(axil.rdata)
                        m.next = "EMIT"
                    with m.Else():
                        fail()
            self._start(m, end, fail)
            with m.State("EMIT"):  # a byte of a word that was read
                put(self._word[:8])
                m.d.sync += [
                    self._word.eq(self._word >> 8),
                    self._piece.eq(self._piece + 1),
                ]
                with m.If(self._piece == WORD_BYTES - 1):
                    with m.If(failing):
                        end(Status.BUS_ERROR)
                    with m.Else():
                        advance()
            self._memory(m, advance, put)
            with m.State("IDENTITY"):
                put(self._identity(m))
                with m.If(self.at == Identity.layout().size - 1):
                    end(Status.OK)
            with m.State("DONE"):
                m.d.comb += self.done.eq(1)
                m.next = "IDLE"
        m.d.comb += [
            axil.awaddr.eq(self._address),
            axil.araddr.eq(self._address),
            axil.wdata.eq(self._word),
            axil.wstrb.eq(0xF),
            self.size.eq(Mux(answers, self.at, 0)),
        ]
        return m

    def _decode(self, m, end):
        """What the head asks for; of accesses, the length is checked a cycle later."""
        request = self.request
        m.d.sync += [self._words.eq(0), self._writes.eq(0)]

        def only(length, then):
            """A request with so much payload that something else than an access is."""
            with m.If(request.length != length):
                end(Status.BAD_LENGTH)
            with m.Else():
                then()

        def act(strobe):
            with m.If(self.blocked):
                end(Status.BUSY)
            with m.Else():
                m.d.comb += strobe.eq(1)
                end(Status.OK)

        def identity():
            m.next = "IDENTITY"

        with m.Switch(request.head):
            with m.Case(opcode_byte(Opcode.IDENTIFY)):
                only(NONCE_BYTES, identity)
            for words, writes, opcode in (
                (1, 0, Opcode.READ_WORDS),
                (1, 1, Opcode.WRITE_WORDS),
                (0, 0, Opcode.READ_MEMORY),
                (0, 1, Opcode.WRITE_MEMORY),
            ):
                with m.Case(opcode_byte(opcode)):
                    m.d.sync += [self._words.eq(words), self._writes.eq(writes)]
                    m.next = "CHECK"
            with m.Case(opcode_byte(Opcode.RESET)):
                only(0, lambda: act(self.reset))
            with m.Case(opcode_byte(Opcode.START)):
                only(0, lambda: self._begin(m, end))
            if self._self_test:
                with m.Case(opcode_byte(Opcode.SELF_TEST)):
                    only(0, lambda: act(self.start_self_test))
            with m.Default():
                end(Status.BAD_OPCODE)

    def _write(self, m, register):
        """Write 1 to a register."""
        axil = self.axil
        m.d.sync += [self._address.eq(register), self._word.eq(1)]
        m.d.sync += [axil.awvalid.eq(1), axil.wvalid.eq(1)]

    def _begin(self, m, end):
        """START's first write, unless a self-test goes on."""
        with m.If(self.blocked):
            end(Status.BUSY)
        with m.Else():
            self._write(m, addresses(switch_registers(self._config), SWITCH_PAGE)["clear"])
            m.next = "CLEAR"

    def _start(self, m, end, fail):
        """States that wait for START's two writes."""
        axil = self.axil

        def answered(then):
            m.d.comb += axil.bready.eq(1)
            with m.If(axil.bvalid):
                with m.If(axil.bresp == Response.OKAY):
                    then()
                with m.Else():
                    fail()

        def go():
            self._write(m, addresses(system_registers(self._config), SYSTEM_PAGE)["go"])
            m.next = "GO"

        with m.State("CLEAR"):
            answered(go)
        with m.State("GO"):
            answered(lambda: end(Status.OK))

    def _outside(self, argument):
        """Whether nothing can be at the address."""
        no_register = (self._address >= REGISTER_BYTES) | (self._address[:2] != 0)
        no_memory = (self._address >= self._config.memory_bytes) | (
            argument.rank >= self._config.ranks
        )
        return Mux(self._words, no_register, no_memory)

    def _memory(self, m, advance, put):
        """States that write and read a byte of memory."""
        memory, odd = self.memory, self._address[0]
        argument = data.View(ArgumentLayout, self.request.argument)
        m.d.comb += [
            memory.rank.eq(argument.rank),
            memory.address.eq(self._address),
            memory.write_data.eq(Cat(self.data for _ in range(ELEMENT_BYTES))),
            memory.write_strobe.eq(Mux(odd, 0b10, 0b01)),
        ]
        with m.State("WRITE_BYTE"):  # the byte came while it was decided what is next
            m.d.comb += memory.write_enable.eq(1)
            with m.If(memory.write_ready):
                m.d.sync += self.at.eq(self.at + 1)
                advance()
        with m.State("READ_BYTE"):
            m.d.comb += memory.read_enable.eq(1)
            with m.If(memory.read_ready):
                m.next = "READ_1"
        for cycle in range(1, READ_DELAY):
            with m.State(f"READ_{cycle}"):
                m.next = f"READ_{cycle + 1}"
        with m.State(f"READ_{READ_DELAY}"):
            put(memory.read_data.word_select(odd, 8))
            advance()

    def _identity(self, m):
        """Byte `at` of the identity."""
        config = self._config
        constants = {
            register.name: register.reset
            for register in switch_registers(config)
            if register.constant
        }
        fields = Cat(
            self.request.argument[: 8 * NONCE_BYTES],
            Const(self._burst_bytes, 16),
            Const(config.ranks, 8),
            Const(config.flit_bytes, 8),
            Const(config.memory_bytes, 64),
            Const(constants["config_digest"], 32),
            Const(constants["version"], 32),
            self.damaged_frames,
            self.framing_errors,
            self.self_test,
        )
        byte = Signal(8, name="identity_byte")
        size = Identity.layout().size
        with m.Switch(self.at[: (size - 1).bit_length()]):
            for index in range(size):
                with m.Case(index):
                    m.d.comb += byte.eq(fields.word_select(index, 8))
        return byte
