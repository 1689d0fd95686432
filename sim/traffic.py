"""Ordinary traffic in a system: settings in, memories filled and expected, totals out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from hdl.config import SwitchConfig

from .bench import Bench
from .golden import traffic as golden
from .golden.traffic import PATTERNS, Traffic
from .host import HostError

__all__ = [
    "Totals",
    "Traffic",
    "TrafficError",
    "check",
    "expect",
    "prepare",
    "shape_of",
    "start",
    "stop",
    "totals",
]

#: While traffic stops, it is looked at so often, after so many cycles each.
STOP_LOOKS, STOP_CYCLES = 1000, 100


class TrafficError(ValueError):
    """Settings break a rule. The message names setting, rule and value."""


@dataclass(frozen=True)
class Totals:
    """What one rank's generator counted; latencies in cycles."""

    asked: int
    answered: int
    moved: int
    errors: int
    mismatches: int
    strays: int
    latency_min: int
    latency_max: int
    latency_sum: int

    @property
    def latency_mean(self) -> float | None:
        """None where nothing was answered."""
        return self.latency_sum / self.answered if self.answered else None


def shape_of(config: SwitchConfig) -> golden.Shape:
    """What of a configuration decides its ordinary traffic's addresses."""
    return golden.Shape(config.ranks, config.payload_bytes)


def check(config: SwitchConfig, traffic: Traffic):
    """Refuse settings that the hardware would take otherwise than they read.

    Raises
    ------
    TrafficError
        With one line: the setting, the rule and the value.
    """

    def refuse(name, rule):
        raise TrafficError(f"{name}: {rule}, not {getattr(traffic, name)!r}")

    if not config.forwards:
        raise TrafficError(f"core: must be forward for ordinary traffic, not {config.core!r}")
    if traffic.pattern not in PATTERNS:
        refuse("pattern", f"must be one of {', '.join(PATTERNS)}")
    for name, low, high in (
        ("target", 0, config.ranks - 1),
        ("rate", 1, 0xFFFF),
        ("bytes", 1, config.payload_bytes),
        ("writes", 0, golden.CERTAIN),
        ("count", 0, golden.MASK),
        ("slots", 1, 1 << 16),
        ("seed", 0, golden.MASK),
    ):
        if not low <= getattr(traffic, name) <= high:
            refuse(name, f"must be {low}..{high}")
    if traffic.slots & (traffic.slots - 1):
        refuse("slots", "must be a power of two")
    shape = shape_of(config)
    taken = traffic.slots * shape.rank_slots * shape.slot_bytes
    for name in ("write_base", "read_base"):
        if getattr(traffic, name) % config.flit_bytes:
            refuse(name, f"must be a multiple of flit_bytes ({config.flit_bytes})")
        if getattr(traffic, name) + taken > config.memory_bytes:
            refuse(name, f"must leave room for {taken} bytes of slots in {config.memory_bytes}")


def prepare(bench: Bench, traffics: Sequence[Traffic]):
    """Put what will be read where it is read, and give each rank its settings."""
    shape = shape_of(bench.config)
    for rank, traffic in enumerate(traffics):
        check(bench.config, traffic)
        for setting in fields(traffic):
            value = getattr(traffic, setting.name)
            if setting.name == "pattern":
                value = PATTERNS.index(value)
            elif setting.name == "slots":
                value -= 1
            bench.host.write(f"rank{rank}", f"traffic_{setting.name}", value)
    for owner, address, content in golden.moved(shape, list(traffics), writes=False):
        bench.fill(owner, address, content)


def start(bench: Bench):
    """Start every rank's generator in the same cycle."""
    bench.host.write("system", "traffic_go", 1)


def stop(bench: Bench):
    """Let no rank ask more, and wait until what was asked is answered. Totals are lost."""
    for rank in range(bench.config.ranks):
        bench.host.write(f"rank{rank}", "traffic_count", 0)
    start(bench)
    everyone = (1 << bench.config.ranks) - 1
    for _ in range(STOP_LOOKS):
        if bench.host.read("system", "traffic_done") == everyone:
            return
        bench.host.wait(STOP_CYCLES)
    raise HostError(f"traffic: not all answered within {STOP_LOOKS * STOP_CYCLES} cycles")


def expect(bench: Bench, traffics: Sequence[Traffic]):
    """Expect in every memory what the traffic writes."""
    shape = shape_of(bench.config)
    for owner, address, content in golden.moved(shape, list(traffics), writes=True):
        bench.expected[owner][address : address + len(content)] = content


def totals(bench: Bench) -> list[Totals]:
    """What each rank counted since its start."""
    return [
        Totals(
            **{
                total.name: bench.host.read(f"rank{rank}", f"traffic_{total.name}")
                for total in fields(Totals)
            }
        )
        for rank in range(bench.config.ranks)
    ]
