"""Runs `tb_endpoint`."""

import pytest

from cocotb_tests.lib.configs import MINIMAL, TINY


def test_endpoint(simulate):
    """Three ranks, flits of 8 bytes, headers of two flits."""
    simulate("endpoint", TINY, "tb_endpoint")


@pytest.mark.long
def test_endpoint_more(simulate):
    """More cases of the same."""
    simulate("endpoint", TINY, "tb_endpoint", scale=4)


@pytest.mark.long
def test_endpoint_wide(simulate):
    """Two ranks, flits of 16 bytes, headers of one flit."""
    simulate("endpoint", MINIMAL, "tb_endpoint", scale=4)
