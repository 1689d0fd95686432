"""Runs `tb_port`."""

import pytest

from cocotb_tests.lib.configs import MINIMAL, TINY


@pytest.mark.simulators("icarus")
def test_port(simulate):
    """Three ranks, flits of 8 bytes, headers of two flits."""
    simulate("port", TINY, "tb_port")


@pytest.mark.long
def test_port_more(simulate):
    """More cases of the same."""
    simulate("port", TINY, "tb_port", scale=8)


@pytest.mark.long
def test_port_wide(simulate):
    """Two ranks, flits of 16 bytes, headers of one flit."""
    simulate("port", MINIMAL, "tb_port", scale=4)
