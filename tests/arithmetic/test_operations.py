# amaranth: UnusedElaboratable=no
"""Every operation of the reducer against golden, bit for bit and cycle by cycle."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from hdl.arithmetic.multi_reducer import MultiReducer, make_reducer
from hdl.arithmetic.reducer import Reducer
from hdl.config import SwitchConfig
from hdl.interfaces import Format, Operation
from sim.golden import OPERATIONS, OPERATIONS_OF, all_reduce
from tests.arithmetic.operands import operands
from tests.arithmetic.test_reducer import (
    BOTH,
    GARBAGE,
    as_int,
    bits,
    check_every_cycle,
    with_bubbles,
)
from tests.golden.test_operations import VECTORS

SEED = 9
ALL_FORMATS = (*BOTH, "int32")
#: Integers at the edges.
INT32_EDGES = (0, 1, -1, 0xFFFF, 0x10000, -0x10000, -0x8000, 0x8000, -(1 << 31), (1 << 31) - 1)


@dataclass
class Flit:
    """One cycle's input, and what must come of it."""

    operands: np.ndarray  # (ranks, lanes) uint16, or (ranks, lanes / 2) int32; garbage included
    format: str
    operation: str
    keep: np.ndarray  # bool (lanes,)
    sources: np.ndarray  # bool (ranks,)
    output: tuple[int, int, int] = field(init=False)  # data, nan, overflow

    def __post_init__(self):
        if not self.sources.any():
            self.output = 0, 0, 0
            return
        operands = self.operands[self.sources]
        if self.operation == "copy":
            self.output = as_int(np.where(self.keep, operands[0].view("<u2"), 0)), 0, 0
            return
        result, status = all_reduce(operands, self.format, self.operation)
        flags = [False, False]
        if self.format != "int32":
            flags = [(s & self.keep).any() for s in (status.nan, status.overflow)]
        words = np.where(self.keep, result.astype(result.dtype).view("<u2"), 0).astype(np.uint16)
        self.output = as_int(words), *map(int, flags)

    def payload(self, config):
        values = {
            "operands": as_int(self.operands.view("<u2")),
            "keep": bits(self.keep),
            "sources": bits(self.sources),
            "format": Format[self.format.upper()],
        }
        if config.chooses_operation:
            values["operation"] = Operation[self.operation.upper()]
        return values


def make(ranks, formats=ALL_FORMATS, operations=OPERATIONS, collectives="all-reduce"):
    return SwitchConfig(
        ranks=ranks, flit_bytes=8, payload_bytes=64, formats=formats, operations=operations,
        collectives=collectives,
    )  # fmt: skip


def random_integers(random, shape):
    values = random.integers(-(1 << 31), 1 << 31, shape, dtype=np.int64)
    near = random.integers(-2, 3, shape)
    edges = random.choice(INT32_EDGES, shape)
    # Equal upper halves, so that the lower ones decide.
    upper = values[:1] >> 16 << 16 | random.integers(0, 1 << 16, shape)
    kinds = np.broadcast_to(random.integers(0, 4, shape[1]), shape)
    return np.choose(kinds, [values, near, edges, upper]).astype(np.int32)


def random_flit(random, config):
    """A flit of troublesome operands, often with lanes masked and ranks absent."""
    name = str(random.choice(config.formats))
    copy = ("copy",) if config.copies else ()
    operation = str(random.choice(config.operations_of(name) + copy))
    keep, sources = np.ones(config.lanes, bool), np.ones(config.ranks, bool)
    if random.random() < 0.3:
        keep = np.arange(config.lanes) // 2 < random.integers(0, config.lanes // 2 + 1)
    if random.random() < 0.4:
        sources = random.random(config.ranks) < 0.6
        sources[random.integers(config.ranks)] = True
    if operation == "copy":
        sources = np.arange(config.ranks) == random.integers(config.ranks)
    if name == "int32":
        values = random_integers(random, (config.ranks, config.lanes // 2)).view(np.uint16)
    else:
        values = operands(random, config.ranks, config.lanes, name)
    counts = sources[:, None] & keep[None, :]
    values = np.where(counts, values, random.choice(GARBAGE, counts.shape)).astype(np.uint16)
    if name == "int32":
        values = values.view(np.int32)
    return Flit(values, name, operation, keep, sources)


def run(config, cycles):
    """See `check_every_cycle`."""
    check_every_cycle(make_reducer(config), config, cycles)


#: Formats and operations that are built, some of each kind of reducer.
BUILDS = [
    (ALL_FORMATS, OPERATIONS),
    (BOTH, ("sum", "average")),
    (("fp16",), ("sum", "average")),
    (("bf16",), ("sum", "max")),
    (("int32",), ("sum",)),
    (("int32", "fp16"), ("sum", "min")),
]


@pytest.mark.parametrize(("formats", "built"), BUILDS, ids=lambda names: "+".join(names))
def test_operations_in_any_order(formats, built):
    random = np.random.default_rng([SEED, len(formats), len(built)])
    config = make(3, formats, built)
    flits = [random_flit(random, config) for _ in range(60)]
    run(config, with_bubbles(random, flits, share=0.2))


@pytest.mark.parametrize("ranks", [2, 4, 5])
def test_all_formats_and_operations_back_to_back(ranks):
    """Copies too: NaN keep their payload, and any bits are an integer."""
    random = np.random.default_rng([SEED, ranks])
    config = make(ranks, collectives="all")
    run(config, [random_flit(random, config) for _ in range(160 // ranks)])


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 7, 8, 9, 13, 16])
@pytest.mark.parametrize(("formats", "built"), BUILDS, ids=lambda names: "+".join(names))
def test_long_runs(formats, built, ranks):
    random = np.random.default_rng([SEED, ranks, len(formats), len(built)])
    config = make(ranks, formats, built)
    run(config, [random_flit(random, config) for _ in range(2000 // ranks)])


def flit_of(config, bits_of_ranks, name, operation, absent):
    """The same numbers in every lane; ranks without one, from the first or the last, are absent."""
    values = np.full((config.ranks, config.lanes), GARBAGE[0], np.uint16)
    present = np.arange(config.ranks) < len(bits_of_ranks)
    present = present[::-1] if absent == "first" else present
    values[present] = np.array(bits_of_ranks, np.uint16)[:, None]
    return Flit(values, name, operation, np.ones(config.lanes, bool), present)


def test_vectors_by_hand():
    """Golden's, among absent ranks: counts of 2 to 4 of 4 ranks."""
    config = make(4, BOTH)
    flits = []
    for operation, name, numbers, want in VECTORS:
        for absent in ("first", "last"):
            if len(numbers) <= config.ranks:
                flits.append(flit_of(config, numbers, name, operation, absent))
                lanes = np.full(config.lanes, want, np.uint16)
                assert flits[-1].output[0] == as_int(lanes)
    assert len(flits) > 80
    run(config, flits)


@pytest.mark.parametrize("ranks", [2, 16])
def test_no_source_gives_zeros(ranks):
    config = make(ranks)
    flits = []
    for name in ALL_FORMATS:
        for operation in OPERATIONS_OF[name]:
            lanes = config.lanes // (2 if name == "int32" else 1)
            values = np.full((ranks, lanes), -1 if name == "int32" else 0x7F81)
            values = values.astype(np.int32 if name == "int32" else np.uint16)
            nobody = np.zeros(ranks, bool)
            flits.append(Flit(values, name, operation, np.ones(config.lanes, bool), nobody))
    run(config, flits)


def test_average_of_sixteen_largest_numbers_is_finite():
    config = make(16, BOTH, ("sum", "average"))
    everywhere = np.ones(config.lanes, bool), np.ones(16, bool)
    flits = []
    for name, largest in (("fp16", 0x7BFF), ("bf16", 0xFF7F)):
        values = np.full((16, config.lanes), largest, np.uint16)
        flits += [Flit(values, name, operation, *everywhere) for operation in ("average", "sum")]
        assert [flit.output[2] for flit in flits[-2:]] == [0, 1]
    run(config, flits)


def test_the_smallest_reducer_is_made():
    assert type(make_reducer(make(2, BOTH, ("sum",)))) is Reducer
    assert type(make_reducer(make(2, BOTH, ("sum", "average")))) is Reducer
    assert type(make_reducer(make(2, BOTH, ("sum", "max")))) is MultiReducer
    assert type(make_reducer(make(2, ("int32",), ("sum",)))) is MultiReducer
    assert type(make_reducer(make(2, BOTH, ("sum",), "all"))) is MultiReducer


#: docs/components/reducer.md: ranks, then cycles of fp16 sums, with averages, of all, of integers.
DELAYS = [(2, 5, 12, 13, 1), (4, 5, 12, 13, 1), (5, 6, 13, 15, 2), (16, 6, 13, 15, 2)]


@pytest.mark.parametrize(("ranks", "sums", "averages", "everything", "integers"), DELAYS)
def test_delay(ranks, sums, averages, everything, integers):
    assert make_reducer(make(ranks, ("fp16",), ("sum",))).delay == sums
    assert make_reducer(make(ranks, ("fp16",), ("sum", "max"))).delay == sums
    assert make_reducer(make(ranks, ("fp16",), ("sum", "average"))).delay == averages
    assert make_reducer(make(ranks)).delay == everything
    assert make_reducer(make(ranks, ("int32",), ("sum",))).delay == integers
