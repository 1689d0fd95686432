"""`Accelerator` between Python ranks: quantized operations, and sums between them."""

import random

import numpy as np
import pytest

from hdl.accelerator.accelerator import Accelerator
from hdl.accelerator.layouts import Status
from hdl.interfaces import Format, Response
from sim.golden import all_reduce_inq, all_reduce_sum
from tests.arithmetic.inq_operands import operands as inq_operands
from tests.lib.simulate import pattern, run

from .ports import Peers, post, quantizing
from .test_accelerator import arrive_ahead

#: What memory holds where nothing is written.
UNTOUCHED = 0xA5
SEED = 11
CONFIGS = {
    "two packets a block": dict(),
    "a packet of one and a half": dict(payload_bytes=96, block=64, wave_bytes=768),
    "two packets of scales": dict(wave_bytes=384),
    "scales of a byte, codes only": dict(
        formats=("inq8",), scale_format="e8m0", flit_bytes=16, payload_bytes=64, wave_bytes=512
    ),
    "two cycles a flit": dict(inq_reducer="shared"),
}


class Operation:
    """One All-Reduce: its places, the same at each rank, and what must stand there at the end."""

    def __init__(self, config, numbers, number, format, length, place):
        self.config, self.format, self.length = config, format, length
        self.quantized = format == Format.INQ8
        self.flag = config.memory_bytes - 8 * (number + 1)
        sizes = [length, length]
        if self.quantized:
            codes, scales = inq_operands(
                numbers, config.ranks, max(length, 1), config.block, config.scale_format
            )
            codes, scales = codes[:, :length], scales[:, : -(-length // config.block)]
            sums, new, _ = all_reduce_inq(
                codes, scales, block=config.block, scale_format=config.scale_format
            )
            self.operands, self.results = [codes, scales], [sums.tobytes(), new.tobytes()]
            sizes += [scales[0].nbytes, scales[0].nbytes]
        else:
            shape = (config.ranks, length // 2)
            values = numbers.integers(0, 1 << 16, shape, dtype=np.uint16)
            self.operands, self.results = [values], [all_reduce_sum(values, "fp16")[0].tobytes()]
        self.places = []  # source, destination, and of the scales
        for size in sizes:
            self.places.append(place)
            place += -(-size // config.flit_bytes) * config.flit_bytes
        self.end = place

    def put(self, peers):
        for rank, peer in enumerate(peers):
            for operand, place in zip(self.operands, self.places[::2], strict=True):
                content = operand[rank].tobytes()
                peer.memory[place : place + len(content)] = content

    async def post(self, ctx, dut):
        ranks = self.config.ranks
        addresses = [[place] * ranks for place in self.places] + [()] * 2
        code, _ = await post(
            ctx, dut.postings[0], length=self.length, format=self.format.value,
            sources=addresses[0], destinations=addresses[1], flags=[self.flag] * ranks,
            scale_sources=addresses[2], scale_destinations=addresses[3],
        )  # fmt: skip
        assert code is Status.OK

    def written(self, peer):
        """What stands at the destinations."""
        return [
            bytes(peer.memory[place : place + len(result)])
            for place, result in zip(self.places[1::2], self.results, strict=True)
        ]


def play(config, wanted, **behaviour):
    """Run operations of (format, length) and wait for every flag; the operations and the peers."""
    dut = Accelerator(config)
    peers = Peers(dut, config, seed=SEED, **behaviour)
    numbers = np.random.default_rng(SEED)
    for peer in peers.peers:
        peer.memory[:] = bytes([UNTOUCHED]) * len(peer.memory)
    operations, place = [], 0
    for number, (format, length) in enumerate(wanted):
        operations.append(Operation(config, numbers, number, format, length, place))
        operations[-1].put(peers.peers)
        place = operations[-1].end
    assert place <= operations[-1].flag

    async def bench(ctx):
        for operation in operations:
            await operation.post(ctx, dut)
        await arrive_ahead(peers, len(operations))(ctx)
        while any(len(peer.flags) < len(operations) for peer in peers.peers):
            await ctx.tick()

    run(dut, bench, background=[peers.bench], limit=20_000)
    return operations, peers


def flag_of(peer, number):
    return int.from_bytes(peer.flags[number][2], "little")


@pytest.mark.parametrize("name", CONFIGS)
def test_codes_and_sums_of_every_kind(name):
    """Answers in any order, links that pause: every result in its place and nothing beside it."""
    config = quantizing(**CONFIGS[name], queue_depth=6, memory_bytes=1 << 15)
    wave, block = config.wave_bytes, config.block
    wanted = [(Format.INQ8, 1), (Format.INQ8, wave), (Format.FP16, wave + 2), (Format.INQ8, 0),
              (Format.INQ8, wave + block + 1), (Format.FP16, 6)]  # fmt: skip
    wanted = [each for each in wanted if each[0].name.lower() in config.formats]
    draw = random.Random(name)
    pauses = [pattern("half", f"{name} {rank}") for rank in range(config.ranks)]
    operations, peers = play(
        config, wanted, shuffle=True, read_delay=lambda rank: draw.randrange(1, 60),
        write_delay=lambda rank: draw.randrange(1, 60),
        takes={"writes": lambda rank: next(pauses[rank])},
    )  # fmt: skip
    for peer in peers.peers:
        for number, operation in enumerate(operations):
            assert operation.written(peer) == operation.results, number
            assert flag_of(peer, number) == number + 1
        image = bytearray([UNTOUCHED]) * config.memory_bytes
        for operation in operations:
            for place, result in zip(operation.places[1::2], operation.results, strict=True):
                image[place : place + len(result)] = result
            for place, operand in zip(operation.places[::2], operation.operands, strict=True):
                rank = peers.peers.index(peer)
                content = operand[rank].tobytes()
                image[place : place + len(content)] = content
        first_flag = operations[-1].flag
        assert peer.memory[:first_flag] == image[:first_flag]


@pytest.mark.parametrize(("which", "wave"), [("codes", 1), ("scales", 2)])
def test_a_read_error_ends_the_operation_and_no_other(which, wave):
    """Waves before it are new, codes and scales; it and those behind are old; the flag says so."""
    config = quantizing(queue_depth=3, memory_bytes=1 << 14)
    length = 3 * config.wave_bytes
    bad = {}

    def read_response(rank, header):
        return Response.SLVERR.value if rank == 1 and header["address"] == bad["address"] else 0

    # The first operation's places begin at 0, in this order: source, destination, scales.
    step = config.wave_bytes if which == "codes" else config.scale_chunk_bytes
    bad["address"] = wave * step + (0 if which == "codes" else 2 * length)
    wanted = [(Format.INQ8, length), (Format.INQ8, config.wave_bytes)]
    (first, second), peers = play(config, wanted, read_response=read_response)
    for peer in peers.peers:
        for got, result, each in zip(
            first.written(peer), first.results, (config.wave_bytes, config.scale_chunk_bytes),
            strict=True,
        ):  # fmt: skip
            new = wave * each
            assert got == result[:new] + bytes([UNTOUCHED]) * (len(result) - new)
        assert second.written(peer) == second.results
        assert flag_of(peer, 0) >> 32 == Status.READ_SLVERR.value | 1 << 8
        assert flag_of(peer, 1) == 2


def test_a_write_error_of_scales_is_the_operations():
    config = quantizing(queue_depth=3, memory_bytes=1 << 14)
    length = config.wave_bytes
    place = 2 * length + config.scale_chunk_bytes  # source, destination, scales

    def write_response(rank, header):
        return Response.DECERR.value if rank == 0 and header["address"] == place else 0

    wanted = [(Format.INQ8, length)] * 2
    (_, second), peers = play(config, wanted, write_response=write_response)
    for peer in peers.peers:
        assert flag_of(peer, 0) >> 32 == Status.WRITE_DECERR.value
        assert second.written(peer) == second.results
        assert flag_of(peer, 1) == 2
