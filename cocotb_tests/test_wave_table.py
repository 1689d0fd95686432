"""Runs `tb_wave_table`."""

import pytest

from cocotb_tests.lib.configs import INQ, MINIMAL, TINY


def test_wave_table(simulate):
    """Three ranks, flits of 8 bytes, headers of two flits."""
    simulate("wave-table", TINY, "tb_wave_table")


@pytest.mark.long
def test_wave_table_more(simulate):
    """More cases of the same."""
    simulate("wave-table", TINY, "tb_wave_table", scale=8)


@pytest.mark.long
def test_wave_table_wide(simulate):
    """Two ranks, flits of 16 bytes, headers of one flit."""
    simulate("wave-table", MINIMAL, "tb_wave_table", scale=3)


@pytest.mark.long
def test_wave_table_inq(simulate):
    """With what quantized operations add."""
    simulate("wave-table", INQ, "tb_wave_table", scale=4)
