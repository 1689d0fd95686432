"""Runs `tb_wave_controller`."""

from cocotb_tests.lib.configs import TINY


def test_wave_controller(simulate):
    """Three ranks, flits of 8 bytes."""
    simulate("wave-controller", TINY, "tb_wave_controller")
