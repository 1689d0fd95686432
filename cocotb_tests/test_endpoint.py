"""Runs `tb_endpoint`."""

import pytest

from cocotb_tests.lib.configs import MINIMAL, TINY


def test_endpoint(simulate):
    """Headers of two flits."""
    simulate("endpoint", TINY, "tb_endpoint")


@pytest.mark.long
def test_endpoint_wide(simulate):
    """Headers of one flit."""
    simulate("endpoint", MINIMAL, "tb_endpoint", scale=4)
