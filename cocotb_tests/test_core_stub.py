"""Runs `tb_core_stub`."""

import pytest

from cocotb_tests.lib.configs import MINIMAL, TINY


@pytest.mark.simulators("icarus")
def test_core_stub(simulate):
    """Three ranks, flits of 8 bytes, headers of two flits."""
    simulate("core-stub", TINY, "tb_core_stub")


@pytest.mark.long
def test_core_stub_more(simulate):
    """More cases of the same."""
    simulate("core-stub", TINY, "tb_core_stub", scale=8)


@pytest.mark.long
def test_core_stub_wide(simulate):
    """Two ranks, flits of 16 bytes, headers of one flit."""
    simulate("core-stub", MINIMAL, "tb_core_stub", scale=2)
