"""What a scenario that fails says."""

from __future__ import annotations

__all__ = ["ScenarioFailure", "summary"]

#: Registers of a context that say where it stands.
TELLING = (
    "epoch", "operations", "last_code", "last_rank", "last_epoch", "arrived", "failing", "draining",
    "unreachable", "aborts", "abort_code", "abort_rank",
)  # fmt: skip


class ScenarioFailure(Exception):
    """Something is not as it must be; the message is one line."""


def summary(state: dict[str, dict[str, int]]) -> str:
    """One line of a state: what tells of contexts and ranks, zeros left out."""
    parts = []
    for where, registers in state.items():
        names = [*TELLING, *(name for name in registers if name.startswith("owed_"))]
        if where.startswith("rank"):
            names = ["hold", "traffic_asked", "traffic_answered"]
        if where == "system":
            names = ["done", "context_done", "traffic_done", "now"]
        told = {name: registers[name] for name in names if registers.get(name)}
        if told:
            fields = " ".join(f"{name}={value}" for name, value in told.items())
            parts.append(f"{where}: {fields}")
    return "; ".join(parts)
