"""Runs `tb_inq_reducer`."""

from cocotb_tests.lib.configs import INQ


def test_inq_reducer(simulate):
    """Two ranks, blocks of 64."""
    simulate("inq-reducer", INQ, "tb_inq_reducer")
