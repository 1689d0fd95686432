"""Runs `tb_registers`."""

from cocotb_tests.lib.configs import TINY


def test_registers(simulate):
    """Three ranks, flits of 8 bytes."""
    simulate("axi4-lite-bridge", TINY, "tb_registers")
