"""Two contexts of `Switch` between ranks that speak packets: each one's operations, at a time."""

from __future__ import annotations

import itertools
from functools import partial

from .lib import coverage
from .lib.operations import CODES, Sequence, check_flags
from .lib.packets import DECERR, OKAY, SLVERR
from .lib.ranks import Host, RankProgram
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare
from .tb_switch_packets import LIMIT, LONG, PacketsBench


class Tenant:
    """A context: its part of every memory, its ranks' programs, its host.

    Parameters
    ----------
    bench
        Whose ranks it shares with the others.
    number
        The context.
    """

    def __init__(self, bench: ContextsBench, number: int):
        config = bench.config
        room = config.memory_bytes // config.contexts
        self.number = number
        self.sequence = Sequence(
            config,
            context=number,
            memories=bench.sequence.memories,
            start=room * number,
            room=room,
        )
        self.host = Host(config, bench.write, bench.read, context=number)
        self.programs = [
            bench.add(
                RankProgram(partial(served.arrive, context=number), self.sequence.flag_reader(rank))
            )
            for rank, served in enumerate(bench.ranks)
        ]

    async def set_up(self):
        """Every rank is a member, and the window is the sequence's part of its memory."""
        config, start, room = self.sequence.config, self.sequence.start, self.sequence.room
        await self.host.write("enable", 0)
        await self.host.write("members", (1 << config.ranks) - 1)
        for rank in range(config.ranks):
            await self.host.write(f"window_base_{rank}", start)
            await self.host.write(f"window_limit_{rank}", start + room)
        await self.host.write("enable", 1)

    async def post(self):
        for operation in self.sequence.operations:
            refused = await self.host.post(operation, self.sequence.flags)
            compare(f"context {self.number}: post", list(refused), [0, 0])

    def arrive(self, case: Case, delay: int):
        """Its ranks in any order, from `delay` cycles on."""
        order = list(range(len(self.programs)))
        case.draw.shuffle(order)
        skew = case.draw.choice((0, 7, 40))
        for number, operation in enumerate(self.sequence.operations):
            for place, rank in enumerate(order):
                wait = delay + place * skew if number == 0 else 0
                self.programs[rank].add(operation.epoch, wait)

    def check(self, **failures: int):
        """Every byte of its part of every memory, and each rank's flags.

        The first operation ended with these `failures`.
        """
        self.sequence.check()
        words = self.sequence.flag_words(**failures)
        for rank, program in enumerate(self.programs):
            check_flags(f"context {self.number}: flags of rank {rank}", program.flags, words)

    def forget(self):
        """The flags that have been seen."""
        for program in self.programs:
            program.flags.clear()


class ContextsBench(PacketsBench):
    """The bench of the switch alone, with a sequence of operations for each context."""

    def __init__(self, dut):
        super().__init__(dut)
        self.write, self.read = self._write, self._read
        self.tenants = [Tenant(self, number) for number in range(self.config.contexts)]
        self._ready = False

    async def begin(self, case: Case):
        """Contexts as they are to be, links and ranks as the case has them."""
        if not self._ready:
            for tenant in self.tenants:
                await tenant.set_up()
            self._ready = True
        self.settle(case)
        for rank in self.ranks:
            rank.served.clear()

    async def end(self, failures: dict[int, dict[str, int]] | None = None):
        """Compare all that has ended; `failures` are those of contexts' first operations."""
        for tenant in self.tenants:
            tenant.check(**(failures or {}).get(tenant.number, {}))
            tenant.forget()
        compare("answers to arrivals", [a for rank in self.ranks for a in rank.answers if a], [])
        compare("stray", [await self.tenants[0].host.read("stray_responses")], [0])

    def cover(self):
        """How the contexts' packets came to the ranks."""
        self.observe()
        for rank in self.ranks:
            turns = len(list(itertools.groupby(rank.served)))
            both = len(set(rank.served)) > 1
            coverage.hit("switch.context", "two" if both else "one")
            if both:
                coverage.hit(
                    "switch.context", "turns at a rank" if turns > 2 else "one behind the other"
                )


@scenario(ContextsBench, cases=6)
async def operations_of_both(bench: ContextsBench, case: Case):
    """Sums, flags and all other bytes right, whichever context is first and how far ahead."""
    draw = case.draw
    await bench.begin(case)
    late = case.choose((0, 0, 30, 2000))
    for tenant in bench.tenants:
        tenant.sequence.draw(draw, draw.randint(1, Sequence.LONGEST))
        await tenant.post()
    first = draw.randrange(2)
    bench.tenants[first].arrive(case, 0)
    bench.tenants[1 - first].arrive(case, late)
    await bench.finish(limit=LIMIT)
    await bench.end()
    bench.cover()


@scenario(ContextsBench, cases=2)
async def one_alone(bench: ContextsBench, case: Case):
    """A context that has nothing to do stands in nobody's way, and nothing of it changes."""
    draw = case.draw
    await bench.begin(case)
    busy, idle = draw.sample(bench.tenants, 2)
    busy.sequence.draw(draw, draw.randint(1, Sequence.LONGEST))
    idle.sequence.draw(draw, 0)
    await busy.post()
    busy.arrive(case, 0)
    await bench.finish(limit=LIMIT)
    await bench.end()
    bench.cover()


@scenario(ContextsBench, cases=4)
async def an_error_of_one(bench: ContextsBench, case: Case):
    """What a rank answers badly ends the operation that asked, and none of the other context."""
    draw, config = case.draw, bench.config
    await bench.begin(case)
    failing = draw.choice(bench.tenants)
    for tenant in bench.tenants:
        edge = draw.choice((None, *LONG))
        tenant.sequence.draw(draw, 2, shortest=config.flit_bytes, edge=edge)
    operation = failing.sequence.operations[0]
    rank, code = draw.randrange(config.ranks), draw.choice((SLVERR, DECERR))
    base = operation.addresses["source"][rank]
    offset = draw.randrange(operation.length)
    before = [memory.copy() for memory in failing.sequence.memories]

    def read_status(address: int) -> int:
        return code if address <= base + offset < address + config.flit_bytes else OKAY

    bench.ranks[rank].read_status = read_status
    for tenant in bench.tenants:
        await tenant.post()
        tenant.arrive(case, 0)
    await bench.finish(limit=LIMIT)
    failing.sequence.expect_failure(operation, before, offset)
    name = "READ_SLVERR" if code == SLVERR else "READ_DECERR"
    await bench.end({failing.number: dict(code=CODES[name], rank=rank)})
    bench.cover()
