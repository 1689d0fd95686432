"""`Link`: what goes in comes out a latency later, cycle by cycle."""

from __future__ import annotations

import random

from .lib import coverage
from .lib.bench import Bench
from .lib.configs import current
from .lib.patterns import SHAPES, pattern
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare, golden

CYCLES = 80


class LinkBench(Bench):
    """A driver of the one end, and a record of both."""

    def __init__(self, dut):
        super().__init__(dut)
        self.config = current()
        self.latency = 0
        self.sent: list[tuple[int, int, int]] = []  # valid, flit or 0, credit: by cycle
        self.came: list[tuple[int, int, int]] = []
        self._driven = (0, 0, 0)
        self.add(self)

    def left(self) -> str:
        """Flits and credits on the line; only a latency that stays lets none of them be lost."""
        line = self.sent[-self.latency :]
        return "the line is not empty" if any(valid or credit for valid, _, credit in line) else ""

    def cycle(self):
        self.sent.append(self._driven)
        valid = self.ports.get("o__valid")
        flit = self.ports.get("o__flit") if valid else 0
        self.came.append((valid, flit, self.ports.get("o__credit")))

    async def send(self, draw: random.Random, go: bool, credits: bool):
        """One cycle with a flit or none."""
        flit = draw.getrandbits(self.ports.widths["i__flit"])
        self._drive(int(go), flit, draw.getrandbits(8) if credits else 0)
        await self.step()

    def drain(self):
        """Nothing more goes in."""
        self._drive(0, 0, 0)

    def _drive(self, go: int, flit: int, credit: int):
        self.ports.set("i__valid", go)
        self.ports.set("i__flit", flit)
        self.ports.set("i__credit", credit)
        self._driven = (go, flit if go else 0, credit)

    def put_latency(self, latency: int):
        self.latency = latency
        self.ports.set("latency", latency)
        coverage.hit("link.latency", self._bin(latency))

    def _bin(self, latency: int) -> str:
        ends = {2: "least", self.config.link_latency_max: "most"}
        return ends.get(latency, "between")


@scenario(LinkBench, cases=16)
async def latency_after_latency(bench: LinkBench, case: Case):
    """Flits and credits come one latency later, in order; what a change cuts off is lost."""
    draw, most = case.draw, bench.config.link_latency_max
    latency = draw.choice((2, most, draw.randint(2, most)))
    shape = case.choose(SHAPES)
    idle = pattern(shape, draw)
    quiet = draw.random() < 0.5  # nothing is under way when the latency changes
    for _ in range(0 if quiet else most):
        await bench.send(draw, next(idle), draw.random() < 0.5)
    changes = latency != bench.latency
    if changes and bench.latency:
        coverage.hit("link.change", "under way" if bench.left() else "while idle")
    bench.put_latency(latency)
    start = len(bench.sent)
    for _ in range(CYCLES):
        await bench.send(draw, next(idle), draw.random() < 0.5)
    bench.drain()
    await bench.finish(limit=most + 1)
    sent = bench.sent[start:]
    under_way = [(0, 0, 0)] * latency if changes else bench.sent[start - latency : start]
    wanted = under_way + sent[: len(sent) - latency]
    came = bench.came[start:]
    # In the cycle of the change itself what was to come then may still come.
    for what, place, bits in (("valid", 0, 1), ("flits", 1, 71), ("credits", 2, 8)):
        expected = golden([entry[place] for entry in wanted[1:]], bits, what=what)
        compare(what, [entry[place] for entry in came[1:]], expected)
    coverage.hit_stalls("link.idle", (shape, sum(not valid for valid, _, _ in sent[:CYCLES])))
