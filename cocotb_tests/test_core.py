"""Runs `tb_core`."""

import pytest

from cocotb_tests.lib.configs import FORWARDING


@pytest.mark.simulators("icarus")
def test_core(simulate):
    """Three ranks, flits of 8 bytes."""
    simulate("core", FORWARDING, "tb_core")


@pytest.mark.long
def test_core_more(simulate):
    """More cases of the same."""
    simulate("core", FORWARDING, "tb_core", scale=4)


@pytest.mark.long
def test_core_wide(simulate):
    """Two ranks, flits of 16 bytes."""
    simulate("core", FORWARDING.replace(ranks=2, flit_bytes=16), "tb_core", scale=2)
