"""`Axi4LiteBridge`: cocotbext-axi's manager on one side, banks as a dictionary on the other."""

from __future__ import annotations

import cocotb
from cocotbext.axi import AxiResp

from .lib import coverage
from .lib.axi_partner import LiteAnswers, axi_lite_master
from .lib.bench import Bench
from .lib.patterns import SHAPES, pattern
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare, golden

WORD_BYTES = 4
PAGE_SHIFT = 10
#: Pages that the model has registers on, and words of each.
PAGES, WORDS = (0, 1, 16), 40
#: Cycles from a strobe to the banks' answer.
ANSWER = 2
LIMIT = 1000


class Banks:
    """Registers as a dictionary, answering two cycles after the strobe.

    Members
    -------
    reads, writes : strobes so far
    """

    def __init__(self, ports):
        self._ports = ports
        self.words = {(page, word): 0 for page in PAGES for word in range(WORDS)}
        self._answers = [(0, 0)] * ANSWER
        self.reads = self.writes = 0

    def cycle(self):
        ports = self._ports
        place = ports.get("bus__page"), ports.get("bus__word")
        answer = (0, 0)
        if ports.get("bus__write") or ports.get("bus__read"):
            answer = (int(place in self.words), 0)
        self.reads += ports.get("bus__read")
        if ports.get("bus__write"):
            self.writes += 1
            if place in self.words:
                self.words[place] = ports.get("bus__write_data")
        elif ports.get("bus__read") and place in self.words:
            answer = (1, self.words[place])
        elif place in self.words:
            answer = (1, 0)  # a partial write still asks whether the register is there
        self._answers.append(answer)
        known, data = self._answers[-ANSWER]
        ports.set("bus__known", known)
        ports.set("bus__read_data", data)

    def left(self) -> str:
        return ""


class BridgeBench(Bench):
    def __init__(self, dut):
        super().__init__(dut)
        self.banks = self.add(Banks(self.ports))
        self.answers = self.add(LiteAnswers(self.ports, "axil"))
        self.master = axi_lite_master(dut, "axil")

    async def access(self, coroutine):
        task = cocotb.start_soon(coroutine)
        await self.until(task.done, limit=LIMIT, what="a register access")
        return task.result()


@scenario(BridgeBench, cases=8)
async def accesses(bench: BridgeBench, case: Case):
    """Reads, writes and partial writes, known addresses and others, every channel stalling."""
    draw, banks, master = case.draw, bench.banks, bench.master
    shape = case.choose(SHAPES)
    for channel in (
        master.write_if.aw_channel, master.write_if.w_channel, master.write_if.b_channel,
        master.read_if.ar_channel, master.read_if.r_channel,
    ):  # fmt: skip
        channel.set_pause_generator(not go for go in pattern(shape, draw))
    model = dict(banks.words)
    reads, writes = banks.reads, banks.writes
    asked = written = bench.answers.held = 0
    for _ in range(12):
        known = draw.random() < 0.8
        page = draw.choice(PAGES) if known else draw.choice((2, 15, 63))
        word = draw.randrange(WORDS) if known or draw.random() < 0.5 else draw.randrange(WORDS, 256)
        known = (page, word) in model
        address = page << PAGE_SHIFT | word * WORD_BYTES
        kind = draw.choice(("read", "write", "partial write"))
        reads += kind == "read"
        writes += kind == "write"
        asked += kind == "read"
        written += kind != "read"
        if kind == "read":
            answer = await bench.access(master.read(address, WORD_BYTES))
            expected = golden([model.get((page, word), 0)], 32)
            compare("read data", [int.from_bytes(answer.data, "little")], expected)
        else:
            data = draw.randbytes(WORD_BYTES if kind == "write" else draw.randint(1, 3))
            answer = await bench.access(master.write(address, data))
            if kind == "write" and known:
                model[page, word] = int.from_bytes(data, "little")
        wanted = AxiResp.OKAY if known else AxiResp.DECERR
        if known and kind == "partial write":
            wanted = AxiResp.SLVERR
        compare(f"response of a {kind} at {address:#x}", [answer.resp], [wanted])
        coverage.hit("registers.access", f"{kind}x{'known' if known else 'unknown'}")
    await bench.finish(limit=LIMIT)
    coverage.hit_stalls("registers.stalls", (shape, bench.answers.held))
    compare("answers", bench.answers.take(), [asked, written])
    compare("strobes", [banks.reads, banks.writes], [reads, writes])
    compare("registers", sorted(banks.words.items()), sorted(model.items()))
