"""Runs `tb_link`."""

from cocotb_tests.lib.configs import TINY


def test_link(simulate):
    """Three ranks, flits of 8 bytes."""
    simulate("link", TINY, "tb_link")
