"""Runs `tb_write_back`."""

import pytest

from cocotb_tests.lib.configs import INQ, MINIMAL, TINY


@pytest.mark.simulators("icarus")
def test_write_back(simulate):
    """Three ranks, flits of 8 bytes, headers of two flits."""
    simulate("write-back", TINY, "tb_write_back")


@pytest.mark.long
def test_write_back_more(simulate):
    """More cases of the same."""
    simulate("write-back", TINY, "tb_write_back", scale=8)


@pytest.mark.long
def test_write_back_wide(simulate):
    """Two ranks, flits of 16 bytes, headers of one flit."""
    simulate("write-back", MINIMAL, "tb_write_back", scale=2)


@pytest.mark.long
def test_write_back_inq(simulate):
    """With what quantized operations add."""
    simulate("write-back", INQ, "tb_write_back", scale=2)
