"""Special values through the whole path, and NaN just past every end."""

import itertools

import numpy as np
import pytest

from sim.golden import FORMATS, all_reduce_sum
from sim.testbed import Placement

from .systems import finite, random_bits, signal_nan, system

#: By format: both zeros, smallest and largest subnormal and normal, one, largest, infinity, NaNs.
SPECIALS = {
    "fp16": [0x0000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7FFF],
    "bf16": [0x0000, 0x0001, 0x007F, 0x0080, 0x3F80, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0, 0x7FFF],
}


@pytest.mark.parametrize("format", SPECIALS)
def test_every_combination_of_special_values(format):
    """All of both signs at every rank: 20 x 20 x 20 triples."""
    bed = system()
    values = [bits | sign for bits in SPECIALS[format] for sign in (0, 0x8000)]
    triples = np.array(list(itertools.product(values, repeat=3)), np.uint16).T
    nan_before = bed.host.read("switch", "values_nan")
    overflow_before = bed.host.read("switch", "values_overflow")
    flits_nan = flits_overflow = 0
    for start in range(0, triples.shape[1], 3000):
        operands = np.ascontiguousarray(triples[:, start : start + 3000])
        outcome = bed.all_reduce(operands, format)
        assert outcome.status == "ok", outcome
        nan, overflow = expected_events(operands, format)
        flits_nan += nan
        flits_overflow += overflow
    assert bed.host.read("switch", "values_nan") - nan_before == flits_nan
    assert bed.host.read("switch", "values_overflow") - overflow_before == flits_overflow


def expected_events(operands, format):
    """Flits of results with a NaN, and with an overflow."""
    _, status = all_reduce_sum(operands, format)
    return tuple(
        int(np.pad(each, (0, -len(each) % 4)).reshape(-1, 4).any(axis=1).sum())
        for each in (status.nan, status.overflow)
    )


@pytest.mark.parametrize("format", SPECIALS)
def test_all_negative_zeros_stay_negative(format):
    bed = system()
    operands = np.full((3, 130), 0x8000, np.uint16)
    assert bed.all_reduce(operands, format).status == "ok"
    assert bed.engine.read(0, 0, 260) == operands[0].tobytes()
    operands[1, ::2] = 0
    assert bed.all_reduce(operands, format).status == "ok"
    assert set(bed.engine.read(0, 0, 260)[3::4]) == {0x80}
    assert set(bed.engine.read(0, 0, 260)[1::4]) == {0}


@pytest.mark.parametrize("format", SPECIALS)
def test_overflow_gives_infinity_and_is_counted(format):
    bed = system()
    layout = FORMATS[format]
    largest = layout.infinity - 1
    before = bed.host.read("switch", "values_overflow")
    operands = np.full((3, 4), largest, np.uint16)
    assert bed.all_reduce(operands, format).status == "ok"
    assert bed.engine.read(2, 0, 2) == np.uint16(layout.infinity).tobytes()
    assert bed.host.read("switch", "values_overflow") == before + 1


@pytest.mark.parametrize("format", SPECIALS)
@pytest.mark.parametrize("elements", [1, 2, 3, 5, 127, 129, 131])
def test_nan_just_past_the_end_has_no_influence(format, elements):
    """Neither on results nor on counts, though the last flit is read with them."""
    bed = system()
    rng = np.random.default_rng(elements)
    before = bed.host.read("switch", "values_nan"), bed.host.read("switch", "values_overflow")
    for guard in (signal_nan, np.array([FORMATS[format].infinity], np.uint16)):
        where = Placement([0x1000] * 3, [0x2000] * 3, [0x3000] * 3)
        outcome = bed.all_reduce(
            finite(rng, 3, elements, format), format, where=where, guard=guard.view("u1")
        )
        assert outcome.status == "ok", outcome
    after = bed.host.read("switch", "values_nan"), bed.host.read("switch", "values_overflow")
    assert after == before


def test_any_bits_in_amaranths_simulator():
    bed = system(engine="pysim")
    for format in SPECIALS:
        outcome = bed.all_reduce(random_bits(np.random.default_rng(3), 3, 90), format)
        assert outcome.status == "ok", outcome
