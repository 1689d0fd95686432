"""`InqReducer`, so dequantizer, sum and quantizer: blocks against golden, bit for bit."""

from __future__ import annotations

import random

import numpy as np

from sim.golden import all_reduce_inq

from .lib import coverage
from .lib.bench import Bench
from .lib.configs import current
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare, golden
from .lib.streams import Sink, Source

#: Of a scale, fp16.
SCALE_BITS = 16
LIMIT = 3_000
#: Scales at the edges of fp16: zeros, subnormals, largest, infinity, NaN, a negative one.
EDGES = (0x0000, 0x8000, 0x0001, 0x03FF, 0x0400, 0x7BFF, 0x7C00, 0x7E00, 0xBC00)


class InqBench(Bench):
    def __init__(self, dut):
        super().__init__(dut)
        self.config = current()
        self.source = self.add(Source(self.ports, "i"))
        self.sink = self.add(Sink(self.ports, "o"))


def _scales(draw: random.Random, kind: str, ranks: int) -> list[int]:
    if kind == "edges":
        return [draw.choice(EDGES) for _ in range(ranks)]
    if kind == "bits":
        return [draw.randrange(0x7C00) for _ in range(ranks)]
    return [draw.randrange(0x2000, 0x2800) for _ in range(ranks)]


def _codes(draw: random.Random, kind: str, shape) -> np.ndarray:
    values = np.random.default_rng(draw.getrandbits(32))
    if kind == "zero":
        return np.zeros(shape, np.int8)
    if kind == "extreme":
        return values.choice(np.array((-128, -127, 127), np.int8), size=shape)
    if kind == "small":
        return values.integers(-2, 3, size=shape, dtype=np.int8)
    return values.integers(-128, 128, size=shape, dtype=np.int8)


@scenario(InqBench, cases=8)
async def blocks(bench: InqBench, case: Case):
    """Codes, scales and status of whole and short blocks, with and without a gap between them."""
    draw, config = case.draw, bench.config
    ranks, size, block = config.ranks, config.flit_bytes, config.block
    flits = block // size
    gap = case.choose((0, 1, 5))
    coverage.hit("inq.gap", gap)
    wanted = []  # codes, scale, nan, overflow by block
    sent = []  # flits by block
    for _ in range(draw.randint(3, 8)):
        kind = draw.choice(("alike", "alike", "bits", "edges"))
        values = draw.choice(("any", "any", "small", "extreme", "zero"))
        coverage.hit("inq.scales", kind)
        coverage.hit("inq.codes", values)
        length = draw.choice((block, block, draw.randint(1, block)))
        coverage.hit("inq.block", "whole" if length == block else "short")
        members = [r for r in range(ranks) if draw.random() < 0.8] or [0]
        coverage.hit("inq.ranks", len(members))
        codes, scales = _codes(draw, values, (ranks, block)), _scales(draw, kind, ranks)
        used = -(-length // size)
        sent.append(
            [
                dict(
                    codes=int.from_bytes(codes[:, n * size : (n + 1) * size].tobytes(), "little"),
                    scales=sum(scale << 16 * rank for rank, scale in enumerate(scales)),
                    keep=(1 << min(size, length - n * size)) - 1,
                    sources=sum(1 << rank for rank in members),
                    last=int(length < block and n == used - 1),
                )
                for n in range(used if length < block else flits)
            ]
        )
        new, scale, status = all_reduce_inq(
            codes[members, :length], np.array(scales, np.uint16)[members][:, None], block=block
        )
        padded = np.zeros(used * size, np.int8)
        padded[:length] = new
        wanted.append((padded, int(scale[0]), bool(status.nan[0]), bool(status.overflow[0])))
        coverage.hit("inq.status", "nan" if status.nan[0] else "no nan")
        coverage.hit("inq.status", "overflow" if status.overflow[0] else "no overflow")
    for block_flits in sent:
        # A block's flits come in consecutive cycles; between blocks there may be a gap.
        taken = bench.source.taken + len(block_flits)
        bench.source.send(*block_flits)
        bench.sink.expected += len(block_flits)
        if gap:
            await bench.until(
                lambda due=taken: bench.source.taken == due, limit=LIMIT, what="a block"
            )
            await bench.step(gap)
    await bench.finish(limit=LIMIT)
    got = bench.sink.take()
    data = b"".join(flit["data"].to_bytes(size, "little") for flit in got)
    codes = golden(np.concatenate([entry[0] for entry in wanted]))
    compare("codes", np.frombuffer(data, np.int8), codes)
    begins = [flit for flit in got if flit["blocks"]]
    scales = golden([entry[1] for entry in wanted], SCALE_BITS)
    compare("scales", [flit["scales"] for flit in begins], scales)
    compare(
        "status",
        [(bool(flit["nan"]), bool(flit["overflow"])) for flit in begins],
        [entry[2:] for entry in wanted],
    )
