"""The data of ordinary traffic: words that tell their address, writer, owner and seed."""

from amaranth import Cat, unsigned
from amaranth.lib import data

__all__ = ["WORD_BYTES", "flit_words", "pattern_word"]

WORD_BYTES = 8
#: Bits of a word that hold its number, which is its byte address / 8.
NUMBER_BITS = 32

#: A word: no two of one seed are equal that differ in address, writer or owner.
Word = data.StructLayout(
    {
        "number": unsigned(NUMBER_BITS),  # exclusive or with the seed
        "inverse": unsigned(24),  # of its upper 24 bits
        "writer": unsigned(4),
        "owner": unsigned(4),
    }
)


def pattern_word(number, writer, owner, seed):
    """The word with this number in the memory of rank `owner`, written by rank `writer`."""
    mixed = (number ^ seed)[:NUMBER_BITS]
    return Cat(mixed, ~mixed[8:], writer[:4], owner[:4])


def flit_words(flit_bytes: int, flit, writer, owner, seed):
    """The words of the flit at `flit`, its address / `flit_bytes`."""
    count = flit_bytes // WORD_BYTES
    lane_bits = (count - 1).bit_length()
    return Cat(
        pattern_word((flit << lane_bits | lane), writer, owner, seed) for lane in range(count)
    )
