"""Runs `tb_registers`."""

import pytest

from cocotb_tests.lib.configs import TINY


@pytest.mark.simulators("icarus")
def test_registers(simulate):
    """The bridge; it is the same in every configuration."""
    simulate("axi4-lite-bridge", TINY, "tb_registers")


@pytest.mark.long
def test_registers_more(simulate):
    """More cases of the same."""
    simulate("axi4-lite-bridge", TINY, "tb_registers", scale=8)
