"""Runs `tb_wave_controller`."""

import pytest

from cocotb_tests.lib.configs import INQ, MINIMAL, TINY


@pytest.mark.simulators("icarus")
def test_wave_controller(simulate):
    """Three ranks, flits of 8 bytes, headers of two flits."""
    simulate("wave-controller", TINY, "tb_wave_controller")


@pytest.mark.long
def test_wave_controller_more(simulate):
    """More cases of the same."""
    simulate("wave-controller", TINY, "tb_wave_controller", scale=8)


@pytest.mark.long
def test_wave_controller_wide(simulate):
    """Two ranks, flits of 16 bytes, headers of one flit."""
    simulate("wave-controller", MINIMAL, "tb_wave_controller", scale=2)


@pytest.mark.long
def test_wave_controller_inq(simulate):
    """With what quantized operations add."""
    simulate("wave-controller", INQ, "tb_wave_controller", scale=3)
