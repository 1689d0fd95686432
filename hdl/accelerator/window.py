"""The words of a context's window, by which a member posts its part of an instruction."""

from amaranth import unsigned
from amaranth.lib import data

from ..config import SwitchConfig
from ..transport.endpoint import WINDOW_WORD_BITS, WINDOW_WORD_BYTES

__all__ = [
    "COMMON_WORDS",
    "FORMAT_WORD",
    "WINDOW_WORDS",
    "WORD_BITS",
    "WORD_BYTES",
    "format_word",
    "window_words",
    "word_number",
]

WORD_BYTES = WINDOW_WORD_BYTES
WORD_BITS = WINDOW_WORD_BITS

#: By name, what a word is; each is at its number times `WORD_BYTES`.
WINDOW_WORDS = {
    "arrive": "the epoch that the rank arrives for; commits the words below",
    "source": "address of its operand",
    "destination": "address of its result",
    "flag": "address of its flag",
    "scale_source": "address of its scales",
    "scale_destination": "address of its new scales",
    "length": "bytes of each rank's operand; the same at all members",
    "format": "format and ranks (see below); the same at all members",
    "chunk": "bytes of a chunk, where the collective has them; the same at all members",
}
#: What all members must have in common.
COMMON_WORDS = ("length", "format", "chunk")

#: The word ``format``, from bit 0 up.
FORMAT_WORD = data.StructLayout(
    {
        "format": unsigned(8),
        "operation": unsigned(8),  # 0: sum
        "source_ranks": unsigned(16),
        "destination_ranks": unsigned(16),
        "collective": unsigned(8),  # 0: whole
        "reserved": unsigned(8),
    }
)


def window_words(config: SwitchConfig) -> tuple[str, ...]:
    """The words that there are, in order."""
    return tuple(name for name in WINDOW_WORDS if name != "chunk" or config.chunks)


def word_number(name: str) -> int:
    """The number of a word in its window."""
    return list(WINDOW_WORDS).index(name)


def format_word(
    format: int,
    source_ranks: int,
    destination_ranks: int,
    operation: int = 0,
    collective: int = 0,
) -> int:
    """The value of the word ``format``; ranks are a bit each."""
    fields = {
        "format": format,
        "operation": operation,
        "source_ranks": source_ranks,
        "destination_ranks": destination_ranks,
        "collective": collective,
    }
    return FORMAT_WORD.const(fields).as_bits()
