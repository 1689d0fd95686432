"""`Accelerator` between Python ranks: operations that overlap, answers in any order, errors."""

import random

import numpy as np
import pytest

from hdl.accelerator.accelerator import Accelerator
from hdl.accelerator.layouts import Status
from sim.golden.allreduce import all_reduce_sum
from tests.lib.simulate import run

from .ports import Peers, post, small


class Operations:
    """Several All-Reduces, each with operands, results and flags in places of its own."""

    def __init__(self, config, peers, lengths, seed):
        draw = random.Random(seed)
        numbers = np.random.default_rng(draw.getrandbits(32))
        self.config, self.peers = config, peers
        self.lengths = lengths
        room = -(-max(*lengths, 1) // config.flit_bytes) * config.flit_bytes
        self.sources, self.destinations, self.flags, self.results = [], [], [], []
        for number, length in enumerate(lengths):
            self.sources.append([2 * number * room] * config.ranks)
            self.destinations.append([(2 * number + 1) * room] * config.ranks)
            self.flags.append([config.memory_bytes - 8 * (number + 1)] * config.ranks)
            values = numbers.integers(0, 1 << 16, (config.ranks, length // 2)).astype(np.uint16)
            for rank, peer in enumerate(peers.peers):
                low = self.sources[-1][rank]
                peer.memory[low : low + length] = values[rank].tobytes()
            self.results.append(all_reduce_sum(values, "fp16")[0].tobytes())
        assert 2 * len(lengths) * room <= config.memory_bytes - 8 * len(lengths)

    async def post(self, ctx, dut):
        for number, length in enumerate(self.lengths):
            code, rank = await post(
                ctx, dut.posting, length=length, sources=self.sources[number],
                destinations=self.destinations[number], flags=self.flags[number],
            )  # fmt: skip
            assert code is Status.OK, (number, code, rank)

    async def finish(self, ctx):
        """Wait until every flag of every operation is written."""
        while any(len(peer.flags) < len(self.lengths) for peer in self.peers.peers):
            await ctx.tick()

    def check(self, first_epoch=1):
        for rank, peer in enumerate(self.peers.peers):
            for number, length in enumerate(self.lengths):
                low = self.destinations[number][rank]
                got = bytes(peer.memory[low : low + length])
                assert got == self.results[number], f"rank {rank} operation {number}"
                flag = int.from_bytes(peer.flags[number][2], "little")
                assert flag == first_epoch + number, f"rank {rank} flag {number}: {flag:#x}"
                assert peer.flags[number][1]["address"] == self.flags[number][rank]


def arrive_ahead(peers, operations):
    """A bench: every rank arrives for the next epoch as soon as the barrier may take it."""

    async def bench(ctx):
        dut = peers.dut
        sent = [0] * len(peers.peers)
        while min(sent) < operations:
            for rank in range(len(sent)):
                if sent[rank] < operations and sent[rank] <= ctx.get(dut.epoch):
                    sent[rank] += 1
                    peers.arrive(rank, sent[rank])
            await ctx.tick()

    return bench


@pytest.mark.parametrize("seed", range(3))
def test_operations_that_overlap_write_to_their_own_destinations(seed):
    """The next operation's data may be complete when the one before has just been read out."""
    print("seed", seed)
    config = small(waves=4, queue_depth=6)
    dut = Accelerator(config)
    slow = random.Random(seed).randrange(0, 60)
    peers = Peers(
        dut, config, seed=seed, read_delay=lambda rank: 3, write_delay=lambda rank: 1 + slow * rank
    )
    operations = Operations(config, peers, [64, 16, 2, 8, 0, 64, 40, 128], seed)

    async def bench(ctx):
        await operations.post(ctx, dut)
        await operations.finish(ctx)

    # All are posted first, so that every one waits for arrivals alone.
    async def arrive(ctx):
        while ctx.get(dut.epoch) == 1 and not ctx.get(dut.waits_barrier):
            await ctx.tick()
        await arrive_ahead(peers, len(operations.lengths))(ctx)

    run(dut, bench, arrive, background=[peers.bench], limit=6000)
    operations.check()
    assert all(header["status"] == 0 for peer in peers.peers for _, header in peer.answers)
