"""Figures of the reducers: rows of what there is, tables of the rows, and which are old."""

import json

import pytest
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from scripts import make_docs, measured, reducer_figures, reducer_tables
from scripts.reducer_figures import KINDS, RANKS, Kind, main, plan, row_of

NAME, KEY = "fp16", {"reducer": "fp16", "ranks": 2, "family": "xc7"}


class Wires(wiring.Component):
    """A design of no logic, another one for each width."""

    def __init__(self, width):
        super().__init__({"i": In(width), "o": Out(width)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.i)
        return m


@pytest.fixture
def file(tmp_path, monkeypatch):
    """An empty file of rows instead of the one in docs."""
    path = tmp_path / "reducers.json"
    monkeypatch.setattr(reducer_figures, "FILE", path)
    monkeypatch.setattr(measured, "DATA", tmp_path)
    return path


@pytest.fixture
def tools(monkeypatch):
    """A design and measurements that take no time; what these were asked for."""
    asked = []
    wires = Kind(lambda ranks, flit_bytes, part_bits: Wires(ranks * part_bits))
    monkeypatch.setitem(KINDS, NAME, wires)

    def measurement(family):
        def figures(kind, ranks, heard):
            asked.append((family, ranks))
            return {"delay": 5, "lut": 100, "ff": 50, "bram": 0.5, "dsp": 8, "mhz": 90.25}

        return figures

    for family in reducer_figures.MEASUREMENTS:
        monkeypatch.setitem(reducer_figures.MEASUREMENTS, family, measurement(family))
    return asked


def test_delays_in_the_docs_are_the_designs():
    for row in reducer_figures.read()["rows"]:
        if row["family"] == "xc7":
            block = KINDS[row["reducer"]].build(row["ranks"], "xc7")
            assert row["delay"] == block.delay, row
            assert row.get("inq_delay") == getattr(block, "inq_delay", None), row


def test_every_reducer_has_a_name_and_its_codes():
    assert set(KINDS) == set(reducer_tables.NAMES)
    for name, kind in KINDS.items():
        assert kind.codes == reducer_tables.NAMES[name][1]


def test_a_row_is_measured_once(file, tools, capsys):
    everything = [(family, ranks) for family in ("xc7", "ecp5") for ranks in RANKS]
    assert main([NAME]) == 0
    assert tools == everything
    assert len(json.loads(file.read_text())["rows"]) == len(plan([NAME]))
    assert main([NAME]) == 0
    assert tools == everything, "nothing is measured again"
    assert main([NAME, "--check"]) == 0


def test_a_row_of_another_design_is_old(file, tools, capsys):
    assert main([NAME]) == 0
    report = json.loads(file.read_text())
    row_of(report["rows"], **KEY)["design"] = "0" * 32
    file.write_text(json.dumps(report))
    tools.clear()
    assert main([NAME, "--check"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("reducer_figures: fp16 2 xc7")
    assert not tools, "--check measures nothing"
    assert main([NAME]) == 0
    assert tools == [("xc7", 2)]


def test_tables_are_a_lane(file, tools):
    assert main([NAME]) == 0
    size = make_docs.PARTS["reducers_size"]().splitlines()
    assert size[2] == "| 2 | fp16 | 25 | 12 | 2 |  | 0.5 | 5 |"
    clock = make_docs.PARTS["reducers_clock"]().splitlines()
    assert clock[2] == "| 2 | fp16 | 8 B | 8 | 90.2 |"
