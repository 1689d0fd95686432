"""Runs the benches of the whole switch."""

import pytest

from cocotb_tests.lib.attached import TOP, attached_switch
from cocotb_tests.lib.configs import INQ, TINY


def test_switch_memories(simulate):
    """Endpoints, links and Python memories."""
    simulate(TOP, TINY, "tb_switch_memories", verilog=attached_switch(TINY))


@pytest.mark.long
def test_switch_memories_inq(simulate):
    """With quantized operations."""
    simulate(TOP, INQ, "tb_switch_memories", verilog=attached_switch(INQ), scale=4)


def test_switch_packets(simulate):
    """The switch alone, between ranks that speak packets."""
    simulate("switch", TINY, "tb_switch_packets")


@pytest.mark.long
def test_switch_packets_inq(simulate):
    """With quantized operations."""
    simulate("switch", INQ, "tb_switch_packets", scale=4)
