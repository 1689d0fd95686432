"""`Barrier`: cycle by cycle beside a model that is a dictionary of who has arrived for what."""

from __future__ import annotations

from .lib import coverage
from .lib.bench import Bench
from .lib.configs import current
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare

CYCLES = 60
MASK = 0xFFFFFFFF


class Model:
    """The barrier as the memory contract says it: ranks by epoch, for the current and the next."""

    def __init__(self, ranks: int, epoch: int):
        self.ranks = ranks
        self.epoch = epoch
        self.here: dict[int, set[int]] = {}

    @property
    def complete(self) -> bool:
        return len(self.here.get(self.epoch, ())) == self.ranks

    def arrived(self) -> int:
        return sum(1 << rank for rank in self.here.get(self.epoch, ()))

    def refuses(self, rank: int, epoch: int) -> bool:
        wanted = epoch in (self.epoch, self.epoch + 1 & MASK)
        return not wanted or rank in self.here.get(epoch, ())

    def cycle(self, arrivals: dict[int, int], take: bool):
        for rank, epoch in arrivals.items():
            if not self.refuses(rank, epoch):
                self.here.setdefault(epoch, set()).add(rank)
        if take:
            self.here.pop(self.epoch, None)
            self.epoch = self.epoch + 1 & MASK


class BarrierBench(Bench):
    def __init__(self, dut):
        super().__init__(dut)
        self.ranks = current().ranks
        self.model = Model(self.ranks, 1)


@scenario(BarrierBench, cases=25, moves_data=False)
async def arrivals_at_random(bench: BarrierBench, case: Case):
    """Any arrivals in any cycle, right epochs and wrong ones, beside takes, at once or late."""
    draw, model, ports = case.draw, bench.model, bench.ports
    chance = draw.choice((0.1, 0.5, 0.9))
    patience = draw.choice((0.1, 1.0))
    for _ in range(CYCLES):
        arrivals = {}
        for rank in range(bench.ranks):
            offset = draw.choice((0, 0, 0, 1, 1, 2, -1, draw.getrandbits(32)))
            epoch = model.epoch + offset & MASK
            ports.set(f"epochs__{rank}", epoch)
            if draw.random() < chance:
                arrivals[rank] = epoch
        take = model.complete and draw.random() < patience
        ports.set("arrive", sum(1 << rank for rank in arrivals))
        ports.set("take", take)
        await bench.step()
        refused = sum(1 << r for r, epoch in arrivals.items() if model.refuses(r, epoch))
        got = {name: ports.get(name) for name in ("refused", "complete", "arrived", "epoch")}
        wanted = dict(
            refused=refused, complete=int(model.complete), arrived=model.arrived(),
            epoch=model.epoch,
        )  # fmt: skip
        compare("barrier", sorted(got.items()), sorted(wanted.items()))
        _cover(model, arrivals, take)
        model.cycle(arrivals, take)
    ports.set("arrive", 0)
    ports.set("take", 0)
    await bench.step()


def _cover(model: Model, arrivals: dict[int, int], take: bool):
    for rank, epoch in arrivals.items():
        current_epoch = epoch == model.epoch
        if model.refuses(rank, epoch):
            second = current_epoch or epoch == model.epoch + 1 & MASK
            coverage.hit("barrier.arrival", "second" if second else "far epoch")
        else:
            coverage.hit("barrier.arrival", "current epoch" if current_epoch else "next epoch")
    if len(arrivals) > 1:
        coverage.hit("barrier.arrival", "several in a cycle")
    if take:
        coverage.hit("barrier.take", "beside an arrival" if arrivals else "alone")
