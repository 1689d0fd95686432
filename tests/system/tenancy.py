"""Two tenants of one small switch, for the tests of what they share and of how they fail."""

from __future__ import annotations

import functools

import numpy as np

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from hdl.emulated_memory import STALL_CHANNELS
from sim.tenants import Operation, Tenant
from sim.testbed import Testbed

__all__ = [
    "BAD",
    "CONFIG",
    "CONTEXTS",
    "FORWARDING",
    "RANKS",
    "WATCHDOG",
    "accept",
    "hold",
    "pair",
    "release",
    "run",
    "values",
]

CONTEXTS = 2
RANKS = 3
BAD = 2  # the rank that fails
#: Cycles without progress that no healthy operation of these small systems has.
WATCHDOG = 500


#: Two contexts and nothing else that other small systems lack.
CONFIG = SwitchConfig.preset("tiny", contexts=CONTEXTS)
#: With ordinary traffic beside the tenants, and read requests that are answered with two packets;
#: one format, as the tests need no more, and it builds quicker.
FORWARDING = CONFIG.replace(
    core="forward", read_request_bytes=2 * CONFIG.payload_bytes, formats=("fp16",)
)


@functools.cache
def _bed(config: SwitchConfig) -> Testbed:
    return Testbed(config)


def pair(
    members=((0, 1, 2), (0, 1, 2)),
    watchdogs=(WATCHDOG, WATCHDOG),
    config: SwitchConfig = CONFIG,
    first: int = 0,
) -> list[Tenant]:
    """Two tenants at rest, each with half of every memory; healthy ranks, guards of noise.

    The one of context `first` comes first: contexts are alike, so tests take this one or that.
    """
    bed = _bed(config)
    host = bed.host
    bed.set_links(config.link_latency)
    for rank in range(RANKS):
        for name in ("hold", "read_error", "write_error"):
            host.write(f"rank{rank}", name, 0)
        bed.set_memory(rank, latency=config.memory_latency, write_latency=1, jitter=0, stalls={})
    half = config.memory_bytes // CONTEXTS
    tenants = [
        Tenant(bed, context, members[context], context * half, (context + 1) * half)
        for context in range(CONTEXTS)
    ]
    for tenant, watchdog in zip(tenants, watchdogs, strict=True):
        tenant.write("abort", 1)  # what a test before left
        _until(bed, lambda t=tenant: not t.read("failing") and not t.read("unreachable"))
        tenant.set_in_band(False)
        tenant.enable()
        tenant.write("watchdog", watchdog)
        host.epochs[tenant.context] = tenant.read("epoch")
    rng = np.random.default_rng(bed.cycle)
    for rank in range(RANKS):
        bed.fill(rank, 0, rng.integers(0, 256, config.memory_bytes).astype(np.uint8))
    host.write("switch", "clear", 1)
    return [tenants[first], tenants[1 - first]]


def _until(bed, condition, max_cycles=20_000):
    end = bed.cycle + max_cycles
    while not condition():
        assert bed.cycle < end, bed.state()
        bed.host.wait(20)


def values(seed: int, elements: int = 300) -> np.ndarray:
    """fp16 numbers near 1, as bits."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(RANKS, elements)).astype(np.float16).view(np.uint16)


def accept(tenant: Tenant, seed: int, elements: int = 300, **how) -> Operation:
    """Load and post an operation, which is taken."""
    operation = tenant.operation(values(seed, elements), **how)
    tenant.load(operation)
    assert tenant.post(operation) == (Status.OK, 0)
    return operation


def run(*tenants: Tenant, seed: int = 1, elements: int = 300, count: int = 1, **how):
    """`count` operations of each tenant at once, and every byte of every memory compared.

    Several lie in the same place, so the last one's operands are read and its result is there.
    """
    for tenant in tenants:
        for number in range(count):
            accept(tenant, seed + number, elements, **{"in_place": count == 1} | how)
        tenant.program()
    bed = tenants[0].bed
    bed.host.go([tenant.context for tenant in tenants])
    for tenant in tenants:
        assert tenant.wait(), bed.state()
        assert tenant.read("last_code") == Status.OK.value
        tenant.expect()
    assert not bed.differences()


def hold(tenant: Tenant, rank: int, *channels: str):
    """Let channels of a rank's memory stand still."""
    bits = sum(1 << STALL_CHANNELS.index(channel) for channel in channels)
    tenant.bed.host.write(f"rank{rank}", "hold", bits)


def release(tenant: Tenant, rank: int):
    tenant.bed.host.write(f"rank{rank}", "hold", 0)
    _until(tenant.bed, lambda: not tenant.read("unreachable"))
