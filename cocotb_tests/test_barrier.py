"""Runs `tb_barrier`."""

import pytest

from cocotb_tests.lib.configs import MINIMAL, TINY


@pytest.mark.simulators("icarus")
def test_barrier(simulate):
    """Three ranks, flits of 8 bytes, headers of two flits."""
    simulate("barrier", TINY, "tb_barrier")


@pytest.mark.long
def test_barrier_more(simulate):
    """More cases of the same."""
    simulate("barrier", TINY, "tb_barrier", scale=8)


@pytest.mark.long
def test_barrier_wide(simulate):
    """Two ranks, flits of 16 bytes, headers of one flit."""
    simulate("barrier", MINIMAL, "tb_barrier", scale=2)
