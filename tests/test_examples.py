"""The examples of docs/using-in-your-design.md: elaborated, run, linted, compiled, and shown."""

import importlib.util
import struct

import pytest
from amaranth.sim import Simulator

from hdl.building.components import COMPONENTS
from hdl.building.verilog import to_verilog
from hdl.config import SwitchConfig
from scripts import include_examples
from scripts.include_examples import EXAMPLES, snippet
from tests.test_build import icarus, verilator

CONFIG = SwitchConfig.preset("arty", ranks=2)
#: An example leaves ports open that it has no use for.
OPEN_PORTS = ("-Wno-PINMISSING",)


def load(name: str):
    """The example `name` as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_show_the_files():
    assert [path.name for path in include_examples.stale()] == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*_use.*")), ids=lambda path: path.name)
def test_an_example_is_short(path):
    assert len(snippet(path.name).splitlines()) <= 12


@pytest.mark.parametrize(
    ("name", "component"), [("endpoint_use", "MyAccelerator"), ("switch_use", "MySwitch")]
)
def test_amaranth_example_elaborates(name, component):
    text = to_verilog(getattr(load(name), component)(CONFIG), "top")
    assert "module top" in text


def test_the_adder_of_the_example_adds():
    dut = load("reducer_use").VectorAdder()
    sums = []

    def pack(numbers):
        return int.from_bytes(struct.pack("<4e", *numbers), "little")

    async def bench(ctx):
        ctx.set(dut.a, pack([1.0, -2.5, 65504.0, 0.0]))
        ctx.set(dut.b, pack([0.5, 2.5, 65504.0, -3.0]))
        ctx.set(dut.valid, 1)
        await ctx.tick()
        ctx.set(dut.valid, 0)
        value, valid = await ctx.tick().sample(dut.sum, dut.sum_valid).until(dut.sum_valid)
        sums.append(struct.unpack("<4e", value.to_bytes(8, "little")))
        assert valid

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run_until(1e-6)
    assert sums == [(1.5, 0.0, float("inf"), -3.0)]


@pytest.mark.parametrize("name", ["switch", "endpoint", "reducer"])
def test_verilog_example_is_linted_and_compiled(tmp_path, name):
    generated = tmp_path / f"{name}.v"
    generated.write_text(to_verilog(COMPONENTS[name].create(CONFIG), name))
    example = EXAMPLES / f"{name}_use.v"
    lint = verilator(*OPEN_PORTS, str(example), str(generated))
    assert (lint.returncode, lint.stderr) == (0, "")
    compiled = icarus(example, generated)
    assert compiled.returncode == 0, compiled.stderr
