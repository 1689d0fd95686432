"""The committed activations and their loader. Nothing here needs the model."""

import hashlib
import re

import ml_dtypes
import numpy as np
import pytest

from sim import activations

TOTAL = 13824
MAX_BYTES = 1 << 20


@pytest.fixture(scope="module")
def stored():
    with np.load(activations.FILE, allow_pickle=False) as file:
        return file["partials"].reshape(activations.PARTS, -1)


def test_file_is_small_and_is_the_one_its_provenance_names():
    content = activations.FILE.read_bytes()
    record = activations.provenance()
    assert len(content) <= MAX_BYTES
    assert hashlib.sha256(content).hexdigest() == record["file_sha256"]
    with np.load(activations.FILE, allow_pickle=False) as file:
        assert file.files == [record["array"]["name"]]
        partials = file["partials"]
    assert list(partials.shape) == record["array"]["shape"]
    assert partials.dtype == record["array"]["dtype"]
    assert partials.shape[1] == len(record["places"]) == 2 * len(record["layers"])
    assert partials.shape[2] == len(record["positions"])
    assert len(record["model"]["file_sha256"]) == len(record["text"]["topic_sha256"]) == 64
    assert max(record["positions"]) < len(record["tokens"])


def test_values_are_finite_and_so_are_their_fp16_sums(stored):
    assert np.isfinite(stored).all()
    assert np.abs(stored.sum(axis=0)).max() < 65520
    assert len(np.unique(stored)) > stored.size // 2


@pytest.mark.parametrize("ranks", range(1, 17))
def test_ranks_hold_contiguous_parts_as_evenly_as_possible(stored, ranks):
    grouped = activations.partial_sums(ranks, TOTAL)
    assert grouped.shape == (ranks, TOTAL)
    assert grouped.dtype == np.float32
    part, sizes = 0, []
    for rank in range(ranks):
        for last in range(part + 1, activations.PARTS + 1):
            total = stored[part].copy()
            for each in stored[part + 1 : last]:
                total += each
            if np.array_equal(total, grouped[rank]):
                break
        else:
            pytest.fail(f"rank {rank} is no sum of parts from {part}")
        sizes.append(last - part)
        part = last
    assert part == activations.PARTS
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("name", "dtype"), [("fp16", np.float16), ("bf16", ml_dtypes.bfloat16)], ids=["fp16", "bf16"]
)
def test_rounds_once_after_adding(stored, name, dtype):
    bits = activations.load(8, TOTAL, name)
    assert bits.shape == (8, TOTAL)
    assert bits.dtype == np.uint16
    pairs = stored[0::2] + stored[1::2]
    np.testing.assert_array_equal(bits, pairs.astype(dtype).view(np.uint16))
    rounded_first = (stored[0::2].astype(dtype) + stored[1::2].astype(dtype)).view(np.uint16)
    assert (bits != rounded_first).any()


def test_rounding_is_to_nearest_even():
    ties = np.array([1 + 2**-11, 1 + 3 * 2**-11, -(1 + 2**-11), 65519, 65520, -0.0], np.float32)
    expected = [0x3C00, 0x3C02, 0xBC00, 0x7BFF, 0x7C00, 0x8000]
    assert activations.round_once(ties, "fp16").tolist() == expected
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8), -0.0], np.float32)
    assert activations.round_once(ties, "bf16").tolist() == [0x3F80, 0x3F82, 0xBF80, 0x8000]


@pytest.mark.parametrize("elements", [0, 1, 8192, TOTAL, TOTAL + 1, 3 * TOTAL + 5])
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_repeats_what_it_holds(elements, seed):
    once = activations.load(4, TOTAL, "fp16", seed)
    bits = activations.load(4, elements, "fp16", seed)
    assert bits.shape == (4, elements)
    np.testing.assert_array_equal(bits, once[:, np.arange(elements) % TOTAL])


def test_seeds_rotate_by_whole_blocks_to_different_starts():
    first = activations.partial_sums(2, TOTAL, 0)
    starts = set()
    for seed in range(TOTAL // activations.ROTATION_STEP):
        rotated = activations.partial_sums(2, TOTAL, seed)
        (start,) = [
            start
            for start in range(0, TOTAL, activations.ROTATION_STEP)
            if np.array_equal(np.roll(first, -start, axis=1), rotated)
        ]
        assert (start == 0) == (seed == 0)
        starts.add(start)
    assert len(starts) == TOTAL // activations.ROTATION_STEP


def test_result_is_a_copy():
    before = activations.load(4, 16, "fp16")
    activations.load(4, 16, "fp16")[:] = 0
    activations.partial_sums(4, 16)[:] = 0
    np.testing.assert_array_equal(activations.load(4, 16, "fp16"), before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 8, "fp16"), "ranks: must be 1..16, not 0"),
        ((17, 8, "fp16"), "ranks: must be 1..16, not 17"),
        ((4, -1, "fp16"), "elements: must be 0 or more, not -1"),
        ((4, 8, "fp32"), "format: must be one of fp16, bf16, not 'fp32'"),
    ],
)
def test_bad_parameters_are_named(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        activations.load(*arguments)
