"""What ``sim.scenarios`` does with its options, up to the exit status."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from hdl import __version__
from sim.cli.errors import UsageError
from sim.cli.output import (
    EXIT_DIFFERENT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    console,
    write_json,
)
from sim.cli.progress import RunProgress
from sim.engines.base import EngineError
from sim.engines.build import require_compiler
from sim.waves.groups import write_view

from .arguments import Options, parse
from .campaign import campaign, chosen_seeds
from .configurations import configuration
from .draw import configuration_of, draw
from .kinds import describe, kinds
from .running import Outcome, Runner

__all__ = ["main"]

#: Cycles of a replay's waveform, up to its end.
LAST_CYCLES = 5000
#: Where the printed command puts the waveform of a scenario.
FOLDER = Path("build") / "scenarios"


def _replay_command(seed: int) -> str:
    return f"python -m sim.scenarios --replay {seed} --vcd {FOLDER / f'{seed}.vcd'}"


def _failure(outcome: Outcome) -> dict:
    return {
        "seed": outcome.seed,
        "configuration": configuration_of(outcome.seed),
        "reason": outcome.reason,
        "cycles": outcome.cycles,
        "replay": _replay_command(outcome.seed),
        "state": outcome.state,
    }


def _report(outcomes: list[Outcome], seconds: float) -> dict:
    """What the JSON holds."""
    outcomes = sorted(outcomes, key=lambda outcome: outcome.seed)
    failed = [outcome for outcome in outcomes if outcome.reason is not None]
    counted = Counter(kind for outcome in outcomes for kind in kinds(draw(outcome.seed)))
    names = sorted({configuration_of(outcome.seed) for outcome in outcomes})
    return {
        "version": __version__,
        "engine": "cxxrtl",
        "count": len(outcomes),
        "passed": len(outcomes) - len(failed),
        "failures": [_failure(outcome) for outcome in failed],
        "kinds": dict(sorted(counted.items())),
        "configurations": {name: configuration(name).digest for name in names},
        "seeds": [outcome.seed for outcome in outcomes],
        "cycles": sum(outcome.cycles for outcome in outcomes),
        "seconds": round(seconds, 1),
    }


def _tell_failure(outcome: Outcome, out: Console):
    name = configuration_of(outcome.seed)
    out.print(f"seed {outcome.seed} ({name}): {outcome.reason}", soft_wrap=True)
    out.print(f"  run it again: {_replay_command(outcome.seed)}", soft_wrap=True)


def _bar(out: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=out,
        disable=not out.is_terminal,
    )


def _run_all(options: Options, out: Console) -> dict:
    """Run them, and tell of each that fails as it does."""
    began, outcomes = time.monotonic(), []
    seeds = chosen_seeds(options.count, options.seed, options.only)
    if len(seeds) < options.count:
        raise UsageError(
            f"count: must be at most {len(seeds)} from seed {options.seed} on, not {options.count}"
        )
    with _bar(out) as bar:
        task = bar.add_task("scenarios", total=len(seeds))

        def phase(name):
            bar.update(task, description="scenarios" if name == "run" else name)

        for outcome in campaign(seeds, jobs=options.jobs, phases=phase):
            outcomes.append(outcome)
            bar.advance(task)
            if outcome.reason is not None:
                _tell_failure(outcome, out)
    return _report(outcomes, time.monotonic() - began)


def _print_table(out: Console, report: dict):
    table = Table(title="kinds of ingredients, and scenarios that have them")
    table.add_column("kind")
    table.add_column("scenarios", justify="right")
    for kind, count in report["kinds"].items():
        table.add_row(kind, f"{count:,}")
    out.print(table)
    seeds = report["seeds"]
    out.print(
        f"{report['passed']:,} of {report['count']:,} scenarios passed, seeds {seeds[0]} to "
        f"{seeds[-1]}, {report['cycles']:,} cycles in {report['seconds']:,} s"
    )


def _replay(options: Options, messages: Console, out: Console) -> dict:
    """One scenario: what happens in it, what came of it, and its waveform."""
    began = time.monotonic()
    scenario = draw(options.replay)
    for line in describe(scenario):
        out.print(line, soft_wrap=True)
    with RunProgress(messages, [0]) as progress:
        runner = Runner(scenario.name, vcd=options.vcd is not None, phases=progress.phase)
        progress.phase("run")
        outcome = runner.run(scenario)
        if options.vcd:
            first = max(outcome.cycles - LAST_CYCLES, 0)
            window = options.vcd_window or (first, outcome.cycles)
            runner.run(scenario, vcd=options.vcd, window=window)
            write_view(options.vcd, scenario.config)
    if outcome.reason is None:
        out.print(f"seed {outcome.seed}: passed, {outcome.cycles:,} cycles")
    else:
        out.print(f"seed {outcome.seed}: {outcome.reason}", soft_wrap=True)
    if options.vcd:
        out.print(f"waveforms: {options.vcd}, cycles {window[0]} to {window[1]}")
    return _report([outcome], time.monotonic() - began)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
        require_compiler()
        messages = console(sys.stderr)
        out = messages if options.json == "-" else console(sys.stdout)
        if options.replay is None:
            report = _run_all(options, out)
            _print_table(out, report)
        else:
            report = _replay(options, messages, out)
        write_json(options.json, report)
    except (UsageError, EngineError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_DIFFERENT if report["failures"] else EXIT_OK
