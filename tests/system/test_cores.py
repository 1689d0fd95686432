"""What ordinary packets meet in the switch changes nothing for the accelerator's."""

import numpy as np
import pytest

from sim.testbed import Testbed

from .systems import random_bits, tiny

#: Of 16-bit numbers: one, a wave and a bit, two waves and a bit.
ELEMENTS = (1, 130, 280)


def cycles(core: str) -> list[tuple[int, int]]:
    """Figures of runs that are bit exact."""
    rng = np.random.default_rng(1)
    figures = []
    with Testbed(tiny(core=core), "pysim") as bed:
        for elements in ELEMENTS:
            outcome = bed.all_reduce(random_bits(rng, 3, elements), "fp16")
            assert outcome.bit_exact, outcome.differences
            figures.append((outcome.figures.data, outcome.figures.arrive_to_flag))
    return figures


def test_all_reduce_takes_the_same_cycles_without_ordinary_channels():
    assert cycles("none") == cycles("stub")


@pytest.mark.long
def test_all_reduce_takes_the_same_cycles_beside_a_core_that_has_seen_nothing():
    assert cycles("forward") == cycles("stub")
