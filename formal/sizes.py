"""Sizes that proofs are made at."""

from __future__ import annotations

from hdl.config import SwitchConfig

__all__ = [
    "CODES",
    "FORWARDING",
    "LONG_REQUESTS",
    "SMALL",
    "TENANTS",
    "THREE_CONTEXTS",
    "THREE_CONTEXTS_WITH_SLICES",
    "THREE_OF_TENANTS",
    "TINY",
    "TWO_PAGES",
    "TWO_PAGES_OF_TENANTS",
    "describe",
]

#: The preset for sweeps and proofs.
TINY = SwitchConfig.preset("tiny")

#: As small as each part still has more than one of everything: ranks, entries, packets in a wave,
#: flits in a packet.
SMALL = SwitchConfig.preset(
    "tiny",
    ranks=2,
    payload_bytes=16,
    wave_bytes=32,
    block=32,
    waves=2,
    write_waves=2,
    queue_depth=1,
    memory_bytes=256,
    link_latency=2,
    link_latency_max=2,
)

#: Addresses of two pages and no more: what happens at their border is the same everywhere.
TWO_PAGES = SMALL.replace(address_bits=13)

#: Ordinary packets go from rank to rank.
FORWARDING = SMALL.replace(core="forward")
#: Two contexts, of two entries each.
TENANTS = SMALL.replace(contexts=2, waves=4)
TWO_PAGES_OF_TENANTS = TENANTS.replace(address_bits=13)
#: Two contexts, with a rank more: some of the members of a context are then more than one.
THREE_OF_TENANTS = TENANTS.replace(ranks=3)
#: A read request asks for two packets.
LONG_REQUESTS = TENANTS.replace(wave_bytes=64, read_request_bytes=32)
#: A context more: who waits then waits for several others.
THREE_CONTEXTS = TENANTS.replace(contexts=3)
THREE_CONTEXTS_WITH_SLICES = THREE_CONTEXTS.replace(register_slices="all")
#: Quantized operations; of their waves scales fill whole flits.
CODES = SMALL.replace(
    formats=("fp16", "inq8"), payload_bytes=32, wave_bytes=256, read_request_bytes=None
)

_KINDS = (
    (TWO_PAGES, "2 pages"), (FORWARDING, "forwarding"), (TENANTS, "2 contexts"),
    (TWO_PAGES_OF_TENANTS, "2 contexts, 2 pages"),
    (THREE_OF_TENANTS, "2 contexts"), (LONG_REQUESTS, "2 contexts, requests of 2 packets"),
    (THREE_CONTEXTS, "3 contexts"),
    (THREE_CONTEXTS_WITH_SLICES, "3 contexts, register slices"), (CODES, "inq8"),
)  # fmt: skip


def describe(config: SwitchConfig) -> str:
    """What tells sizes apart, in a few words."""
    name = "tiny" if config == TINY else "small"
    for kind, words in _KINDS:
        name += f", {words}" if config == kind else ""
    return (
        f"{name}: {config.ranks} ranks, flit {config.flit_bytes}, payload {config.payload_bytes}, "
        f"wave {config.wave_bytes} x {config.waves}"
    )
