"""Runs `tb_barrier`."""

from cocotb_tests.lib.configs import TINY


def test_barrier(simulate):
    """Three ranks, flits of 8 bytes."""
    simulate("barrier", TINY, "tb_barrier")
