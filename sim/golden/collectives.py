"""Collectives over subsets of the ranks: which bytes of which rank change, and to what.

Every rank has two vectors of the same length, its *source* and its *destination*; in place they are
one. A collective reads sources of some ranks and writes destinations of some, not always all of a
vector. What it does not write stays as it is.

=================  ==============================  ==========================================
collective         reads                           writes
=================  ==============================  ==========================================
all-reduce         every source, whole             every destination, whole: the result
reduce             every source, whole             the one destination, whole: the result
broadcast          the one source, whole           every destination, whole: a copy
all-gather         chunk i of the i-th source      every destination, whole: chunk i is a copy
reduce-scatter     every source, whole             chunk i of the i-th destination: the result
barrier            nothing                         nothing
=================  ==============================  ==========================================

The i-th source, or destination, is the i-th of them by rank. Chunk i stands at the same place in
every vector: from i chunks on, one chunk long, but never past the end; the last is all that is
left. So where a length does not divide, the last chunk is shorter or longer, and some may be empty.
"""

from collections.abc import Sequence

import numpy as np

from .operations import all_reduce

__all__ = ["CHUNKED", "COLLECTIVES", "COPYING", "chunk_of", "collective", "even_chunk"]

#: Every collective.
COLLECTIVES = ("all-reduce", "reduce", "broadcast", "all-gather", "reduce-scatter", "barrier")
#: Those that copy bits, whatever they mean, and those that cut vectors into chunks.
COPYING = ("broadcast", "all-gather")
CHUNKED = ("all-gather", "reduce-scatter")
#: Of whom there is only one.
SINGLE = {"reduce": "destinations", "broadcast": "sources"}


def even_chunk(n: int, members: int, unit: int = 1) -> int:
    """The smallest chunk, in whole `unit`, of which `members` cover `n` elements; one unit at
    least.
    """
    return max(-(-n // (members * unit)), 1) * unit


def chunk_of(n: int, members: int, member: int, chunk: int) -> slice:
    """The elements, of `n`, that are the `member`-th's of `members`."""
    start = min(member * chunk, n)
    return slice(start, n if member == members - 1 else min(start + chunk, n))


def collective(
    kind: str,
    sources: np.ndarray,
    destinations: np.ndarray,
    *,
    format: str,
    operation: str = "sum",
    source_ranks: Sequence[int],
    destination_ranks: Sequence[int],
    chunk: int | None = None,
) -> np.ndarray:
    """What the destinations hold afterwards.

    Parameters
    ----------
    kind : one of `COLLECTIVES`
    sources, destinations : (ranks, n) of what every rank's vectors hold before; the same array
        in place
    format, operation : see `all_reduce`; without effect where bits are copied
    source_ranks, destination_ranks : who is read and who is written, ascending
    chunk : elements of a chunk, where there are some; None is `even_chunk`

    Returns
    -------
    A new array (ranks, n).

    Raises
    ------
    ValueError : a name, shape or list of ranks is not as above
    """
    _check(kind, sources, destinations, source_ranks, destination_ranks)
    result = destinations.copy()
    if kind == "barrier":
        return result
    segments = [(slice(None), source_ranks, destination_ranks)]
    if kind in CHUNKED:
        owners = source_ranks if kind == "all-gather" else destination_ranks
        segments = _segments(kind, sources.shape[1], owners, chunk, source_ranks, destination_ranks)
    for part, read, written in segments:
        operands = sources[np.ix_(read, np.arange(sources.shape[1])[part])]
        if kind in COPYING:
            values = operands[0]
        else:
            values, _status = all_reduce(operands, format, operation)
        for rank in written:
            result[rank, part] = values
    return result


def _segments(kind, n, owners, chunk, source_ranks, destination_ranks):
    """By owner of a chunk: its elements, who is read, and who is written."""
    chunk = even_chunk(n, len(owners)) if chunk is None else chunk
    if chunk < 1:
        raise ValueError(f"chunk: must be 1 or more, not {chunk!r}")
    for number, owner in enumerate(owners):
        part = chunk_of(n, len(owners), number, chunk)
        if kind == "all-gather":
            yield part, [owner], destination_ranks
        else:
            yield part, source_ranks, [owner]


def _check(kind, sources, destinations, source_ranks, destination_ranks):
    if kind not in COLLECTIVES:
        raise ValueError(f"kind: must be one of {', '.join(COLLECTIVES)}, not {kind!r}")
    if sources.ndim != 2 or sources.shape != destinations.shape:
        raise ValueError(
            f"destinations: must have the shape (ranks, elements) of sources, {sources.shape}, "
            f"not {destinations.shape}"
        )
    for name, ranks in (("source_ranks", source_ranks), ("destination_ranks", destination_ranks)):
        known = range(len(sources))
        if not len(ranks) or list(ranks) != sorted(set(ranks)) or not set(ranks) <= set(known):
            rule = f"must be ascending ranks of {known.start}..{known.stop - 1}"
            raise ValueError(f"{name}: {rule}, not {ranks!r}")
        if name.startswith(SINGLE.get(kind, "none").removesuffix("s")) and len(ranks) != 1:
            raise ValueError(f"{name}: must be one rank for {kind}, not {ranks!r}")
