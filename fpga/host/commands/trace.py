"""``trace``: one All-Reduce, and the events that the board's trace buffer kept of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sim.cli.arguments import add_run_arguments
from sim.cli.errors import UsageError
from sim.cli.output import EXIT_OK, console, exit_status, write_json
from sim.cli.progress import RunProgress, expected_cycles
from sim.cli.report import report
from sim.cli.session import Session, run_once, settle_memories
from sim.cli.units import binary_size
from sim.waves.picture import draw_runs, save_picture
from sim.waves.trace_dump import TraceDump, arm_trace, read_trace

from ..link import Link
from ..outputs import TRACE_FILES, beside, try_out
from ..session import open_bench
from .allreduce import board_options
from .command import Command

__all__ = ["TRACE"]

#: Records that a twin's trace buffer gets where nothing says how many.
DEFAULT_RECORDS = 1024


def _add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument(
        "--out",
        metavar="BASE",
        required=True,
        help="writes BASE.json (the records), BASE.vcd (waveform), BASE.png and BASE.svg (picture)",
    )
    add_run_arguments(parser)


def _trace(link: Link, options, progress: RunProgress) -> tuple[Session, TraceDump]:
    """Run once, and read the trace."""
    bench = open_bench(link.open(progress.phase), options.config, progress)
    host = bench.host
    settle_memories(bench, options)
    arm_trace(host.read_words, host.write_words, options.config, operations=1)
    outcome = run_once(bench, options, 0, watch=progress.cycles)
    progress.phase("read")
    dump = read_trace(
        host.read_words,
        host.write_words,
        options.config,
        runs=[(outcome.bytes, outcome.format)],
        watch=progress.part,
    )
    return Session([outcome], None, 0), dump


def _write(dump: TraceDump, base: Path) -> list[Path]:
    """Every file of the trace."""
    records = base.with_name(f"{base.name}.json")
    dump.save(records)
    files = [records, *dump.vcd(base.with_name(f"{base.name}.vcd"))]
    if _has_picture(dump):
        files += _draw(dump, base)
    return files


def _has_picture(dump: TraceDump) -> bool:
    return any(operation.waves for operation in dump.operations())


def _no_picture(options) -> str:
    """Why there is none, and what helps."""
    if not options.sizes[0]:
        return "no picture: an operation of 0 bytes has no waves"
    return (
        f"no picture: {options.config.trace_records} records hold no whole wave of "
        f"{options.sizes[0]:,} bytes; take fewer, or a board with more trace_records"
    )


def _draw(dump: TraceDump, base: Path) -> list[Path]:
    run, config = dump.events(), dump.config
    title = f"k = {config.waves}"
    if run.first_wave:
        title += f"; from wave {run.first_wave} on, the trace buffer holds no earlier ones"
    heading = f"All-Reduce of {binary_size(run.bytes)} {run.dtype} at each of {config.ranks} ranks"
    return save_picture(draw_runs([run], [title], f"{heading}, as the board kept it"), base)


def _run(link: Link, given: argparse.Namespace) -> int:
    options = board_options(link, given, trace_records=DEFAULT_RECORDS)
    config = options.config
    if not config.trace_records:
        raise UsageError(
            "trace_records: the board has no trace buffer; build it with --set trace_records="
            f"{DEFAULT_RECORDS}"
        )
    if len(options.sizes) > 1:
        raise UsageError(f"bytes: must be one size for a trace, not {len(options.sizes)} runs")
    base = Path(given.out)
    try_out(json=options.json, others=beside("out", given.out, TRACE_FILES))
    size = options.sizes[0]
    expected = [expected_cycles(config, size, options.skew, options.dtype)]
    with RunProgress(console(sys.stderr), expected) as progress:
        session, dump = _trace(link, options, progress)
    result = report(options, session)
    write_json(options.json, result)
    out = console(sys.stderr if options.json == "-" else sys.stdout)
    out.print(f"{result['status']}: {len(dump.records)} records of {config.trace_records}")
    if losses := dump.losses():
        out.print(losses)
    if result["status"] == "ok":
        for path in _write(dump, base):
            out.print(f"wrote {path}")
        if not _has_picture(dump):
            out.print(_no_picture(options))
        return EXIT_OK
    dump.save(f"{base}.json")
    out.print(f"wrote {base}.json")
    return exit_status(result)


TRACE = Command(
    summary="run once, and draw the events that the board kept",
    description="Run one All-Reduce with the board's trace buffer on, and write its events: as "
    "they were read, as VCD, and as the picture that python -m scripts.draw_waves makes of a "
    "simulated run. A twin gets a trace buffer if its preset has none.",
    add_arguments=_add_arguments,
    run=_run,
)
