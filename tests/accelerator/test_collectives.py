"""`Accelerator` with every collective, between Python ranks: bytes, requests and writes of each."""

import random

import numpy as np
import pytest

from hdl.accelerator.accelerator import Accelerator
from hdl.accelerator.instruction_queue import COLLECTIVE_SHIFT, OPERATION_SHIFT
from hdl.accelerator.layouts import Status
from hdl.interfaces import Collective, Format, Operation
from sim.golden.collectives import COLLECTIVES, collective, even_chunk
from tests.lib.simulate import run

from .ports import Peers, post, small

RANKS = 3
EVERYONE = tuple(range(RANKS))
CONFIG = small(ranks=RANKS, collectives="all", operations="sum,max", queue_depth=6)

#: How an instruction says it: operation and collective.
WORDS = {
    "broadcast": (Operation.COPY, Collective.WHOLE),
    "all-gather": (Operation.COPY, Collective.GATHER),
    "reduce-scatter": (Operation.SUM, Collective.SCATTER),
}


def mask(ranks):
    return sum(1 << rank for rank in ranks)


class Run:
    """Collectives one after another, each with a place of its own at every rank."""

    def __init__(self, kinds, draw, *, lengths, in_place, config=CONFIG):
        self.peers = Peers(
            Accelerator(config), config, seed=draw.getrandbits(32), shuffle=True,
            read_delay=lambda rank: draw.randrange(1, 12),
            write_delay=lambda rank: draw.randrange(1, 12),
        )  # fmt: skip
        self.dut = self.peers.dut
        self.instructions, self.expected = [], []
        numbers = np.random.default_rng(draw.getrandbits(32))
        memories = [peer.memory for peer in self.peers.peers]
        for memory in memories:
            memory[:] = numbers.bytes(len(memory))
        self.expected = [bytearray(memory) for memory in memories]
        room = -(-max(lengths) // CONFIG.flit_bytes) * CONFIG.flit_bytes + CONFIG.flit_bytes
        for number, (kind, length) in enumerate(zip(kinds, lengths, strict=True)):
            self._add(number, kind, length, draw, room, in_place)

    def _add(self, number, kind, length, draw, room, in_place):
        """One more, whose result is written down at once."""
        ranks = [self._subset(draw) for _ in range(2)]
        if kind == "broadcast":
            ranks[0] = ranks[0][:1]
        if kind == "reduce":
            ranks[1] = ranks[1][:1]
        low = 2 * number * room
        sources = [low] * RANKS
        destinations = sources if in_place else [low + room] * RANKS
        operation, cut = WORDS.get(kind, (Operation.SUM, Collective.WHOLE))
        if operation is Operation.SUM and draw.random() < 0.5:
            operation = Operation.MAX
        owners = ranks[0] if kind == "all-gather" else ranks[1]
        flit = CONFIG.flit_bytes
        chunk = draw.choice([even_chunk(length, len(owners), flit), flit, 5 * flit])
        self.instructions.append(dict(
            length=length, sources=sources, destinations=destinations,
            flags=[CONFIG.memory_bytes - 8 * (number + 1)] * RANKS, chunk=chunk,
            format=Format.FP16.value | operation.value << OPERATION_SHIFT
            | cut.value << COLLECTIVE_SHIFT,
            source_ranks=mask(ranks[0]), destination_ranks=mask(ranks[1]),
        ))  # fmt: skip
        held = [self._vectors(start, length) for start in (low, destinations[0])]
        after = collective(
            kind, *held, format="fp16", operation=operation.name.lower(), chunk=chunk // 2,
            source_ranks=ranks[0], destination_ranks=ranks[1],
        )  # fmt: skip
        for rank in EVERYONE:
            start, flag = destinations[rank], self.instructions[-1]["flags"][rank]
            self.expected[rank][start : start + length] = after[rank].tobytes()
            self.expected[rank][flag : flag + 8] = (number + 1).to_bytes(8, "little")

    @staticmethod
    def _subset(draw):
        return tuple(sorted(draw.sample(EVERYONE, draw.randrange(1, RANKS + 1))))

    def _vectors(self, start, length):
        vectors = [memory[start : start + length] for memory in self.expected]
        return np.stack([np.frombuffer(bytes(vector), np.uint16) for vector in vectors])

    def go(self):
        """Post all, let the ranks arrive for one after the other, wait for every flag."""

        async def bench(ctx):
            ctx.set(self.dut.members[0], mask(EVERYONE))
            for instruction in self.instructions:
                assert await post(ctx, self.dut.postings[0], **instruction) == (Status.OK, 0)
            for number in range(len(self.instructions)):
                for rank in EVERYONE:
                    self.peers.arrive(rank, number + 1)
                while any(len(peer.flags) <= number for peer in self.peers.peers):
                    await ctx.tick()

        run(self.dut, bench, background=[self.peers.bench], limit=20_000)
        for rank, peer in enumerate(self.peers.peers):
            got, want = np.frombuffer(bytes(peer.memory), np.uint8), self.expected[rank]
            wrong = np.flatnonzero(got != np.frombuffer(bytes(want), np.uint8))
            assert not len(wrong), f"rank {rank}: bytes {wrong[:8]} of {len(wrong)}"


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "out of place"])
@pytest.mark.parametrize("kind", [kind for kind in COLLECTIVES if kind != "barrier"])
def test_each_over_subsets(kind, in_place):
    seed = f"{kind} {in_place}"
    print("seed", seed)
    draw = random.Random(seed)
    lengths = [0, 2, 130, 64, 200, draw.randrange(1, 120) * 2]
    Run([kind] * len(lengths), draw, lengths=lengths, in_place=in_place).go()


#: The ways between blocks cut by registers; codes beside numbers, with scales of their own.
OTHERS = {
    "sliced": CONFIG.replace(register_slices="all"),
    "inq8": CONFIG.replace(formats=("fp16", "inq8"), block=32, wave_bytes=128),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_builds(name):
    print("seed", name)
    draw = random.Random(name)
    kinds = ["all-gather", "reduce-scatter", "broadcast", "reduce"]
    lengths = [200, 130, 64, 6]
    Run(kinds, draw, lengths=lengths, in_place=False, config=OTHERS[name]).go()


def test_only_what_is_needed_is_read_and_written():
    """An All-Gather reads a chunk of each source, a Reduce-Scatter writes one of each."""
    draw = random.Random(5)
    for kind, sent in (("all-gather", "requests"), ("reduce-scatter", "writes")):
        bed = Run([kind], draw, lengths=[128], in_place=False)
        bed.instructions[0] |= dict(source_ranks=7, destination_ranks=7, chunk=48)
        bed.expected = [bytes(peer.memory) for peer in bed.peers.peers]

        async def bench(ctx, bed=bed):
            ctx.set(bed.dut.members[0], mask(EVERYONE))
            await post(ctx, bed.dut.postings[0], **bed.instructions[0])
            for rank in EVERYONE:
                bed.peers.arrive(rank, 1)
            while any(not peer.flags for peer in bed.peers.peers):
                await ctx.tick()

        run(bed.dut, bench, background=[bed.peers.bench], limit=4000)
        base = bed.instructions[0]["sources" if sent == "requests" else "destinations"][0]
        for rank, peer in enumerate(bed.peers.peers):
            ranges = [
                (header["address"] - base, header["length"])
                for _, header, *_ in getattr(peer, sent)
            ]
            low, high = 48 * rank, min(48 * (rank + 1), 128)
            assert min(start for start, _ in ranges) == low
            assert max(start + size for start, size in ranges) == high
            assert sum(size for _, size in ranges) == high - low
