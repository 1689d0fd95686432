"""Runs `tb_core_stub`."""

from cocotb_tests.lib.configs import TINY


def test_core_stub(simulate):
    """Three ranks, flits of 8 bytes."""
    simulate("core-stub", TINY, "tb_core_stub")
