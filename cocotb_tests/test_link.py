"""Runs `tb_link`."""

import pytest

from cocotb_tests.lib.configs import MINIMAL, TINY


@pytest.mark.simulators("icarus")
def test_link(simulate):
    """Three ranks, flits of 8 bytes, headers of two flits."""
    simulate("link", TINY, "tb_link")


@pytest.mark.long
def test_link_more(simulate):
    """More cases of the same."""
    simulate("link", TINY, "tb_link", scale=8)


@pytest.mark.long
def test_link_wide(simulate):
    """Two ranks, flits of 16 bytes, headers of one flit."""
    simulate("link", MINIMAL, "tb_link", scale=2)
