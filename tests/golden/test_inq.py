"""The golden in-network quantization against exact rationals, bounds and vectors by hand."""

import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.golden import SCALE_FORMATS, all_reduce_inq, dequantize, quantize, scale_values
from sim.golden.inq import aligned_sums
from sim.golden.scales import decode_scales, round_up_scale
from tests.golden import exact, exact_inq
from tests.golden.exact_inq import Fraction, Rules

SEED = 3
FORMATS = ("fp16", "bf16", "e8m0")
RULES = [
    Rules(name, bits, rule)
    for name in FORMATS
    for bits in (8, 4)
    for rule in (("ceil", "floor") if name == "e8m0" else ("ceil",))
]
#: What rounding a scale up adds to it at most: this part of itself, or the smallest step.
SCALE_ROUNDING = {"fp16": Fraction(1, 2**10), "bf16": Fraction(1, 2**7), "e8m0": Fraction(1)}

examples = settings(max_examples=200, deadline=None, derandomize=True)


def dtype(rules):
    return np.uint8 if rules.scale_format == "e8m0" else np.uint16


def run(codes, scales, rules, block):
    """The golden model on lists; scales a list of bits a rank."""
    return all_reduce_inq(
        np.array(codes, np.int8),
        np.array(scales, dtype(rules)),
        block=block,
        scale_format=rules.scale_format,
        code_bits=rules.code_bits,
        e8m0_rule=rules.e8m0_rule,
    )


def one_block(codes, scales, rules=Rules()):  # noqa: B008
    """Codes, scale bits, nan, overflow of one block; codes a list a rank, a scale a rank."""
    new, bits, status = run(codes, [[s] for s in scales], rules, len(codes[0]))
    return new.tolist(), int(bits[0]), status.any_nan, status.any_overflow


def edges(rules):
    """Scales at the edges of the format: zero, subnormal, smallest, largest."""
    if rules.scale_format == "e8m0":
        return [0, 1, 2, 0x7F, 0xFD, 0xFE]
    one = 1 << exact.WIDTHS[rules.scale_format][1]
    largest = exact_inq.LARGEST[rules.scale_format]
    return [
        0,
        0x8000,
        1,
        2,
        one - 1,
        one,
        one + 1,
        2 * one - 1,
        largest - one,
        largest - 1,
        largest,
    ]


@st.composite
def scale_bits(draw, rules, ranks):
    """A finite scale for each rank: near each other, far apart, or at the format's edges."""
    largest = exact_inq.LARGEST[rules.scale_format]
    binade = 1 if rules.scale_format == "e8m0" else 1 << exact.WIDTHS[rules.scale_format][1]
    base = draw(st.integers(0, largest))
    span = draw(st.sampled_from((0, 1, 24, 40, 255))) * binade
    near = st.integers(max(0, base - span), min(largest, base + span))
    return draw(
        st.lists(
            st.one_of(near, near, st.sampled_from(edges(rules))), min_size=ranks, max_size=ranks
        )
    )


@st.composite
def operands(draw, rules=None, ranks=None):
    """Rules, codes and scales of one block."""
    rules = draw(st.sampled_from(RULES)) if rules is None else rules
    ranks = draw(st.integers(1, 16)) if ranks is None else ranks
    length = draw(st.integers(1, 6))
    lowest, last = -rules.last_code - 1, rules.last_code
    code = st.one_of(st.integers(lowest, last), st.sampled_from((lowest, -last, -1, 0, 1, last)))
    row = st.lists(code, min_size=length, max_size=length)
    codes = draw(st.lists(row, min_size=ranks, max_size=ranks))
    if draw(st.booleans()) and ranks > 1:  # cancels in part, or wholly
        codes[1] = [max(-code, lowest) if code != lowest else last for code in codes[0]]
    return rules, codes, draw(scale_bits(rules, ranks))


# As rationals say


@settings(max_examples=1500, deadline=None, derandomize=True)
@given(operands())
def test_rationals_agree(drawn):
    rules, codes, scales = drawn
    assert one_block(codes, scales, rules) == exact_inq.all_reduce(codes, scales, rules)


@examples
@given(operands(), st.data())
def test_special_scales_agree(drawn, data):
    rules, codes, scales = drawn
    special = [0xFF] if rules.scale_format == "e8m0" else [
        0x8001, 0xBC00, exact.INFINITY[rules.scale_format],
        0x8000 | exact.INFINITY[rules.scale_format], exact.INFINITY[rules.scale_format] + 1, 0xFFFF,
    ]  # fmt: skip
    scales[data.draw(st.integers(0, len(scales) - 1))] = data.draw(st.sampled_from(special))
    want = [0] * len(codes[0]), exact_inq.NAN[rules.scale_format], True, False
    assert one_block(codes, scales, rules) == want == exact_inq.all_reduce(codes, scales, rules)


@examples
@given(operands(), st.randoms(use_true_random=False))
def test_order_does_not_matter(drawn, random):
    rules, codes, scales = drawn
    order = list(range(len(codes)))
    random.shuffle(order)
    shuffled = one_block([codes[r] for r in order], [scales[r] for r in order], rules)
    assert shuffled == one_block(codes, scales, rules)


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("block", [1, 3, 32, 64, 512])
def test_blocks_of_a_message_are_apart(rules, block):
    """Random blocks, the last one short, some bad: each as if it were alone."""
    random = np.random.default_rng(SEED)
    ranks, n = 5, 3 * block + max(block // 3, 1)
    codes = random.integers(-rules.last_code - 1, rules.last_code + 1, (ranks, n))
    blocks = -(-n // block)
    scales = random.choice(edges(rules), (ranks, blocks))
    scales[:, 1:] = random.integers(exact_inq.LARGEST[rules.scale_format], size=(ranks, blocks - 1))
    scales[2, 2] = exact_inq.NAN[rules.scale_format]
    new, bits, status = run(codes, scales, rules, block)
    assert status.nan.tolist() == [False, False, True] + [False] * (blocks - 3)
    assert status.nan_blocks == 1
    for number in range(blocks):
        part = slice(number * block, (number + 1) * block)
        alone = one_block(codes[:, part].tolist(), scales[:, number].tolist(), rules)
        assert alone == (
            new[part].tolist(), bits[number], status.nan[number], status.overflow[number]
        )  # fmt: skip


# Bounds


@examples
@given(operands())
def test_error_and_scale_bounds(drawn):
    """docs/numerics.md: half an output scale and what the window cuts; the scale's rounding."""
    rules, codes, scales = drawn
    new, bits, _, overflow = one_block(codes, scales, rules)
    if overflow or rules.floor:
        return
    kept = exact_inq.sums(codes, scales, rules)
    exactly = exact_inq.sums(codes, scales, rules, cut=False)
    step = rules.step(bits)
    cut = (len(codes) - 1) * 2 ** (rules.code_bits - 1) * exact_inq.unit_of(scales, rules)
    for code, inside, outside in zip(new, kept, exactly, strict=True):
        assert abs(code * step - inside) <= step / 2
        assert abs(inside - outside) <= cut
        assert abs(code * step - outside) <= step / 2 + cut
    quotient = max(map(abs, kept)) / rules.last_code
    smallest = rules.last_place(0)
    if quotient:
        assert step <= quotient * (1 + SCALE_ROUNDING[rules.scale_format]) + smallest


@examples
@given(operands(rules=Rules()))
def test_largest_magnitude_gets_the_last_code_where_the_scale_is_normal(drawn):
    rules, codes, scales = drawn
    new, bits, _, _ = one_block(codes, scales, rules)
    if bits >= 0x400:
        assert max(map(abs, new)) == 127


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_one_rank_with_a_last_code_is_unchanged(rules):
    """Every scale of the format with the block's largest code in it comes out as it went in."""
    every = np.arange(exact_inq.LARGEST[rules.scale_format] + 1)
    if rules.floor:
        # Codes of at least 2^(bits - 2) are in the scale's binade.
        codes = [2 ** (rules.code_bits - 2), 1, 0, -3]
    else:
        codes = [-rules.last_code, 1, 0, 3]
    new, bits, status = run([codes * len(every)], [every], rules, len(codes))
    zero = 0 if rules.scale_format == "e8m0" else 1  # of a scale of zero, codes are 0
    assert np.array_equal(bits, every)
    assert new.tolist() == [0] * (len(codes) * zero) + codes * (len(every) - zero)
    assert not status.any_nan
    assert not status.any_overflow


# Widths that the hardware is built with (sim/golden/inq.py)


@pytest.mark.parametrize("ranks", [8, 16])
@pytest.mark.parametrize(
    ("name", "width"), [("fp16", 51), ("bf16", 50), ("e8m0", 42)]
)  # of 8 ranks; 16 take a bit more
def test_sums_fit_their_width_and_no_narrower_one(name, width, ranks):
    layout = SCALE_FORMATS[name]
    scales = decode_scales(np.full((ranks, 1), layout.largest), layout)
    codes = np.full((ranks, 1), -128, np.int8)
    totals, _ = aligned_sums(codes, scales, 1, layout)
    lowest = int(totals[0, 0])
    assert (-lowest - 1).bit_length() + 1 == width + (ranks == 16)


@settings(max_examples=600, deadline=None, derandomize=True)
@given(operands())
def test_divisors_are_in_their_range(drawn):
    rules, codes, scales = drawn
    codes, scales = codes[:8], scales[:8]
    layout = SCALE_FORMATS[rules.scale_format]
    decoded = decode_scales(np.array(scales)[:, None], layout)
    block = len(codes[0])
    totals, unit = aligned_sums(np.array(codes, np.int8), decoded, block, layout, rules.code_bits)
    largest = np.abs(totals).max(axis=1)
    bits, _ = round_up_scale(largest, unit, layout, rules.code_bits, floor=rules.floor)
    if rules.code_bits == 8 and largest[0]:
        new = decode_scales(bits, layout)
        places = int((new.exponent - layout.offset(8) - unit)[0])
        low, high = {"fp16": (0, 29), "bf16": (-14, 35), "e8m0": (-6, 35)}[rules.scale_format]
        assert low - rules.floor <= places <= high
        assert places >= 0 or largest[0] << -places < 1 << 15


# Vectors by hand


VECTORS = {
    # 1 + 1 = 2, in steps of 1: M = 2 * 2^24; ceil(2^25 / 127) = 264209 = 0x40811: 19 bits, kept 11
    # of them, up: 0x409 * 2^8: field 8 + 1, 0x409 - 0x400
    "small codes get a finer scale": (Rules(), [[1, 0], [1, 1]], [0x3C00, 0x3C00],
                                      [127, 63], 0x2409),
    # 254 in steps of 2, exactly; 127 -> 63.5 a tie to 64, 125 -> 62.5 a tie to 62
    "halves with equal scales": (Rules(), [[127, 127, 125, -127, -125], [127, 0, 0, 0, 0]],
                                 [0x3C00] * 2, [127, 64, 62, -64, -62], 0x4000),
    "minus 128 counts as it is": (Rules(), [[-128], [1]], [0x3C00] * 2, [-127], 0x3C00),
    "minus 128 twice": (Rules(), [[-128], [-128]], [0x3C00] * 2, [-127], 0x4009),
    "zero block": (Rules(), [[5, -7], [-5, 7]], [0x3C00] * 2, [0, 0], 0),
    "zero scales": (Rules(), [[5, -7], [100, 7]], [0, 0x8000], [0, 0], 0),
    # One unit of 2^-24: the smallest scale, which is 127 times what it need be; the code is exact
    "smallest sum": (Rules(), [[1, 0]], [0x0001], [1, 0], 0x0001),
    "subnormal scales": (Rules(), [[127, -127], [1, 0]], [0x0001] * 2, [64, -64], 0x0002),
    # 1023 + 1 steps of 2^-24 at code 127: from the largest subnormal to the smallest normal number
    "subnormal to normal": (Rules(), [[127], [127]], [0x03FF, 0x0001], [127], 0x0400),
    # 127 * 65504 is the largest magnitude with a scale; a step more overflows, and codes clamp
    "largest scale": (Rules(), [[127, 1]], [0x7BFF], [127, 1], 0x7BFF),
    "overflow": (Rules(), [[127, 64, -127], [1, 64, 0]], [0x7BFF] * 2,
                 [127, 127, -127], 0x7BFF),
    "beyond the largest scale on the way": (Rules(), [[127], [127], [-127]], [0x7BFF] * 3,
                                            [127], 0x7BFF),
    "one outlier": (Rules(), [[127, 1, 0], [0, 1, 1]], [0x4C00, 0x2000], [127, 1, 0], 0x4C00),
    "NaN": (Rules(), [[1], [2]], [0x7E01, 0x3C00], [0], 0x7E00),
    "infinity": (Rules(), [[1], [2]], [0x3C00, 0x7C00], [0], 0x7E00),
    "negative": (Rules(), [[1], [2]], [0x3C00, 0x8001], [0], 0x7E00),
    # bf16: 254 in steps of 2, a tie
    "bf16": (Rules("bf16"), [[127, 127], [127, 0]], [0x3F80] * 2, [127, 64], 0x4000),
    # Scale 129 * 2^-38: 31 below, all 129 units stay, over 127 1.0157: 131/128 up, 0x2C83
    "bf16 last bit kept": (Rules("bf16"), [[1], [-1], [1]], [0x3F80, 0x3F80, 0x3001],
                           [126], 0x2C83),
    # ... and of 64.5, 32 below, 64: over 127 0.5039: 130/256 up, 0x2C02
    "bf16 half a unit cut off": (Rules("bf16"), [[1], [-1], [1]], [0x3F80, 0x3F80, 0x2F81],
                                 [126], 0x2C02),
    "bf16 cut off": (Rules("bf16"), [[1], [-1], [1]], [0x3F80, 0x3F80, 0x2C7F], [0], 0),
    "bf16 largest": (Rules("bf16"), [[127]], [0x7F7F], [127], 0x7F7F),
    "bf16 overflow": (Rules("bf16"), [[127], [127]], [0x7F7F] * 2, [127], 0x7F7F),
    "bf16 subnormal": (Rules("bf16"), [[127, -127], [1, 0]], [0x0001] * 2, [64, -64], 0x0002),
    "bf16 NaN": (Rules("bf16"), [[1], [1]], [0x7F80, 0], [0], 0x7FC0),
    # E8M0: 2 at 2^-6 a step is 1/32; 127/64 fits X, 128/64 asks for X + 1
    "e8m0 last code": (Rules("e8m0"), [[127, -1]], [127], [127, -1], 127),
    "e8m0 rounded up": (Rules("e8m0"), [[127, 3], [1, 0]], [127] * 2, [64, 2], 128),
    # The floor rule: a sum of 191 halves to 95.5, a tie to 96; 255 to 127.5, a tie to 128: clamped
    "e8m0 ties": (Rules("e8m0"), [[127, 127, 1], [64, 127, 0]], [127] * 2, [96, 127, 0], 128),
    "e8m0 floor saturates": (Rules("e8m0", 8, "floor"), [[127, 127], [127, 127], [1, 0]],
                             [127] * 3, [127, 127], 128),
    "e8m0 floor, last of 255": (Rules("e8m0", 8, "floor"), [[-128, -128], [-127, -126]],
                                [127] * 2, [-127, -127], 128),
    "e8m0 minus 128": (Rules("e8m0"), [[-128]], [127], [-64], 128),
    "e8m0 smallest": (Rules("e8m0"), [[1, -2]], [0], [1, -2], 0),
    "e8m0 zero block": (Rules("e8m0"), [[5], [-5]], [200] * 2, [0], 0),
    "e8m0 largest": (Rules("e8m0"), [[127]], [254], [127], 254),
    "e8m0 overflow": (Rules("e8m0"), [[127, 100], [1, 0]], [254] * 2, [127, 100], 254),
    "e8m0 NaN": (Rules("e8m0"), [[1], [1]], [255, 0], [0], 255),
    "4 bits": (Rules(code_bits=4), [[7, 7, 5], [7, 0, 0]], [0x3C00] * 2, [7, 4, 2], 0x4000),
    "4 bits, minus 8": (Rules(code_bits=4), [[-8], [1]], [0x3C00] * 2, [-7], 0x3C00),
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_vectors(name):
    rules, codes, scales, want, bits = VECTORS[name]
    nan = bits == exact_inq.NAN[rules.scale_format]
    overflow = "overflow" in name
    assert one_block(codes, scales, rules) == (want, bits, nan, overflow)
    assert exact_inq.all_reduce(codes, scales, rules) == (want, bits, nan, overflow)


def test_a_nan_block_does_not_count_as_overflow():
    *_, nan, overflow = one_block([[127], [127], [1]], [0x7BFF, 0x7BFF, 0x7E00])
    assert nan
    assert not overflow


# Quantizing numbers


@st.composite
def numbers(draw):
    """Rules, a float type and finite numbers near a tie or anywhere."""
    rules = draw(st.sampled_from(RULES))
    kind = draw(st.sampled_from((np.float16, np.float32, np.float64)))
    width = np.dtype(kind).itemsize * 8
    free = st.floats(allow_nan=False, allow_infinity=False, width=width)
    step = rules.step(draw(st.sampled_from(edges(rules)[2:])))
    tie = st.integers(-2 * rules.last_code - 1, 2 * rules.last_code + 1)
    near = st.builds(
        lambda halves, ulps: float(halves * step / 2) * (1 + ulps * 2.0**-52),
        tie,
        st.integers(-1, 1),
    )
    drawn = draw(st.lists(st.one_of(free, near), min_size=1, max_size=6))
    with np.errstate(over="ignore"):
        values = np.array(drawn).astype(kind)
    return rules, np.where(np.isfinite(values), values, kind(1))


@settings(max_examples=600, deadline=None, derandomize=True)
@given(numbers())
def test_quantize_is_the_rule_on_exact_numbers(drawn):
    rules, values = drawn
    codes, scales = quantize(
        values, block=len(values), scale_format=rules.scale_format, code_bits=rules.code_bits,
        e8m0_rule=rules.e8m0_rule,
    )  # fmt: skip
    want, bits, _ = exact_inq.requantize([Fraction(float(v)) for v in values], rules)
    assert codes.tolist() == want
    assert scales.tolist() == [bits]
    assert scales.dtype == dtype(rules)


@pytest.mark.parametrize("name", FORMATS)
def test_quantize_tells_a_half_from_the_float64_numbers_next_to_it(name):
    """Every half of a step, for scales of all significands, from just below to just above."""
    rules = Rules(name)
    binade = 1 if name == "e8m0" else 1 << exact.WIDTHS[name][1]
    base = {"fp16": 0x3C00, "bf16": 0x3F80, "e8m0": 127}[name]
    step = scale_values(np.arange(base, base + binade), name)[:, None]
    odd = 2 * np.arange(127) + 1.0
    half = odd / 2 * step
    whole = np.broadcast_to(np.arange(127), half.shape)
    last = rules.last_code * step[:, 0]
    for values, want in (
        (np.nextafter(half, 0), whole),
        (half, whole + whole % 2),
        (np.nextafter(half, np.inf), whole + 1),
    ):
        values = np.concatenate([values, last[:, None]], axis=1)
        codes, scales = quantize(values, block=128, scale_format=name)
        assert np.array_equal(scales[:, 0], np.arange(base, base + binade))
        assert np.array_equal(codes[:, :-1], want)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_quantize_marks_a_block_that_is_not_finite(name, bad):
    values = np.ones((2, 6), np.float32)
    values[1, 3] = bad
    codes, scales = quantize(values, block=2, scale_format=name)
    assert scales[1, 1] == exact_inq.NAN[name]
    assert codes[1].tolist()[2:4] == [0, 0]
    assert (codes[0] != 0).all()
    back = dequantize(codes, scales, block=2, scale_format=name)
    assert np.isnan(back[1]).tolist() == [False, False, True, True, False, False]


@examples
@given(operands())
def test_dequantize_is_exact(drawn):
    rules, codes, scales = drawn
    values = dequantize(
        np.array(codes, np.int8), np.array(scales, dtype(rules))[:, None], block=len(codes[0]),
        scale_format=rules.scale_format, code_bits=rules.code_bits,
    )  # fmt: skip
    for row, bits, got in zip(codes, scales, values, strict=True):
        assert [Fraction(v) for v in got] == [code * rules.step(bits) for code in row]


def test_scale_values_are_numpys():
    every = np.arange(0x7C00, dtype=np.uint16)
    assert np.array_equal(scale_values(every), every.view(np.float16).astype(np.float64))
    every = np.arange(0x7F80, dtype=np.uint16)
    want = every.view(ml_dtypes.bfloat16).astype(np.float64)
    assert np.array_equal(scale_values(every, "bf16"), want)
    every = np.arange(0xFF, dtype=np.uint8)
    want = every.view(ml_dtypes.float8_e8m0fnu).astype(np.float64) / 64
    assert np.array_equal(scale_values(every, "e8m0"), want)


def test_float16_scales_are_taken():
    codes = np.array([[3, 4], [5, 6]], np.int8)
    bits = np.array([[0x3C00], [0x4000]], np.uint16)
    taken = all_reduce_inq(codes, bits.view(np.float16), block=2)
    for got, want in zip(taken[:2], all_reduce_inq(codes, bits, block=2)[:2], strict=True):
        assert np.array_equal(got, want)


def test_no_codes():
    for name in FORMATS:
        scales = np.zeros((3, 0), np.uint8 if name == "e8m0" else np.uint16)
        codes, new, status = all_reduce_inq(np.zeros((3, 0), np.int8), scales, scale_format=name)
        assert codes.shape == new.shape == status.nan.shape == (0,)


# What it refuses


GOOD = dict(codes=np.zeros((2, 130), np.int8), scales=np.zeros((2, 3), np.uint16))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(codes=np.zeros((2, 130), np.uint8)), "codes: must be int8, not uint8"),
        (dict(codes=np.zeros(130, np.int8)), "codes: must have the shape (ranks, codes)"),
        (dict(codes=np.zeros((17, 130), np.int8)), "1 to 16 ranks, not (17, 130)"),
        (dict(codes=np.full((2, 130), 8, np.int8), code_bits=4), "codes: must be -8..7, not 8"),
        (dict(codes=np.full((2, 130), -9, np.int8), code_bits=4), "codes: must be -8..7, not -9"),
        (dict(scales=np.zeros((2, 3), np.uint8)), "scales: must be uint16, not uint8"),
        (dict(scale_format="e8m0"), "scales: must be uint8, not uint16"),
        (
            dict(scales=np.zeros((2, 3), np.float16), scale_format="bf16"),
            "scales: must be uint16, not float16",
        ),
        (
            dict(scales=np.zeros((2, 2), np.uint16)),
            "scales: must have the shape (2, 3) for codes (2, 130) and block 64, not (2, 2)",
        ),
        (dict(block=0), "block: must be 1 or more, not 0"),
        (dict(scale_format="fp8"), "scale_format: must be one of fp16, bf16, e8m0, not 'fp8'"),
        (dict(code_bits=5), "code_bits: must be 8 or 4, not 5"),
        (dict(e8m0_rule="even"), "e8m0_rule: must be one of ceil, floor, not 'even'"),
    ],
)
def test_refuses(wrong, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        all_reduce_inq(**(GOOD | wrong))


def test_quantize_refuses_whole_numbers():
    with pytest.raises(ValueError, match="values: must be float16, float32 or float64, not int64"):
        quantize(np.arange(3))
