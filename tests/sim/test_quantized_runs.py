"""Quantized runs of the command, from its arguments to its report."""

from dataclasses import replace

import numpy as np
import pytest

import sim.quantized
from hdl.config import SwitchConfig
from sim.allreduce import main
from tests.sim.small_run import FIELDS, each_engine, needs_compiler, reported, use_one_model

#: A small system without a word about formats, so that the preset's get the one it lacks.
SMALL_FIELDS = {**FIELDS, "block": 32, "payload_bytes": 32, "write_waves": 4}
del SMALL_FIELDS["formats"]
SMALL = ["--config", "arty", "--dtype", "inq8"] + [
    word for field, value in SMALL_FIELDS.items() for word in ("--set", f"{field}={value}")
]
CONFIG = SwitchConfig.preset("arty", **SMALL_FIELDS, formats=("fp16", "inq8"))
ADDED = "formats: inq8 added to those of arty (fp16)"


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    """Each test in a folder of its own, all with one compiled model."""
    use_one_model(monkeypatch, waves=False)
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments):
    """See `reported`."""
    return reported(capsys, [*SMALL, *arguments])


@needs_compiler
def test_report_of_a_quantized_run(capsys):
    status, report, messages = run(capsys, "--bytes", "1000")
    assert (status, report["status"], report["bit_exact"]) == (0, "ok", True)
    assert (report["dtype"], report["preset"], report["input"]) == ("inq8", "arty", "activations")
    assert report["digest"] == CONFIG.digest
    assert SwitchConfig.from_fields(report["config"]) == CONFIG
    assert (report["bytes"], report["payload_cycles"]) == (1000, 125)
    cycles = report["cycles"]["data"]
    assert report["utilization"] == pytest.approx(125 / cycles)
    assert report["utilization"] <= report["bound"] == CONFIG.utilization_bound(1000, "inq8")
    assert report["algbw_GBps"] == pytest.approx(1000 / (10 * cycles))
    assert report["fp16_equivalent_GBps"] == pytest.approx(2 * 1000 / (10 * cycles))
    lines = messages.splitlines()
    assert lines[0] == ADDED
    table = " ".join(messages.replace("│", " ").split())
    assert "headers, requests and scales bound it" in table
    assert f"the same values in fp16 {report['fp16_equivalent_GBps']:.4g} GB/s" in table


@needs_compiler
def test_the_added_format_is_told_on_standard_error_alone(capsys, tmp_path):
    assert main([*SMALL, "--bytes", "64", "--json", "report.json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == f"{ADDED}\n"
    assert "bit-exact" in captured.out


@needs_compiler
@pytest.mark.parametrize("place", [[], ["--out-of-place"]], ids=["in place", "out of place"])
def test_awkward_sizes_in_a_row_under_every_disturbance(capsys, place):
    sizes = [1, 31, 32, 33, 0, 127, 128, 129, 383, 385]
    status, report, _ = run(
        capsys, "--bytes", ",".join(map(str, sizes)), "--seed", "7", "--skew", "0,90",
        "--latency-jitter", "30", "--stalls", "light", *place,
    )  # fmt: skip
    assert (status, report["status"], report["bit_exact"]) == (0, "ok", True)
    assert [each["bytes"] for each in report["runs"]] == sizes
    empty = report["runs"][4]
    assert empty["fp16_equivalent_GBps"] is empty["utilization"] is empty["bound"] is None


@each_engine
def test_a_file_of_codes_and_scales(capsys, tmp_path, engine):
    rng = np.random.default_rng(5)
    scales = rng.standard_normal((2, 3)).astype(np.float16)  # negative ones, too
    scales[0, 1] = np.nan
    codes = rng.integers(-128, 128, (2, 77)).astype(np.int8)
    np.savez(tmp_path / "x.npz", codes=codes, scales=scales)
    arguments = ["--input", "x.npz", "--engine", engine, "--repeat", "2"]
    status, report, _ = run(capsys, *arguments)
    assert (status, report["bit_exact"]) == (0, True)
    assert (report["input"], report["bytes"], report["engine"]) == ("x.npz", 77, engine)
    bad = (~(scales >= 0)).any(axis=0)
    for each in report["runs"]:
        assert each["blocks"] == {"nan": bad.sum(), "overflow": 0}


@needs_compiler
def test_another_format_of_the_same_system(capsys):
    arguments = ["--set", "formats=fp16,inq8", "--dtype", "fp16", "--bytes", "770"]
    status, report, messages = run(capsys, *arguments)
    assert (status, report["bit_exact"], report["digest"]) == (0, True, CONFIG.digest)
    assert report["fp16_equivalent_GBps"] is None
    assert "added" not in messages


@needs_compiler
def test_a_wrong_count_of_blocks_is_found(capsys, tmp_path, monkeypatch):
    golden = sim.quantized.all_reduce_inq

    def wrong_status(*operands, **rules):
        codes, scales, status = golden(*operands, **rules)
        return codes, scales, replace(status, nan=~status.nan)

    monkeypatch.setattr(sim.quantized, "all_reduce_inq", wrong_status)
    status, report, _ = run(capsys, "--bytes", "130", "--engine", "pysim")
    assert (status, report["status"], report["bit_exact"]) == (1, "mismatch", False)
    assert report["blocks"] == {"nan": 0, "overflow": 0}
    (folder,) = (tmp_path / "build" / "failures").iterdir()
    differences = (folder / "differences.txt").read_text().splitlines()
    assert differences == ["blocks_nan: counted 0, must be 5"]


@needs_compiler
def test_a_wrong_code_and_a_wrong_scale_are_found(capsys, tmp_path, monkeypatch):
    golden = sim.quantized.all_reduce_inq

    def wrong_in_two_bits(*operands, **rules):
        codes, scales, status = golden(*operands, **rules)
        codes, scales = codes.copy(), scales.copy()
        codes[100] ^= 1
        scales[2] ^= 1
        return codes, scales, status

    monkeypatch.setattr(sim.quantized, "all_reduce_inq", wrong_in_two_bits)
    # The failure's waveforms would need another model, but not of this engine.
    status, report, messages = run(capsys, "--bytes", "130", "--engine", "pysim")
    assert (status, report["status"]) == (1, "mismatch")
    (folder,) = (tmp_path / "build" / "failures").iterdir()
    assert folder.name.startswith("arty-inq8-mismatch-")
    differences = (folder / "differences.txt").read_text().splitlines()
    # The codes take 17 flits of 8 bytes, behind which the scales are.
    starts = [f"rank {rank} address {at:#x}" for rank in (0, 1) for at in (100, 17 * 8 + 4)]
    assert [line.split(":")[0] for line in differences] == starts
    assert SwitchConfig.from_json((folder / "config.json").read_text()) == CONFIG
