"""Numbers with units, for people."""

__all__ = ["binary_size", "duration"]


def binary_size(count: int) -> str:
    """Bytes: ``16 KiB``, ``1.5 MiB``, ``130 B``."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.4g} {unit}"
    return f"{count} B"


def duration(ns: float) -> str:
    """Nanoseconds, in the unit that suits them."""
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= scale:
            return f"{ns / scale:.4g} {unit}"
    return f"{ns:.4g} ns"
