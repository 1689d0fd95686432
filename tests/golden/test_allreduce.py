"""The golden sums against exact rationals, hand-computed vectors and numpy's conversions."""

import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sim.golden import all_reduce_sum
from tests.arithmetic.operands import EDGES, operands
from tests.golden import exact

SEED = 1
FORMATS = ("fp16", "bf16")
DTYPES = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}

examples = settings(max_examples=300, deadline=None, derandomize=True)


def column(*bits):
    return np.array(bits, np.uint16)[:, None]


def one_sum(bits, name):
    result, status = all_reduce_sum(column(*bits), name)
    return int(result[0]), status


@st.composite
def elements(draw, finite=True, formats=FORMATS):
    """A format and the bits of one element of every rank; exponents near, far or at the edges."""
    name = draw(st.sampled_from(formats))
    ranks = draw(st.integers(2, 16))
    _, fraction_bits = exact.WIDTHS[name]
    top = exact.INFINITY[name] >> fraction_bits
    base = draw(st.integers(0, top - 1))
    span = draw(st.sampled_from((0, 1, 8, 24, 40, 255)))
    field = st.integers(max(0, base - span), min(top - 1, base + span))
    near = st.builds(
        lambda sign, exponent, fraction: sign << 15 | exponent << fraction_bits | fraction,
        st.integers(0, 1),
        field,
        st.integers(0, 2**fraction_bits - 1),
    )
    edge = st.builds(lambda sign, bits: sign << 15 | bits, st.integers(0, 1),
                     st.sampled_from(EDGES[name]))  # fmt: skip
    bits = draw(st.lists(st.one_of(near, near, edge), min_size=ranks, max_size=ranks))
    if finite:
        assume(not any(exact.is_special(b, name) for b in bits))
    return name, bits


# One number, as it is


@pytest.mark.parametrize("name", FORMATS)
def test_one_operand_is_its_own_sum(name):
    every = np.arange(1 << 16, dtype=np.uint16)
    result, status = all_reduce_sum(every[None], name)
    nan = every & 0x7FFF > exact.INFINITY[name]
    assert np.array_equal(result, np.where(nan, exact.NAN[name], every))
    assert np.array_equal(status.nan, nan)
    assert not status.any_overflow


@pytest.mark.parametrize("name", FORMATS)
def test_zeros_leave_a_number_alone(name):
    every = np.arange(1 << 16, dtype=np.uint16)
    zeros = np.zeros_like(every)
    result, _ = all_reduce_sum(np.stack([zeros, every, zeros]), name)
    nan = every & 0x7FFF > exact.INFINITY[name]
    want = np.where(every == 0x8000, 0, every)
    assert np.array_equal(result, np.where(nan, exact.NAN[name], want))


@pytest.mark.parametrize("name", FORMATS)
def test_rational_model_knows_the_format(name):
    """The model that judges is itself judged: by numpy's value of every finite number."""
    for bits in range(0, 1 << 16, 7):
        if not exact.is_special(bits, name):
            number = float(np.array(bits, np.uint16).view(DTYPES[name]).astype(np.float64))
            assert exact.value(bits, name) == number
            assert exact.nearest(exact.value(bits, name), name) == (bits if number else 0)


# Two numbers, as numpy adds them


@pytest.mark.parametrize("name", FORMATS)
def test_two_operands_as_float64_rounds(name):
    """Of two numbers whose exponents span at most 24, float64's sum is exact."""
    random = np.random.default_rng(SEED)
    values = operands(random, 2, 200_000, name)
    _, fraction_bits = exact.WIDTHS[name]
    fields = np.maximum((values & 0x7FFF) >> fraction_bits, 1).astype(int)
    near = np.abs(fields[0] - fields[1]) <= 24
    values = values[:, near]
    assert values.shape[1] > 50_000
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.view(DTYPES[name]).astype(np.float64).sum(axis=0)
        want = total.astype(DTYPES[name]).view(np.uint16)
    want = np.where(np.isnan(total), exact.NAN[name], want)
    # numpy starts its sum from -0 or +0 by version: signs of zero are another test's.
    result, status = all_reduce_sum(values, name)
    zero = total == 0
    assert np.array_equal(result[~zero], want[~zero]), f"seed {SEED}"
    assert not (result[zero] & 0x7FFF).any()
    assert np.array_equal(status.nan, np.isnan(total))


# Any numbers, as rationals add them


@examples
@given(elements(finite=False))
def test_rationals_agree(element):
    name, bits = element
    result, status = one_sum(bits, name)
    want = exact.all_reduce(bits, name)
    assert result == want
    assert status.any_nan == (want == exact.NAN[name])
    finite = not any(exact.is_special(b, name) for b in bits)
    assert status.any_overflow == (finite and exact.is_special(want, name))


@examples
@given(elements(finite=False), st.randoms(use_true_random=False))
def test_order_does_not_matter(element, random):
    name, bits = element
    result, _ = one_sum(bits, name)
    random.shuffle(bits)
    assert one_sum(bits, name)[0] == result


@examples
@given(elements())
def test_fp16_and_near_bf16_are_rounded_correctly(element):
    name, bits = element
    nonzero = [exact.exponent(b, name) for b in bits if b & 0x7FFF]
    assume(name == "fp16" or not nonzero or max(nonzero) - min(nonzero) <= 24)
    total = sum(exact.value(b, name) for b in bits)
    result, _ = one_sum(bits, name)
    if total:
        assert result == exact.nearest(total, name)
    else:
        assert result == (0x8000 if all(b >> 15 for b in bits) else 0)


@examples
@given(elements(formats=("bf16",)))
def test_bf16_error_bound(element):
    name, bits = element
    result, _ = one_sum(bits, name)
    assume(not exact.is_special(result, name))
    largest = max(exact.exponent(b, name) for b in bits)
    total = sum(exact.value(b, name) for b in bits)
    error = abs(exact.value(result, name) - total)
    cut = (len(bits) - 1) * exact.Fraction(2) ** (largest - 31)
    assert error <= exact.unit_in_last_place(result, name) / 2 + cut


# Vectors by hand

VECTORS = [
    # fp16: 1 + 1; 1 - 1; 65504 + 15 stays, 65504 + 16 is halfway to 65536 and goes up to infinity
    ("fp16", (0x3C00, 0x3C00), 0x4000),
    ("fp16", (0x3C00, 0xBC00), 0x0000),
    ("fp16", (0x7BFF, 0x4B80), 0x7BFF),
    ("fp16", (0x7BFF, 0x4C00), 0x7C00),
    ("fp16", (0xFBFF, 0xCC00), 0xFC00),
    # ... but a sum that passes 65504 on the way and comes back is finite
    ("fp16", (0x7BFF, 0x7BFF, 0xFBFF), 0x7BFF),
    # ... and the smallest subnormal below halfway keeps it finite
    ("fp16", (0x7BFF, 0x4C00, 0x8001), 0x7BFF),
    # ties to even: 2048 + 1 stays, 2050 + 1 goes up; a last bit of 2^-24 breaks the tie
    ("fp16", (0x6800, 0x3C00), 0x6800),
    ("fp16", (0x6801, 0x3C00), 0x6802),
    ("fp16", (0x6800, 0x3C00, 0x0001), 0x6801),
    ("fp16", (0x6801, 0x3C00, 0x8001), 0x6801),
    # subnormals: 2^-24 + 2^-24; the largest one and 2^-24 make the smallest normal number
    ("fp16", (0x0001, 0x0001), 0x0002),
    ("fp16", (0x03FF, 0x0001), 0x0400),
    ("fp16", (0x0400, 0x8001), 0x03FF),
    # zeros: -0 only if all are
    ("fp16", (0x8000, 0x8000), 0x8000),
    ("fp16", (0x8000, 0x0000), 0x0000),
    ("fp16", (0x0001, 0x8001, 0x8000), 0x0000),
    # infinities and NaN
    ("fp16", (0x7C00, 0x7BFF), 0x7C00),
    ("fp16", (0xFC00, 0x7BFF, 0xFC00), 0xFC00),
    ("fp16", (0x7C00, 0xFC00), 0x7E00),
    ("fp16", (0x3C00, 0xFE01), 0x7E00),
    ("fp16", (0x7C00, 0x7C01), 0x7E00),
    # bf16: 1 + 2^-8 is halfway to 1 + 2^-7; 2^-31 more breaks the tie, 2^-32 is cut off
    ("bf16", (0x3F80, 0x3F80), 0x4000),
    ("bf16", (0x3F80, 0x3B80), 0x3F80),
    ("bf16", (0x3F80, 0x3B80, 0x3000), 0x3F81),
    ("bf16", (0x3F80, 0x3B80, 0x2F80), 0x3F80),
    # the last bits of 2^-24 (1 + 2^-7) and of 2^-25 (1 + 2^-7): one is kept, the other cut off
    ("bf16", (0x3F80, 0x3B80, 0x3381, 0xB380), 0x3F81),
    ("bf16", (0x3F80, 0x3B80, 0x3301, 0xB300), 0x3F80),
    # cancellation of all that was kept: 1 - 1 + 2^-40 is 0, and +0 though the rest is negative
    ("bf16", (0x3F80, 0xBF80, 0x2B80), 0x0000),
    ("bf16", (0x3F80, 0xBF80, 0xAB80), 0x0000),
    # largest number, and half a unit more
    ("bf16", (0x7F7F, 0x7700), 0x7F7F),
    ("bf16", (0x7F7F, 0x7B00), 0x7F80),
    ("bf16", (0x7F7F, 0x7F7F, 0xFF7F), 0x7F7F),
    # subnormals
    ("bf16", (0x0001, 0x0001), 0x0002),
    ("bf16", (0x007F, 0x0001), 0x0080),
    ("bf16", (0x0080, 0x8001), 0x007F),
    ("bf16", (0x8000, 0x8000), 0x8000),
    ("bf16", (0x7F80, 0xFF80), 0x7FC0),
    ("bf16", (0x7F81, 0x0000), 0x7FC0),
]


@pytest.mark.parametrize(
    ("name", "bits", "want"), VECTORS, ids=lambda v: v if isinstance(v, str) else None
)
def test_vectors(name, bits, want):
    assert one_sum(bits, name)[0] == want


@pytest.mark.parametrize("name", FORMATS)
def test_sixteen_largest_numbers_overflow_and_count(name):
    largest = exact.INFINITY[name] - 1
    result, status = one_sum([largest] * 16, name)
    assert result == exact.INFINITY[name]
    assert status.any_overflow
    assert not status.any_nan


# What it refuses


@pytest.mark.parametrize(
    ("values", "name", "message"),
    [
        (np.zeros((2, 3), np.uint16), "fp8", "format: must be one of fp16, bf16, not 'fp8'"),
        (np.zeros((2, 3), np.int16), "fp16", "operands: must be uint16, not int16"),
        (np.zeros(3, np.uint16), "fp16", "operands: must have the shape"),
        (np.zeros((17, 3), np.uint16), "fp16", "1 to 16 ranks, not (17, 3)"),
    ],
)
def test_refuses(values, name, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        all_reduce_sum(values, name)


def test_no_elements():
    result, status = all_reduce_sum(np.zeros((3, 0), np.uint16), "fp16")
    assert result.shape == (0,)
    assert not status.any_nan
