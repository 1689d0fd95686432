"""Golden collectives: byte by byte, in place and out of place, over every subset."""

import re
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.golden.collectives import (
    CHUNKED,
    COLLECTIVES,
    COPYING,
    chunk_of,
    collective,
    even_chunk,
)
from tests.golden import exact
from tests.golden.test_allreduce import examples

SEED = 10
RANKS = 4
SUBSETS = list(chain.from_iterable(combinations(range(RANKS), k) for k in range(1, RANKS + 1)))


def vectors(n, *seed):
    """Bits of small whole numbers, NaN now and then: (ranks, n) sources and destinations."""
    random = np.random.default_rng([SEED, n, *seed])
    values = random.integers(-50, 50, (2, RANKS, n)).astype(np.float16).view(np.uint16)
    values[random.random(values.shape) < 0.05] = 0x7D01  # a NaN that only a copy keeps
    return values


def allowed(kind, sources, destinations):
    return (kind != "broadcast" or len(sources) == 1) and (
        kind != "reduce" or len(destinations) == 1
    )


def element(kind, before, source, read, written, owner):
    """One element of every rank's destination, by the words of the definition."""
    after = list(before)
    if kind == "barrier":
        return after
    if kind == "all-gather":
        value = source[read[owner]]
    elif kind == "broadcast":
        value = source[read[0]]
    else:
        value = exact.all_reduce([source[rank] for rank in read], "fp16")
    for rank in [written[owner]] if kind == "reduce-scatter" else written:
        after[rank] = value
    return after


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "out of place"])
@pytest.mark.parametrize("kind", COLLECTIVES)
def test_every_element_over_every_subset(kind, in_place):
    n, chunk = 7, 3
    for number, read in enumerate(SUBSETS):
        for written in SUBSETS:
            if not allowed(kind, read, written):
                continue
            sources, destinations = vectors(n, number)
            if in_place:
                destinations = sources
            untouched = sources.copy()
            got = collective(
                kind, sources, destinations, format="fp16", source_ranks=read,
                destination_ranks=written, chunk=chunk,
            )  # fmt: skip
            owners = read if kind == "all-gather" else written
            for k in range(n):
                owner = min(k // chunk, len(owners) - 1)
                column = [int(bits) for bits in destinations[:, k]]
                source = [int(bits) for bits in sources[:, k]]
                want = element(kind, column, source, read, written, owner)
                assert got[:, k].tolist() == want, f"{read} to {written}, element {k}"
            assert np.array_equal(sources, untouched)


@examples
@given(st.integers(0, 200), st.integers(1, 16), st.integers(1, 9))
def test_chunks_cover_the_vector_without_overlap(n, members, unit):
    chunk = even_chunk(n, members, unit)
    assert chunk % unit == 0
    parts = [chunk_of(n, members, member, chunk) for member in range(members)]
    assert list(chain.from_iterable(range(n)[part] for part in parts)) == list(range(n))
    assert all(part.stop - part.start <= chunk for part in parts)
    # None smaller does, unless it is a single unit.
    assert chunk == unit or members * (chunk - unit) < n


def test_the_last_chunk_is_all_that_is_left():
    parts = [chunk_of(10, 3, member, 2) for member in range(3)]
    assert parts == [slice(0, 2), slice(2, 4), slice(4, 10)]
    assert [chunk_of(4, 3, member, 3) for member in range(3)] == [
        slice(0, 3), slice(3, 4), slice(4, 4),
    ]  # fmt: skip


def test_a_scatter_and_a_gather_are_an_all_reduce():
    """In place, as a ring does it."""
    sources, _ = vectors(37)
    everyone = dict(format="fp16", source_ranks=range(RANKS), destination_ranks=range(RANKS))
    scattered = collective("reduce-scatter", sources, sources, **everyone)
    gathered = collective("all-gather", scattered, scattered, **everyone)
    assert np.array_equal(gathered, collective("all-reduce", sources, sources, **everyone))


@pytest.mark.parametrize("operation", ["max", "min", "average"])
@pytest.mark.parametrize("kind", ["reduce-scatter", "reduce"])
def test_other_operations(kind, operation):
    sources, destinations = vectors(20)
    got = collective(
        kind, sources, destinations, format="fp16", operation=operation, source_ranks=(0, 2, 3),
        destination_ranks=(1,),
    )  # fmt: skip
    oracle = {
        "average": exact.average,
        "max": lambda bits, name: exact.extremum(bits, name, largest=True),
        "min": lambda bits, name: exact.extremum(bits, name, largest=False),
    }[operation]
    want = [oracle([int(b) for b in sources[[0, 2, 3], k]], "fp16") for k in range(20)]
    assert got[1].tolist() == want
    assert np.array_equal(got[[0, 2, 3]], destinations[[0, 2, 3]])


def test_names():
    assert set(COPYING) | set(CHUNKED) < set(COLLECTIVES)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("scan", {}, "kind: must be one of all-reduce, reduce, broadcast, all-gather, "
         "reduce-scatter, barrier, not 'scan'"),
        ("all-reduce", dict(source_ranks=()), "source_ranks: must be ascending ranks of 0..3, "
         "not ()"),
        ("all-reduce", dict(source_ranks=(2, 1)), "source_ranks: must be ascending ranks of 0..3, "
         "not (2, 1)"),
        ("all-reduce", dict(destination_ranks=(4,)), "destination_ranks: must be ascending ranks "
         "of 0..3, not (4,)"),
        ("reduce", {}, "destination_ranks: must be one rank for reduce, not (0, 1)"),
        ("broadcast", {}, "source_ranks: must be one rank for broadcast, not (0, 1)"),
        ("all-gather", dict(chunk=0), "chunk: must be 1 or more, not 0"),
        ("barrier", dict(destinations=np.zeros((4, 4), np.uint16)), "destinations: must have the "
         "shape (ranks, elements) of sources, (4, 5), not (4, 4)"),
    ],
)  # fmt: skip
def test_refuses(kind, fields, message):
    given = {
        "sources": np.zeros((4, 5), np.uint16),
        "destinations": np.zeros((4, 5), np.uint16),
        "source_ranks": (0, 1),
        "destination_ranks": (0, 1),
    }
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        collective(kind, format="fp16", **{**given, **fields})
