"""Events of the trace ports as a VCD file with a view, whoever recorded them."""

from __future__ import annotations

from pathlib import Path

from vcd import VCDWriter

from hdl.accelerator.trace import trace_ports
from hdl.accelerator.trace_buffer import record_fields
from hdl.config import SwitchConfig
from sim.engines import Recording

from .groups import VIEW_SUFFIX, waves_in_flight
from .gtkw import Group, Trace, write_save_file
from .vcd import TOP_SCOPE

__all__ = ["write_event_vcd"]

FEMTOSECONDS = 10**15


def _changes(recording: Recording, ranks: int, *, levels: bool) -> dict[int, dict[str, int]]:
    """Cycle to the values that ports have from it on."""
    events = trace_ports(ranks)
    changes: dict[int, dict[str, int]] = {}
    reading = writing = 0
    for cycle, row in recording.rows():
        now, later = changes.setdefault(cycle, {}), changes.setdefault(cycle + 1, {})
        for strobe, numbers in events.items():
            if row[strobe]:
                now |= {name: row[name] for name in (strobe, *numbers)}
                later[strobe] = 0
        if levels:
            issued = row["trace__issue"] and not row["trace__issue_empty"]
            reading += issued - row["trace__release"]
            writing += row["trace__read_out"] - row["trace__retire"]
            later |= {"trace__reading": reading, "trace__writing": writing}
    return changes


def event_view(config: SwitchConfig) -> list[Group]:
    """Groups of the accelerator's events and of each rank's, each strobe before its numbers."""
    groups: dict[str, list[Trace]] = {}
    for strobe, numbers in trace_ports(config.ranks).items():
        *_, prefix, _event = strobe.split("__")
        title = f"rank {prefix}" if prefix.isdigit() else "waves"
        names = [(name, name.rpartition("__")[2]) for name in (strobe, *numbers)]
        groups.setdefault(title, []).extend(
            Trace(name, format="dec", label=label.replace("_", " ")) for name, label in names
        )
    return [waves_in_flight(), *(Group(title, traces) for title, traces in groups.items())]


def write_event_vcd(
    path: str | Path, recording: Recording, config: SwitchConfig, *, whole: bool = True
) -> list[Path]:
    """Write the events of `recording` as a system's top has them: ``trace__issue`` and so on.

    Cycle c spans the times from c to c + 1 clock periods, as in the engines' files; the file begins
    a cycle before the first event. A number stands until the next event of its kind.
    ``trace__reading`` and ``trace__writing``, the waves in either phase, are counted from the
    events of a `whole` recording, one that begins before the first wave; else they are unknown.

    Beside the file stands its view for GTKWave; both are returned.
    """
    path = Path(path)
    period = FEMTOSECONDS // config.clock_hz
    changes = _changes(recording, config.ranks, levels=whole)
    start = max(0, min(changes, default=0) - 1)
    levels = {
        "trace__reading": config.waves.bit_length(),
        "trace__writing": config.write_waves.bit_length(),
    }
    with (
        open(path, "w") as file,
        VCDWriter(file, timescale="1 fs", init_timestamp=start * period) as writer,
    ):
        variables = {
            name: writer.register_var(TOP_SCOPE, name, "wire", size=width, init=init)
            for widths, init in ((record_fields(config), 0), (levels, 0 if whole else "x"))
            for name, width in widths.items()
        }
        for cycle, values in changes.items():
            for name, value in values.items():
                writer.change(variables[name], cycle * period, value)
    view = path.with_suffix(VIEW_SUFFIX)
    write_save_file(view, path, event_view(config))
    return [path, view]
