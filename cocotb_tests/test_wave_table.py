"""Runs `tb_wave_table`."""

from cocotb_tests.lib.configs import TINY


def test_wave_table(simulate):
    """Three ranks, flits of 8 bytes."""
    simulate("wave-table", TINY, "tb_wave_table")
