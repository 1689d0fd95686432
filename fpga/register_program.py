"""A host in hardware: plays a list of register accesses over AXI4-Lite, and checks the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from hdl.interfaces import Axi4LiteSignature, Format, Response
from hdl.registers import (
    RANK_PAGE,
    SWITCH_PAGE,
    SYSTEM_PAGE,
    addresses,
    rank_registers,
    switch_registers,
    system_registers,
)

from .pattern import ELEMENT_BYTES, Pattern

__all__ = ["Access", "RegisterPlayer", "Step", "all_reduce"]


class Access(enum.Enum, shape=3):
    """What a step does."""

    WRITE = 0
    WRITE_KEPT = 1  # writes the value kept before
    KEEP = 2  # reads, and keeps the value
    AWAIT = 3  # reads until the value is the step's
    EXPECT = 4  # reads once; another value than the step's is a failure
    EXPECT_KEPT = 5  # another value than the one kept is a failure


@dataclass(frozen=True)
class Step:
    """One access to the register at byte address `address`."""

    access: Access
    address: int
    value: int = 0


class _Registers:
    """Addresses by name, from the tables that the hardware is made of."""

    def __init__(self, config: SwitchConfig):
        self._switch = addresses(switch_registers(config), SWITCH_PAGE)
        self._system = addresses(system_registers(config), SYSTEM_PAGE)
        self._ranks = [
            addresses(rank_registers(config), RANK_PAGE + rank) for rank in range(config.ranks)
        ]

    def switch(self, name: str) -> int:
        return self._switch[name]

    def system(self, name: str) -> int:
        return self._system[name]

    def rank(self, rank: int, name: str) -> int:
        return self._ranks[rank][name]


def all_reduce(config: SwitchConfig, pattern: Pattern) -> list[Step]:
    """Post one fp16 All-Reduce in place, start every rank, wait, look at every status and flag."""
    registers = _Registers(config)
    ranks = range(config.ranks)
    steps = [
        Step(Access.KEEP, registers.switch("epoch")),
        Step(Access.WRITE, registers.switch("address_high"), 0),
    ]
    for rank in ranks:
        steps += [
            Step(Access.WRITE, registers.switch(f"source_{rank}"), pattern.address(rank)),
            Step(Access.WRITE, registers.switch(f"destination_{rank}"), pattern.address(rank)),
            Step(Access.WRITE, registers.switch(f"flag_{rank}"), pattern.flag_address),
            Step(Access.WRITE, registers.rank(rank, "flag_address"), pattern.flag_address),
            Step(Access.WRITE_KEPT, registers.rank(rank, "epoch")),
        ]
    steps += [
        Step(Access.WRITE, registers.switch("length"), ELEMENT_BYTES * pattern.elements),
        Step(Access.WRITE, registers.switch("format"), Format.FP16.value),
        Step(Access.WRITE, registers.switch("post"), 1),
        Step(Access.AWAIT, registers.switch("post_busy"), 0),
        Step(Access.EXPECT, registers.switch("post_code"), Status.OK.value),
        Step(Access.WRITE, registers.system("go"), 1),
        Step(Access.AWAIT, registers.system("done"), (1 << config.ranks) - 1),
        Step(Access.EXPECT, registers.switch("last_code"), Status.OK.value),
    ]
    # The flag's lower word is the epoch.
    steps += [Step(Access.EXPECT_KEPT, registers.rank(rank, "flag")) for rank in ranks]
    return steps


class RegisterPlayer(wiring.Component):
    """Plays the steps, one at a time.

    Parameters
    ----------
    steps
        What to play.
    time_out
        Cycles after which the whole is given up.

    Members
    -------
    axil : the registers (`Axi4LiteSignature`, manager)
    start : begin with the first step; ignored while under way
    done : one cycle: every step went well
    failed : one cycle: a value or response was wrong, or time ran out; ``late`` tells them apart

    No access is left unanswered: time that has run out is told with the next answer.
    """

    def __init__(self, steps: Sequence[Step], *, time_out: int):
        self._steps = tuple(steps)
        self._time_out = time_out
        super().__init__(
            {
                "axil": Out(Axi4LiteSignature()),
                "start": In(1),
                "done": Out(1),
                "failed": Out(1),
                "late": Out(1),
            }
        )

    def _program(self, m):
        """The steps as a memory; its read port."""
        layout = data.StructLayout(
            {
                "access": Access,
                "address": unsigned(len(self.axil.awaddr)),
                "value": unsigned(len(self.axil.wdata)),
                "last": unsigned(1),
            }
        )
        final = len(self._steps) - 1
        init = [
            {
                "access": step.access,
                "address": step.address,
                "value": step.value,
                "last": index == final,
            }
            for index, step in enumerate(self._steps)
        ]
        m.submodules.program = memory = Memory(shape=layout, depth=len(init), init=init)
        return memory.read_port()

    def elaborate(self, platform):
        m = Module()
        axil = self.axil
        program = self._program(m)
        step = program.data
        kept = Signal(32)
        cycles = Signal(range(self._time_out + 1))
        passed = Signal()  # this step went well
        wrong = Signal()
        writes = (step.access == Access.WRITE) | (step.access == Access.WRITE_KEPT)
        m.d.comb += [
            axil.awaddr.eq(step.address),
            axil.araddr.eq(step.address),
            axil.wdata.eq(Mux(step.access == Access.WRITE_KEPT, kept, step.value)),
            axil.wstrb.eq(0xF),
            axil.bready.eq(1),
            axil.rready.eq(1),
            program.en.eq(1),
        ]
        for valid, ready in (
            (axil.awvalid, axil.awready),
            (axil.wvalid, axil.wready),
            (axil.arvalid, axil.arready),
        ):
            with m.If(ready):
                m.d.sync += valid.eq(0)

        with m.If(cycles != self._time_out):
            m.d.sync += cycles.eq(cycles + 1)
        with m.FSM(name="player"):
            with m.State("IDLE"):
                m.d.sync += [cycles.eq(0), program.addr.eq(0)]
                with m.If(self.start):
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.next = "ISSUE"
            with m.State("ISSUE"):
                m.d.sync += [axil.awvalid.eq(writes), axil.wvalid.eq(writes)]
                m.d.sync += axil.arvalid.eq(~writes)
                m.next = "ANSWER"
            with m.State("ANSWER"):
                with m.If(axil.bvalid):
                    m.d.comb += [
                        passed.eq(axil.bresp == Response.OKAY),
                        wrong.eq(axil.bresp != Response.OKAY),
                    ]
                with m.If(axil.rvalid):
                    self._judge(m, step, kept, passed, wrong)
                with m.If(passed & step.last):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
                with m.Elif(passed):
                    m.d.sync += program.addr.eq(program.addr + 1)
                    m.next = "FETCH"
                with m.Elif(wrong):
                    m.d.comb += self.failed.eq(1)
                    m.next = "IDLE"
                with m.Elif(axil.rvalid & (cycles == self._time_out)):
                    m.d.comb += [self.failed.eq(1), self.late.eq(1)]
                    m.next = "IDLE"
                with m.Elif(axil.rvalid):  # an AWAIT that has to read again
                    m.next = "ISSUE"
        return m

    def _judge(self, m, step, kept, passed, wrong):
        """What the value that was read means for the step."""
        axil = self.axil
        awaited = axil.rdata == step.value
        with m.If(axil.rresp != Response.OKAY):
            m.d.comb += wrong.eq(1)
        with m.Elif(step.access == Access.KEEP):
            m.d.sync += kept.eq(axil.rdata)
            m.d.comb += passed.eq(1)
        with m.Elif(step.access == Access.AWAIT):
            m.d.comb += passed.eq(awaited)
        with m.Elif(step.access == Access.EXPECT_KEPT):
            m.d.comb += [passed.eq(axil.rdata == kept), wrong.eq(axil.rdata != kept)]
        with m.Else():
            m.d.comb += [passed.eq(awaited), wrong.eq(~awaited)]
