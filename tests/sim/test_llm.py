"""The numpy model: its parts on a small random model, and the real one where it is installed."""

import json
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
from tokenizers.pre_tokenizers import ByteLevel

from sim import activations
from sim.llm import Model, ModelMissing, gguf_file
from sim.llm.attention import Rotation, attend
from sim.llm.capture import NOISE, capture, noise
from sim.llm.parallel import bounds, partial_sums

ROOT = Path(__file__).parents[2]
SEED = 20260
LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD = 2, 64, 96, 4, 2, 16
CONTROL, NORMAL = 3, 1


def _write_small_model(path, pre_tokenizer="smollm"):
    """A random model with every field and tensor of the real one, in the same file format."""
    random = np.random.default_rng(SEED)
    letters = sorted(ByteLevel.alphabet())
    tokens = ["<|end|>", *letters, "ab", "abc"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD)
    writer.add_context_length(32)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_tokenizer)
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL] + [NORMAL] * (len(tokens) - 1))
    writer.add_token_merges(["a b", "ab c"])

    def tensor(name, *shape):
        values = random.normal(size=shape).astype(np.float32) / np.float32(np.sqrt(shape[-1]))
        writer.add_tensor(f"{name}.weight", values)

    def gain(name):
        writer.add_tensor(f"{name}.weight", random.uniform(0.5, 1.5, HIDDEN).astype(np.float32))

    # One tensor is stored quantized, so that reading dequantizes.
    embedding = random.normal(size=(len(tokens), HIDDEN)).astype(np.float32)
    kind = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor("token_embd.weight", gguf.quantize(embedding, kind), raw_dtype=kind)
    gain("output_norm")
    for layer in range(LAYERS):
        gain(f"blk.{layer}.attn_norm")
        tensor(f"blk.{layer}.attn_q", HEADS * HEAD, HIDDEN)
        tensor(f"blk.{layer}.attn_k", KV_HEADS * HEAD, HIDDEN)
        tensor(f"blk.{layer}.attn_v", KV_HEADS * HEAD, HIDDEN)
        tensor(f"blk.{layer}.attn_output", HIDDEN, HEADS * HEAD)
        gain(f"blk.{layer}.ffn_norm")
        tensor(f"blk.{layer}.ffn_gate", FFN, HIDDEN)
        tensor(f"blk.{layer}.ffn_up", FFN, HIDDEN)
        tensor(f"blk.{layer}.ffn_down", HIDDEN, FFN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return embedding


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.gguf"
    embedding = _write_small_model(path)
    model = Model.load(path)
    # A Q8_0 code is 1/254 of its block's range at most away.
    error = np.abs(model.weights.embedding - embedding).max()
    assert 0 < error < np.abs(embedding).max() / 127
    return model


@pytest.fixture(scope="module")
def real():
    try:
        return Model.load()
    except ModelMissing as error:
        pytest.skip(str(error))


# -- parts, without the model -------------------------------------------------------------------


@pytest.mark.parametrize("length", [16, 17, 576])
@pytest.mark.parametrize("parts", range(1, 17))
def test_bounds_cover_evenly(length, parts):
    cuts = bounds(length, parts)
    assert [position for low, high in cuts for position in range(low, high)] == list(range(length))
    sizes = [high - low for low, high in cuts]
    assert len(sizes) == parts
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("parts", [0, 5])
def test_bounds_refuse_empty_parts(parts):
    with pytest.raises(ValueError, match=f"parts: must be 1..4, not {parts}"):
        bounds(4, parts)


@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_partial_sums_are_products_of_slices(ranks):
    random = np.random.default_rng(SEED)
    values = random.integers(-8, 8, (5, 24)).astype(np.float32)
    matrix = random.integers(-8, 8, (7, 24)).astype(np.float32)
    partials = partial_sums(values, matrix, ranks)
    assert partials.shape == (ranks, 5, 7)
    assert partials.dtype == np.float32
    # Small integers: float32 is exact, so the sums are equal and not just close.
    np.testing.assert_array_equal(partials.sum(axis=0), values @ matrix.T)
    size = 24 // ranks
    last = values[:, -size:] @ matrix[:, -size:].T
    np.testing.assert_array_equal(partials[-1], last)


def test_rotation_turns_neighbouring_pairs_by_position(small):
    sizes = small.weights.sizes
    random = np.random.default_rng(SEED)
    values = random.normal(size=(1, 9, HEAD)).astype(np.float32)
    rotated = Rotation(9, sizes)(values)
    pairs = values[0, :, 0::2] + 1j * values[0, :, 1::2]
    for pair in range(HEAD // 2):
        turn = np.exp(1j * np.arange(9) * sizes.rope_base ** (-2 * pair / HEAD))
        expected = pairs[:, pair] * turn
        np.testing.assert_allclose(rotated[0, :, 2 * pair], expected.real, atol=1e-6)
        np.testing.assert_allclose(rotated[0, :, 2 * pair + 1], expected.imag, atol=1e-6)


def test_attention_equals_plain_loops(small):
    sizes, layer = small.weights.sizes, small.weights.layers[0]
    tokens = 5
    values = np.random.default_rng(SEED).normal(size=(tokens, HIDDEN)).astype(np.float32)
    rotation = Rotation(tokens, sizes)

    def heads(matrix, count):
        return (values @ matrix.T).reshape(tokens, count, HEAD).transpose(1, 0, 2)

    query = rotation(heads(layer.attn_q, HEADS)).astype(np.float64)
    key = rotation(heads(layer.attn_k, KV_HEADS)).astype(np.float64)
    value = heads(layer.attn_v, KV_HEADS).astype(np.float64)
    expected = np.zeros((tokens, HEADS * HEAD))
    for head in range(HEADS):
        shared = head // (HEADS // KV_HEADS)
        for token in range(tokens):
            past = slice(0, token + 1)
            weight = np.exp(key[shared, past] @ query[head, token] / np.sqrt(HEAD))
            row = weight @ value[shared, past] / weight.sum()
            expected[token, head * HEAD : (head + 1) * HEAD] = row
    np.testing.assert_allclose(attend(values, layer, sizes, rotation), expected, atol=1e-5)


def test_later_tokens_change_nothing_earlier(small):
    before, after = small.hidden([1, 2, 3, 4]), small.hidden([1, 2, 3, 9])
    np.testing.assert_array_equal(before[:3], after[:3])
    assert (before[3] != after[3]).any()


@pytest.mark.parametrize("ranks", [1, 2, 7, 16])
def test_hook_gets_every_place_in_order_and_its_sum_is_used(small, ranks):
    seen = []

    def exact(partials, place):
        seen.append(place)
        assert partials.shape == (ranks, 3, HIDDEN)
        assert partials.dtype == np.float32
        return partials.sum(axis=0)

    hooked = small.hidden([5, 6, 7], ranks=ranks, all_reduce=exact)
    assert seen == [(layer, block) for layer in range(LAYERS) for block in ("attention", "ffn")]
    np.testing.assert_allclose(hooked, small.hidden([5, 6, 7]), atol=1e-5)


@pytest.mark.parametrize("place", [(0, "attention"), (LAYERS - 1, "ffn")])
def test_hook_reaches_the_output(small, place):
    def broken(partials, where):
        return partials.sum(axis=0) * np.float32(0 if where == place else 1)

    exact = small.hidden([5, 6, 7], ranks=2, all_reduce=lambda partials, _: partials.sum(axis=0))
    assert np.abs(small.hidden([5, 6, 7], ranks=2, all_reduce=broken) - exact).max() > 1e-2


@pytest.mark.parametrize("tokens", [[], [1] * 33])
def test_wrong_number_of_tokens_is_refused(small, tokens):
    with pytest.raises(ValueError, match=f"tokens: must be 1..32 of them, not {len(tokens)}"):
        small.hidden(tokens)


def test_tokenizer_merges_and_cuts_digits(small):
    pieces = [small.decode([token]) for token in small.encode("abcab 1234<|end|>é")]
    assert pieces[:2] == ["abc", "ab"]
    assert pieces[2:8] == [" ", "1", "2", "3", "4", "<|end|>"]
    assert small.decode(small.encode("abcab 1234<|end|>é")) == "abcab 1234<|end|>é"


def test_another_tokenizer_is_refused(tmp_path):
    _write_small_model(tmp_path / "other.gguf", pre_tokenizer="llama-bpe")
    with pytest.raises(ValueError, match=r"tokenizer.ggml.pre: must be 'smollm', not 'llama-bpe'"):
        Model.load(tmp_path / "other.gguf")


def test_capture_keeps_chosen_layers_and_positions(small):
    tokens, keep = [1, 2, 3, 4], [0, 3]
    kept = capture(small, tokens, layers=[1], keep=keep, parts=4)
    assert kept.shape == (4, 2, 2, HIDDEN)
    everything = {}

    def record(partials, place):
        everything[place] = partials
        return partials.sum(axis=0)

    small.hidden(tokens, ranks=4, all_reduce=record)
    np.testing.assert_array_equal(kept[:, 0], everything[1, "attention"][:, keep])
    np.testing.assert_array_equal(kept[:, 1], everything[1, "ffn"][:, keep])


def test_missing_model_names_the_command(monkeypatch):
    monkeypatch.setattr(gguf_file, "PACKAGE", "no-such-model")
    with pytest.raises(ModelMissing, match="no-such-model is not installed; run `make model`"):
        Model.load()


# -- the script ---------------------------------------------------------------------------------


def _script(*arguments):
    command = [sys.executable, "-m", "scripts.capture_activations", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_script_explains_itself():
    result = _script("--help")
    assert result.returncode == 0
    for option in ("--out", "--topic", "--layers", "--check"):
        assert option in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--topic", "objcts"],
            "topic: must be one that `pydoc topics` lists, not 'objcts'; did you mean 'objects'?",
        ),
        (["--layers", "a"], "layers: must be whole numbers and commas, not 'a'"),
        (["--out", "x.txt"], "out: must be an .npz file in a folder, not 'x.txt'"),
    ],
)
def test_script_refuses_bad_arguments_in_one_line(arguments, message):
    result = _script(*arguments)
    assert (result.returncode, result.stderr) == (2, message + "\n")


# -- the real model -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "continuation"),
    [("The capital of France is", " Paris"), ("Water freezes at zero degrees", " Celsius")],
)
@pytest.mark.parametrize("ranks", [1, 8])
def test_model_continues(real, prompt, continuation, ranks):
    token = real.next_token(
        real.encode(prompt), ranks=ranks, all_reduce=lambda partials, _: partials.sum(axis=0)
    )
    assert real.decode([token]) == continuation


def test_installed_model_is_the_one_of_the_provenance(real):
    path, version = gguf_file.installed_model()
    model = activations.provenance()["model"]
    assert path.name == model["file"]
    assert version == model["package_version"]
    assert gguf_file.sha256_of(path) == model["file_sha256"]


def test_script_writes_the_file_and_its_provenance(real, tmp_path):
    out = tmp_path / "made.npz"
    result = _script("--out", str(out))
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.json", "made.npz"]
    assert f"{out.stat().st_size} bytes, 16 parts of 13824 elements" in result.stdout
    record = json.loads(out.with_suffix(".json").read_text())
    assert record["file_sha256"] == gguf_file.sha256_of(out)
    committed = activations.provenance()
    assert record["array"] == committed["array"]
    assert record["model"] == committed["model"]
    # The text is that of the running Python, so its tokens are compared for the same text only.
    if record["text"]["topic_sha256"] == committed["text"]["topic_sha256"]:
        assert record["tokens"] == committed["tokens"]


def test_script_checks_the_committed_file(real):
    result = _script("--check")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("activations.npz: equal within 0.0001,")


@pytest.fixture(scope="module")
def again(real):
    """The committed activations, captured again from the tokens that the provenance names."""
    record = activations.provenance()
    return capture(
        real,
        record["tokens"],
        layers=record["layers"],
        keep=record["positions"],
        parts=activations.PARTS,
    )


def test_committed_activations_can_be_captured_again(again):
    with np.load(activations.FILE, allow_pickle=False) as file:
        committed = file["partials"]
    assert noise(again, committed) <= NOISE


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_comparison_sees_swapped_parts_places_and_tokens(again, axis):
    assert noise(np.roll(again, 1, axis=axis), again) > NOISE


def test_comparison_sees_values_rounded_to_fp16(again):
    rounded = again.astype(np.float16).astype(np.float32)
    assert noise(rounded, again) > NOISE
