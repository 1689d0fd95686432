"""Runs `tb_reducer`."""

from cocotb_tests.lib.configs import TINY


def test_reducer(simulate):
    """Three ranks, flits of 8 bytes."""
    simulate("reducer", TINY, "tb_reducer")
