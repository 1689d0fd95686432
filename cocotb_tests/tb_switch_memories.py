"""The whole switch, with endpoints and links, between Python memories: hosts, programs, golden."""

from __future__ import annotations

import itertools
import random

import cocotb

from .lib import coverage
from .lib.axi import AxiMemory
from .lib.axi_partner import axi_lite_master
from .lib.bench import Bench
from .lib.configs import current
from .lib.operations import CODES, Sequence, check_flags
from .lib.packets import DECERR, OKAY, SLVERR
from .lib.patterns import SHAPES, pattern
from .lib.ranks import Host, RankProgram
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare

#: Of operations that fail, since more than one wave can tell what became of the others.
LONG = (("two waves", 0), ("two waves", 1), ("two waves", 1))
LIMIT = 60_000
#: Longest delay of a rank's arrival, in cycles.
SKEW = 300


class Arrival:
    """Offers one arrival after the other at an endpoint."""

    def __init__(self, ports, rank: int):
        self._ports, self._rank = ports, rank
        self._waiting: list[int] = []
        self.answers: list[int] = []

    def send(self, epoch: int):
        self._waiting.append(epoch)

    def cycle(self):
        ports, rank = self._ports, self._rank
        if ports.get(f"acknowledged__{rank}"):
            self.answers.append(ports.get(f"acknowledgement__{rank}"))
        offered = self._waiting and ports.get(f"arrival__{rank}__ready")
        if offered and self._valid:
            self._waiting.pop(0)
        self._valid = bool(self._waiting)
        ports.set(f"arrival__{rank}__valid", self._valid)
        if self._valid:
            ports.set_fields(f"arrival__{rank}__payload", epoch=self._waiting[0])

    _valid = False

    def left(self) -> str:
        return f"rank {self._rank}: {len(self._waiting)} arrivals" if self._waiting else ""


class Occupancy:
    """Counts how full the wave tables and the write phase get."""

    def __init__(self, ports):
        self._ports = ports
        self.reading = self.writing = 0

    def cycle(self):
        self.reading = max(self.reading, self._ports.get("trace__reading"))
        self.writing = max(self.writing, self._ports.get("trace__writing"))

    def left(self) -> str:
        return ""


class MemoriesBench(Bench):
    """Ranks with a memory and a program each, and a host at the registers."""

    def __init__(self, dut):
        super().__init__(dut)
        self.config = config = current()
        self.sequence = Sequence(config)
        self.memories = [
            self.add(
                AxiMemory(
                    self.ports, f"axi__{rank}", self.sequence.memories[rank], random.Random(rank),
                    config.flit_bytes, config.address_bits,
                )
            )
            for rank in range(config.ranks)
        ]  # fmt: skip
        self.doors = [self.add(Arrival(self.ports, rank)) for rank in range(config.ranks)]
        self.programs = [
            self.add(RankProgram(door.send, self.sequence.flag_reader(rank)))
            for rank, door in enumerate(self.doors)
        ]
        self.occupancy = self.add(Occupancy(self.ports))
        self._master = axi_lite_master(dut, "axil")
        self.host = Host(config, self._write, self._read)

    async def _access(self, coroutine):
        """Let the bench's cycles go on while a register is accessed."""
        task = cocotb.start_soon(coroutine)
        await self.until(task.done, limit=1000, what="a register access")
        return task.result()

    async def _write(self, address: int, value: int):
        await self._access(self._master.write_dword(address, value))

    async def _read(self, address: int) -> int:
        return await self._access(self._master.read_dword(address))

    async def settle(self, case: Case):
        """How links and memories go in this case; what was under way is lost, and nothing is."""
        draw = case.draw
        longest = self.config.link_latency_max
        latency = draw.choice((2, self.config.link_latency, draw.randint(2, longest)))
        self.ports.set("link_latency", latency)
        await self.step(2 * longest)
        self.shapes = []
        for memory in self.memories:
            shape = draw.choice(SHAPES)
            self.shapes.append(shape)
            memory.forget()
            memory.draw = draw
            memory.willing = {name: pattern(shape, draw) for name in ("ar", "r", "aw", "w", "b")}
            memory.read_latency = draw.choice((1, 2, draw.randint(1, 60)))
            # The longest is long enough for as many waves to wait as the switch lets.
            memory.write_latency = draw.choice((1, 2, draw.randint(1, 60), draw.randint(200, 400)))
            memory.single_ported = draw.random() < 0.3
            memory.out_of_order = draw.random() < 0.5
            memory.interleaved = draw.random() < 0.5
            memory.read_error = lambda burst, beat: OKAY
            memory.write_error = lambda burst: OKAY
        self.occupancy.reading = self.occupancy.writing = 0

    def start(self, case: Case, skew: int):
        """Every rank takes part in every operation; the order of arrivals is the case's."""
        order = case.choose(itertools.permutations(range(self.config.ranks)))
        for number, operation in enumerate(self.sequence.operations):
            for place, rank in enumerate(order):
                delay = place * skew if number == 0 else case.draw.choice((0, 0, skew))
                self.programs[rank].add(operation.epoch, delay)

    def check_flags(self, **failures: int):
        """One flag of each operation at each rank, the first with these `failures`."""
        for rank, program in enumerate(self.programs):
            check_flags(f"rank {rank}: flags", program.flags, self.sequence.flag_words(**failures))

    def observe(self):
        """Coverage of what happened since `settle`."""
        for memory, shape in zip(self.memories, self.shapes, strict=True):
            coverage.hit_stalls("switch.memory_stalls", (shape, memory.held))
        operations = self.sequence.operations
        waves = self.config.waves
        reading = self.occupancy.reading
        coverage.hit("switch.reading", "all" if reading == waves else reading)
        coverage.hit("switch.writing", coverage.range_bin(self.occupancy.writing, 0, 1, 4))
        first = [program.arrivals[operations[0].epoch] for program in self.programs]
        order = sorted(range(len(first)), key=lambda rank: first[rank])
        together = len(set(first)) == 1
        coverage.hit("switch.arrival", "together" if together else "".join(map(str, order)))
        for before, after in itertools.pairwise(operations):
            ended = max(program.ends[before.epoch] for program in self.programs)
            begins = max(program.arrivals[after.epoch] for program in self.programs)
            coverage.hit("switch.distance", coverage.range_bin(max(begins - ended, 0), 0, 10))
        for program in self.programs:
            program.flags.clear()


@scenario(MemoriesBench, cases=6)
async def sequences_of_operations(bench: MemoriesBench, case: Case):
    """Different operations behind each other, each with every rank's own data."""
    draw, sequence = case.draw, bench.sequence
    await bench.settle(case)
    edge = case.choose(sequence.EDGES)
    # An operation of nothing alone: no wave is read then, and none is written.
    count = 1 if edge[0] is None else draw.randint(1, sequence.LONGEST)
    sequence.draw(draw, count, edge=edge)
    ahead = draw.random() < 0.7  # everything posted first, so that operations overlap
    skew = draw.choice((0, 0, 1, draw.randrange(SKEW)))
    if not ahead:
        bench.start(case, skew)
    for operation in sequence.operations:
        refused = await bench.host.post(operation, sequence.flags)
        compare("post", list(refused), [0, 0])
    if ahead:
        bench.start(case, skew)
    await bench.finish(limit=LIMIT)
    sequence.check()
    bench.check_flags()
    last = sequence.operations[-1].epoch
    compare("last code", [await bench.host.read("last_code")], [0])
    compare("epoch", [await bench.host.read("epoch")], [last + 1])
    for name in ("stray_responses", "flag_errors", "refused_arrivals"):
        compare(name, [await bench.host.read(name)], [0])
    compare("answers", [a for door in bench.doors for a in door.answers if a != OKAY], [])
    coverage.hit("switch.context", "one")
    coverage.hit("switch.queued", len(sequence.operations) if ahead else "posted behind arrivals")
    bench.observe()


@scenario(MemoriesBench, cases=4)
async def errors_of_memories(bench: MemoriesBench, case: Case):
    """An operation with an error ends with its code and rank; the next one is untouched by it.

    Its waves are new up to the error and old behind it, as the design promises, byte by byte.
    """
    draw, sequence, config = case.draw, bench.sequence, bench.config
    await bench.settle(case)
    sequence.draw(draw, 2, shortest=config.flit_bytes, edge=draw.choice((None, *LONG)))
    failing = sequence.operations[0]
    rank = draw.randrange(config.ranks)
    code = draw.choice((SLVERR, DECERR))
    kind = case.choose(("read", "write"))
    place = failing.addresses["source" if kind == "read" else "destination"][rank]
    size = config.flit_bytes
    offset = draw.randrange(-(-failing.length // size)) * size
    memory, refused = bench.memories[rank], []

    def range_of(burst, first, beats):
        start = burst.address // size * size + first * size
        return slice(start, start + beats * size)

    def read_error(burst, beat):
        part = range_of(burst, beat, 1)
        return code if part.start <= place + offset < part.stop else OKAY

    def write_error(burst):
        part = range_of(burst, 0, burst.beats)
        if not part.start <= place + offset < part.stop:
            return OKAY
        refused.append(part)
        return code

    if kind == "read":
        memory.read_error = read_error
    else:
        memory.write_error = write_error
    before = [memory.copy() for memory in sequence.memories]
    for operation in sequence.operations:
        compare("post", list(await bench.host.post(operation, sequence.flags)), [0, 0])
    bench.start(case, draw.choice((0, 50)))
    await bench.finish(limit=LIMIT)
    name = f"{kind.upper()}_{'SLVERR' if code == SLVERR else 'DECERR'}"
    bench.check_flags(code=CODES[name], rank=rank)
    sequence.expect_failure(
        failing, before, offset, refused=(rank, refused) if kind == "write" else None
    )
    sequence.check()
    compare("last code", [await bench.host.read("last_code")], [0])
    bench.observe()
