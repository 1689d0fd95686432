"""Draw runs as pictures: each wave a bar from first read request to last write response.

``python -m scripts.draw_waves --out build/run/waves`` draws the default All-Reduce;
``--waves 1,8`` draws it with one wave in flight beside eight; ``--trace FILE`` draws what a trace
buffer held. See docs/allreduce.md and docs/waveforms.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from hdl.config import SwitchConfig
from sim.cli.arguments import Options, parse
from sim.cli.errors import UsageError
from sim.cli.parser import all_writable
from sim.cli.progress import RunProgress, expected_cycles
from sim.cli.session import open_bench, run_once, settle_memories
from sim.cli.units import binary_size
from sim.engines import EngineError
from sim.waves.events import EventsError, RunEvents, record, run_events
from sim.waves.picture import draw_runs, save_picture
from sim.waves.trace_dump import TraceDump

EXIT_OK, EXIT_DIFFERENT, EXIT_USAGE = 0, 1, 2


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(message.removeprefix("argument ").lstrip("-"))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m scripts.draw_waves",
        description="Run an All-Reduce, or read the events or the trace of an earlier one, and "
        "draw its waves as BASE.png and BASE.svg.",
        epilog="All other options are those of python -m sim.allreduce, and say what to run.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--out", metavar="BASE", required=True, help="files to write, without .png and .svg")
    add(
        "--waves",
        metavar="K[,K...]",
        help="draw the run once for each number of wave table entries, one panel below the other "
        "(default: the configuration's)",
    )
    add(
        "--events",
        metavar="FILE",
        action="append",
        default=[],
        help="draw these events instead of running; may be repeated",
    )
    add(
        "--trace",
        metavar="FILE",
        help="draw the operations in this file, which a trace buffer was saved to, one panel below "
        "the other",
    )
    add("--save-vcd", action="store_true", help="also write the trace as BASE.vcd, with a view")
    add(
        "--save-events",
        action="store_true",
        help="also write the events of each run, as BASE-kK.json",
    )
    return parser  # fmt: skip


def _options(arguments: list[str], waves: str | None) -> list[Options]:
    """The runs to draw."""
    if waves is None:
        return [parse(arguments)]
    return [parse([*arguments, "--set", f"waves={k}"]) for k in waves.split(",")]


def _run(options: Options, console: Console) -> RunEvents:
    """Run once and keep what happened to each wave."""
    config, size = options.config, options.sizes[0]
    with (
        RunProgress(console, [expected_cycles(config, size, options.skew)]) as progress,
        open_bench(options, phases=progress.phase) as bench,
    ):
        settle_memories(bench, options)
        outcome = run_once(
            bench,
            options,
            0,
            watch=progress.cycles,
            during=lambda: record(bench.engine, config.ranks),
        )
        if outcome.status != "ok":
            raise EventsError(f"run: must end well to be drawn, not with {outcome.status}")
        return run_events(bench.engine.recording(), config, size, options.dtype)


def _traced(trace: TraceDump) -> list[RunEvents]:
    """The operations of a trace that have waves, in order, but for a last one that goes on."""
    if losses := trace.losses():
        print(losses, file=sys.stderr)
    found = trace.operations()
    numbers = [number for number, operation in enumerate(found) if operation.waves]
    if numbers and not all(wave.over for wave in found[numbers[-1]].waves):
        print(f"trace: operation {numbers.pop()} goes on at its end, left out", file=sys.stderr)
    if not numbers:
        raise EventsError("trace: must hold an operation with waves that has ended")
    return [trace.events(number) for number in numbers]


def _title(run: RunEvents) -> str:
    k = run.config["waves"]
    title = f"k = {k}: at most {'one wave reads' if k == 1 else f'{k} waves read'} at a time"
    return f"{title}; from wave {run.first_wave} on" if run.first_wave else title


def _heading(run: RunEvents) -> str:
    """What all runs have in common, as far as the first one says."""
    config = SwitchConfig.from_fields(run.config)
    return (
        f"All-Reduce of {binary_size(run.bytes)} {run.dtype} at each of {config.ranks} ranks, "
        f"in waves of {binary_size(config.wave_bytes)}"
    )


def _save_events(runs: list[RunEvents], base: Path):
    base.parent.mkdir(parents=True, exist_ok=True)
    for run in runs:
        run.save(base.with_name(f"{base.name}-k{run.config['waves']}.json"))


def _loaded(kind: type[RunEvents] | type[TraceDump], path: str):
    """A file that an argument names; one that is none of its kind is that argument's fault."""
    try:
        return kind.load(path)
    except EventsError as error:
        raise UsageError(str(error)) from None


def _draw(given, rest: list[str]) -> list[Path]:
    base = Path(given.out)
    for name in ("events", "trace"):
        if getattr(given, name) and (rest or given.waves):
            raise UsageError(f"{name}: must come without a run's options, not with {rest}")
    if given.events and given.trace:
        raise UsageError("trace: must come without events")
    if given.save_vcd and not given.trace:
        raise UsageError("save-vcd: must come with a trace; a run's waveform is sim.allreduce's")
    if not base.name:
        raise UsageError(f"out: must be pictures' name without its ending, not {given.out!r}")
    all_writable([("out", f"{base}.png"), ("out", f"{base}.svg")])
    written = []
    if given.events:
        runs = [_loaded(RunEvents, path) for path in given.events]
    elif given.trace:
        trace = _loaded(TraceDump, given.trace)
        runs = _traced(trace)
        if given.save_vcd:
            base.parent.mkdir(parents=True, exist_ok=True)
            written = trace.vcd(base.with_name(base.name + ".vcd"))
    else:
        console = Console(stderr=True)
        runs = [_run(options, console) for options in _options(rest, given.waves)]
    if not all(run.waves for run in runs):
        raise UsageError("bytes: must be more than 0 for a picture, not 0")
    if given.save_events:
        _save_events(runs, base)
    figure = draw_runs(runs, [_title(run) for run in runs], _heading(runs[0]))
    return [*save_picture(figure, base), *written]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    try:
        files = _draw(*_parser().parse_known_args(arguments))
    except (UsageError, EngineError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except EventsError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_DIFFERENT
    for path in files:
        print(f"wrote {path}")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
