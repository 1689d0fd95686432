"""The examples of docs/using-in-your-design.md: elaborated, run, linted, compiled, and shown."""

import importlib.util
import struct

import numpy as np
import pytest
from amaranth.sim import Simulator

from hdl.building.components import COMPONENTS
from hdl.building.verilog import module_name, to_verilog
from hdl.config import SwitchConfig
from scripts import include_examples
from scripts.include_examples import EXAMPLES, snippet
from sim.golden import all_reduce_inq
from tests.test_build import icarus, verilator

CONFIG = SwitchConfig.preset("arty", ranks=2)
QUANTIZING = SwitchConfig.preset("arty", ranks=2, formats=("inq8",))
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


def test_the_block_adder_of_the_example_adds_blocks():
    """Two blocks, the second one short."""
    dut = load("inq_reducer_use").BlockAdder()
    flits, block, lanes = 11, 64, 8
    numbers = np.random.default_rng(7)
    codes = numbers.integers(-127, 128, (2, flits * lanes)).astype(np.int8)
    scales = np.array([[0.5, 0.001], [3.0, 0.0625]], dtype=np.float16).view(np.uint16)
    expected, new_scales, _status = all_reduce_inq(codes, scales, block=block, scale_format="fp16")
    got, got_scales = [], []

    async def feed(ctx):
        for flit in range(flits):
            for name, rank in (("a", 0), ("b", 1)):
                values = codes[rank, flit * lanes : (flit + 1) * lanes]
                ctx.set(getattr(dut, name), int.from_bytes(values.tobytes(), "little"))
                scale = scales[rank, flit * lanes // block]
                ctx.set(getattr(dut, f"scale_{name}"), int(scale))
            ctx.set(dut.last, flit == flits - 1)
            ctx.set(dut.valid, 1)
            await ctx.tick()
        ctx.set(dut.valid, 0)

    async def take(ctx):
        while len(got) < flits:
            _, _, valid, flit, begins, scale = await ctx.tick().sample(
                dut.codes_valid, dut.codes, dut.scale_valid, dut.scale
            )
            if valid:
                got.append(flit.to_bytes(lanes, "little"))
            if begins:
                got_scales.append(scale)

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(feed)
    simulator.add_testbench(take)
    simulator.run_until(2e-6)
    assert b"".join(got) == expected.tobytes()
    assert got_scales == list(new_scales)


@pytest.mark.parametrize("name", ["switch", "endpoint", "reducer", "inq-reducer"])
def test_verilog_example_is_linted_and_compiled(tmp_path, name):
    config, module = QUANTIZING if name == "inq-reducer" else CONFIG, module_name(name)
    generated = tmp_path / f"{module}.v"
    generated.write_text(to_verilog(COMPONENTS[name].create(config), module))
    example = EXAMPLES / f"{module}_use.v"
    lint = verilator(*OPEN_PORTS, str(example), str(generated))
    assert (lint.returncode, lint.stderr) == (0, "")
    compiled = icarus(example, generated)
    assert compiled.returncode == 0, compiled.stderr
