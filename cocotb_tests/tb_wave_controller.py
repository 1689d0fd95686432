"""`WaveController`: operations cut into waves as golden cuts them, never more than the entries."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from .lib import coverage
from .lib.bench import Bench
from .lib.configs import current
from .lib.operations import FORMATS
from .lib.patterns import SHAPES, pattern
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare, golden

LIMIT = 5_000
GENERATIONS = 16
ADDRESS_BITS = 12


@dataclass
class Launch:
    slot: int
    format: str
    length: int
    sources: list[int]
    scale_sources: list[int]


class ControllerBench(Bench):
    """Barrier, issuers, read-out and tables at once: stalls as told, and the model of the waves.

    The model is in `cycle`: what stands on the ports in a cycle is compared with what the waves so
    far call for.
    """

    def __init__(self, dut):
        super().__init__(dut)
        self.config = current()
        self.launches: deque[Launch] = deque()
        self.under_way: Launch | None = None
        self.done = 0  # bytes of it that are issued
        self.entry = self.generation = 0
        self.oldest: deque[bool] = deque()  # waves that hold an entry
        self.failed = 0
        self.gates = {name: pattern("always", random.Random(0))
                      for name in ("complete", "issue", "waves", "release")}  # fmt: skip
        self.most_reading = 0
        self.held = 0  # cycles in which a wave waited for the read-out order
        self.waves = 0
        self.may_fail = False
        self.draw = random.Random(0)
        self._driven = dict.fromkeys(self.gates, False)
        self._offered = False
        self.add(self)

    def left(self) -> str:
        waiting = len(self.launches) + (self.under_way is not None)
        return f"{waiting} operations, {len(self.oldest)} entries" if waiting or self.oldest else ""

    def cycle(self):
        self._check()
        self._drive()

    # -- what must stand on the ports -----------------------------------------------------------

    def _check(self):
        ports, config = self.ports, self.config
        compare("reading", [ports.get("reading")], [len(self.oldest)])
        self.most_reading = max(self.most_reading, len(self.oldest))
        self.held += bool(ports.get("waves__valid") and not self._driven["waves"])
        issued = ports.get("waves__valid") and self._driven["waves"]
        taken = bool(ports.get("take"))
        wanted = self._offered and self.under_way is None and self._driven["complete"]
        compare("take", [taken], [wanted])
        launched = bool(self._offered and ports.get("launch__ready"))
        compare("launch taken with the barrier", [launched], [taken])
        if issued:
            self._check_wave()
        else:
            compare("issue without a wave", [ports.get("issue__valid")], [0])
            compare("reserve without a wave", [ports.get("reserve__valid")], [0])
        if self._driven["release"]:
            self.oldest.popleft()
        if taken:
            self.under_way, self.done = self.launches.popleft(), 0
        assert len(self.oldest) <= config.waves

    def _check_wave(self):
        ports, config, launch = self.ports, self.config, self.under_way
        assert launch is not None, "a wave of no operation"
        failed = self.failed >> launch.slot & 1
        size = 0 if failed else min(launch.length - self.done, config.wave_bytes)
        last = failed or self.done + size == launch.length
        got = ports.fields("waves__payload")
        wanted = dict(
            slot=launch.slot, format=FORMATS[launch.format], size=size,
            first=int(self.done == 0 and not self._begun), last=int(last),
        )  # fmt: skip
        if size:
            wanted["entry"] = self.entry
        compare("wave", [got[name] for name in wanted], golden(list(wanted.values()), 1))
        compare("issue and reserve", [ports.get("issue__valid"), ports.get("reserve__valid")],
                [int(size > 0)] * 2)  # fmt: skip
        coverage.hit("wave_controller.wave", "failed" if failed else self._bin(size))
        if size:
            assert self._driven["issue"], "issued though the issuers were not ready"
            self._check_issue(launch, size)
            self.oldest.append(True)
            self.entry += 1
            if self.entry == config.waves:
                self.entry, self.generation = 0, (self.generation + 1) % GENERATIONS
        self._begun = True
        self.waves += 1
        self.done += size
        if last:
            self.under_way, self._begun = None, False
            self.failed &= ~(1 << launch.slot)

    _begun = False

    def _bin(self, size: int) -> str:
        if size == 0:
            return "empty"
        return "whole" if size == self.config.wave_bytes else "rest"

    def _check_issue(self, launch: Launch, size: int):
        ports, config = self.ports, self.config
        scales = config.scales_bytes(size) if launch.format == "inq8" else 0
        step = self.done // config.wave_bytes
        pieces = {"size": size, "entry": self.entry, "generation": self.generation}
        for rank, source in enumerate(launch.sources):
            pieces[f"address__{rank}"] = source + self.done
        if config.quantizes:
            pieces["scale_size"] = scales
            for rank, source in enumerate(launch.scale_sources):
                pieces[f"scale_address__{rank}"] = source + step * config.scale_chunk_bytes
        got = [ports.get(f"issue__{name}") for name in pieces]
        compare(f"issue of {', '.join(pieces)}", got, golden(list(pieces.values()), 1))
        absent = 0
        for first, count, length in (
            (0, config.packets_per_wave, size),
            (config.packets_per_wave, config.scale_packets, scales),
        ):
            for packet in range(count):
                absent |= int(length <= packet * config.payload_bytes) << first + packet
        got = [ports.get(f"reserve__{name}") for name in ("entry", "generation", "absent")]
        compare("reserve", got, golden([self.entry, self.generation, absent], 1))

    # -- what is driven in the next cycle -------------------------------------------------------

    def _drive(self):
        ports = self.ports
        goes = {name: next(gate) for name, gate in self.gates.items()}
        goes["release"] = goes["release"] and bool(self.oldest)
        if self.may_fail and self.under_way and self.draw.random() < 0.02:
            self.failed |= 1 << self.under_way.slot
        self._driven = goes
        ports.set("complete", goes["complete"])
        ports.set("issue_ready", goes["issue"])
        ports.set("waves__ready", goes["waves"])
        ports.set("release", goes["release"])
        ports.set("failed", self.failed)
        self._offered = bool(self.launches)
        ports.set("launch__valid", self._offered)
        if self.launches:
            launch = self.launches[0]
            ports.set_fields(
                "launch__payload", slot=launch.slot, format=FORMATS[launch.format],
                length=launch.length,
            )  # fmt: skip
            for rank, source in enumerate(launch.sources):
                ports.set(f"sources__{rank}", source)
            if self.config.quantizes:
                for rank, source in enumerate(launch.scale_sources):
                    ports.set(f"scale_sources__{rank}", source)


@scenario(ControllerBench, cases=16)
async def operations_become_waves(bench: ControllerBench, case: Case):
    """Sizes, addresses, entries and generations of every wave, whatever stalls."""
    draw, config = case.draw, bench.config
    shapes = {name: draw.choice(SHAPES) for name in bench.gates}
    shapes["waves"] = case.choose(SHAPES)
    bench.gates = {name: pattern(shape, draw) for name, shape in shapes.items()}
    bench.draw, bench.may_fail = draw, draw.random() < 0.3
    bench.most_reading = bench.held = 0
    empty = case.choose(range(8)) == 0  # operations of nothing alone: no entry is taken then
    for number in range(draw.randint(2, 5)):
        format = draw.choice(config.formats)
        element = 1 if format == "inq8" else 2
        waves = 0 if empty else draw.choice((0, 1, 2, draw.randint(1, 8)))
        packets = draw.randrange(config.packets_per_wave)
        rest = (
            0
            if empty
            else draw.choice(
                (0, element, packets * config.payload_bytes, draw.randrange(config.wave_bytes))
            )
        )
        launch = Launch(
            number, format, (waves * config.wave_bytes + rest) // element * element,
            [draw.getrandbits(ADDRESS_BITS) for _ in range(config.ranks)],
            [draw.getrandbits(ADDRESS_BITS) for _ in range(config.ranks)],
        )  # fmt: skip
        bench.launches.append(launch)
    await bench.finish(limit=LIMIT)
    coverage.hit_stalls("wave_controller.stalls", (shapes["waves"], bench.held))
    most = bench.most_reading
    coverage.hit("wave_controller.reading", "all" if most == config.waves else most)
