"""`Switch` alone, between ranks that speak packets: answers out of order, ordinary traffic."""

from __future__ import annotations

import itertools

from .lib import coverage, credits
from .lib.bench import Bench
from .lib.configs import current
from .lib.operations import CODES, Sequence, check_flags, flag_word
from .lib.packet_rank import PacketRank
from .lib.packets import DECERR, OKAY, SLVERR, LinkPeer, Packet
from .lib.patterns import pairs, pattern
from .lib.ranks import Host, RankProgram
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare

#: Of operations that fail, since more than one wave can tell what became of the others.
LONG = (("two waves", 0), ("two waves", 1), ("two waves", 1))
LIMIT = 40_000
PAGE_SHIFT, WORD_SHIFT = 10, 2
#: Cycles from a register access to its answer.
ANSWER = 2
#: Longest time that a rank holds an answer back.
HOLD = 60


class PacketsBench(Bench):
    """Ranks that speak packets, their programs, and a host at the register bus."""

    def __init__(self, dut):
        super().__init__(dut)
        self.config = config = current()
        self.sequence = Sequence(config)
        self.ranks, self.programs = [], []
        for rank in range(config.ranks):
            peer = self.add(
                LinkPeer(
                    self.ports,
                    config,
                    into=f"rx__{rank}",
                    out=f"tx__{rank}",
                    to_dut=credits.to_switch(config),
                    from_dut=credits.to_rank(config),
                )
            )
            served = PacketRank(peer, rank, config, self.sequence.memories[rank])
            self.ranks.append(self.add(served))
            program = RankProgram(served.arrive, self.sequence.flag_reader(rank))
            self.programs.append(self.add(program))
        self.host = Host(config, self._write, self._read)

    async def _access(self, kind: str, address: int):
        self.ports.set("bus__page", address >> PAGE_SHIFT)
        self.ports.set("bus__word", (address >> WORD_SHIFT) & 0xFF)
        self.ports.set(f"bus__{kind}", 1)
        await self.step()
        self.ports.set(f"bus__{kind}", 0)
        await self.step(ANSWER)
        compare(f"register {address:#x} known", [self.ports.get("bus__known")], [1])

    async def _write(self, address: int, value: int):
        self.ports.set("bus__write_data", value)
        await self._access("write", address)

    async def _read(self, address: int) -> int:
        await self._access("read", address)
        return self.ports.get("bus__read_data")

    def settle(self, case: Case):
        """How links and ranks go in this case."""
        draw = case.draw
        idle, drain = self.stalls = case.choose(pairs())
        for rank in self.ranks:
            rank.draw = draw
            rank.disorder = draw.random() < 0.7
            rank.hold = draw.choice((0, draw.randint(1, HOLD)))
            rank.overtaken = rank.in_turn = 0
            rank.peer.forget()
            rank.read_status = lambda address: OKAY
            rank.write_status = lambda packet: OKAY
            rank.peer.idle, rank.peer.drain = pattern(idle, draw), pattern(drain, draw)
            rank.answers.clear()

    def check_flags(self, **failures: int):
        """One flag of each operation at each rank, the first with these `failures`."""
        for rank, program in enumerate(self.programs):
            check_flags(f"rank {rank}: flags", program.flags, self.sequence.flag_words(**failures))

    def observe(self):
        """Coverage of what happened since `settle`; flags that were seen are forgotten."""
        idle, drain = self.stalls
        for rank in self.ranks:
            held, withheld = rank.peer.held, rank.peer.withheld
            coverage.hit_stalls("switch.link_stalls", (idle, held), (drain, withheld))
            if rank.overtaken:
                coverage.hit("switch.answers", "any order")
            elif rank.in_turn:
                coverage.hit("switch.answers", "in order")
        for program in self.programs:
            program.flags.clear()

    async def post(self):
        for operation in self.sequence.operations:
            refused = await self.host.post(operation, self.sequence.flags)
            compare("post", list(refused), [0, 0])

    def start(self, case: Case):
        """Arrivals in the case's order, or all together."""
        order = case.choose(itertools.permutations(range(self.config.ranks)))
        skew = case.draw.choice((0, 20, 100))
        for number, operation in enumerate(self.sequence.operations):
            for place, rank in enumerate(order):
                self.programs[rank].add(operation.epoch, place * skew if number == 0 else 0)


@scenario(PacketsBench, cases=8)
async def sequences_of_operations(bench: PacketsBench, case: Case):
    """Sums and memories right whatever the order of answers, with ordinary traffic on the links."""
    draw, sequence = case.draw, bench.sequence
    bench.settle(case)
    edge = case.choose(sequence.EDGES)
    # An operation of nothing alone: no wave is read then, and none is written.
    count = 1 if edge[0] is None else draw.randint(1, sequence.LONGEST)
    sequence.draw(draw, count, edge=edge)
    await bench.post()
    bench.start(case)
    ordinary = draw.choice((0, 0, 5, 20))
    for _ in range(ordinary):
        draw.choice(bench.ranks).ordinary(write=draw.random() < 0.5)
        await bench.step(draw.randint(0, 20))
    await bench.finish(limit=LIMIT)
    sequence.check()
    bench.check_flags()
    compare("answers to arrivals", [a for rank in bench.ranks for a in rank.answers if a], [])
    compare("answers", [wrong for rank in bench.ranks for wrong in rank.check_ordinary()], [])
    compare("stray", [await bench.host.read("stray_responses")], [0])
    coverage.hit("switch.ordinary", "none" if not ordinary else "beside")
    bench.observe()


@scenario(PacketsBench, cases=1)
async def every_kind_twice(bench: PacketsBench, case: Case):
    """Each format, in place and not, twice in any order, without a reset between them."""
    draw, sequence = case.draw, bench.sequence
    bench.settle(case)
    kinds = 2 * sequence.kinds()
    draw.shuffle(kinds)
    before = await bench.host.read("operations")
    while kinds:
        some, kinds = kinds[: sequence.LONGEST], kinds[sequence.LONGEST :]
        sequence.draw(draw, len(some), kinds=some)
        await bench.post()
        bench.start(case)
        await bench.finish(limit=LIMIT)
        bench.check_flags()
        sequence.check()
        bench.observe()
    ended = await bench.host.read("operations")
    compare("operations", [ended - before], [2 * len(sequence.kinds())])


@scenario(PacketsBench, cases=4)
async def errors_in_answers(bench: PacketsBench, case: Case):
    """A flit or a write that ends badly gives code and rank; the next operation is whole.

    Its waves are new up to the error and old behind it, as the design promises, byte by byte.
    """
    draw, sequence, config = case.draw, bench.sequence, bench.config
    bench.settle(case)
    sequence.draw(draw, 2, shortest=config.flit_bytes, edge=draw.choice((None, *LONG)))
    failing = sequence.operations[0]
    rank = draw.randrange(config.ranks)
    code = draw.choice((SLVERR, DECERR))
    kind = case.choose(("read", "write"))
    base = failing.addresses["source" if kind == "read" else "destination"][rank]
    offset, refused = draw.randrange(failing.length), []
    before = [memory.copy() for memory in sequence.memories]

    def write_status(packet: Packet) -> int:
        part = slice(packet["address"], packet["address"] + packet["length"])
        if not part.start <= base + offset < part.stop:
            return OKAY
        refused.append(part)
        return code

    def read_status(address: int) -> int:
        return code if address <= base + offset < address + config.flit_bytes else OKAY

    if kind == "read":
        bench.ranks[rank].read_status = read_status
    else:
        bench.ranks[rank].write_status = write_status
    await bench.post()
    bench.start(case)
    await bench.finish(limit=LIMIT)
    name = f"{kind.upper()}_{'SLVERR' if code == SLVERR else 'DECERR'}"
    bench.check_flags(code=CODES[name], rank=rank)
    sequence.expect_failure(
        failing, before, offset, refused=(rank, refused) if kind == "write" else None
    )
    sequence.check()
    bench.observe()


@scenario(PacketsBench, cases=3)
async def arrivals_out_of_turn(bench: PacketsBench, case: Case):
    """A second arrival, and one for a far epoch, are refused and change nothing."""
    draw, sequence = case.draw, bench.sequence
    bench.settle(case)
    sequence.draw(draw, 1)
    epoch = sequence.operations[0].epoch
    culprit = draw.randrange(bench.config.ranks)
    for wrong in (epoch, epoch, epoch + draw.randint(2, 1 << 20), epoch - 1):
        bench.ranks[culprit].arrive(wrong & 0xFFFFFFFF)
    await bench.finish(limit=LIMIT)
    compare("answers", bench.ranks[culprit].answers, [OKAY, SLVERR, SLVERR, SLVERR])
    for name in ("second arrival", "far epoch"):
        coverage.hit("switch.refused", name)  # each was answered with SLVERR
    await bench.post()
    for rank, program in enumerate(bench.programs):
        if rank != culprit:
            program.add(epoch, 0)
    await bench.finish(limit=LIMIT)
    await bench.until(
        lambda: sequence.flag_reader(culprit)() == flag_word(epoch), limit=LIMIT, what="the flag"
    )
    await bench.finish(limit=LIMIT)
    for rank, program in enumerate(bench.programs):
        wanted = [] if rank == culprit else sequence.flag_words()  # its program waited for nothing
        check_flags(f"rank {rank}: flags", program.flags, wanted)
    sequence.check()
    bench.observe()
