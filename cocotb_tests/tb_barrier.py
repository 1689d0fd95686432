"""`Barrier`: cycle by cycle beside a model that is a dictionary of who has arrived for what."""

from __future__ import annotations

import random

from .lib import coverage
from .lib.bench import Bench
from .lib.configs import current
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare

CYCLES = 60
LIMIT = 10
MASK = 0xFFFFFFFF
#: Chance that the mask changes when an epoch ends, and in any other cycle.
AT_AN_END, WITHIN = 0.6, 0.03


class Model:
    """The barrier as the memory contract says it: ranks by epoch, for the current and the next.

    A rank that is no member any more has arrived all the same, and nobody waits for it.
    """

    def __init__(self, ranks: int, epoch: int):
        self.epoch = epoch
        self.members = set(range(ranks))
        self.here: dict[int, set[int]] = {}

    @property
    def complete(self) -> bool:
        return bool(self.members) and self.members <= self.here.get(self.epoch, set())

    def arrived(self, offset: int = 0) -> int:
        """Bits of those that have for the current epoch, or one behind it."""
        return sum(1 << rank for rank in self.here.get(self.epoch + offset & MASK, ()))

    def refuses(self, rank: int, epoch: int) -> bool:
        wanted = epoch in (self.epoch, self.epoch + 1 & MASK) and rank in self.members
        return not wanted or rank in self.here.get(epoch, ())

    def cycle(self, arrivals: dict[int, int], take: bool):
        for rank, epoch in arrivals.items():
            if not self.refuses(rank, epoch):
                self.here.setdefault(epoch, set()).add(rank)
        if take:
            self.here.pop(self.epoch, None)
            self.epoch = self.epoch + 1 & MASK


class BarrierBench(Bench):
    """Drives arrivals, takes and the mask; compares every output in every cycle."""

    def __init__(self, dut):
        super().__init__(dut)
        self.config = config = current()
        self.model = Model(config.ranks, 1)
        self._arrivals: dict[int, int] = {}
        self._take = False
        self.add(self)

    def left(self) -> str:
        return ""

    def cycle(self):
        ports, model, arrivals = self.ports, self.model, self._arrivals
        wanted = dict(
            refused=sum(1 << r for r, epoch in arrivals.items() if model.refuses(r, epoch)),
            complete=int(model.complete), arrived=model.arrived(), epoch=model.epoch,
        )  # fmt: skip
        if self.config.subsets:
            wanted |= dict(early=model.arrived(1))
        compare("barrier", [(name, ports.get(name)) for name in wanted], list(wanted.items()))
        _cover(model, arrivals, self._take)
        model.cycle(arrivals, self._take)

    def drive(self, arrivals: dict[int, int], take: bool):
        """What the next cycle has."""
        self._arrivals, self._take = arrivals, take
        self.ports.set("arrive", sum(1 << rank for rank in arrivals))
        self.ports.set("take", take)

    def choose_members(self, draw: random.Random, kind: str):
        """A mask of this kind, from the next cycle on; all, where a barrier has none."""
        ranks, subsets = self.config.ranks, self.config.subsets
        some = draw.randint(2, ranks - 1) if ranks > 2 else 1
        count = {"none": 0, "one": 1, "some": some, "all": ranks}[kind] if subsets else ranks
        before = self.model.members
        self.model.members = members = set(draw.sample(range(ranks), count))
        if not subsets:
            return
        self.ports.set("members", sum(1 << rank for rank in members))
        kinds = {0: "none", 1: "one", ranks: "all"}
        coverage.hit("barrier.members", kinds.get(count, "some"))
        if members and 0 not in members:
            coverage.hit("barrier.members", "without rank 0")
        if members != before:
            begun = bool(self.model.arrived())
            coverage.hit("barrier.change", "some have arrived" if begun else "nobody has arrived")


@scenario(BarrierBench, cases=25, moves_data=False)
async def arrivals_at_random(bench: BarrierBench, case: Case):
    """Any arrivals in any cycle, right epochs and wrong ones, beside takes, at once or late.

    Members are any ranks, and others from epoch to epoch, now and then also within one.
    """
    draw, model, ports = case.draw, bench.model, bench.ports
    chance = draw.choice((0.1, 0.5, 0.9))
    patience = draw.choice((0.1, 1.0))
    bench.choose_members(draw, case.choose(("one", "some", "all")))
    for _ in range(CYCLES):
        arrivals = {}
        for rank in range(bench.config.ranks):
            offset = draw.choice((0, 0, 0, 1, 1, 2, -1, draw.getrandbits(32)))
            epoch = model.epoch + offset & MASK
            ports.set(f"epochs__{rank}", epoch)
            if draw.random() < chance:
                arrivals[rank] = epoch
        take = model.complete and draw.random() < patience
        bench.drive(arrivals, take)
        await bench.step()
        if draw.random() < (AT_AN_END if take else WITHIN):
            bench.choose_members(draw, draw.choice(("none", "one", "one", "some", "some", "all")))
    bench.drive({}, False)
    await bench.finish(limit=LIMIT)


def _cover(model: Model, arrivals: dict[int, int], take: bool):
    for rank, epoch in arrivals.items():
        current_epoch = epoch == model.epoch
        wanted = current_epoch or epoch == model.epoch + 1 & MASK
        if wanted and rank not in model.members:
            coverage.hit("barrier.arrival", "no member")
        elif model.refuses(rank, epoch):
            coverage.hit("barrier.arrival", "second" if wanted else "far epoch")
        else:
            coverage.hit("barrier.arrival", "current epoch" if current_epoch else "next epoch")
    if len(arrivals) > 1:
        coverage.hit("barrier.arrival", "several in a cycle")
    if take:
        coverage.hit("barrier.take", "beside an arrival" if arrivals else "alone")
