"""What happened to each wave and when, told from the trace ports of a recorded run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from hdl.config import SwitchConfig
from sim.engines import Engine, Recording

__all__ = ["EventsError", "RunEvents", "Wave", "record", "run_events"]

#: Strobes of the accelerator's trace and of each rank's (`hdl.accelerator.trace`), with the number
#: that goes with each.
WAVE_STROBES = {"issue": "issue_entry", "read_out": "read_out_entry", "release": None}
RANK_STROBES = {
    "arrival": None,
    "request": "request_entry",
    "data": "data_entry",
    "write": "write_slot",
    "response": "response_slot",
    "flag": None,
}
#: Further numbers that are kept with them.
WAVE_NUMBERS = ("issue_empty", "read_out_slot")


class EventsError(ValueError):
    """Events do not fit together, or a file does not hold any. The message is one line."""


@dataclass
class Wave:
    """One wave. Cycles by rank are lists; `read_out` and `released` are the same for all.

    Parameters
    ----------
    issued
        Its entries are reserved.
    requested
        Its first read request is accepted at a rank's port.
    complete
        The last flit of its read data comes from a rank.
    read_out, released
        Its read-out into the reducer begins, and ends.
    written
        Its first write packet is accepted at a rank's port.
    acknowledged
        The last of its writes is acknowledged by a rank.
    """

    issued: int
    requested: list[int]
    complete: list[int]
    read_out: int
    released: int
    written: list[int]
    acknowledged: list[int]


@dataclass
class RunEvents:
    """A run: what ran, and its waves in order. Cycles count from the start of the simulation."""

    config: dict
    bytes: int
    dtype: str
    arrivals: list[int]
    flags: list[int]
    waves: list[Wave]

    @property
    def first_request(self) -> int:
        return min(min(wave.requested) for wave in self.waves)

    @property
    def last_response(self) -> int:
        return max(max(wave.acknowledged) for wave in self.waves)

    def check(self):
        """Raise `EventsError` unless each wave's events are there and in the order they must be."""
        for index, wave in enumerate(self.waves):
            if not 0 < wave.read_out <= wave.released:
                raise EventsError(f"events: wave {index} was not read out")
            for rank, requested in enumerate(wave.requested):
                order = [
                    wave.issued,
                    requested,
                    wave.complete[rank],
                    wave.read_out,
                    wave.written[rank],
                    wave.acknowledged[rank],
                ]
                if order != sorted(order):
                    line = f"events: wave {index} at rank {rank} is out of order: {order}"
                    raise EventsError(line)

    def save(self, path: str | Path):
        """Write the events as JSON."""
        Path(path).write_text(json.dumps(asdict(self)) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> RunEvents:
        """Events from a file that `save` wrote."""
        try:
            fields = json.loads(Path(path).read_text())
            waves = [Wave(**wave) for wave in fields.pop("waves")]
            return cls(**fields, waves=waves)
        except OSError as error:
            raise EventsError(f"events: cannot read {str(path)!r}: {error.strerror}") from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise EventsError(f"events: {str(path)!r} must be a file of saved events") from None


def _rank_port(rank: int, name: str) -> str:
    return f"rank_trace__{rank}__{name}"


def record(engine: Engine, ranks: int):
    """Let `engine` record a system's trace ports from here on."""
    strobes = [f"trace__{name}" for name in WAVE_STROBES]
    numbers = [f"trace__{name}" for name in (*WAVE_STROBES.values(), *WAVE_NUMBERS) if name]
    for rank in range(ranks):
        strobes += [_rank_port(rank, name) for name in RANK_STROBES]
        numbers += [_rank_port(rank, name) for name in RANK_STROBES.values() if name]
    engine.record(strobes, strobes + numbers)


class _Follower:
    """Follows the rows of a recording.

    Entries and write slots are rings that waves take in turn: a number in an event is the wave
    that took it last. Within a cycle waves are issued before they are requested, and read out
    before they are written.
    """

    def __init__(self, ranks: int):
        self._ranks = range(ranks)
        self.waves: list[Wave] = []
        self.arrivals, self.flags = [0] * ranks, [0] * ranks
        self._in_entry: dict[int, Wave] = {}
        self._in_slot: dict[int, Wave] = {}
        self._reading: list[Wave] = []

    def row(self, cycle: int, row: dict[str, int]):
        if row["trace__issue"] and not row["trace__issue_empty"]:
            self._issue(cycle, row["trace__issue_entry"])
        if row["trace__read_out"] and row["trace__read_out_entry"] in self._in_entry:
            wave = self._in_entry[row["trace__read_out_entry"]]
            wave.read_out = cycle
            self._in_slot[row["trace__read_out_slot"]] = wave
        for rank in self._ranks:
            self._rank(cycle, rank, row)
        if row["trace__release"]:
            self._reading.pop(0).released = cycle

    def _issue(self, cycle: int, entry: int):
        empty = [[0] * len(self._ranks) for _ in range(4)]
        wave = Wave(cycle, empty[0], empty[1], 0, 0, empty[2], empty[3])
        self.waves.append(wave)
        self._reading.append(wave)
        self._in_entry[entry] = wave

    def _rank(self, cycle: int, rank: int, row: dict[str, int]):
        def number(strobe):
            """The number that goes with a strobe in this row, or None."""
            if row[_rank_port(rank, strobe)]:
                return row[_rank_port(rank, RANK_STROBES[strobe])]
            return None

        if row[_rank_port(rank, "arrival")]:
            self.arrivals[rank] = cycle
        if row[_rank_port(rank, "flag")]:
            self.flags[rank] = cycle
        if (entry := number("request")) is not None:
            wave = self._in_entry[entry]
            wave.requested[rank] = wave.requested[rank] or cycle
        if (entry := number("data")) is not None:
            self._in_entry[entry].complete[rank] = cycle
        if (slot := number("write")) is not None:
            wave = self._in_slot[slot]
            wave.written[rank] = wave.written[rank] or cycle
        if (slot := number("response")) is not None:
            self._in_slot[slot].acknowledged[rank] = cycle


def run_events(recording: Recording, config: SwitchConfig, size: int, dtype: str) -> RunEvents:
    """The waves of a run of one operation that ended well.

    Parameters
    ----------
    recording
        Made under `record`, from before the run to after it.
    size
        Bytes of each rank's operand.

    Raises
    ------
    EventsError
        Something is missing or out of order.
    """
    follower = _Follower(config.ranks)
    try:
        for cycle, row in recording.rows():
            follower.row(cycle, row)
    except (KeyError, IndexError):
        raise EventsError("events: must be recorded from before the first wave") from None
    events = RunEvents(
        config.to_fields(), size, dtype, follower.arrivals, follower.flags, follower.waves
    )
    events.check()
    return events
