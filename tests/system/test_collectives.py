"""Every collective, operation and format through the whole system, every byte compared."""

import numpy as np
import pytest

from hdl.config import KNOWN_OPERATIONS, OPERATIONS_OF, SwitchConfig
from sim.cli.operands import guard_pattern
from sim.golden.collectives import COLLECTIVES
from sim.plan import Plan

from .systems import system

SEED = 12
#: Everything that plain numbers have, in waves of eight packets.
CONFIG = SwitchConfig.preset(
    "tiny", formats="fp16,bf16,int32", operations=",".join(KNOWN_OPERATIONS), collectives="all",
    waves=2, wave_bytes=128,
)  # fmt: skip
FORMATS = ("fp16", "bf16", "int32")
REDUCING = ("all-reduce", "reduce", "reduce-scatter")


def operands(rng, format, length):
    """Any bits at all: NaN, infinities and subnormals among them; whole integers of all sizes."""
    dtype = np.int32 if format == "int32" else np.uint16
    limits = np.iinfo(dtype)
    shape = (CONFIG.ranks, length // dtype().itemsize)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def random_plan(rng, kind, operation):
    """Over random subsets, with an even chunk or another."""
    ranks = [
        tuple(sorted(rng.permutation(CONFIG.ranks)[: rng.integers(1, CONFIG.ranks + 1)].tolist()))
        for _ in range(2)
    ]
    if kind == "broadcast":
        ranks[0] = ranks[0][:1]
    if kind == "reduce":
        ranks[1] = ranks[1][:1]
    chunk = None
    if Plan(kind).cuts and rng.random() < 0.5:
        chunk = CONFIG.flit_bytes * int(rng.integers(1, 40))
    return Plan(kind, operation, *ranks, chunk)


def run(rng, plan, format, length, **options):
    bed = system(CONFIG)
    outcome = bed.all_reduce(
        operands(rng, format, length), format, plan=plan, guard=guard_pattern(), **options
    )
    assert outcome.status == "ok", f"{plan} {format} {length}: {outcome.differences}"
    return outcome


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "out of place"])
@pytest.mark.parametrize("kind", [kind for kind in COLLECTIVES if kind != "barrier"])
def test_each_collective_over_random_subsets(kind, in_place):
    rng = np.random.default_rng([SEED, COLLECTIVES.index(kind), in_place])
    for number in range(8):
        format = FORMATS[number % 3]
        length = 4 * int(rng.integers(0, 200))
        run(rng, random_plan(rng, kind, "sum"), format, length, out_of_place=not in_place)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", REDUCING)
def test_each_operation_and_format(kind, format):
    rng = np.random.default_rng([SEED, REDUCING.index(kind), FORMATS.index(format)])
    for operation in OPERATIONS_OF[format]:
        length = 4 * int(rng.integers(1, 120))
        run(rng, random_plan(rng, kind, operation), format, length)


def test_each_collective_with_stalls_and_skew():
    rng = np.random.default_rng([SEED, 3])
    bed = system(CONFIG)
    for rank in range(CONFIG.ranks):
        stalls = dict.fromkeys(("ar", "r", "aw", "w", "b"), 150)
        bed.set_memory(rank, jitter=40, stalls=stalls, seed=rank)
    for kind in COLLECTIVES:
        length = 0 if kind == "barrier" else 412
        delays = rng.integers(0, 300, CONFIG.ranks).tolist()
        run(rng, random_plan(rng, kind, "sum"), "bf16", length, delays=delays)


def test_a_barrier_moves_no_byte():
    outcome = run(np.random.default_rng(SEED), Plan("barrier"), "fp16", 0)
    assert outcome.figures.data == 0
    assert outcome.figures.waves == 0
