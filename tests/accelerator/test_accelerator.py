"""`Accelerator` between Python ranks: operations that overlap, answers in any order, errors."""

import random

import numpy as np
import pytest

from hdl.accelerator.accelerator import Accelerator
from hdl.accelerator.layouts import Status
from hdl.interfaces import Response
from sim.golden.allreduce import all_reduce_sum
from tests.lib.simulate import run

from .ports import Peers, beat, post, small


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
                ctx, dut.postings[0], length=length, sources=self.sources[number],
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
                if sent[rank] < operations and sent[rank] <= ctx.get(dut.epochs[0]):
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
        while ctx.get(dut.epochs[0]) == 1 and not ctx.get(dut.waits_barrier):
            await ctx.tick()
        await arrive_ahead(peers, len(operations.lengths))(ctx)

    run(dut, bench, arrive, background=[peers.bench], limit=6000)
    operations.check()
    assert all(header["status"] == 0 for peer in peers.peers for _, header in peer.answers)


def play(config, lengths, seed, *, ahead=True, limit=8000, **behaviour):
    """Post operations, let the ranks arrive, and wait for every flag."""
    dut = Accelerator(config)
    peers = Peers(dut, config, seed=seed, **behaviour)
    operations = Operations(config, peers, lengths, seed)
    ends = []

    async def bench(ctx):
        await operations.post(ctx, dut)
        if ahead:
            await arrive_ahead(peers, len(lengths))(ctx)
        else:
            for number in range(len(lengths)):
                for rank in range(config.ranks):
                    peers.arrive(rank, number + 1)
                while any(len(peer.flags) <= number for peer in peers.peers):
                    await ctx.tick()
        await operations.finish(ctx)
        await ctx.tick().repeat(20)

    async def watch(ctx):
        ended = dut.ended[0]
        async for _, _, valid, *values in ctx.tick().sample(
            ended.valid, ended.code, ended.rank, ended.epoch, ended.waves
        ):
            if valid:
                ends.append((Status(values[0]), *values[1:]))

    run(dut, bench, background=[peers.bench, watch], limit=limit)
    return peers, operations, ends


@pytest.mark.parametrize("seed", range(4))
def test_answers_in_any_order_from_ranks_that_drift(seed):
    """Read data and acknowledgements in any order, at any pace; ports that take now and then."""
    print("seed", seed)
    draw = random.Random(seed)
    config = small(waves=4, write_waves=2, queue_depth=6, read_request_bytes=32)

    def now_and_then(rank):
        return draw.random() < 0.4

    peers, operations, ends = play(
        config, [64, 200, 2, 0, 130, 64], seed, shuffle=True,
        read_delay=lambda rank: draw.randrange(1, 60),
        write_delay=lambda rank: draw.randrange(1, 90),
        takes=dict.fromkeys(("requests", "writes", "flags", "answers"), now_and_then),
    )  # fmt: skip
    operations.check()
    waves = [-(-length // config.wave_bytes) for length in operations.lengths]
    assert ends == [(Status.OK, 0, number + 1, count) for number, count in enumerate(waves)]


def test_requests_of_operations_follow_each_other_without_an_idle_cycle():
    """With entries and credits enough, one request a cycle from the first to the last of both."""
    config = small(waves=8, queue_depth=4)
    peers, operations, _ = play(config, [256, 256], 1, read_delay=lambda rank: 60)
    operations.check()
    for peer in peers.peers:
        cycles = [cycle for cycle, _ in peer.requests]
        assert len(cycles) == 2 * 256 // config.read_request_bytes
        assert cycles == list(range(cycles[0], cycles[0] + len(cycles)))


def test_an_operations_waves_are_its_own_when_flags_are_late():
    """The next operation is over before a port has taken this one's flag."""
    config = small(waves=4, queue_depth=4)
    waited = iter(range(10**6))

    def takes(rank):
        return rank == 0 or next(waited) > 400

    _, operations, ends = play(config, [192, 64], 2, takes={"flags": takes})
    operations.check()
    assert ends == [(Status.OK, 0, 1, 3), (Status.OK, 0, 2, 1)]


def test_responses_that_nobody_waits_for_are_counted_and_dropped():
    config = small(waves=2)
    dut = Accelerator(config)
    peers = Peers(dut, config)
    operations = Operations(config, peers, [128], 3)
    strays = 0

    async def strays_come(ctx):
        # Read data and acknowledgements before anything was asked for.
        port = dut.ports[1]
        for tag in (0, 7, 1 << 15 | 3, config.write_waves, 0x7FFF):
            ctx.set(port.write_responses.payload, beat(empty=1, tag=tag, status=Response.DECERR))
            ctx.set(port.write_responses.valid, 1)
            ctx.set(port.read_data.payload, beat(tag=tag, data=0xBAD))
            ctx.set(port.read_data.valid, 1)
            await ctx.tick()
            ctx.set(port.write_responses.valid, 0)
            ctx.set(port.read_data.valid, 0)

    async def bench(ctx):
        await strays_come(ctx)
        started.append(True)
        await operations.post(ctx, dut)
        await arrive_ahead(peers, 1)(ctx)
        await operations.finish(ctx)
        operations.check()

    started = []

    async def ranks(ctx):
        while not started:
            await ctx.tick()
        await peers.bench(ctx)

    async def watch(ctx):
        nonlocal strays
        async for _, _, stray in ctx.tick().sample(dut.stray):
            strays += stray.bit_count()
            assert stray & 0b0101 == 0, "they are rank 1's"

    run(dut, bench, background=[watch, ranks])
    assert strays == 5 + 4  # of the acknowledgements, a flag's is awaited by nobody


@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize("status", [2, 3])
def test_an_error_in_one_of_several_operations_that_overlap(kind, status):
    config = small(waves=4, queue_depth=4)
    bad_operation, bad_rank = 1, 1

    def answer(rank, header):
        room = 192  # of each operand; see `Operations`
        first = 2 * bad_operation + (kind == "write")
        inside = first * room <= header["address"] < (first + 1) * room
        return status if rank == bad_rank and inside else 0

    peers, operations, ends = play(
        config, [192, 192, 192], 4, write_delay=lambda rank: 30, **{f"{kind}_response": answer}
    )
    code = Status((0x10 if kind == "read" else 0x20) | status)
    assert [end[:3] for end in ends] == [
        (Status.OK, 0, 1), (code, bad_rank, 2), (Status.OK, 0, 3)
    ]  # fmt: skip
    for rank, peer in enumerate(peers.peers):
        for number in (0, 2):
            low = operations.destinations[number][rank]
            assert bytes(peer.memory[low : low + 192]) == operations.results[number]
        flag = int.from_bytes(peer.flags[1][2], "little")
        assert flag == 2 | code.value << 32 | bad_rank << 40
    if kind == "read":
        low = operations.destinations[1][0]
        assert not any(peers.peers[0].memory[low : low + 192])


def test_entries_and_requests_never_exceed_what_is_free():
    """Reserve before reading: no more data is ever owed than the tables have room for."""
    config = small(waves=2, queue_depth=4)
    peers, operations, _ = play(config, [256, 128], 5, read_delay=lambda rank: 5 + 40 * rank)
    operations.check()
    for peer in peers.peers:
        # Each (entry, generation) is asked for once a packet.
        asked = [(header["tag"], header["generation"]) for _, header in peer.requests]
        assert len(set(asked)) == len(asked)


def test_a_rank_that_arrives_twice_does_not_release_the_others():
    """Each arrival is answered; the second ones with an error, and they count for nothing."""
    config = small()
    dut = Accelerator(config)
    peers = Peers(dut, config)
    operations = Operations(config, peers, [64], 6)

    async def bench(ctx):
        await operations.post(ctx, dut)
        for epoch in (1, 1, 1, 2, 2, 3, 0):
            peers.arrive(0, epoch)
        await ctx.tick().repeat(100)
        statuses = [header["status"] for _, header in peers.peers[0].answers]
        assert statuses == [0, 2, 2, 0, 2, 2, 2]
        assert not peers.peers[0].requests
        peers.arrive(1, 1)
        await operations.finish(ctx)
        operations.check()

    run(dut, bench, background=[peers.bench])


def test_four_cycles_from_the_last_arrival_to_the_first_request():
    config = small()
    dut = Accelerator(config)
    peers = Peers(dut, config)
    operations = Operations(config, peers, [64], 7)
    seen = {}

    async def watch(ctx):
        cycle = 0
        async for _, _, arrival, request in ctx.tick().sample(
            dut.rank_trace[1].arrival, dut.rank_trace[1].request
        ):
            if arrival:
                seen["arrival"] = cycle
            if request:
                seen.setdefault("request", cycle)
            cycle += 1

    async def bench(ctx):
        await operations.post(ctx, dut)
        peers.arrive(0, 1)
        await ctx.tick().repeat(10)
        peers.arrive(1, 1)
        await operations.finish(ctx)

    run(dut, bench, background=[peers.bench, watch])
    assert seen["request"] - seen["arrival"] == 4
