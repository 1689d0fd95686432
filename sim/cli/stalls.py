"""Stall patterns: how often a rank's memory refuses or holds back a beat, channel by channel."""

from __future__ import annotations

from hdl.config import unknown_name
from hdl.emulated_memory import STALL_CHANNELS

from .errors import UsageError

__all__ = ["PATTERNS", "parse_stalls", "patterns_help"]

#: A threshold register counts in so many parts of 1.
THRESHOLD_SCALE = 256

#: Patterns by name: what each is for, and fractions of cycles by channel.
PATTERNS: dict[str, tuple[str, dict[str, float]]] = {
    "none": ("memories take and give a beat in every cycle", {}),
    "light": ("every channel stalls in one cycle of eight", dict.fromkeys(STALL_CHANNELS, 0.125)),
    "heavy": ("every channel stalls in three cycles of four", dict.fromkeys(STALL_CHANNELS, 0.75)),
    "reads": ("addresses and data of reads stall in half of the cycles", {"ar": 0.5, "r": 0.5}),
    "writes": (
        "addresses, data and responses of writes stall in half of the cycles",
        {"aw": 0.5, "w": 0.5, "b": 0.5},
    ),
    "responses": ("write responses stall in nine cycles of ten", {"b": 0.9}),
}


def patterns_help() -> str:
    """The named patterns, one line."""
    return "; ".join(f"{name}: {meaning}" for name, (meaning, _) in PATTERNS.items())


def _threshold(channel: str, text: str) -> int:
    if channel not in STALL_CHANNELS:
        raise UsageError(unknown_name("stalls: channel", channel, STALL_CHANNELS))
    try:
        fraction = float(text)
    except ValueError:
        fraction = -1.0
    if not 0 <= fraction < 1:
        raise UsageError(f"stalls: {channel} must be a fraction of 0 to below 1, not {text!r}")
    return min(round(fraction * THRESHOLD_SCALE), THRESHOLD_SCALE - 1)


def parse_stalls(text: str) -> dict[str, int]:
    """Thresholds by channel, of 256, of a named pattern or of ``ar=0.25,r=0.5``."""
    if text in PATTERNS:
        fractions = PATTERNS[text][1]
        return {channel: _threshold(channel, str(part)) for channel, part in fractions.items()}
    if "=" not in text:
        raise UsageError(
            unknown_name("stalls", text, PATTERNS) + " (or fractions, as in ar=0.25,r=0.5)"
        )
    thresholds: dict[str, int] = {}
    for part in text.split(","):
        channel, _, fraction = part.partition("=")
        if channel in thresholds:
            raise UsageError(f"stalls: must name each channel once, not {channel} twice")
        thresholds[channel] = _threshold(channel, fraction)
    return thresholds
