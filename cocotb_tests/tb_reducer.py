"""`Reducer`: flits of every rank against golden, bit for bit, with gaps between them."""

from __future__ import annotations

import random

import numpy as np

from sim.golden import all_reduce_sum

from .lib import coverage
from .lib.bench import Bench
from .lib.configs import current
from .lib.operations import FORMATS
from .lib.patterns import SHAPES, pattern
from .lib.scenario import Case, scenario
from .lib.scoreboard import compare, golden
from .lib.streams import Sink, Source

LIMIT = 2_000
LANE_BITS = 16
#: Numbers at the edges of the formats: zeros, subnormals, largest, infinities, NaN.
EDGES = {
    "fp16": (
        0x0000,
        0x8000,
        0x0001,
        0x8001,
        0x03FF,
        0x0400,
        0x7BFF,
        0xFBFF,
        0x7C00,
        0xFC00,
        0x7E00,
    ),
    "bf16": (
        0x0000,
        0x8000,
        0x0001,
        0x8001,
        0x007F,
        0x0080,
        0x7F7F,
        0xFF7F,
        0x7F80,
        0xFF80,
        0x7FC0,
    ),
}


class ReducerBench(Bench):
    def __init__(self, dut):
        super().__init__(dut)
        self.config = current()
        self.source = self.add(Source(self.ports, "i"))
        self.sink = self.add(Sink(self.ports, "o"))


def _operands(draw: random.Random, kind: str, format: str, shape) -> np.ndarray:
    values = np.random.default_rng(draw.getrandbits(32))
    if kind == "edges":
        return values.choice(np.array(EDGES[format], np.uint16), size=shape)
    bits = values.integers(0, 1 << LANE_BITS, size=shape, dtype=np.uint16)
    if kind == "alike":
        # Exponents within a few of each other, so that sums round and cancel.
        mantissa = 10 if format == "fp16" else 7
        exponent = values.integers(8, 12, size=shape, dtype=np.uint16)
        bits = bits & (0x8000 | (1 << mantissa) - 1) | exponent << mantissa
    if kind == "cancelling":
        bits[1] = bits[0] ^ 0x8000
    return bits


@scenario(ReducerBench, cases=12)
async def sums(bench: ReducerBench, case: Case):
    """Values, signs of zeros, NaN and overflow; lanes left out; ranks left out."""
    draw, config = case.draw, bench.config
    shape = case.choose(SHAPES)
    bench.source.idle, bench.source.held = pattern(shape, draw), 0
    wanted = []
    for _ in range(draw.randint(4, 12)):
        format = draw.choice(config.sum_formats)
        kind = draw.choice(("alike", "alike", "cancelling", "bits", "edges"))
        coverage.hit("reducer.values", f"{format}x{kind}")
        operands = _operands(draw, kind, format, (config.ranks, config.lanes))
        members = (1 << config.ranks) - 1
        if draw.random() < 0.3:
            members = draw.randint(1, members)
        coverage.hit("reducer.ranks", members.bit_count())
        kept = draw.choice((config.lanes, config.lanes, draw.randint(0, config.lanes)))
        coverage.hit("reducer.mask", {0: "none", config.lanes: "all"}.get(kept, "some"))
        number = int.from_bytes(operands.tobytes(), "little")
        bench.source.send(
            dict(operands=number, keep=(1 << kept) - 1, sources=members, format=FORMATS[format])
        )
        taking_part = operands[[rank for rank in range(config.ranks) if members >> rank & 1]]
        bits, status = all_reduce_sum(taking_part, format)
        bits = np.where(np.arange(config.lanes) < kept, bits, 0).astype(np.uint16)
        status_bits = [bool(flags[:kept].any()) for flags in (status.nan, status.overflow)]
        coverage.hit("reducer.status", "nan" if status_bits[0] else "no nan")
        coverage.hit("reducer.status", "overflow" if status_bits[1] else "no overflow")
        wanted.append((bits, status_bits))
    bench.sink.expected = len(wanted)
    await bench.finish(limit=LIMIT)
    coverage.hit_stalls("reducer.idle", (shape, bench.source.held))
    got = bench.sink.take()
    data = b"".join(flit["data"].to_bytes(config.flit_bytes, "little") for flit in got)
    bits = golden(np.concatenate([bits for bits, _ in wanted]))
    compare("sums", np.frombuffer(data, np.uint16), bits)
    compare("NaN and overflow", [[f["nan"], f["overflow"]] for f in got], [s for _, s in wanted])
