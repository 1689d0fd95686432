"""The command `python -m sim.accuracy`: methods, errors, scores, claims, cache, arguments."""

import hashlib
import json

import numpy as np
import pytest

from sim.accuracy import perplexity, text
from sim.accuracy.__main__ import main
from sim.accuracy.cache import Cache, meaning_of_sources
from sim.accuracy.comparison import (
    CLAIM_WINDOWS,
    model_methods,
    model_rows,
    order_rows,
)
from sim.accuracy.methods import Method, exact_sum
from sim.accuracy.perplexity import REFERENCE, Scores, score, score_windows
from sim.accuracy.tensor import DATA, Sweep, errors, tensor_rows
from sim.golden import all_reduce_inq, all_reduce_sum, dequantize, quantize
from sim.llm import Model, ModelMissing, gguf_file
from tests.sim.test_llm import _write_small_model

SEED = 4


def operands(ranks=5, n=1000):
    random = np.random.default_rng(SEED)
    return (random.standard_t(3, (ranks, n)) * 10).astype(np.float16)


# -- methods ------------------------------------------------------------------------------------


def test_fp16_is_the_golden_sum():
    got = Method("fp16")(operands()).values
    want, _ = all_reduce_sum(operands().view(np.uint16), "fp16")
    assert np.array_equal(got, want.view(np.float16).astype(np.float64))


def test_fp16_sequential_rounds_each_sum():
    # 2048 + 1 is a tie that goes down, twice; the exact 2050 is a number.
    column = np.array([[2048], [1], [1]], np.float16)
    assert Method("fp16_sequential")(column).values.tolist() == [2048]
    assert Method("fp16")(column).values.tolist() == [2050]


@pytest.mark.parametrize("scale_format", ["fp16", "bf16", "e8m0"])
def test_inq_is_the_golden_model_between_quantize_and_dequantize(scale_format):
    method = Method("inq", 8, 64, scale_format)
    result = method(operands())
    codes, scales = quantize(operands(), scale_format=scale_format)
    added = dequantize(codes, scales, scale_format=scale_format).sum(axis=0)
    codes, scales, _ = all_reduce_inq(codes, scales, scale_format=scale_format)
    assert np.array_equal(result.values, dequantize(codes, scales, scale_format=scale_format))
    assert np.array_equal(result.operands_sum, added)
    assert np.array_equal(result.values, codes * result.steps)


def test_inq_quantizes_the_exact_sum_once():
    """With fp16 scales float64 holds the sum exactly: requantizing it is the switch."""
    result = Method("inq", 8, 64)(operands())
    again = dequantize(*quantize(result.operands_sum))
    assert np.array_equal(result.values, again)


@pytest.mark.parametrize("ranks", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 64, 1000])
def test_ring_goes_around_chunk_by_chunk(ranks, n):
    values = operands(ranks, n)
    got = Method("ring", 8, 64)(values).values
    blocks = -(-n // 64)
    for block in range(blocks):
        part = slice(64 * block, min(64 * block + 64, n))
        rank = block * ranks // blocks
        total = values[rank, part].astype(np.float32)
        for _ in range(ranks - 1):
            rank = (rank + 1) % ranks
            total = dequantize(*quantize(total)).astype(np.float32) + values[rank, part]
        assert np.array_equal(got[part], dequantize(*quantize(total)))


def test_output_only_is_within_half_a_step():
    found = errors(Method("output", 8, 64)(operands()), operands())
    assert 0.4 < found["largest_error_steps"] <= 0.5


# -- errors of tensors --------------------------------------------------------------------------


def test_errors_of_known_numbers():
    values = np.array([[3, 1], [4, 0]], np.float16)  # exact: 7, 1

    class Result:
        values = np.array([8.0, 1.0])
        steps = np.array([2.0, 0.0])
        operands_sum = np.array([7.5, 1.0])

    found = errors(Result, values)
    assert found["relative_error"] == pytest.approx(1 / np.sqrt(50))
    assert found["sqnr_db"] == pytest.approx(10 * np.log10(50))
    assert found["largest_error"] == pytest.approx(1 / 7)
    assert found["cosine"] == pytest.approx(57 / np.sqrt(50 * 65))
    assert found["largest_error_steps"] == 0.5
    assert found["rounding_steps"] == 0.25


def test_no_error_has_no_ratio():
    values = np.array([[1, 2], [3, 4]], np.float16)
    found = errors(Method("fp32")(values), values)
    assert found["sqnr_db"] is None
    assert found["relative_error"] == 0
    assert found["largest_error_steps"] is None


@pytest.fixture(scope="module")
def rows():
    return tensor_rows(Sweep(ranks=(2, 8, 16), blocks=(64,), elements=1 << 15))


def find(rows, **what):
    (row,) = [row for row in rows if all(row[name] == value for name, value in what.items())]
    return row


@pytest.mark.parametrize(
    ("method", "block", "ranks", "decibels"),
    [
        ("inq8", 64, 8, 41.5),
        ("ring8", 64, 8, 38.0),
        ("output8", 64, 8, 44.6),
        ("fp16_sequential", None, 8, 66.7),
        ("fp16_sequential", None, 16, 64.0),
        ("inq8", 64, 16, 41.5),
    ],
)
def test_gaussian_is_as_calculated_elsewhere(rows, method, block, ranks, decibels):
    """docs/accuracy.md has the figures of a calculation written apart from this code."""
    row = find(rows, data="gaussian", method=method, block=block, ranks=ranks)
    assert row["sqnr_db"] == pytest.approx(decibels, abs=0.15)


def test_inq_rounds_within_half_a_step_of_what_it_was_given(rows):
    of_inq = [row for row in rows if row["method"] == "inq8"]
    assert len(of_inq) == 3 * len(DATA)
    assert all(0.4 < row["rounding_steps"] <= 0.5 for row in of_inq)


def test_rows_have_their_keys_and_are_the_same_each_time(rows):
    assert {"data", "block", "ranks", "method", "sqnr_db", "relative_error", "largest_error",
            "largest_error_steps", "rounding_steps", "cosine"} == set(rows[0])  # fmt: skip
    assert {row["data"] for row in rows} == set(DATA)
    assert tensor_rows(Sweep(ranks=(2, 8, 16), blocks=(64,), elements=1 << 15)) == rows


def test_later_tokens_leave_the_massive_activations_out():
    kinds = ("activations", "activations, later tokens")
    of_all, later = (DATA[kind](None, 8, 0) for kind in kinds)
    assert later.shape == (8, of_all.shape[1] * 3 // 4)
    sums = [np.abs(exact_sum(values.astype(np.float16))).max() for values in (of_all, later)]
    assert sums[0] > 1000 > 200 > sums[1]


# -- scores -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-3, 1])
def test_score_is_surprise_and_divergence(size):
    random = np.random.default_rng(SEED)
    reference = random.normal(size=(40, 300)) * 3
    logits = reference + random.normal(size=(40, 300)) * size
    targets = random.integers(0, 300, 40)
    found = score(logits.astype(np.float32), reference.astype(np.float32), targets)
    p, q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (reference, logits))
    np.testing.assert_allclose(found["surprise"], -np.log(q[np.arange(40), targets]), atol=1e-5)
    want = (p * np.log(p / q)).sum(axis=1)
    np.testing.assert_allclose(found["divergence"], want, rtol=1e-3)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.gguf"
    _write_small_model(path)
    return Model.load(path)


WINDOWS = np.random.default_rng(SEED).integers(0, 250, (3, 12))
METHODS = [REFERENCE, Method("fp32"), Method("inq", 8, 64), Method("inq", 4, 64)]


def test_fewer_bits_diverge_more(small):
    scores = score_windows(small, "", WINDOWS, METHODS, Cache(None))
    fp16, fp32, inq8, inq4 = (scores[method].divergence.mean() for method in METHODS)
    assert scores[REFERENCE].surprise.shape == (3, 11)
    assert fp16 == 0 < fp32 < inq8 / 30 < inq4 / 100


def test_what_is_cached_is_not_computed_again(small, tmp_path, monkeypatch):
    runs = []
    forward = perplexity._logits

    def counted(model, tokens, method):
        runs.append(method)
        return forward(model, tokens, method)

    monkeypatch.setattr(perplexity, "_logits", counted)
    cache = Cache(tmp_path)
    some = score_windows(small, "", WINDOWS[:2], METHODS[:3], cache)
    assert len(runs) == 6
    runs.clear()
    # One window and one method more: the reference is computed again, to compare with.
    scores = score_windows(small, "", WINDOWS, METHODS, cache)
    assert len(runs) == 2 * 2 + 4
    for method, own in some.items():
        np.testing.assert_array_equal(own.surprise, scores[method].surprise[:2])
    runs.clear()
    again = score_windows(small, "", WINDOWS, METHODS, cache)
    assert not runs
    for method in METHODS:
        np.testing.assert_array_equal(again[method].divergence, scores[method].divergence)
    score_windows(small, "another model", WINDOWS[:1], METHODS[:1], cache)
    assert len(runs) == 1


def test_cached_scores_follow_from_code_and_not_from_its_comments(tmp_path, monkeypatch):
    monkeypatch.setattr("sim.accuracy.cache.SIM", tmp_path)

    def meaning(source):
        (tmp_path / "a.py").write_text(source)
        meaning_of_sources.cache_clear()
        return meaning_of_sources("a.py")

    plain = meaning('"""One."""\ndef f(x):\n    """Two."""\n    return x + 1\n')
    same = meaning('"""Other."""\n\n\ndef f(x):  # a comment\n    """Words."""\n    return x + 1\n')
    other = meaning('"""One."""\ndef f(x):\n    """Two."""\n    return x + 2\n')
    meaning_of_sources.cache_clear()
    assert plain == same != other


# -- claims -------------------------------------------------------------------------------------


def made_up(shift, spread, windows=CLAIM_WINDOWS):
    """Scores of a reference, INQ, and a ring whose surprise differs from INQ's as told."""
    random = np.random.default_rng(SEED)
    base = random.normal(2, 1, (windows, 50))
    each = random.normal(size=windows)
    each = (each - each.mean()) / max(each.std(ddof=1), 1e-9) * spread * np.sqrt(windows) + shift
    zero = np.zeros_like(base)
    return {
        REFERENCE: Scores(base, zero),
        Method("inq", 8, 64): Scores(base, zero + 1),
        Method("ring", 8, 64): Scores(base + each[:, None], zero + 1),
    }


@pytest.mark.parametrize(
    ("shift", "order"), [(2.1e-3, "inq"), (1.9e-3, None), (-1.9e-3, None), (-2.1e-3, "ring")]
)
def test_an_order_is_claimed_beyond_two_standard_errors(shift, order):
    (row,) = order_rows(made_up(shift, 1e-3))
    assert row["order"] == order
    assert row["nats"] == pytest.approx(-shift)
    assert row["nats_stderr"] == pytest.approx(1e-3)
    assert row["kl_order"] is None


def test_no_order_is_claimed_of_few_texts():
    (row,) = order_rows(made_up(1.0, 1e-3, windows=CLAIM_WINDOWS - 1))
    assert row["order"] is None


def test_model_rows_compare_with_the_reference():
    scores = made_up(0.01, 1e-3)
    reference, _, ring = model_rows(scores)
    base = np.exp(scores[REFERENCE].surprise.mean())
    assert reference == {
        "method": "fp16", "bits": 16, "block": None, "scale_format": None, "perplexity": base,
        "delta": 0, "stderr": 0, "nats": 0, "nats_stderr": 0, "kl": 0, "kl_stderr": 0,
    }  # fmt: skip
    assert ring["perplexity"] == pytest.approx(base * np.exp(0.01))
    assert ring["delta"] == pytest.approx(ring["perplexity"] - base)
    assert ring["stderr"] == pytest.approx(1e-3 * ring["perplexity"])
    assert (ring["method"], ring["bits"], ring["block"]) == ("ring", 8, 64)


def test_the_table_has_every_method_once():
    methods = model_methods((32, 64, 128, 256, 512))
    assert len(set(methods)) == len(methods) == 26
    assert methods[0] == REFERENCE
    for bits in (8, 4):
        for block in (32, 64, 128, 256, 512):
            assert {Method("inq", bits, block), Method("ring", bits, block)} <= set(methods)


# -- the text -----------------------------------------------------------------------------------


def test_text_is_the_one_whose_provenance_is_stated():
    digest = hashlib.sha256(text.FILE.read_bytes()).hexdigest()
    assert text.provenance()["file_sha256"] == digest
    assert text.provenance()["license"].startswith("PSF-2.0")


def test_text_too_short_is_refused(small):
    with pytest.raises(ValueError, match=r"tokens: must be at most the text's \d+, not 10000000"):
        text.windows(small, 1000, 10_000)


# -- the command --------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shrot"], "option: must be one of"),
        (["--only", "tensors"], "only: must be one of tensor, model"),
        (["--json", "."], "json: must be a file that can be written (Is a directory), not '.'"),
        (["--json"], "json: expected one argument"),
        (["--short=1"], "short: ignored explicit argument '1'"),
    ],
)
def test_a_bad_argument_is_one_line(capsys, arguments, message):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1


def test_missing_model_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(gguf_file, "PACKAGE", "no-such-model")
    assert main(["--short", "--only", "model"]) == 2
    message = "error: model: no-such-model is not installed; run `make model`\n"
    assert capsys.readouterr().err == message


def test_tensors_alone_need_no_model(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(gguf_file, "PACKAGE", "no-such-model")
    assert main(["--short", "--only", "tensor", "--json", "out/report.json"]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert "model" not in report
    assert {row["method"] for row in report["tensor"]} >= {"inq8", "ring8", "mxint8", "fp16"}
    assert "Signal to quantization noise" in capsys.readouterr().out


def test_short_run_of_the_real_model(capsys):
    try:
        gguf_file.installed_model()
    except ModelMissing as error:
        pytest.skip(str(error))
    assert main(["--short", "--json", "-"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["short"] is True
    assert report["source"]["predictions"] == 126
    assert report["source"]["ranks"] == 8
    found = {(row["method"], row["bits"]): row for row in report["model"]}
    assert set(found) == {("fp16", 16), ("inq", 8), ("ring", 8), ("inq", 4), ("ring", 4)}
    for row in report["model"]:
        assert {"perplexity", "delta", "stderr", "kl", "block"} <= set(row)
    assert 5 < found["fp16", 16]["perplexity"] < 100
    assert 0 < found["inq", 8]["kl"] < 0.1 < found["inq", 4]["kl"] < found["ring", 4]["kl"]
    assert all(row["order"] is None for row in report["orders"])
    assert "INQ less ring" in captured.err
