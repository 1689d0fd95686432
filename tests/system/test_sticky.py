"""The register `sticky`: which kinds of bad values came up since `clear`."""

import numpy as np
import pytest

from .systems import TINY, system

RANKS = TINY.ranks
NAN, OVERFLOW = 1, 2
#: fp16 operands of every rank; what their sum raises.
OPERANDS = {
    "ordinary": (0x3C00, 0),
    "a NaN": (0x7E00, NAN),
    "largest finite": (0x7BFF, OVERFLOW),
    "infinite": (0x7C00, 0),
}


def after(bed, number):
    """`sticky` after an operation of which one element is `number` at every rank."""
    operands = np.full((RANKS, 300), 0x3C00, np.uint16)
    operands[:, 211] = number
    assert bed.all_reduce(operands, "fp16").status == "ok"
    return bed.host.read("switch", "sticky")


@pytest.mark.parametrize("kind", OPERANDS)
def test_each_kind_has_its_bit_and_a_run_clears_it(kind):
    bed = system()
    number, raised = OPERANDS[kind]
    assert after(bed, number) == raised
    assert bed.host.read("switch", "sticky") == raised
    assert after(bed, 0x3C00) == 0


def test_bits_stay_until_they_are_cleared():
    """Over operations that are started without `clear`."""
    bed = system()
    after(bed, 0x7E00)
    write = bed.host.write

    def all_but_clear(where, name, value):
        if name != "clear":
            write(where, name, value)

    bed.host.write = all_but_clear
    try:
        assert after(bed, 0x3C00) == NAN
        assert after(bed, 0x7BFF) == NAN | OVERFLOW
    finally:
        bed.host.write = write
    bed.host.write("switch", "clear", 1)
    assert bed.host.read("switch", "sticky") == 0
