"""The flags that ranks find in their memories, each in its cycle, as a polling rank sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from sim.bench import Bench
from sim.tenants import FLAG_BYTES

from .endings import Ending
from .failure import ScenarioFailure
from .scenario import Window

__all__ = ["Flag", "FlagLog", "flag_address"]

#: Storage ports that tell a write.
WRITE_PORTS = ("write_enable", "write_address", "write_data", "write_strobe")


@dataclass(frozen=True)
class Flag:
    """A flag that was written: when, and what it says; ``rest`` are the bits that are 0."""

    cycle: int
    epoch: int
    ending: Ending
    context: int
    rest: int

    @classmethod
    def of(cls, cycle: int, word: int) -> Flag:
        code, rank = word >> 32 & 0xFF, word >> 40 & 0xFF
        try:
            ending = Ending(Status(code), rank)
        except ValueError:
            message = f"cycle {cycle}: the flag {word:#018x} has an unknown code"
            raise ScenarioFailure(message) from None
        return cls(cycle, word & 0xFFFFFFFF, ending, word >> 48 & 0xFF, word >> 56)


def flag_address(config: SwitchConfig, window: Window) -> int:
    """Where a tenant has its flags, at every rank: the last flit of its window."""
    return window.limit - config.flit_bytes


class FlagLog:
    """Listens to what is written where flags are.

    Parameters
    ----------
    bed
        The system, in an engine.
    windows
        By context.
    """

    def __init__(self, bed: Bench, windows: Sequence[Window]):
        self._bed = bed
        flit = bed.config.flit_bytes
        self._contexts = {
            flag_address(bed.config, window) // flit: context
            for context, window in enumerate(windows)
        }

    def begin(self):
        """Forget what was heard, and listen from here on."""
        ranks = range(self._bed.config.ranks)
        ports = [f"storage__{rank}__{name}" for rank in ranks for name in WRITE_PORTS]
        self._bed.engine.record(ports[:: len(WRITE_PORTS)], ports)

    def flags(self) -> dict[tuple[int, int], list[Flag]]:
        """By context and rank, in order."""
        recording = self._bed.engine.recording()
        found = {
            (context, rank): []
            for context in self._contexts.values()
            for rank in range(self._bed.config.ranks)
        }
        step = len(WRITE_PORTS)
        for cycle, row in zip(recording.cycles, recording.values, strict=True):
            for rank in range(self._bed.config.ranks):
                enable, address, data, strobe = row[step * rank : step * rank + step]
                if enable and address in self._contexts and strobe:
                    word = data & (1 << 8 * FLAG_BYTES) - 1
                    found[self._contexts[address], rank].append(Flag.of(cycle, word))
        return found
