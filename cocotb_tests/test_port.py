"""Runs `tb_port`."""

from cocotb_tests.lib.configs import TINY


def test_port(simulate):
    """Three ranks, flits of 8 bytes."""
    simulate("port", TINY, "tb_port")
