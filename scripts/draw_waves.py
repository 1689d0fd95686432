"""Draw runs as pictures: each wave a bar from first read request to last write response.

``python -m scripts.draw_waves --out build/run/waves`` draws the default All-Reduce;
``--waves 1,8`` draws it with one wave in flight beside eight. See docs/allreduce.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from hdl.config import SwitchConfig
from sim.cli.arguments import Options, parse
from sim.cli.errors import UsageError
from sim.cli.progress import RunProgress, expected_cycles
from sim.cli.session import open_bench, run_once, settle_memories
from sim.cli.units import binary_size
from sim.engines import EngineError
from sim.waves.events import EventsError, RunEvents, record, run_events
from sim.waves.picture import draw_runs, save_picture

EXIT_OK, EXIT_DIFFERENT, EXIT_USAGE = 0, 1, 2


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(message.removeprefix("argument ").lstrip("-"))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m scripts.draw_waves",
        description="Run an All-Reduce, or read the events of an earlier one, and draw its waves "
        "as BASE.png and BASE.svg.",
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


def _title(run: RunEvents) -> str:
    k = run.config["waves"]
    return f"k = {k}: at most {'one wave reads' if k == 1 else f'{k} waves read'} at a time"


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


def _draw(given, rest: list[str]) -> list[Path]:
    base = Path(given.out)
    if given.events:
        if rest or given.waves:
            raise UsageError(f"events: must come without a run's options, not with {rest}")
        runs = [RunEvents.load(path) for path in given.events]
    else:
        console = Console(stderr=True)
        runs = [_run(options, console) for options in _options(rest, given.waves)]
    if not all(run.waves for run in runs):
        raise UsageError("bytes: must be more than 0 for a picture, not 0")
    if given.save_events:
        _save_events(runs, base)
    return save_picture(draw_runs(runs, [_title(run) for run in runs], _heading(runs[0])), base)


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
