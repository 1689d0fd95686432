"""What a trace buffer held: read from the hardware, kept in a file, decoded as a recording is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hdl.accelerator.trace_buffer import CYCLE_BITS, WORD_BITS, record_fields, record_words
from hdl.config import ConfigError, SwitchConfig
from hdl.registers import (
    PAGE_BYTES,
    PAGE_WORDS,
    TRACE_PAGE,
    TRACE_WINDOW_PAGE,
    addresses,
    trace_registers,
)
from sim.engines import Recording

from .event_vcd import write_event_vcd
from .events import EventsError, Operation, RunEvents, operation_events, operations

__all__ = ["TraceDump", "arm_trace", "read_trace"]

#: Reads `count` words of 32 bits from a byte address up.
ReadWords = Callable[[int, int], Sequence[int]]
#: Writes words of 32 bits from a byte address up.
WriteWords = Callable[[int, Sequence[int]], object]

WORD_MASK = (1 << WORD_BITS) - 1


@dataclass
class TraceDump:
    """The records of a trace buffer.

    Parameters
    ----------
    config
        Of the system that the buffer is in.
    records
        As numbers, the oldest first: time stamp in the low 32 bits, then `record_fields`.
    overwritten
        Older records that are lost to these; 0: all since `arm_trace` are here.
    missed
        Cycles with events behind the last record: the buffer was frozen or stopped.
    frozen
        The operations that it was armed for have ended.
    runs
        Bytes of each rank's operand and format of the operations since `arm_trace`, in order, as
        far as the host knows. Where records were overwritten, the last is the trace's last.
    """

    config: SwitchConfig
    records: list[int]
    overwritten: int = 0
    missed: int = 0
    frozen: bool = False
    runs: list[tuple[int, str]] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether nothing is lost of what happened since `arm_trace`, up to the last record."""
        return self.overwritten == 0

    def losses(self) -> str | None:
        """One line about what is not here of what happened since `arm_trace`; None if all is."""
        lost = {
            "overwritten": f"{self.overwritten:,} older records were overwritten",
            "missed": f"{self.missed:,} later cycles with events were not recorded",
        }
        told = [text for name, text in lost.items() if getattr(self, name)]
        return f"trace: {', '.join(told)}" if told else None

    def recording(self) -> Recording:
        """The records as an engine's recording of the trace ports; see `sim.waves.events.record`.

        Cycles count on where the time stamp, of 32 bits, wraps.
        """
        fields = record_fields(self.config)
        cycles, values, turns = [], [], 0
        for record in self.records:
            cycle = (record & ((1 << CYCLE_BITS) - 1)) + (turns << CYCLE_BITS)
            if cycles and cycle <= cycles[-1]:
                turns += 1
                cycle += 1 << CYCLE_BITS
            cycles.append(cycle)
            row, rest = [], record >> CYCLE_BITS
            for width in fields.values():
                row.append(rest & ((1 << width) - 1))
                rest >>= width
            values.append(tuple(row))
        return Recording(tuple(fields), cycles, values)

    def operations(self) -> list[Operation]:
        """The operations that have waves here, in order; see `sim.waves.events.operations`."""
        return operations(self.recording(), self.config.ranks, whole=self.whole)

    def events(
        self, operation: int = -1, *, size: int | None = None, dtype: str | None = None
    ) -> RunEvents:
        """One operation as a run that can be drawn.

        Where records were overwritten, the first of `operations` may lack its first waves
        (`RunEvents.first_wave`).

        Parameters
        ----------
        operation
            Index into `operations`; the last one if not told.
        size, dtype
            What ran; None is what `runs` says.

        Raises
        ------
        EventsError
            There is no such operation, it did not end well, or nobody knows what ran.
        """
        found = self.operations()
        if not -len(found) <= operation < len(found):
            rule = f"must be one of the {len(found)} in the trace"
            raise EventsError(f"operation: {rule}, not {operation}")
        number = operation % len(found)
        if size is None or dtype is None:
            known = number if self.whole else number - len(found)
            if not -len(self.runs) <= known < len(self.runs):
                raise EventsError(f"runs: must have bytes and dtype of operation {number}")
            size, dtype = self.runs[known]
        # Of another than the first, every wave is here.
        whole = self.whole or number > 0
        return operation_events(found[number], self.config, size, dtype, whole=whole)

    def vcd(self, path: str | Path) -> list[Path]:
        """Write the events as a VCD file and a view of it, and name both.

        The signals are named as in a simulated waveform; see `sim.waves.event_vcd`.
        """
        return write_event_vcd(path, self.recording(), self.config, whole=self.whole)

    def save(self, path: str | Path):
        """Write the trace as JSON."""
        fields = {
            "config": self.config.to_fields(),
            "overwritten": self.overwritten,
            "missed": self.missed,
            "frozen": self.frozen,
            "runs": [{"bytes": size, "dtype": dtype} for size, dtype in self.runs],
            "records": [f"{record:x}" for record in self.records],
        }
        Path(path).write_text(json.dumps(fields, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> TraceDump:
        """A trace from a file that `save` wrote.

        Raises
        ------
        EventsError
            It cannot be read, or is none.
        """
        try:
            fields = json.loads(Path(path).read_text())
            return cls(
                SwitchConfig.from_fields(fields["config"]),
                [int(record, 16) for record in fields["records"]],
                fields["overwritten"],
                fields["missed"],
                fields["frozen"],
                [(run["bytes"], run["dtype"]) for run in fields["runs"]],
            )
        except OSError as error:
            raise EventsError(f"trace: cannot read {str(path)!r}: {error.strerror}") from None
        except ConfigError as error:
            raise EventsError(f"trace: {str(path)!r}: {error}") from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise EventsError(f"trace: {str(path)!r} must be a file of a saved trace") from None


class _Registers:
    """The trace buffer's registers by name."""

    def __init__(self, read_words: ReadWords, write_words: WriteWords, config: SwitchConfig):
        if not config.trace_records:
            raise EventsError("trace_records: must be more than 0 for a trace, not 0")
        table = trace_registers(config)
        self._read, self._write = read_words, write_words
        self._address = addresses(table, TRACE_PAGE)
        self._words = {register.name: register.words for register in table}

    def read(self, name: str) -> int:
        words = self._read(self._address[name], self._words[name])
        return sum(word << (WORD_BITS * number) for number, word in enumerate(words))

    def write(self, name: str, value: int):
        self._write(self._address[name], [value])


def arm_trace(
    read_words: ReadWords, write_words: WriteWords, config: SwitchConfig, *, operations: int = 0
):
    """Empty the trace buffer and let it record; call it before the ranks are started.

    Parameters
    ----------
    operations
        The buffer freezes when so many operations, at most 65535, have ended; 0: it never does,
        and goes on overwriting its oldest records.

    Raises
    ------
    EventsError
        The configuration has no trace buffer.
    """
    registers = _Registers(read_words, write_words, config)
    registers.write("operations", operations)
    registers.write("record", 1)
    registers.write("clear", 1)


def read_trace(
    read_words: ReadWords,
    write_words: WriteWords,
    config: SwitchConfig,
    *,
    runs: Sequence[tuple[int, str]] = (),
    watch: Callable[[int, int], None] | None = None,
) -> TraceDump:
    """Read what the trace buffer holds.

    It is stopped for that and stays so until `arm_trace`, so that a trace has no gap: what comes
    behind its last record is missed, and counted as such. No run is disturbed. A read may be
    repeated, since reading changes nothing.

    Parameters
    ----------
    read_words, write_words
        Access to the system's registers: ``read_words(address, count)`` and
        ``write_words(address, values)``; at most 256 words at once.
    runs
        For `TraceDump.runs`: (bytes, dtype) of the operations since `arm_trace`.
    watch
        Called with records read and to be read, now and then.

    Raises
    ------
    EventsError
        The configuration has no trace buffer.
    """
    registers = _Registers(read_words, write_words, config)
    registers.write("record", 0)
    depth, words = config.trace_records, record_words(config)
    rows = PAGE_WORDS // words  # in the window
    recorded = registers.read("recorded")
    kept = min(recorded, depth)
    records: list[int] = []
    while len(records) < kept:
        if watch is not None:
            watch(len(records), kept)
        part, row = divmod((recorded - kept + len(records)) % depth, rows)
        count = min(rows - row, kept - len(records))
        registers.write("window", part)
        address = TRACE_WINDOW_PAGE * PAGE_BYTES + row * words * (WORD_BITS // 8)
        read = read_words(address, count * words)
        for at in range(0, count * words, words):
            record = read[at : at + words]
            records.append(sum(word << (WORD_BITS * n) for n, word in enumerate(record)))
    return TraceDump(
        config,
        records,
        overwritten=recorded - kept,
        missed=registers.read("missed"),
        frozen=bool(registers.read("frozen")),
        runs=list(runs),
    )
