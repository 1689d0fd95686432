"""The switches that scenarios run in: few, so that each is compiled once, and unlike each other."""

from __future__ import annotations

from hdl.config import KNOWN_OPERATIONS, SwitchConfig

__all__ = ["CONFIGURATIONS", "READ_FIRST", "configuration"]

#: Memories with room for many waves of several tenants, and every collective.
ROOM = {"memory_bytes": 64 << 10, "collectives": "all"}

#: By name, what makes each of the preset `tiny`; at most eight.
CONFIGURATIONS: dict[str, dict] = {
    # The first two are what other tests of tenants have, too.
    "plain": dict(contexts=2),
    "three": dict(contexts=2, operations=",".join(KNOWN_OPERATIONS), collectives="all"),
    "forwarding": dict(contexts=2, core="forward", formats=("fp16", "int32"),
                       operations=("sum", "max", "average"), **ROOM),
    "wide": dict(ranks=2, contexts=3, flit_bytes=16, payload_bytes=64, read_request_bytes=128,
                 waves=8, write_waves=4, formats=("bf16",), operations=("sum", "min"), **ROOM),
    "tenants": dict(ranks=4, contexts=4, core="forward", formats=("fp16",), queue_depth=2,
                    link_share="packets", **ROOM),
    "sliced": dict(contexts=2, register_slices="all", formats=("fp16",),
                   operations=("sum", "average"), **ROOM),
    "quantized": dict(contexts=2, core="forward", formats=("fp16", "inq8"), **ROOM),
    "eight": dict(ranks=8, contexts=2, formats=("fp16",), **ROOM),
}  # fmt: skip

#: Whose memories have one port that prefers reads, in every scenario.
READ_FIRST = "tenants"


def configuration(name: str) -> SwitchConfig:
    """One of them, by name."""
    return SwitchConfig.preset("tiny", **CONFIGURATIONS[name])
