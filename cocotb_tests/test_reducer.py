"""Runs `tb_reducer`."""

import pytest

from cocotb_tests.lib.configs import TINY


def test_reducer(simulate):
    """Three ranks, flits of 8 bytes, headers of two flits."""
    simulate("reducer", TINY, "tb_reducer")


@pytest.mark.long
def test_reducer_more(simulate):
    """More cases of the same."""
    simulate("reducer", TINY, "tb_reducer", scale=10)
