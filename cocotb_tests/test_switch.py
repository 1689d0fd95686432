"""Runs the benches of the whole switch."""

import pytest

from cocotb_tests.lib.attached import TOP, attached_switch
from cocotb_tests.lib.configs import CONTEXTS, INQ, MINIMAL, TINY


@pytest.mark.simulators("verilator")
def test_switch_packets(simulate):
    """The switch alone, between ranks that speak packets."""
    simulate("switch", TINY, "tb_switch_packets")


@pytest.mark.long
@pytest.mark.simulators("icarus")
def test_switch_packets_four_states(simulate):
    """The same on Icarus, which is slow with it: unknown values would show here."""
    simulate("switch", TINY, "tb_switch_packets")


@pytest.mark.long
@pytest.mark.simulators("verilator")
@pytest.mark.parametrize("config", [TINY, MINIMAL, INQ], ids=["tiny", "minimal", "inq"])
def test_switch_packets_more(simulate, config):
    """More cases, other shapes, and quantized operations."""
    simulate("switch", config, "tb_switch_packets", scale=6)


@pytest.mark.long
@pytest.mark.simulators("verilator")
def test_switch_contexts(simulate):
    """Two contexts at a time, each with its own operations, host and part of the memories."""
    simulate("switch", CONTEXTS, "tb_switch_contexts", scale=6)


@pytest.mark.long
@pytest.mark.simulators("icarus")
def test_switch_contexts_four_states(simulate):
    """The same on Icarus."""
    simulate("switch", CONTEXTS, "tb_switch_contexts")


@pytest.mark.long
@pytest.mark.simulators("icarus")
def test_switch_memories_four_states(simulate):
    """Endpoints, links and Python memories, on Icarus."""
    simulate(TOP, TINY, "tb_switch_memories", verilog=attached_switch(TINY))


@pytest.mark.long
@pytest.mark.simulators("verilator")
@pytest.mark.parametrize("config", [TINY, MINIMAL, INQ], ids=["tiny", "minimal", "inq"])
def test_switch_memories(simulate, config):
    """Endpoints, links and Python memories; registers over AXI4-Lite."""
    simulate(TOP, config, "tb_switch_memories", verilog=attached_switch(config), scale=6)
