"""The command `python -m sim.collective`: arguments, exit status, report."""

import json

import numpy as np
import pytest

from hdl.config import KNOWN_OPERATIONS
from sim.cli.collective_arguments import parse
from sim.cli.errors import UsageError
from sim.collective import main
from sim.golden.collectives import COLLECTIVES
from sim.plan import Plan
from tests.sim.small_run import needs_compiler, use_one_model

#: A small system with all of it, as arguments of the command: that of tests/system, so that one
#: model serves both.
FIELDS = {
    "formats": "fp16,bf16,int32",
    "operations": ",".join(KNOWN_OPERATIONS),
    "collectives": "all",
    "waves": 2,
    "wave_bytes": 128,
}
SMALL = ["--config", "tiny"] + [
    word for field, value in FIELDS.items() for word in ("--set", f"{field}={value}")
]


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    """Each test in a folder of its own, all with one compiled model."""
    use_one_model(monkeypatch, waves=False)
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments):
    """The report, of a run that ends well."""
    status = main([*SMALL, "--json", "-", *arguments])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return json.loads(captured.out), captured.err


# -- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--collective scan", "collective: must be one of all-reduce, .*barrier, not 'scan'"),
        ("--collective reduse", "collective: .*not 'reduse'; did you mean 'reduce'"),
        ("--operation mean", "operation: must be one of sum, max, min, average, not 'mean'"),
        ("--operation average --dtype int32", "operation: must be one of sum, max, min for int32"),
        ("--operation max --dtype inq8", "operation: must be one of sum for inq8, not 'max'"),
        ("--operation max --collective broadcast", "operation: must not be given for broadcast"),
        ("--operation sum --collective barrier", "operation: must not be given for barrier"),
        ("--collective all-gather --dtype inq8", "collective: must be one of all-reduce, reduce, "
         "barrier for inq8, not 'all-gather'"),
        ("--root 1", "root: must come with reduce or broadcast, not with all-reduce"),
        ("--root 4 --collective reduce", r"root: must be a whole number of 0\.\.3, not '4'"),
        ("--collective reduce --destinations 1", "destinations: must be said by --root for reduce"),
        ("--collective broadcast --sources 1", "sources: must be said by --root for broadcast"),
        ("--chunk 16", "chunk: must come with all-gather or reduce-scatter, not with all-reduce"),
        ("--collective all-gather --chunk 24", r"chunk: must be a multiple of flit_bytes \(16\)"),
        ("--collective all-gather --chunk 0", r"chunk: must be a whole number of 16\.\.\d+, not"),
        ("--collective all-gather --chunk 0x10000000000",
         r"chunk: must be a whole number of 16\.\.1099511627760, not"),
        ("--collective reduce --root=", r"root: must be a whole number of 0\.\.3, not ''"),
        ("--collective barrier --bytes 4", "bytes: must be 0 for barrier, not '4'"),
        ("--sources 1,0", "sources: must be ascending ranks, each once, not '1,0'"),
        ("--sources 1,1", "sources: must be ascending ranks, each once, not '1,1'"),
        ("--destinations 4", r"destinations: must be a whole number of 0\.\.3, not '4'"),
        ("--destinations ,", "destinations: must be a whole number"),
        ("--dtype int32 --bytes 6", "bytes: must be whole elements of 4 bytes, not 6"),
        ("--dtype fp61", "dtype: must be one of fp16, bf16, inq8, int32, not 'fp61'"),
        ("--set operations=sum --operation max", r"operation: must be one of those that the "
         r"configuration has for fp16 \(sum\), not 'max'"),
        ("--set collectives=all-reduce --collective all-gather", "collectives: must be all for "
         "all-gather over these ranks, not 'all-reduce'"),
        ("--set collectives=all-reduce --sources 0,1", "collectives: must be all for all-reduce "),
        ("--rot 1", "option: must be one of .*'--rot'; did you mean '--root'"),
    ],
)  # fmt: skip
def test_bad_arguments_are_one_line(capsys, arguments, message):
    with pytest.raises(UsageError, match=f"^{message}"):
        parse(arguments.split())
    assert main(arguments.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "plan"),
    [
        ("", Plan()),
        ("--sources 0,1,2,3", Plan()),
        ("--sources 0,2 --operation min", Plan(operation="min", sources=(0, 2))),
        ("--collective reduce", Plan("reduce", destinations=(0,))),
        ("--collective reduce --root 3", Plan("reduce", destinations=(3,))),
        ("--collective broadcast --destinations 1,2", Plan("broadcast", sources=(0,),
                                                          destinations=(1, 2))),
        ("--collective all-gather --chunk 0x20", Plan("all-gather", chunk=32)),
    ],
)  # fmt: skip
def test_plans(arguments, plan):
    assert parse(arguments.split()).plan == plan


def test_a_preset_gets_what_it_lacks():
    plain = parse([])
    assert plain.added is None
    assert plain.config.digest == "313b69433da9"  # demo's
    options = parse(["--operation", "max", "--dtype", "int32"])
    assert options.config.operations == ("sum", "max", "min", "average")
    assert options.config.collectives == "all"
    assert options.config.formats == ("fp16", "bf16", "int32")
    assert options.added == (
        "formats: int32 added to those of demo (fp16, bf16); "
        "operations: sum, max, min, average; collectives: all"
    )
    own = parse(["--operation", "max", "--set", "operations=sum,max", "--set", "collectives=all"])
    assert own.added is None
    assert own.config.operations == ("sum", "max")


def test_bounds_by_hand():
    config = parse(["--collective", "reduce", "--config", "tiny"]).config
    # 256 bytes a rank: 32 flits, 8 packets and 8 requests, headers of two flits.
    assert Plan().bound(config, 256, "fp16") == config.utilization_bound(256, "fp16") == 32 / 64
    # The root has all of the write-back, and reads as the others do.
    assert Plan("reduce", destinations=(0,)).bound(config, 256, "fp16") == 32 / 64
    # Sources that are no root only send: data and headers; so has the root, which reads nothing.
    apart = Plan("reduce", sources=(1, 2), destinations=(0,))
    assert apart.bound(config, 256, "fp16") == 32 / 48
    # Three chunks of 88, 88 and 80 bytes take 3 packets each: every destination gets 9.
    assert Plan("all-gather").bound(config, 256, "fp16") == 32 / (32 + 2 * 9 + 2 * 3)
    assert Plan("barrier").bound(config, 0, "fp16") is None


# -- runs ---------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("kind", COLLECTIVES)
def test_each_collective_is_bit_exact(capsys, kind):
    size = "0" if kind == "barrier" else "300"
    result, _ = run(capsys, "--collective", kind, "--bytes", size, "--seed", "3")
    assert result["bit_exact"]
    assert result["collective"] == kind
    assert result["operation"] == ("copy" if kind in ("broadcast", "all-gather") else "sum")
    assert result["sources"] == ([0] if kind == "broadcast" else [0, 1, 2])
    assert result["destinations"] == ([0] if kind == "reduce" else [0, 1, 2])
    cut = kind in ("all-gather", "reduce-scatter")
    assert result["chunk_bytes"] == (104 if cut else None)
    if kind != "barrier":
        assert result["cycles"]["data"] > 0
        assert 0 < result["utilization"] <= result["bound"] < 1


@needs_compiler
def test_int32_from_a_file_wraps_around(capsys):
    limits = np.iinfo(np.int32)
    data = np.array([[limits.max, 5], [1, 6], [0, 7]], np.int32)
    np.savez("x.npz", data=data)
    result, _ = run(capsys, "--dtype", "int32", "--input", "x.npz", "--out-of-place")
    assert (result["bytes"], result["dtype"], result["bit_exact"]) == (8, "int32", True)


@needs_compiler
def test_subsets_repeat_and_disturbances(capsys):
    result, _ = run(
        capsys, "--operation", "max", "--sources", "0,2", "--destinations", "1", "--bytes",
        "2,130,0", "--skew", "9,0,70", "--stalls", "heavy", "--latency-jitter", "20",
    )  # fmt: skip
    assert [each["bit_exact"] for each in result["runs"]] == [True] * 3
    assert result["operation"] == "max"


@needs_compiler
def test_the_table_names_the_collective(capsys):
    assert main([*SMALL, "--collective", "reduce", "--root", "1", "--bytes", "64"]) == 0
    out = capsys.readouterr().out
    assert "Reduce to 1 on tiny" in out
    assert "yes, every byte of every rank" in out
