"""Configurations that the regression builds: small, so that a simulation is quick."""

from __future__ import annotations

import os

from hdl.config import SwitchConfig

__all__ = ["CONTEXTS", "FORWARDING", "INQ", "MINIMAL", "TENANTS", "TINY", "current"]

#: Flits of 8 bytes, so headers of two; three ranks.
TINY = SwitchConfig.preset("tiny")
#: Flits of 16 bytes, so headers of one; two ranks; a page is crossed within few packets.
MINIMAL = SwitchConfig(
    ranks=2, flit_bytes=16, payload_bytes=64, wave_bytes=128, waves=2, block=64,
    memory_bytes=16 << 10, address_bits=32, link_latency=2, link_latency_max=8, memory_latency=2,
    clock_hz=100_000_000,
)  # fmt: skip
#: Quantized operations beside sums; two ranks.
INQ = SwitchConfig.preset("tiny", ranks=2, formats=("fp16", "inq8"))
#: Two contexts, with collectives.
TENANTS = SwitchConfig.preset("tiny", contexts=2, collectives="all")
#: Two contexts, and no more else than one; memories of which each has as much as `TINY` has.
CONTEXTS = SwitchConfig.preset("tiny", contexts=2, memory_bytes=2 * TINY.memory_bytes)
#: Ordinary packets go from rank to rank; three of them.
FORWARDING = SwitchConfig.preset("tiny", core="forward")


def current() -> SwitchConfig:
    """The configuration of the design that this simulation runs."""
    return SwitchConfig.from_json(os.environ["TIDEGATE_CONFIG"])
