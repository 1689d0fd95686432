"""``bench``: latency and bandwidth by size and format, beside the simulator's."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hdl.config import KNOWN_FORMATS, SwitchConfig, unknown_name
from sim.bench import Bench, Outcome, place
from sim.cli.errors import UsageError
from sim.cli.operands import Activations, guard_pattern
from sim.cli.output import EXIT_DIFFERENT, EXIT_OK, console, write_json
from sim.cli.progress import RunProgress, expected_cycles
from sim.cli.report import run_report
from sim.cli.units import duration
from sim.engines import ENGINES, default_engine
from sim.quantized import element_bytes
from sim.testbed import Testbed

from ..bench_picture import draw_bench
from ..link import Link
from ..outputs import PICTURE, beside, try_out
from ..session import open_bench
from .command import Command

__all__ = ["BENCH"]

#: `--simulator` of no comparison.
NO_SIMULATOR = "none"
#: What the hardware counts, in a run's report: the same on the board as in the simulator.
COUNTED = ("cycles", "waves_in_flight", "stalls")
#: Columns of the CSV file, and how they come out of a row.
COLUMNS = (
    "dtype", "bytes", "cycles_data", "cycles_arrive_to_flag", "ns_data", "ns_arrive_to_flag",
    "utilization", "bound", "algbw_GBps", "simulated_cycles_data",
    "simulated_cycles_arrive_to_flag",
)  # fmt: skip


def _add_arguments(parser: argparse.ArgumentParser):
    add = parser.add_argument
    add(
        "--sizes",
        metavar="N[,N...]",
        help="bytes of each rank's operand (default: powers of two from a flit on, and the "
        "largest whole number of waves, as far as the memory goes)",
    )
    add(
        "--dtypes",
        metavar="F[,F...]",
        help="number formats (default: all that the board has)",
    )
    add(
        "--simulator",
        metavar=f"{'|'.join(ENGINES)}|{NO_SIMULATOR}",
        help="what simulates the same runs (default: cxxrtl where a C++ compiler is found, else "
        "pysim)",
    )
    add("--csv", metavar="FILE", help="write a row a size and format as CSV")
    add("--json", metavar="FILE|-", help="write the rows as JSON")
    add("--picture", metavar="BASE", help="draw them, as BASE.png and BASE.svg")


# -- what to run -----------------------------------------------------------------------------------


def _fits(config: SwitchConfig, size: int, dtype: str) -> bool:
    try:
        place(config, size, dtype)
    except ValueError:
        return False
    return size % element_bytes(dtype) == 0


def _default_sizes(config: SwitchConfig, dtype: str) -> list[int]:
    sizes, size = [], config.flit_bytes
    while _fits(config, size, dtype):
        sizes.append(size)
        size *= 2
    waves = config.memory_bytes // config.wave_bytes
    while waves and not _fits(config, waves * config.wave_bytes, dtype):
        waves -= 1
    return sorted({*sizes, *([waves * config.wave_bytes] if waves else [])})


def _sizes(text: str | None, config: SwitchConfig, dtype: str) -> list[int]:
    if text is None:
        return _default_sizes(config, dtype)
    sizes = []
    for part in text.split(","):
        size = int(part) if part.isdecimal() else 0
        if size < 1:
            raise UsageError(f"sizes: must be whole numbers of 1 or more, not {part!r}")
        if size % element_bytes(dtype):
            rule = f"must be whole elements of {element_bytes(dtype)} bytes for {dtype}"
            raise UsageError(f"sizes: {rule}, not {size}")
        try:
            place(config, size, dtype)
        except ValueError as error:
            raise UsageError(str(error)) from None
        sizes.append(size)
    return sizes


def _dtypes(text: str | None) -> list[str] | None:
    dtypes = None if text is None else text.split(",")
    for dtype in dtypes or ():
        if dtype not in KNOWN_FORMATS:
            raise UsageError(unknown_name("dtypes", dtype, KNOWN_FORMATS))
    return dtypes


def _simulator(name: str | None) -> str | None:
    if name is None:
        return default_engine()
    if name != NO_SIMULATOR and name not in ENGINES:
        raise UsageError(unknown_name("simulator", name, (*ENGINES, NO_SIMULATOR)))
    return None if name == NO_SIMULATOR else name


# -- running ---------------------------------------------------------------------------------------


def _measure(bench: Bench, dtype: str, size: int, watch) -> Outcome:
    config = bench.config
    operands = Activations().operands(config, size // element_bytes(dtype), dtype, 0)
    return bench.all_reduce(operands, dtype, guard=guard_pattern(), watch=watch)


def _row(config: SwitchConfig, outcome: Outcome) -> dict:
    """A run's figures, as in the report of an All-Reduce."""
    return {"dtype": outcome.format} | run_report(config, outcome)


def _run_all(bench: Bench, runs, progress: RunProgress) -> list[dict]:
    """A row a run, up to the first that is not as it must be."""
    rows = []
    for dtype, size in runs:
        outcome = _measure(bench, dtype, size, progress.cycles)
        rows.append(_row(bench.config, outcome))
        if outcome.status != "ok":
            break
    return rows


def _simulate(engine: str, config: SwitchConfig, runs, messages: Console) -> list[dict]:
    with (
        RunProgress(messages, _expected(config, runs)) as progress,
        Testbed(config, engine, phases=progress.phase) as bench,
    ):
        return _run_all(bench, runs, progress)


def _expected(config: SwitchConfig, runs) -> list[int]:
    return [expected_cycles(config, size, None, dtype) for dtype, size in runs]


# -- what is shown ---------------------------------------------------------------------------------


def _simulated_cycles(row: dict) -> dict:
    return row["simulated"]["cycles"] if "simulated" in row else {}


def _flat(row: dict) -> dict:
    """A row of the CSV file; empty where there is no figure."""
    simulated = _simulated_cycles(row)
    flat = {name: row[name] for name in ("dtype", "bytes", "utilization", "bound", "algbw_GBps")}
    for what in ("data", "arrive_to_flag"):
        flat[f"cycles_{what}"] = row["cycles"][what]
        flat[f"ns_{what}"] = row["ns"][what]
        flat[f"simulated_cycles_{what}"] = simulated.get(what)
    return {name: "" if flat[name] is None else flat[name] for name in COLUMNS}


def _write_csv(path: Path, rows: list[dict]):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(_flat, rows))


def _print(out: Console, rows: list[dict]):
    table = Table()
    for name in ("format", "bytes", "arrival to flag", "simulated", "data", "simulated",
                 "GB/s a rank", "of the link", "bound"):  # fmt: skip
        table.add_column(name, justify="right" if name != "format" else "left")
    for row in rows:
        simulated = _simulated_cycles(row)
        cells = [row["dtype"], f"{row['bytes']:,}"]
        for what in ("arrive_to_flag", "data"):
            cycles = row["cycles"][what]
            cells.append(f"{cycles:,} ({duration(row['ns'][what])})" if cycles else "-")
            cells.append(f"{simulated[what]:,}" if simulated else "-")
        cells += [
            f"{row[name]:.{digits}f}" if row[name] else "-"
            for name, digits in (("algbw_GBps", 4), ("utilization", 4), ("bound", 4))
        ]
        table.add_row(*cells)
    out.print(table)


def _verdict(rows: list[dict], engine: str | None) -> tuple[str, bool]:
    """What came of it in a line, and whether all is well."""
    failed = next((row for row in rows if row["status"] != "ok"), None)
    if failed:
        return f"{failed['dtype']}, {failed['bytes']:,} bytes: {failed['status']}", False
    if engine is None:
        return f"all {len(rows)} runs bit-exact", True
    apart = [row for row in rows if row["simulated"] != {name: row[name] for name in COUNTED}]
    if apart:
        first = apart[0]
        return (
            f"{len(apart)} of {len(rows)} runs count otherwise than in {engine}, first "
            f"{first['dtype']} of {first['bytes']:,} bytes"
        ), False
    return f"all {len(rows)} runs bit-exact, every count as in {engine}", True


def _files(given: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """CSV file and picture, tried out with the report's file."""
    picture = beside("picture", given.picture, PICTURE)
    try_out(json=given.json, others=[("csv", given.csv), *picture])
    return (
        None if given.csv is None else Path(given.csv),
        None if given.picture is None else Path(given.picture),
    )


def _run(link: Link, given: argparse.Namespace) -> int:
    engine, dtypes = _simulator(given.simulator), _dtypes(given.dtypes)
    link.configure()
    config = link.config
    for dtype in dtypes or ():
        if dtype not in config.formats:
            rule = f"must be of those that the board has ({', '.join(config.formats)})"
            raise UsageError(f"dtypes: {rule}, not {dtype!r}")
    runs = [
        (dtype, size)
        for dtype in dtypes or config.formats
        for size in _sizes(given.sizes, config, dtype)
    ]
    table, picture = _files(given)
    messages = console(sys.stderr)
    with RunProgress(messages, _expected(config, runs)) as progress:
        rows = _run_all(open_bench(link.open(progress.phase), config, progress), runs, progress)
    if engine is not None and rows[-1]["status"] == "ok":
        for row, simulated in zip(rows, _simulate(engine, config, runs, messages), strict=False):
            row["simulated"] = {name: simulated[name] for name in COUNTED}
    report = {
        "port": link.port,
        "simulated_board": link.simulated,
        "preset": link.preset,
        "config": config.to_fields(),
        "digest": config.digest,
        "simulator": engine,
        "rows": rows,
    }
    write_json(given.json, report)
    out = console(sys.stderr if given.json == "-" else sys.stdout)
    _print(out, rows)
    if table is not None:
        _write_csv(table, rows)
        out.print(f"wrote {table}")
    for path in draw_bench(report, picture) if picture is not None else ():
        out.print(f"wrote {path}")
    verdict, well = _verdict(rows, engine if "simulated" in rows[-1] else None)
    out.print(verdict)
    return EXIT_OK if well else EXIT_DIFFERENT


BENCH = Command(
    summary="latency and bandwidth by size, beside the simulator's",
    description="Measure latency and bandwidth by size and format with the hardware's counters, "
    "every run checked byte by byte, beside the same runs in the simulator: as table, CSV, JSON "
    "and picture. Exit status 1 if a run counts otherwise than simulated.",
    add_arguments=_add_arguments,
    run=_run,
)
