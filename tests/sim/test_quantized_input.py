"""Quantized operands of the command: formats of presets, default input, files."""

import numpy as np
import pytest

from hdl.config import PRESETS, SwitchConfig
from sim import activations
from sim.cli.arguments import DTYPES, parse
from sim.cli.errors import UsageError
from sim.cli.operands import Activations, RandomInput
from sim.cli.quantized_file import load_codes
from sim.golden import dequantize
from sim.quantized import Quantized

CONFIG = SwitchConfig.preset("tiny", ranks=2, block=32, formats=("inq8",))


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def save(path, **arrays):
    np.savez(path, **arrays)
    return str(path)


# -- formats of the configuration ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_gets_the_format_that_it_lacks(preset, dtype):
    before = SwitchConfig.preset(preset)
    options = parse(["--config", preset, "--dtype", dtype])
    assert options.preset == preset
    if dtype in before.formats:
        assert (options.config, options.added) == (before, None)
        return
    formats = (*before.formats, dtype)
    assert options.config == SwitchConfig.preset(preset, formats=formats)
    assert options.config.digest != before.digest
    assert options.added == (
        f"formats: {dtype} added to those of {preset} ({', '.join(before.formats)})"
    )


def test_other_settings_stay():
    options = parse(["--config", "arty", "--dtype", "inq8", "--set", "inq_reducer=shared"])
    assert options.config == SwitchConfig.preset(
        "arty", formats=("fp16", "inq8"), inq_reducer="shared"
    )


def test_formats_that_were_asked_for_stay(tmp_path):
    (tmp_path / "my.json").write_text(SwitchConfig.preset("arty").to_json())
    for source in (["--config", "my.json"], ["--config", "arty", "--set", "formats=fp16"]):
        for dtype in ("bf16", "inq8"):
            with pytest.raises(
                UsageError,
                match=rf"^dtype: must be one of .*formats \(fp16\), not '{dtype}'$",
            ):
                parse([*source, "--dtype", dtype])
    options = parse(["--config", "my.json", "--set", "formats=fp16,inq8", "--dtype", "inq8"])
    assert (options.preset, options.added) == (None, None)


# -- sizes --------------------------------------------------------------------------------------


def test_bytes_are_codes_and_any_number_of_them():
    assert parse(["--dtype", "inq8"]).sizes == (16384,)
    assert parse(["--dtype", "inq8", "--bytes", "0,1,63,65"]).sizes == (0, 1, 63, 65)
    tiny = ["--config", "tiny", "--dtype", "inq8"]
    assert parse(tiny).sizes == (61 * 256,)  # and 488 bytes of scales, beside the flag
    assert parse([*tiny, "--out-of-place"]).sizes == (30 * 256,)


# -- generated input ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [{}, dict(scale_format="bf16", block=64), dict(scale_format="e8m0", e8m0_rule="floor")],
)
def test_activations_and_random_numbers_are_quantized_once(changes):
    config = CONFIG.replace(**changes)
    values = activations.partial_sums(2, 200, 3)
    found = Activations().operands(config, 200, "inq8", 3)
    for part, want in zip((found.codes, found.scales), quantized(values, config), strict=True):
        np.testing.assert_array_equal(part, want)
    values = np.random.default_rng([5, 1]).standard_normal((2, 200), dtype=np.float32)
    found = RandomInput(5).operands(config, 200, "inq8", 1)
    for part, want in zip((found.codes, found.scales), quantized(values, config), strict=True):
        np.testing.assert_array_equal(part, want)
    # Within half a step, or a whole one where the floor rule lets codes saturate.
    back = dequantize(
        found.codes, found.scales, block=config.block, scale_format=config.scale_format
    )
    largest = np.abs(values).max()
    assert np.abs(back - values).max() <= largest / 64


def quantized(values, config):
    """By the definition of the operands, rank by rank and block by block."""
    parts = [
        [
            Quantized.of(values[rank : rank + 1, low : low + config.block], config)
            for low in range(0, values.shape[1], config.block)
        ]
        for rank in range(len(values))
    ]
    return (
        np.stack([np.concatenate([part.codes[0] for part in row]) for row in parts]),
        np.stack([np.concatenate([part.scales[0] for part in row]) for row in parts]),
    )


def test_every_repetition_has_other_codes(tmp_path):
    path = save(tmp_path / "x.npz", **arrays(n=100))
    for source in (Activations(), RandomInput(3), load_codes(path, CONFIG)):
        first, again, second = (source.operands(CONFIG, 70, "inq8", run) for run in (0, 0, 1))
        np.testing.assert_array_equal(first.codes, again.codes)
        np.testing.assert_array_equal(first.scales, again.scales)
        assert (first.codes != second.codes).any()


# -- files --------------------------------------------------------------------------------------


def arrays(n=100, block=32, ranks=2, dtype=np.float16):
    """Codes and scales that tell where they come from."""
    codes = np.arange(ranks * n).reshape(ranks, n) % 251 - 125
    scales = np.arange(1, ranks * -(-n // block) + 1).reshape(ranks, -1)
    return dict(codes=codes.astype(np.int8), scales=scales.astype(dtype))


@pytest.mark.parametrize(
    ("scale_format", "dtype", "bits"),
    [("fp16", np.float16, np.uint16), ("bf16", np.uint16, None), ("e8m0", np.uint8, None)],
)
def test_a_file_is_taken_as_it_is(tmp_path, scale_format, dtype, bits):
    config = CONFIG.replace(scale_format=scale_format)
    given = arrays(dtype=dtype)
    source = load_codes(save(tmp_path / "x.npz", **given), config)
    found = source.operands(config, 100, "inq8", 0)
    np.testing.assert_array_equal(found.codes, given["codes"])
    np.testing.assert_array_equal(found.scales, given["scales"].view(bits or dtype))
    assert found.codes.dtype == np.int8
    assert found.scales.dtype == (bits or dtype)
    assert source.elements == 100
    arguments = ["--config", "tiny", "--input", "x.npz", "--dtype", "inq8"]
    for setting in ("ranks=2", "block=32", f"scale_format={scale_format}"):
        arguments += ["--set", setting]
    assert parse(arguments).sizes == (100,)


def test_nan_negative_and_infinite_scales_are_scales(tmp_path):
    given = arrays()
    given["scales"][0] = [np.nan, np.inf, -1, -0.0]
    found = load_codes(save(tmp_path / "x.npz", **given), CONFIG).operands(CONFIG, 100, "inq8", 0)
    np.testing.assert_array_equal(found.scales, given["scales"].view(np.uint16))


def test_the_order_of_bytes_and_of_axes_does_not_matter(tmp_path):
    given = arrays()
    path = save(
        tmp_path / "x.npz",
        codes=np.asfortranarray(given["codes"]),
        scales=np.asfortranarray(given["scales"].astype(">f2")),
    )
    found = load_codes(path, CONFIG).operands(CONFIG, 100, "inq8", 0)
    np.testing.assert_array_equal(found.codes, given["codes"])
    np.testing.assert_array_equal(found.scales, given["scales"].view(np.uint16))


@pytest.mark.parametrize("n", [5, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("run", [0, 1, 2, 40])
def test_codes_keep_their_scales_however_often_they_are_repeated(tmp_path, n, run):
    """Each value is one of those that the file has in some block, and in order."""
    given = arrays(n=n)
    source = load_codes(save(tmp_path / "x.npz", **given), CONFIG)
    elements = 5 * n + 77
    found = source.operands(CONFIG, elements, "inq8", run)
    assert found.codes.shape == (2, elements)
    assert found.scales.shape == (2, -(-elements // 32))
    count = given["scales"].shape[1]
    for rank in range(2):
        for block in range(found.scales.shape[1]):
            origin = (block + run) % count
            scale = given["scales"].view(np.uint16)[rank, origin]
            assert found.scales[rank, block] == scale
            of_it = given["codes"][rank, 32 * origin : 32 * origin + 32]
            here = found.codes[rank, 32 * block : 32 * block + 32]
            filled = np.tile(of_it, 32)[:32]
            np.testing.assert_array_equal(here, np.roll(filled, -run)[: len(here)])


def test_no_codes(tmp_path):
    given = arrays(n=0)
    found = load_codes(save(tmp_path / "x.npz", **given), CONFIG).operands(CONFIG, 0, "inq8", 2)
    assert (found.codes.shape, found.scales.shape) == ((2, 0), (2, 0))


CODES = np.zeros((2, 70), np.int8)
SCALES = np.zeros((2, 3), np.float16)


@pytest.mark.parametrize(
    ("scale_format", "given", "message"),
    [
        (
            "fp16",
            dict(data=np.zeros((2, 4), np.float32)),
            "must hold the keys 'codes' and 'scales' for inq8, not only: data",
        ),
        ("fp16", dict(codes=CODES), "must hold the keys .* not only: codes"),
        ("fp16", {}, "must hold the keys .* not only: none"),
        ("fp16", dict(codes=CODES.view("u1"), scales=SCALES), "codes must be int8, not uint8"),
        ("fp16", dict(codes=CODES * 1.0, scales=SCALES), "codes must be int8, not float64"),
        (
            "fp16",
            dict(codes=CODES[0], scales=SCALES),
            r"codes must have the shape \(2 ranks, codes\), not \(70,\)",
        ),
        (
            "fp16",
            dict(codes=np.zeros((3, 70), np.int8), scales=SCALES),
            r"codes must have the shape \(2 ranks, codes\), not \(3, 70\)",
        ),
        (
            "fp16",
            dict(codes=CODES, scales=SCALES.astype(np.float32)),
            "scales must be float16 where scale_format is fp16, not float32",
        ),
        (
            "fp16",
            dict(codes=CODES, scales=SCALES.view(np.uint16)),
            "scales must be float16 where scale_format is fp16, not uint16",
        ),
        (
            "bf16",
            dict(codes=CODES, scales=SCALES),
            "scales must be uint16 where scale_format is bf16, not float16",
        ),
        (
            "e8m0",
            dict(codes=CODES, scales=SCALES.astype(np.uint16)),
            "scales must be uint8 where scale_format is e8m0, not uint16",
        ),
        (
            "fp16",
            dict(codes=CODES, scales=SCALES[:, :2]),
            r"scales must have the shape \(2, 3\), one for each block of 32 codes, not \(2, 2\)",
        ),
        (
            "fp16",
            dict(codes=CODES, scales=SCALES[0]),
            r"scales must .* shape \(2, 3\), .* not \(3,\)",
        ),
        ("fp16", dict(codes=np.array([[{}]]), scales=SCALES), "codes must be a plain array"),
    ],
)
def test_files_of_another_form_are_refused(tmp_path, scale_format, given, message):
    path = save(tmp_path / "x.npz", **given)
    with pytest.raises(UsageError, match=f"^input: {message}") as raised:
        load_codes(path, CONFIG.replace(scale_format=scale_format))
    assert "\n" not in str(raised.value)


def test_codes_are_no_numbers(tmp_path):
    save(tmp_path / "x.npz", **arrays())
    with pytest.raises(UsageError, match="must hold the key 'data', not only: codes, scales"):
        parse(["--config", "tiny", "--set", "ranks=2", "--input", "x.npz"])
