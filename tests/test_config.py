"""The parameter object: every rule's message, presets, JSON, names, digest, derived values."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdl.config import (
    DEFAULT_FORMATS,
    LATER_FIELDS,
    LISTED_VALUES,
    PRESETS,
    ConfigError,
    SwitchConfig,
    unknown_name,
)

ROOT = Path(__file__).resolve().parent.parent

#: The table of presets as the architecture states it: ranks, flit, payload, wave, k, link, memory
#: latency, memory bytes, clock.
PRESET_TABLE = {
    "tiny": (3, 8, 32, 256, 4, 3, 2, 16 << 10, 100e6),
    "demo": (4, 16, 128, 1024, 8, 32, 16, 4 << 20, 250e6),
    "arty": (4, 8, 128, 512, 8, 4, 4, 16 << 10, 100e6),
    "arty-100": (4, 8, 128, 512, 8, 4, 4, 16 << 10, 100e6),
    "ulx3s-85f": (4, 8, 128, 512, 8, 4, 4, 16 << 10, 50e6),
    "ecpix5-85f": (4, 8, 128, 512, 8, 4, 4, 16 << 10, 80e6),
    "paper-fpga": (4, 32, 4096, 4096, 16, 90, 8, 64 << 20, 250e6),
    "paper-8gpu": (8, 16, 128, 4096, 16, 1758, 563, 16 << 20, 7.03125e9),
}

#: Fields that break one rule, and the whole message.
REFUSED = [
    ({"ranks": 1}, "ranks: must be 2..16, not 1"),
    ({"ranks": 17}, "ranks: must be 2..16, not 17"),
    ({"ranks": -4}, "ranks: must be 2..16, not -4"),
    ({"ranks": 4.0}, "ranks: must be a whole number, not 4.0"),
    ({"ranks": True}, "ranks: must be a whole number, not True"),
    ({"ranks": "4"}, "ranks: must be a whole number, not '4'"),
    ({"ranks": None}, "ranks: must be a whole number, not None"),
    ({"flit_bytes": 4}, "flit_bytes: must be 8..64, not 4"),
    ({"flit_bytes": 128}, "flit_bytes: must be 8..64, not 128"),
    ({"flit_bytes": 24}, "flit_bytes: must be a power of two, not 24"),
    ({"payload_bytes": 8}, "payload_bytes: must be 16..4096, not 8"),
    ({"payload_bytes": 8192}, "payload_bytes: must be 16..4096, not 8192"),
    ({"payload_bytes": 100}, "payload_bytes: must be a multiple of flit_bytes (16), not 100"),
    (
        {"flit_bytes": 8, "payload_bytes": 4096, "wave_bytes": 4096},
        "payload_bytes: must be at most 256 flits (2048), not 4096",
    ),
    ({"block": 1}, "block: must be 2..4096, not 1"),
    ({"block": 8192}, "block: must be 2..4096, not 8192"),
    ({"block": 48}, "block: must be a power of two, not 48"),
    ({"wave_bytes": 64}, "wave_bytes: must be 128..65536, not 64"),
    ({"wave_bytes": 131072}, "wave_bytes: must be 128..65536, not 131072"),
    ({"wave_bytes": 1000}, "wave_bytes: must be a multiple of payload_bytes (128), not 1000"),
    (
        {"wave_bytes": 1152, "block": 512},
        "wave_bytes: must be a multiple of block (512), not 1152",
    ),
    ({"waves": 0}, "waves: must be 1..64, not 0"),
    ({"waves": 128}, "waves: must be 1..64, not 128"),
    ({"waves": 6}, "waves: must be a power of two, not 6"),
    (
        {"waves": 64, "payload_bytes": 32, "wave_bytes": 65536},  # 6 + 11 bits
        "waves: waves times packets in a wave (2048) must fit a 16-bit tag, not 64",
    ),
    ({"write_waves": 0}, "write_waves: must be 1..128, not 0"),
    ({"write_waves": 256}, "write_waves: must be 1..128, not 256"),
    ({"write_waves": 12}, "write_waves: must be a power of two, not 12"),
    ({"read_request_bytes": 64}, "read_request_bytes: must be 128..1024, not 64"),
    ({"read_request_bytes": 2048}, "read_request_bytes: must be 128..1024, not 2048"),
    (
        {"read_request_bytes": 200},
        "read_request_bytes: must be a multiple of payload_bytes (128), not 200",
    ),
    ({"read_request_bytes": 384}, "read_request_bytes: must divide wave_bytes (1024), not 384"),
    ({"address_bits": 11}, "address_bits: must be 12..48, not 11"),
    ({"address_bits": 49}, "address_bits: must be 12..48, not 49"),
    ({"memory_bytes": 512}, "memory_bytes: must be 1024..281474976710656, not 512"),
    (
        {"address_bits": 20, "memory_bytes": 1 << 21},
        "memory_bytes: must be 1024..1048576, not 2097152",
    ),
    ({"memory_bytes": 4100}, "memory_bytes: must be a multiple of flit_bytes (16), not 4100"),
    ({"contexts": 9}, "contexts: must be 1..8, not 9"),
    (
        {"contexts": 3, "waves": 2},
        "contexts: must be at most waves (2), so that each has an entry, not 3",
    ),
    ({"queue_depth": 0}, "queue_depth: must be 1..64, not 0"),
    ({"queue_depth": 65}, "queue_depth: must be 1..64, not 65"),
    ({"formats": ()}, "formats: must name at least one format, not ()"),
    ({"formats": ""}, "formats: must name at least one format, not ()"),
    ({"formats": 16}, "formats: must be a list of format names, not 16"),
    (
        {"formats": ("fp16", "fp16")},
        "formats: must name each format once, not ('fp16', 'fp16')",
    ),
    (
        {"formats": ("fp61",)},
        "formats: must be one of fp16, bf16, inq8, int32, not 'fp61'; did you mean 'fp16'?",
    ),
    ({"formats": [["fp16"]]}, "formats: must be one of fp16, bf16, inq8, int32, not"),
    (
        {"scale_format": "fp8"},
        "scale_format: must be one of fp16, bf16, e8m0, not 'fp8'; did you mean 'fp16'?",
    ),
    ({"e8m0_rule": "up"}, "e8m0_rule: must be one of ceil, floor, not 'up'"),
    ({"inq_reducer": "both"}, "inq_reducer: must be one of separate, shared, not 'both'"),
    (
        {"inq_reducer": "shared"},
        "inq_reducer: must be separate where inq8 is not built, not 'shared'",
    ),
    ({"multiplier_bits": 7}, "multiplier_bits: must be 8..32, not 7"),
    ({"operations": ()}, "operations: must name at least one operation, not ()"),
    ({"operations": 16}, "operations: must be a list of operation names, not 16"),
    ({"operations": "max,min"}, "operations: must name sum, not 'max,min'"),
    (
        {"operations": ("sum", "max", "sum")},
        "operations: must name each operation once, not ('sum', 'max', 'sum')",
    ),
    (
        {"operations": ("sum", "maximum")},
        "operations: must be one of sum, max, min, average, not 'maximum'; did you mean 'max'?",
    ),
    (
        {"formats": "fp16,inq8", "inq_reducer": "shared", "operations": "sum,max"},
        "operations: must be sum where inq_reducer is shared, not 'sum,max'",
    ),
    (
        {"formats": "fp16,inq8", "inq_reducer": "shared", "collectives": "all"},
        "collectives: must be all-reduce where inq_reducer is shared, not 'all'",
    ),
    (
        {"collectives": "al"},
        "collectives: must be one of all-reduce, all, not 'al'; did you mean 'all'?",
    ),
    (
        {"formats": "inq8", "block": 16},
        "block: must be one of 32, 64, 128, 256, 512 where inq8 is built, not 16",
    ),
    (
        {"formats": "inq8", "block": 256},  # 4 scales of 2 bytes in flits of 16
        "wave_bytes: must give whole flits of 16 bytes of scales where inq8 is built: "
        "a multiple of 8 blocks of 256, not 1024",
    ),
    (
        {"formats": "inq8", "scale_format": "e8m0", "wave_bytes": 512},
        "wave_bytes: must give whole flits of 16 bytes of scales where inq8 is built: "
        "a multiple of 16 blocks of 64, not 512",
    ),
    (
        {"formats": "fp16,bf16,inq8", "inq_reducer": "shared"},
        "formats: must be fp16 and inq8 where inq_reducer is shared, not 'fp16,bf16,inq8'",
    ),
    (
        {"formats": "fp16,inq8", "inq_reducer": "shared", "scale_format": "bf16"},
        "scale_format: must be fp16 where inq_reducer is shared, not 'bf16'",
    ),
    (
        {"formats": "fp16,inq8", "inq_reducer": "shared", "block": 32, "flit_bytes": 64},
        "block: must be at least flit_bytes (64) where inq_reducer is shared, not 32",
    ),
    ({"link_latency": 1}, "link_latency: must be 2..16384, not 1"),
    ({"link_latency": 16385}, "link_latency: must be 2..16384, not 16385"),
    ({"link_latency_max": 31}, "link_latency_max: must be 32..16384, not 31"),
    ({"link_latency_max": 48}, "link_latency_max: must be a power of two, not 48"),
    ({"memory_latency": 1}, "memory_latency: must be 2..16384, not 1"),
    ({"memory_latency": 16385}, "memory_latency: must be 2..16384, not 16385"),
    (
        {"link_share": "flit"},
        "link_share: must be one of flits, packets, not 'flit'; did you mean 'flits'?",
    ),
    ({"link_share": None}, "link_share: must be one of flits, packets, not 'None'"),
    ({"clock_hz": 0}, "clock_hz: must be 1..1000000000000, not 0"),
    ({"trace_records": 32}, "trace_records: must be 0 or 64..65536, not 32"),
    ({"trace_records": -64}, "trace_records: must be 0 or 64..65536, not -64"),
    ({"trace_records": 100}, "trace_records: must be a power of two, not 100"),
    ({"register_slices": "yes"}, "register_slices: must be one of none, all, not 'yes'"),
    ({"core": "crossbar"}, "core: must be one of none, stub, forward, not 'crossbar'"),
    ({"window_bytes": 1 << 21}, "window_bytes: must be 4194304..281474976710656, not 2097152"),
    ({"window_bytes": (4 << 20) + 1}, "window_bytes: must be a power of two, not 4194305"),
    (
        {"core": "forward", "address_bits": 23},
        "address_bits: must leave room for 4 windows of 4194304 bytes, not 23",
    ),
    ({"traffic_requests": 0}, "traffic_requests: must be 1..1024, not 0"),
    ({"traffic_requests": 48}, "traffic_requests: must be a power of two, not 48"),
]


def message(call, *args, **kwargs) -> str:
    with pytest.raises(ConfigError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# -- rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fields", "expected"), REFUSED, ids=[str(f) for f, _ in REFUSED])
def test_refusal_names_field_rule_and_value_in_one_line(fields, expected):
    text = message(SwitchConfig, **fields)
    assert text == expected or (expected.endswith("not") and text.startswith(expected))
    assert "\n" not in text


def test_every_field_has_a_refusal():
    named = {expected.split(":")[0] for _, expected in REFUSED}
    assert named == set(SwitchConfig.field_names())


@pytest.mark.parametrize(
    "fields",
    [
        {"ranks": 2},
        {"ranks": 16},
        {"ranks": 9},
        {"flit_bytes": 8},
        {"flit_bytes": 64},
        {"payload_bytes": 16},
        {"payload_bytes": 4096, "wave_bytes": 4096},
        {"flit_bytes": 8, "payload_bytes": 2048, "wave_bytes": 2048},
        {"payload_bytes": 48, "wave_bytes": 192, "read_request_bytes": 96},  # no power of two
        {"wave_bytes": 128},
        {"wave_bytes": 65536, "waves": 1},
        {"waves": 64},
        {"write_waves": 1},
        {"write_waves": 128},
        {"address_bits": 12, "memory_bytes": 4096},
        {"memory_bytes": 1 << 48},
        {"memory_bytes": 1024 + 16},
        {"queue_depth": 64},
        {"formats": ["bf16"]},
        {"formats": "bf16,fp16"},
        {"formats": "inq8", "block": 512, "wave_bytes": 4096},
        {"operations": "sum"},
        {"collectives": "all"},
        {"operations": "average,min,max,sum", "formats": "int32"},
        {
            "formats": "inq8",
            "block": 32,
            "flit_bytes": 64,
            "scale_format": "e8m0",
            "wave_bytes": 2048,
        },
        {"formats": "fp16,inq8", "inq_reducer": "shared"},
        {"multiplier_bits": 8},
        {"multiplier_bits": 32},
        {"link_latency": 2},
        {"link_latency": 16384},
        {"link_share": "packets"},
        {"trace_records": 0},
        {"trace_records": 64},
        {"trace_records": 65536},
        {"core": "forward", "address_bits": 24},
        {"register_slices": "all"},
        {"window_bytes": 4 << 20},
        {"traffic_requests": 1},
        {"waves": 32, "flit_bytes": 32, "payload_bytes": 32, "wave_bytes": 65536},  # 5 + 11 bits
    ],
    ids=str,
)
def test_limits_themselves_are_accepted(fields):
    config = SwitchConfig(**fields)
    for name, value in fields.items():
        if name not in LISTED_VALUES:
            assert getattr(config, name) == value


def test_fields_are_given_by_name_and_cannot_be_set():
    with pytest.raises(TypeError):
        SwitchConfig(4)
    config = SwitchConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.ranks = 5


def test_none_takes_its_value_from_other_fields():
    config = SwitchConfig(waves=4, payload_bytes=256, link_latency=33)
    assert config.write_waves == 8
    assert config.read_request_bytes == 256
    assert config.link_latency_max == 64
    assert SwitchConfig(link_latency=2).link_latency_max == 8


def test_derived_defaults_follow_a_preset_and_stay_in_a_copy():
    assert SwitchConfig.preset("demo", waves=16).write_waves == 32
    assert SwitchConfig.preset("demo").replace(waves=16).write_waves == 16


# -- presets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESET_TABLE)
def test_preset_is_as_tabulated(name):
    c = SwitchConfig.preset(name)
    assert (
        c.ranks,
        c.flit_bytes,
        c.payload_bytes,
        c.wave_bytes,
        c.waves,
        c.link_latency,
        c.memory_latency,
        c.memory_bytes,
        c.clock_hz,
    ) == PRESET_TABLE[name]
    boards = dict.fromkeys(("arty", "ulx3s-85f", "ecpix5-85f"), ("fp16",))
    formats = {**boards, "arty-100": ("fp16", "inq8")}
    assert c.formats == formats.get(name, DEFAULT_FORMATS)


def test_presets_are_those_and_the_default_is_demo():
    assert list(PRESETS) == list(PRESET_TABLE)
    demo = SwitchConfig.preset("demo")
    assert SwitchConfig(link_latency_max=64) == demo
    assert len({SwitchConfig.preset(name).digest for name in PRESETS}) == len(PRESETS)


def test_paper_latencies_are_250_and_80_ns():
    config = SwitchConfig.preset("paper-8gpu")
    assert config.clock_hz * config.flit_bytes == 112.5e9  # a quarter of 450 GB/s
    assert config.link_latency == round(250e-9 * config.clock_hz)
    assert config.memory_latency == pytest.approx(80e-9 * config.clock_hz, abs=1)


# -- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda: SwitchConfig.preset("dmeo"),
            "preset: must be one of tiny, demo, arty, arty-100, ulx3s-85f, ecpix5-85f, paper-fpga, "
            "paper-8gpu, not 'dmeo'; did you mean 'demo'?",
        ),
        (
            lambda: SwitchConfig.load("ulx3s"),
            "preset: must be one of tiny, demo, arty, arty-100, ulx3s-85f, ecpix5-85f, paper-fpga, "
            "paper-8gpu, not 'ulx3s'; did you mean 'ulx3s-85f'?",
        ),
        (lambda: SwitchConfig.preset("demo", wave_byte=1), "not 'wave_byte'; did you mean"),
        (lambda: SwitchConfig.parse_setting("rank=4"), "not 'rank'; did you mean 'ranks'?"),
        (lambda: SwitchConfig.from_fields({"link_latencie": 4}), "did you mean 'link_latency'?"),
    ],
)
def test_unknown_name_lists_the_valid_ones_and_the_nearest(call, expected):
    assert expected in message(call)


def test_unknown_field_lists_every_field():
    text = message(SwitchConfig.from_fields, {"ranks": 4, "hue": 1})
    assert text == f"field: must be one of {', '.join(SwitchConfig.field_names())}, not 'hue'"


def test_a_name_like_none_of_them_gets_no_hint():
    assert unknown_name("board", "xyz", ["arty"]) == "board: must be one of arty, not 'xyz'"


# -- command line and files ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ranks=8", ("ranks", 8)),
        ("memory_bytes=0x4000", ("memory_bytes", 16384)),
        ("formats=fp16,bf16", ("formats", "fp16,bf16")),
        ("link_share=packets", ("link_share", "packets")),
    ],
)
def test_setting(text, expected):
    assert SwitchConfig.parse_setting(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ranks", "set: must be FIELD=VALUE, not 'ranks'"),
        ("ranks=", "ranks: must be a whole number, not ''"),
        ("ranks=4.5", "ranks: must be a whole number, not '4.5'"),
        ("ranks=four", "ranks: must be a whole number, not 'four'"),
    ],
)
def test_setting_that_is_none(text, expected):
    assert message(SwitchConfig.parse_setting, text) == expected


@pytest.mark.parametrize("name", PRESETS)
def test_json_round_trip(name):
    config = SwitchConfig.preset(name)
    again = SwitchConfig.from_json(config.to_json())
    assert again == config
    assert again.digest == config.digest
    assert list(json.loads(config.to_json())) == SwitchConfig.field_names()


def test_load_from_preset_and_file_with_settings_on_top(tmp_path):
    assert SwitchConfig.load("tiny", {"ranks": 5}) == (SwitchConfig.preset("tiny", ranks=5), "tiny")
    path = tmp_path / "mine.json"
    path.write_text('{"ranks": 6, "formats": ["bf16"]}')
    assert SwitchConfig.load(str(path)) == (SwitchConfig(ranks=6, formats=("bf16",)), None)
    assert SwitchConfig.load(str(path), {"ranks": 7})[0].ranks == 7


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot read"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[4]", "must hold one object of fields"),
        (b'{"rank": 4}', "did you mean 'ranks'?"),
        (b'{"ranks": 4.5}', "ranks: must be a whole number, not 4.5"),
        (b'{"ranks": null}', "ranks: must be a whole number, not None"),
    ],
)
def test_file_that_is_no_configuration(tmp_path, content, expected):
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_bytes(content)
    text = message(SwitchConfig.load, str(path))
    assert expected in text
    assert "\n" not in text


@pytest.mark.parametrize("text", ["", "4", "null", "{'ranks': 4}"])
def test_text_that_is_no_configuration(text):
    assert message(SwitchConfig.from_json, text).startswith("config: text ")


# -- digest -------------------------------------------------------------------------------------


def test_operations_by_hand():
    plain = SwitchConfig()
    assert plain.operations == ("sum",)
    assert not plain.chooses_operation
    c = plain.replace(operations=("sum", "average", "min"), formats=("bf16", "int32", "inq8"))
    assert c.operations_of("bf16") == ("sum", "min", "average")
    assert c.operations_of("int32") == ("sum", "min")
    assert c.operations_of("inq8") == ("sum",)
    assert (c.float_formats, c.integers, c.averages, c.extrema) == (("bf16",), True, True, ("min",))
    integers = c.replace(formats=("int32",))
    assert (integers.float_formats, integers.averages, integers.extrema) == ((), False, ("min",))
    # What no format that is built has is not built: codes have sums alone, and no copies.
    codes = c.replace(formats=("inq8",), collectives="all")
    assert not codes.chooses_operation
    assert (codes.subsets, codes.chunks, codes.copies) == (True, True, False)
    assert plain.replace(collectives="all").copies


def test_scales_of_a_wave_by_hand():
    plain = SwitchConfig.preset("paper-8gpu")
    assert (plain.scale_chunk_bytes, plain.scale_flits, plain.scale_packets) == (0, 0, 0)
    assert plain.run_bytes == 128
    c = plain.replace(formats=("inq8",))
    assert (c.scale_chunk_bytes, c.scale_flits, c.scale_packets) == (128, 8, 1)
    # 33 packets of 8 flits, a header, and a request or response for each 32 of data
    assert c.utilization_bound(4 << 20, "inq8") == 256 / 330
    assert c.utilization_bound(4 << 20, "fp16") == 0.8
    # 65 codes: 5 flits in a packet, 2 scales in one
    assert c.utilization_bound(65, "inq8") == 5 / (5 + 1 + 2 * 2)
    assert c.run_bytes == 128
    assert c.replace(block=512).run_bytes == 512
    awkward = SwitchConfig(formats="inq8", payload_bytes=96, wave_bytes=768, flit_bytes=8)
    assert awkward.run_bytes == 192  # two packets, three blocks
    assert awkward.replace(scale_format="e8m0", wave_bytes=1536).scale_chunk_bytes == 24


def test_digest_changes_with_every_field():
    """Each field is replaced alone; a field that the digest leaves out would keep it."""
    other = dict(
        ranks=5, flit_bytes=32, payload_bytes=64, wave_bytes=2048, waves=4, write_waves=8,
        read_request_bytes=256, block=32, address_bits=47, memory_bytes=8 << 20, queue_depth=5,
        formats=("fp16",), link_latency=33, link_latency_max=128, memory_latency=17,
        link_share="packets", clock_hz=1, scale_format="bf16", e8m0_rule="floor",
        multiplier_bits=17, inq_reducer="shared", trace_records=64,
        core="forward", window_bytes=8 << 20, traffic_requests=32, register_slices="all",
        operations=("sum", "max"), collectives="all",
    )  # fmt: skip
    config = SwitchConfig.preset("demo", formats=("fp16", "inq8"))
    assert set(other) == set(config.field_names()) - {"contexts"}  # which has one value today
    digests = {config.replace(**{name: value}).digest for name, value in other.items()}
    assert len(digests | {config.digest}) == len(other) + 1


def test_digest_of_a_design_without_later_fields_stays():
    """What was measured and named before a field came is named so still."""
    assert SwitchConfig.preset("demo").digest == "313b69433da9"
    assert SwitchConfig.preset("arty", core="stub").digest == "9c06e3805978"
    fields = SwitchConfig.preset("tiny").to_fields()
    assert {name: fields.pop(name) for name in LATER_FIELDS} == LATER_FIELDS
    older = SwitchConfig.from_fields(fields)
    assert older == SwitchConfig.preset("tiny")
    assert older.digest == "d65b49f0876c"


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_digest_does_not_depend_on_the_hash_seed(seed):
    code = (
        "from hdl.config import PRESETS, SwitchConfig as C;"
        "print(*(C.preset(name).digest for name in PRESETS))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == [SwitchConfig.preset(name).digest for name in PRESETS]


def test_digest_does_not_depend_on_how_it_was_made():
    config = SwitchConfig.preset("demo")
    backwards = dict(reversed(config.to_fields().items()))
    assert SwitchConfig.from_fields(backwards).digest == config.digest
    assert SwitchConfig(link_latency_max=64, formats="fp16,bf16").digest == config.digest
    assert len(config.digest) == 12
    int(config.digest, 16)


# -- derived values -----------------------------------------------------------------------------


def test_derived_values_of_demo_by_hand():
    c = SwitchConfig.preset("demo")
    assert c.flit_bits == 128
    assert c.flit_address_bits == 4
    assert c.lanes == 8
    assert c.header_flits == 1  # 16 bytes
    assert c.payload_flits == 8
    assert c.packet_flits == 9
    assert c.wave_flits == 64
    assert c.packets_per_wave == 8
    assert c.requests_per_wave == 8
    assert c.memory_flits == 262144
    # 2.5 waves: 2 of 8 packets, then 512 bytes, which are 4
    assert c.packets(2560) == 20
    assert c.requests(2560) == 20
    # 2 waves and 2 bytes: one more packet, one more flit
    assert c.packets(2050) == 17
    assert c.payload_cycles(2050) == 129
    # 8 data flits, a header for them, and one for a request or response
    assert c.utilization_bound(1 << 20) == 0.8
    assert c.utilization_bound(2) == pytest.approx(1 / 3)
    assert c.utilization_bound(0) is None


def test_derived_values_of_tiny_by_hand():
    c = SwitchConfig.preset("tiny", read_request_bytes=128)
    assert c.flit_bits == 64
    assert c.flit_address_bits == 3
    assert c.lanes == 4
    assert c.header_flits == 2  # 16 bytes in flits of 8
    assert c.payload_flits == 4
    assert c.packet_flits == 6
    assert c.wave_flits == 32
    assert c.packets_per_wave == 8
    assert c.requests_per_wave == 2
    assert c.memory_flits == 2048
    # a wave and 130 bytes: 8 + 5 packets, 2 + 2 requests
    assert c.packets(386) == 13
    assert c.requests(386) == 4
    assert c.payload_cycles(386) == 49
    # from the rank: 13 packets and 13 responses, two header flits each: the busier direction
    assert c.utilization_bound(386) == 49 / (49 + 2 * (13 + 13))


def test_the_papers_bounds():
    assert SwitchConfig.preset("paper-fpga").utilization_bound(16 << 20) == 128 / 130
    assert SwitchConfig.preset("paper-8gpu").utilization_bound(4 << 20) == 0.8


@given(preset=st.sampled_from(list(PRESETS)), data_bytes=st.integers(1, 1 << 22))
def test_packets_and_requests_cover_the_data(preset, data_bytes):
    """The counts against a walk over the data."""
    c = SwitchConfig.preset(preset, wave_bytes=4096)
    walked = sum(
        -(-min(c.wave_bytes, data_bytes - wave) // c.payload_bytes)
        for wave in range(0, data_bytes, c.wave_bytes)
    )
    assert c.packets(data_bytes) == walked == c.requests(data_bytes)
    assert (c.payload_cycles(data_bytes) - 1) * c.flit_bytes < data_bytes
    assert 0 < c.utilization_bound(data_bytes) < 1


@pytest.mark.parametrize("name", PRESETS)
def test_buffers_cover_the_round_trip_and_hold_whole_packets(name):
    c = SwitchConfig.preset(name)
    assert c.write_data_credits >= 2 * c.link_latency_max + c.packet_flits
    assert c.read_request_credits >= c.header_flits
    assert c.endpoint_read_flits >= c.memory_latency + c.payload_flits
    assert c.endpoint_reads * c.payload_flits >= c.endpoint_read_flits
