"""What happened to each wave and when, told from the trace ports of a recorded run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from hdl.accelerator.trace import trace_ports
from hdl.config import SwitchConfig
from sim.engines import Engine, Recording

__all__ = [
    "EventsError",
    "Operation",
    "RunEvents",
    "Wave",
    "operation_events",
    "operations",
    "record",
    "run_events",
]


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

    @property
    def over(self) -> bool:
        """Whether all of it has happened."""
        at_ranks = (self.requested, self.complete, self.written, self.acknowledged)
        return bool(self.read_out and self.released and all(map(all, at_ranks)))


@dataclass
class RunEvents:
    """A run: what ran, and its waves in order. Cycles count from the reset of the system.

    Parameters
    ----------
    arrivals, flags
        By rank; 0 where the recording does not say.
    first_wave
        Number of the first of `waves`: earlier ones are not in the recording.
    """

    config: dict
    bytes: int
    dtype: str
    arrivals: list[int]
    flags: list[int]
    waves: list[Wave]
    first_wave: int = 0

    @property
    def seen_bytes(self) -> int:
        """Bytes of each rank's operand that `waves` cover."""
        return self.bytes - self.first_wave * self.config["wave_bytes"]

    @property
    def first_request(self) -> int:
        return min(min(wave.requested) for wave in self.waves)

    @property
    def last_response(self) -> int:
        return max(max(wave.acknowledged) for wave in self.waves)

    def check(self):
        """Raise `EventsError` unless each wave's events are there and in the order they must be."""
        for index, wave in enumerate(self.waves, self.first_wave):
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


def record(engine: Engine, ranks: int):
    """Let `engine` record a system's trace ports from here on."""
    ports = trace_ports(ranks)
    names = [name for strobe, numbers in ports.items() for name in (strobe, *numbers)]
    engine.record(list(ports), names)


@dataclass
class Operation:
    """What a recording says of one operation. `arrivals` and `flags` as in `RunEvents`."""

    slot: int
    waves: list[Wave]
    arrivals: list[int]
    flags: list[int]


class _Follower:
    """Follows the rows of a recording.

    Entries and write slots are rings that waves take in turn: a number in an event is the wave
    that took it last. Within a cycle waves are issued before they are requested, and read out
    before they are written. An operation's waves share a slot of the ring of operations, which the
    next one does not have.

    Parameters
    ----------
    whole
        The recording begins before the first wave: a number that no wave took is an error. Else it
        is an older wave's, which is left out.
    """

    def __init__(self, ranks: int, *, whole: bool):
        self._ranks = range(ranks)
        self._whole = whole
        self.operations: list[Operation] = []
        self.arrivals: list[list[int]] = [[] for _ in self._ranks]
        self.flags: list[list[int]] = [[] for _ in self._ranks]
        self._in_entry: dict[int, Wave | None] = {}
        self._in_slot: dict[int, Wave | None] = {}
        self._under_way: Wave | None = None  # its read-out

    def row(self, cycle: int, row: dict[str, int]):
        if row["trace__issue"]:
            self._issue(
                cycle,
                row["trace__issue_operation"],
                None if row["trace__issue_empty"] else row["trace__issue_entry"],
            )
        if row["trace__read_out"]:
            self._read_out(cycle, row["trace__read_out_entry"], row["trace__read_out_slot"])
        for rank in self._ranks:
            self._rank(cycle, rank, row)
        if row["trace__release"]:
            self._release(cycle)

    def _issue(self, cycle: int, slot: int, entry: int | None):
        if not self.operations or self.operations[-1].slot != slot:
            nowhere = [0] * len(self._ranks)
            self.operations.append(Operation(slot, [], nowhere, list(nowhere)))
        if entry is None:
            return
        empty = [[0] * len(self._ranks) for _ in range(4)]
        wave = Wave(cycle, empty[0], empty[1], 0, 0, empty[2], empty[3])
        self.operations[-1].waves.append(wave)
        self._in_entry[entry] = wave

    def _read_out(self, cycle: int, entry: int, slot: int):
        if self._under_way is not None:
            # Its entry was not released: it was an empty wave, which has none. The entry it named
            # is that of the next wave.
            self._under_way.read_out = 0
        wave = self._in_entry.get(entry)
        if wave is not None and wave.read_out:  # an empty wave, or an older one
            wave = None
        if wave is not None:
            wave.read_out = cycle
        self._under_way = self._in_slot[slot] = wave

    def _release(self, cycle: int):
        if self._under_way is not None:
            self._under_way.released = cycle
        elif self._whole:
            raise KeyError("release")
        self._under_way = None

    def _wave(self, taken: dict[int, Wave | None], number: int) -> Wave | None:
        """The wave that has an entry or slot, None if it is not in the recording."""
        wave = taken.get(number)
        if wave is None and self._whole:
            raise KeyError(number)
        return wave

    def _rank(self, cycle: int, rank: int, row: dict[str, int]):
        prefix = f"rank_trace__{rank}__"
        if row[prefix + "arrival"]:
            self.arrivals[rank].append(cycle)
        if row[prefix + "flag"]:
            self.flags[rank].append(cycle)
        for strobe, number, taken, name, keeps_first in (
            ("request", "request_entry", self._in_entry, "requested", True),
            ("data", "data_entry", self._in_entry, "complete", False),
            ("write", "write_slot", self._in_slot, "written", True),
            ("response", "response_slot", self._in_slot, "acknowledged", False),
        ):
            if not row[prefix + strobe]:
                continue
            wave = self._wave(taken, row[prefix + number])
            if wave is not None:
                cycles = getattr(wave, name)
                cycles[rank] = (keeps_first and cycles[rank]) or cycle


def operations(recording: Recording, ranks: int, *, whole: bool = True) -> list[Operation]:
    """The operations in a recording, in order.

    Parameters
    ----------
    whole
        The recording begins before the first arrival. Else only waves that are issued in it are
        found, so the first operation may lack its first ones, and arrivals and flags are not told
        unless there is one of each rank and one operation.

    Raises
    ------
    EventsError
        A whole recording names a wave that was not issued in it.
    """
    follower = _Follower(ranks, whole=whole)
    try:
        for cycle, row in recording.rows():
            follower.row(cycle, row)
    except KeyError:
        raise EventsError("events: must be recorded from before the first wave") from None
    found = follower.operations
    for rank in range(ranks):
        for name in ("arrivals", "flags"):
            seen = getattr(follower, name)[rank]
            if not whole and not len(seen) == len(found) == 1:
                continue
            # Operations start, and end, in order; a rank may have arrived for one that has not
            # started.
            for operation, cycle in zip(found, seen, strict=False):
                getattr(operation, name)[rank] = cycle
    return found


def operation_events(
    operation: Operation, config: SwitchConfig, size: int, dtype: str, *, whole: bool = True
) -> RunEvents:
    """An operation that ended well as a run.

    Parameters
    ----------
    size
        Bytes of each rank's operand.
    whole
        All its waves are to be there; else its last ones suffice.

    Raises
    ------
    EventsError
        Something is missing or out of order.
    """
    waves = -(-size // config.wave_bytes)
    missing = waves - len(operation.waves)
    if missing < 0 or (whole and missing):
        rule = f"must have {waves} waves for {size} bytes"
        raise EventsError(f"events: {rule}, not {len(operation.waves)}")
    events = RunEvents(
        config.to_fields(),
        size,
        dtype,
        operation.arrivals,
        operation.flags,
        operation.waves,
        first_wave=missing,
    )
    events.check()
    return events


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
    found = operations(recording, config.ranks)
    if len(found) != 1:
        raise EventsError(f"events: must be of one operation, not of {len(found)}")
    return operation_events(found[0], config, size, dtype)
