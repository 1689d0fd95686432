"""Runs `tb_inq_reducer`."""

import pytest

from cocotb_tests.lib.configs import INQ


@pytest.mark.simulators("icarus")
def test_inq_reducer(simulate):
    """Two ranks, blocks of 64."""
    simulate("inq-reducer", INQ, "tb_inq_reducer")


@pytest.mark.long
def test_inq_reducer_more(simulate):
    """More cases of the same."""
    simulate("inq-reducer", INQ, "tb_inq_reducer", scale=8)
