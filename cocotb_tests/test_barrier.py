"""Runs `tb_barrier`."""

import pytest

from cocotb_tests.lib.configs import CONTEXTS, MINIMAL, TENANTS, TINY


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


@pytest.mark.simulators("icarus")
def test_barrier_members(simulate):
    """Three ranks of which any may be members."""
    simulate("barrier", CONTEXTS, "tb_barrier", scale=2)


@pytest.mark.long
@pytest.mark.parametrize("config", [CONTEXTS, TENANTS], ids=["contexts", "tenants"])
def test_barrier_members_more(simulate, config):
    """More cases of the same, and with collectives."""
    simulate("barrier", config, "tb_barrier", scale=8)
