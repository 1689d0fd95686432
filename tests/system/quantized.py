"""Quantized operands at random places, and what their run must count."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from hdl.config import SwitchConfig
from sim.golden import all_reduce_inq
from sim.quantized import Quantized
from sim.testbed import Placement, Testbed
from tests.arithmetic.inq_operands import operands

from .systems import signal_nan

__all__ = ["any_codes", "block_counts", "places", "sweep"]

FLAG_BYTES = 8


def any_codes(rng: np.random.Generator, config: SwitchConfig, n: int) -> Quantized:
    """Codes and scales in which ties, cancellation, subnormals, overflow and bad scales occur."""
    # At least one code, of which none may be left.
    codes, scales = operands(rng, config.ranks, max(n, 1), config.block, config.scale_format)
    return Quantized(codes[:, :n], scales[:, : -(-n // config.block)])


def _apart(rng, config: SwitchConfig, sizes: list[int]) -> list[int]:
    """Flit addresses of regions of so many bytes, in any order, with any gaps."""
    flits = [-(-size // config.flit_bytes) for size in sizes]
    free = config.memory_bytes // config.flit_bytes - sum(flits)
    gaps = np.sort(rng.integers(0, free + 1, len(sizes)))
    order = rng.permutation(len(sizes))
    before = accumulate((flits[i] for i in order[:-1]), initial=0)
    starts = [0] * len(sizes)
    for region, gap, taken in zip(order, gaps, before, strict=True):
        starts[region] = int(gap + taken) * config.flit_bytes
    return starts


def places(rng, config: SwitchConfig, n: int, *, codes: bool, scales: bool) -> Placement:
    """Addresses that differ between the ranks, also mod 4 KiB.

    `codes` and `scales` say which of them are in place.
    """
    rows = []
    sizes = [n, n, config.scales_bytes(n), config.scales_bytes(n), config.flit_bytes]
    for _ in range(config.ranks):
        source, destination, scale_source, scale_destination, flag = _apart(rng, config, sizes)
        flag += FLAG_BYTES * int(rng.integers(config.flit_bytes // FLAG_BYTES))
        rows.append(
            (
                source,
                source if codes else destination,
                flag,
                scale_source,
                scale_source if scales else scale_destination,
            )
        )
    return Placement(*map(list, zip(*rows, strict=True)))


def block_counts(bed: Testbed) -> tuple[int, int]:
    """Blocks since reset whose scale became NaN, and that overflowed."""
    return tuple(bed.host.read("switch", f"blocks_{what}") for what in ("nan", "overflow"))


def sweep(bed: Testbed, seed: list[int], n: int, given: Quantized | None = None, **how):
    """One All-Reduce at random addresses, codes and scales in place or not.

    NaN stands around it. Every byte of memory, the waves and the counts of blocks are compared.
    """
    config = bed.config
    rng = np.random.default_rng(seed)
    where = places(rng, config, n, codes=bool(rng.integers(2)), scales=bool(rng.integers(2)))
    given = given or any_codes(rng, config, n)
    before = block_counts(bed)
    outcome = bed.all_reduce(given, "inq8", where=where, guard=signal_nan.view("u1"), **how)
    assert outcome.status == "ok", (seed, n, where, outcome)
    assert outcome.figures.waves == -(-n // config.wave_bytes), seed
    *_, status = all_reduce_inq(
        given.codes,
        given.scales,
        block=config.block,
        scale_format=config.scale_format,
        e8m0_rule=config.e8m0_rule,
    )
    counted = tuple(after - old for after, old in zip(block_counts(bed), before, strict=True))
    assert counted == (status.nan_blocks, status.overflow_blocks), (seed, n)
    return outcome
