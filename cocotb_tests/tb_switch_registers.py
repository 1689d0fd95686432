"""The registers of a whole switch over AXI4-Lite, against their table."""

from __future__ import annotations

import cocotb
from cocotbext.axi import AxiResp

from hdl.registers import PAGE_BYTES, SWITCH_PAGE, addresses, switch_registers

from .lib import coverage
from .lib.axi_partner import LiteAnswers, axi_lite_master
from .lib.bench import Bench
from .lib.configs import current
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare, golden

WORD_BYTES = 4
MASK = 0xFFFFFFFF
LIMIT = 1000
#: What `format`, `length` and the rest do is other benches' matter; posting needs an instruction.
NOT_WRITTEN = ("post", "clear")
#: Reads other than 0 in a switch that has done nothing, though it is no constant.
FIRST_EPOCH = {"epoch": 1}


class TableBench(Bench):
    def __init__(self, dut):
        super().__init__(dut)
        self.table = switch_registers(current())
        self.addresses = addresses(self.table, SWITCH_PAGE)
        self.master = axi_lite_master(dut, "axil")
        self.written: dict[str, int] = {}
        self.answers = self.add(LiteAnswers(self.ports, "axil"))
        self.asked = [0, 0]  # reads, writes
        self.add(self)

    def cycle(self):
        """No access of a register may reach a memory."""
        for rank in range(current().ranks):
            for name in ("arvalid", "awvalid", "wvalid"):
                compare(f"axi__{rank}__{name}", [self.ports.get(f"axi__{rank}__{name}")], [0])

    def left(self) -> str:
        return ""

    async def end(self):
        """Nothing but an answer to each access."""
        await self.finish(limit=LIMIT)
        compare("answers", self.answers.take(), self.asked)
        self.asked = [0, 0]

    async def reset(self):
        await super().reset()
        self.ports.set("link_latency", current().link_latency)

    async def access(self, coroutine, *, write: bool = False):
        self.asked[write] += 1
        task = cocotb.start_soon(coroutine)
        await self.until(task.done, limit=LIMIT, what="a register access")
        return task.result()

    async def write(self, address: int, data: bytes):
        return await self.access(self.master.write(address, data), write=True)

    async def read(self, address: int, words: int) -> int:
        """A register's value, low word first."""
        value = 0
        for word in range(words):
            answer = await self.access(self.master.read(address + WORD_BYTES * word, WORD_BYTES))
            compare(f"response of a read at {address:#x}", [answer.resp], [AxiResp.OKAY])
            value |= int.from_bytes(answer.data, "little") << 32 * word
        return value

    def expected(self, register) -> int:
        if register.access == "wo":
            return 0
        return self.written.get(register.name, FIRST_EPOCH.get(register.name, register.reset))


@scenario(TableBench, cases=2)
async def every_register(bench: TableBench, case: Case):
    """Constants and reset values; writes that are kept, and those that change nothing."""
    draw = case.draw
    order = list(bench.table)
    draw.shuffle(order)
    for register in order:
        address = bench.addresses[register.name]
        wanted = golden([bench.expected(register)], register.width)
        compare(register.name, [await bench.read(address, register.words)], wanted)
        if register.name in NOT_WRITTEN:
            continue
        value = draw.getrandbits(register.width)
        for word in range(register.words):
            data = (value >> 32 * word & MASK).to_bytes(WORD_BYTES, "little")
            answer = await bench.write(address + WORD_BYTES * word, data)
            compare(f"write of {register.name}", [answer.resp], [AxiResp.OKAY])
        if register.access == "rw":
            bench.written[register.name] = value
        coverage.hit("registers.kind", "constant" if register.constant else register.access)
        wanted = golden([bench.expected(register)], register.width)
        compare(f"{register.name}, written", [await bench.read(address, register.words)], wanted)
    await bench.end()


@scenario(TableBench, cases=2, moves_data=False)
async def addresses_beside_the_table(bench: TableBench, case: Case):
    """Behind the last register, and on pages that a switch alone does not have: DECERR."""
    end = max(bench.addresses.values()) + WORD_BYTES * bench.table[-1].words
    places = [end, PAGE_BYTES - WORD_BYTES, *(PAGE_BYTES * page for page in (1, 2, 16, 63))]
    for address in places:
        answer = await bench.access(bench.master.read(address, WORD_BYTES))
        compare(f"read at {address:#x}", [answer.resp], [AxiResp.DECERR])
        answer = await bench.write(address, bytes(WORD_BYTES))
        compare(f"write at {address:#x}", [answer.resp], [AxiResp.DECERR])
    coverage.hit("registers.kind", "beside the table")
    await bench.end()
