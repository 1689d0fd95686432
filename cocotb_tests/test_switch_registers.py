"""Runs `tb_switch_registers`."""

import pytest

from cocotb_tests.lib.attached import TOP, attached_switch
from cocotb_tests.lib.configs import TINY


@pytest.mark.long
@pytest.mark.simulators("verilator")
def test_switch_registers(simulate):
    """Every register of a switch of three ranks, over AXI4-Lite."""
    simulate(TOP, TINY, "tb_switch_registers", verilog=attached_switch(TINY))
