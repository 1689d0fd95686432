"""With register slices: the same bytes, and as many cycles more as the closed form says."""

import numpy as np
import pytest

from hdl.interfaces import Response
from sim.formula import SLICES, data_cycles, first_wave_stages
from sim.testbed import Placement

from . import test_errors, test_inq, test_lengths
from .quantized import sweep as sweep_codes
from .systems import AWKWARD, Operation, random_bits, run_queue, system, tiny, variant
from .test_lengths import SHAPES, lengths, sweep
from .test_timing import disturbed_runs

# They need a model of their own; `make test` has the accelerator alone with slices.
pytestmark = pytest.mark.large
SLICED = tiny(register_slices="all")
#: Lengths that are looked at where not all are: each n-th, which meets every remainder of a flit.
EACH = 7
#: Cycles by which the closed form may miss a run.
TOLERANCE = 2


@pytest.mark.parametrize("format", ["fp16", "bf16"])
def test_lengths_to_three_waves(format):
    print("seed: elements, in place, bf16")
    bed = system(SLICED)
    for elements in lengths(SLICED)[::EACH]:
        sweep(bed, format, bool(elements % 2), elements)


def test_latency_jitter_stalls_and_skew_give_identical_bits():
    disturbed_runs(SLICED, range(12), 300)


def test_operations_back_to_back():
    bed = system(SLICED)
    rng = np.random.default_rng(5)
    operations = []
    for number, elements in enumerate((1, 130, 4, 384, 0, 250)):
        where = test_lengths.placement(SLICED, rng, elements or 1, in_place=number % 2 == 0)
        operands = random_bits(rng, SLICED.ranks, elements)
        operations.append(Operation(operands, "bf16" if number % 3 else "fp16", where))
    for operation in operations:
        run_queue(bed, [operation])
    # One queue of the same, as the flags of instructions stand in one place each; out of place.
    first = operations[1]
    run_queue(bed, [first, first, first])


def test_cycles_are_those_of_the_closed_form():
    plain, more = (
        sum(stage.cycles for stage in first_wave_stages(config)) for config in (tiny(), SLICED)
    )
    # The slices, and the table's read.
    assert more - plain == sum(stage.cycles for stage in SLICES) + 1
    bed = system(SLICED)
    responses = SLICED.packets_per_wave * SLICED.header_flits
    rng = np.random.default_rng(6)
    for waves in (1, 2, 3, 12):
        size = waves * SLICED.wave_bytes
        outcome = bed.all_reduce(random_bits(rng, SLICED.ranks, size // 2), "fp16")
        assert outcome.status == "ok"
        early = data_cycles(SLICED, size) - outcome.figures.data
        assert -TOLERANCE <= early <= (responses if waves > 1 else TOLERANCE), waves


@pytest.mark.long
@pytest.mark.parametrize("shape", ["flit 16", "one packet a wave", "a request a wave"])
def test_cycles_of_one_wave_in_other_shapes(shape):
    config = tiny(register_slices="all", **SHAPES[shape])
    operands = random_bits(np.random.default_rng(7), config.ranks, config.wave_bytes // 2)
    outcome = system(config).all_reduce(operands, "fp16")
    assert outcome.status == "ok"
    assert abs(data_cycles(config, config.wave_bytes) - outcome.figures.data) <= TOLERANCE


@pytest.mark.long
@pytest.mark.parametrize("place", test_errors.PLACES)
def test_errors_drop_the_same_waves(place):
    """A bad beat's wave and those behind it are not written; a bad write ends the operation."""
    bed, flits = variant(SLICED), test_errors.PLACES[place]
    for response, code in test_errors.READ.items():
        source = test_errors.BAD_READ[response] - flits * SLICED.flit_bytes
        operands = random_bits(np.random.default_rng(flits), 3, test_errors.ELEMENTS)
        where = Placement([source, 0x40, 0x40], [0x1000] * 3, test_errors.FLAGS)
        _, new = test_errors.run_failing(bed, Operation(operands, "fp16", where), code, 0)
        assert new == [wave < flits // SLICED.wave_flits for wave in range(len(new))]
    response = Response.SLVERR
    destination = test_errors.BAD_WRITE[response] - flits * SLICED.flit_bytes
    where = Placement([0x40] * 3, [0x1000, destination, 0x1000], test_errors.FLAGS)
    test_errors.run_failing(bed, Operation(operands, "bf16", where), test_errors.WRITE[response], 1)
    test_errors.next_works(bed, 4)


@pytest.mark.long
@pytest.mark.parametrize("format", ["fp16", "bf16"])
def test_every_length_of_awkward_sizes(format):
    print("seed: elements, in place, bf16")
    config = AWKWARD.replace(register_slices="all")
    for elements in lengths(config):
        sweep(system(config), format, bool(elements % 2), elements)


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_lengths_in_other_shapes(shape):
    print("seed: elements, in place, bf16")
    config = tiny(register_slices="all", **SHAPES[shape])
    for elements in lengths(config)[::EACH]:
        for number, format in enumerate(config.formats):
            sweep(system(config), format, bool((elements + number) % 2), elements)


@pytest.mark.long
@pytest.mark.parametrize("base", [test_inq.INQ, test_inq.AWKWARD], ids=["tiny", "awkward"])
def test_quantized_operations(base):
    print("seed: codes, repetition")
    config = base.replace(register_slices="all")
    for n in test_inq.lengths(config):
        sweep_codes(system(config), [n, 7], n)


@pytest.mark.long
def test_many_more_disturbed_runs():
    disturbed_runs(SLICED, range(100, 200), 1500)
