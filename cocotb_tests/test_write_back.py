"""Runs `tb_write_back`."""

from cocotb_tests.lib.configs import TINY


def test_write_back(simulate):
    """Three ranks, flits of 8 bytes."""
    simulate("write-back", TINY, "tb_write_back")
