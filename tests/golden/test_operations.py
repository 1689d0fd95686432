"""Golden maximum, minimum, average and integers, against exact rationals and plain Python."""

import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sim.golden import OPERATIONS_OF, all_reduce, all_reduce_sum
from tests.arithmetic.operands import operands
from tests.golden import exact
from tests.golden.test_allreduce import FORMATS, column, elements, examples

SEED = 8
EXTREMA = ("max", "min")
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1


def one(bits, name, operation):
    result, status = all_reduce(column(*bits), name, operation)
    return int(result[0]), status


def integers(values, operation):
    result, status = all_reduce(np.array(values, np.int32)[:, None], "int32", operation)
    assert not status.any_nan
    assert not status.any_overflow
    return int(result[0])


# Against rationals


@examples
@given(elements(finite=False))
def test_averages_of_rationals_agree(element):
    name, bits = element
    result, status = one(bits, name, "average")
    want = exact.average(bits, name)
    assert result == want
    assert status.any_nan == (want == exact.NAN[name])
    assert not status.any_overflow, "an average of finite numbers is finite"


@examples
@given(elements(finite=False), st.sampled_from(EXTREMA))
def test_extrema_of_rationals_agree(element, operation):
    name, bits = element
    result, status = one(bits, name, operation)
    want = exact.extremum(bits, name, largest=operation == "max")
    assert result == want
    assert status.any_nan == (want == exact.NAN[name])
    assert not status.any_overflow


@pytest.mark.parametrize("count", range(2, 17))
@pytest.mark.parametrize("name", FORMATS)
def test_average_of_every_number_of_ranks(name, count):
    """Troublesome operands: ties, cancellation, subnormals, edges."""
    values = operands(np.random.default_rng([SEED, count]), count, 100, name)
    result, _ = all_reduce(values, name, "average")
    want = [exact.average([int(b) for b in element], name) for element in values.T]
    assert result.tolist() == want, f"seed {SEED}"


@examples
@given(elements(finite=False), st.sampled_from(OPERATIONS_OF["fp16"]), st.randoms())
def test_order_does_not_matter(element, operation, random):
    name, bits = element
    result, _ = one(bits, name, operation)
    random.shuffle(bits)
    assert one(bits, name, operation)[0] == result


@examples
@given(elements())
def test_an_average_lies_between_the_extremes(element):
    """But for what bf16 cuts off, and for as much again by which rounding then may go astray."""
    name, bits = element
    result, _ = one(bits, name, "average")
    largest = max(exact.exponent(b, name) for b in bits)
    slack = 0 if name == "fp16" else exact.Fraction(2) ** (largest - 30)
    values = [exact.value(b, name) for b in bits]
    assert min(values) - slack <= exact.value(result, name) <= max(values) + slack


@examples
@given(elements())
def test_average_of_a_power_of_two_of_ranks_is_the_scaled_sum(element):
    """Where neither is subnormal nor beyond the largest number, one division by 2^k is exact."""
    name, bits = element
    bits = bits[: 1 << len(bits).bit_length() - 1]
    fraction_bits = exact.WIDTHS[name][1]
    levels = len(bits).bit_length() - 1
    total = int(all_reduce_sum(column(*bits), name)[0][0])
    field = (total & 0x7FFF) >> fraction_bits
    assume(levels < field < exact.INFINITY[name] >> fraction_bits)
    assert one(bits, name, "average")[0] == total - (levels << fraction_bits)


# Vectors by hand

VECTORS = [
    # fp16 averages: (1 + 2) / 2; (1 + 1 + 2) / 3 = 4/3 rounds up, (1 + 1 + 3) / 3 = 5/3 down
    ("average", "fp16", (0x3C00, 0x4000), 0x3E00),
    ("average", "fp16", (0x3C00, 0x3C00, 0x4000), 0x3D55),
    ("average", "fp16", (0x3C00, 0x3C00, 0x4200), 0x3EAB),
    # the sum overflows, the average does not: the largest number, sixteen times and three
    ("average", "fp16", (0x7BFF,) * 16, 0x7BFF),
    ("average", "fp16", (0x7BFF,) * 3, 0x7BFF),
    ("average", "fp16", (0xFBFF,) * 3, 0xFBFF),
    # ties to even, of subnormals: 1/2 -> 0, 3/2 -> 2, 5/2 -> 2 smallest ones
    ("average", "fp16", (0x0001, 0x0000), 0x0000),
    ("average", "fp16", (0x0001, 0x0002), 0x0002),
    ("average", "fp16", (0x0002, 0x0003), 0x0002),
    # one third rounds to zero and keeps its sign, two thirds to one
    ("average", "fp16", (0x8001, 0x8000, 0x8000), 0x8000),
    ("average", "fp16", (0x0001, 0x0001, 0x0000), 0x0001),
    # the smallest normal number and the largest subnormal one: a tie, to the even one
    ("average", "fp16", (0x0400, 0x03FF), 0x0400),
    # rounded once: the sum 4097 alone would be 4096, whose third is nearer to 1365 than to 1366
    ("average", "fp16", (0x6800, 0x6800, 0x3C00), 0x6556),
    # 4098 / 2 is a tie between 2048 and 2050; 4099 / 2 is none; nor is (4098 + 2^-24) / 4, of
    # 1024 and 1025, though the sum alone would be 4096
    ("average", "fp16", (0x6C00, 0x4000), 0x6800),
    ("average", "fp16", (0x6C00, 0x4200), 0x6801),
    ("average", "fp16", (0x6C00, 0x4000, 0x0001, 0x0000), 0x6401),
    # zeros like a sum: -0 only if all are
    ("average", "fp16", (0x8000, 0x8000), 0x8000),
    ("average", "fp16", (0x8000, 0x0000), 0x0000),
    ("average", "fp16", (0x3C00, 0xBC00), 0x0000),
    ("average", "fp16", (0x7C00, 0x3C00), 0x7C00),
    ("average", "fp16", (0x7C00, 0xFC00), 0x7E00),
    ("average", "fp16", (0x7C01, 0x3C00), 0x7E00),
    # bf16: thirds; the largest number; below 2^(E-31) nothing is kept
    ("average", "bf16", (0x3F80, 0x3F80, 0x4000), 0x3FAB),
    ("average", "bf16", (0x7F7F,) * 16, 0x7F7F),
    ("average", "bf16", (0x3F80, 0xBF80, 0x2B80), 0x0000),
    ("average", "bf16", (0x3F80, 0xBF80, 0x3000), 0x2F2B),
    ("average", "bf16", (0x0001, 0x0002), 0x0002),
    ("average", "bf16", (0x8001, 0x8000, 0x0000), 0x8000),
    ("average", "bf16", (0x7F80, 0xFF80), 0x7FC0),
    # largest and smallest: signs, zeros of both signs, infinities, NaN
    ("max", "fp16", (0x3C00, 0xC000, 0x3BFF), 0x3C00),
    ("min", "fp16", (0x3C00, 0xC000, 0xBC00), 0xC000),
    ("max", "fp16", (0x8000, 0x0000), 0x0000),
    ("min", "fp16", (0x0000, 0x8000), 0x8000),
    ("max", "fp16", (0x8000, 0x8000), 0x8000),
    ("max", "fp16", (0x8001, 0x8000), 0x8000),
    ("min", "fp16", (0x0001, 0x8000), 0x8000),
    ("max", "fp16", (0xFC00, 0xFBFF), 0xFBFF),
    ("min", "fp16", (0x7C00, 0xFC00), 0xFC00),
    ("max", "fp16", (0x7C00, 0x7BFF), 0x7C00),
    ("max", "fp16", (0x7C00, 0xFC01), 0x7E00),
    ("min", "fp16", (0xFE00, 0xFC00), 0x7E00),
    ("max", "bf16", (0xFF81, 0x7F80), 0x7FC0),
    ("min", "bf16", (0xFF80, 0x7FFF), 0x7FC0),
    ("max", "bf16", (0x7C01, 0x3F80), 0x7C01),
    ("min", "bf16", (0xBF80, 0xBF81), 0xBF81),
]


@pytest.mark.parametrize(("operation", "name", "bits", "want"), VECTORS)
def test_vectors(operation, name, bits, want):
    assert one(bits, name, operation)[0] == want


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("operation", OPERATIONS_OF["fp16"])
def test_one_operand_comes_out_as_it_went_in(operation, name):
    every = np.arange(1 << 16, dtype=np.uint16)
    result, status = all_reduce(every[None], name, operation)
    nan = every & 0x7FFF > exact.INFINITY[name]
    assert np.array_equal(result, np.where(nan, exact.NAN[name], every))
    assert np.array_equal(status.nan, nan)


# Integers


@examples
@given(st.lists(st.integers(INT32_MIN, INT32_MAX), min_size=1, max_size=16))
def test_integers_as_python_has_them(values):
    wrapped = (sum(values) - INT32_MIN) % (1 << 32) + INT32_MIN
    assert integers(values, "sum") == wrapped
    assert integers(values, "max") == max(values)
    assert integers(values, "min") == min(values)


def test_integer_sums_wrap_around():
    assert integers([INT32_MAX, 1], "sum") == INT32_MIN
    assert integers([INT32_MIN, -1], "sum") == INT32_MAX
    assert integers([INT32_MIN] * 16, "sum") == 0
    assert integers([INT32_MAX] * 16, "sum") == -16


# What it refuses


@pytest.mark.parametrize(
    ("values", "name", "operation", "message"),
    [
        (np.uint16, "fp8", "sum", "format: must be one of fp16, bf16, int32, not 'fp8'"),
        (np.uint16, "fp16", "mean", "operation: must be one of sum, max, min, average for fp16, "
         "not 'mean'"),
        (np.int32, "int32", "average", "operation: must be one of sum, max, min for int32, "
         "not 'average'"),
        (np.uint32, "int32", "sum", "operands: must be int32, not uint32"),
        (np.int32, "bf16", "max", "operands: must be uint16, not int32"),
    ],
)  # fmt: skip
def test_refuses(values, name, operation, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        all_reduce(np.zeros((2, 3), values), name, operation)


@pytest.mark.parametrize("shape", [(3,), (0, 3), (17, 3)])
def test_refuses_shapes(shape):
    with pytest.raises(ValueError, match=r"^operands: must have the shape \(ranks, elements\)"):
        all_reduce(np.zeros(shape, np.int32), "int32", "max")


@pytest.mark.parametrize(("name", "dtype"), [("fp16", np.uint16), ("int32", np.int32)])
def test_no_elements(name, dtype):
    for operation in OPERATIONS_OF[name]:
        result, status = all_reduce(np.zeros((3, 0), dtype), name, operation)
        assert result.shape == (0,)
        assert result.dtype == dtype
        assert not status.any_nan
