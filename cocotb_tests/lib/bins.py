"""Every bin of functional coverage: what a full regression must have seen at least once."""

from __future__ import annotations

from dataclasses import dataclass, field

from .patterns import SHAPES

__all__ = ["BINS", "Group"]


@dataclass(frozen=True)
class Group:
    """Bins of one property.

    Parameters
    ----------
    meaning
        One line.
    bins
        Their names.
    unreachable
        What one might miss here, and why nothing can reach it.
    """

    meaning: str
    bins: tuple[str, ...]
    unreachable: dict[str, str] = field(default_factory=dict)


def _every(*names) -> tuple[str, ...]:
    return tuple(str(name) for name in names)


def _crossed(*parts) -> tuple[str, ...]:
    """Names of every combination, joined by ``x``."""
    names = [""]
    for part in parts:
        names = [f"{name}x{other}" if name else str(other) for name in names for other in part]
    return tuple(names)


#: AXI4 responses; EXOKAY answers exclusive accesses, which the endpoint does not make.
RESPONSES = ("OKAY", "SLVERR", "DECERR")
STALLS = _crossed(SHAPES, SHAPES)

BINS: dict[str, Group] = {
    "endpoint.read_length": Group(
        "bytes of a read against flit and payload",
        ("zero", "under a flit", "a flit", "under a payload", "a payload", "several payloads"),
    ),
    "endpoint.write_length": Group(
        "bytes of a write against flit and payload",
        ("zero", "under a flit", "a flit", "under a payload", "a payload"),
    ),
    "endpoint.alignment": Group(
        "first byte within its flit", ("aligned", "first byte in the middle", "last byte of a flit")
    ),
    "endpoint.page": Group(
        "a packet's range against a 4 KiB page",
        ("inside", "ends at the boundary", "begins at the boundary", "crosses"),
    ),
    "endpoint.read_response": Group(
        "response of a read beat, and which beat of its burst",
        _crossed(RESPONSES, ("only", "first", "middle", "last")),
    ),
    "endpoint.write_response": Group(
        "response of a packet's first and second burst",
        RESPONSES + _crossed(RESPONSES, RESPONSES),
    ),
    "endpoint.stalls": Group("idle of the link x back-pressure of the memory", STALLS),
    "endpoint.memory": Group(
        "how the memory answers", ("two ports", "single-ported", "cocotbext-axi")
    ),
    "endpoint.latency": Group(
        "cycles of the memory's reads", _every("1", "2-4", "5-16", "17+")
    ),
    "endpoint.arrival": Group(
        "answers to arrivals", RESPONSES
    ),
}  # fmt: skip
