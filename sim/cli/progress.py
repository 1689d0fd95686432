"""What is under way, shown on a terminal while it happens; nothing is written anywhere else."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from hdl.config import SwitchConfig

__all__ = ["RunProgress", "expected_cycles"]

#: What each phase does.
PHASES = {
    "generate": "generate the design",
    "compile": "compile it (once; kept in the cache)",
    "load": "load the simulator",
    "fill": "fill the memories",
    "run": "run",
    "compare": "compare every byte",
}


def expected_cycles(config: SwitchConfig, size: int, skew=None, format: str = "fp16") -> int:
    """About how many cycles a run takes whose memories do not stall."""
    way = 4 * config.link_latency + config.memory_latency
    wave = min(size, config.wave_bytes)
    bound = config.utilization_bound(size, format) or 1.0
    first = way + 2 * config.payload_cycles(wave)
    entries = max(size / config.wave_bytes / config.waves, 1)
    data = max(config.payload_cycles(size) / bound, entries * first) + first
    return round(data + 2 * config.link_latency + max(skew or (0,)))


class _Seconds(ProgressColumn):
    """Seconds that a phase has taken."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.elapsed or 0:7.1f} s", style="progress.elapsed")


class RunProgress:
    """Phases with their times, and a bar for each run.

    Parameters
    ----------
    console
        Where to show it. Unless it is a terminal, nothing is shown.
    runs
        Cycles that each run is expected to take.
    transient
        Leave nothing on the terminal at the end.
    """

    def __init__(self, console: Console, runs: list[int], *, transient: bool = False):
        self._runs = iter(runs)
        self._count, self._number = len(runs), 0
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            _Seconds(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
            transient=transient,
        )
        self._task = None
        self._of_run = []  # tasks of the present run

    def __enter__(self):
        self._progress.start()
        return self

    def __exit__(self, *exception):
        self._finish()
        self._progress.stop()

    def phase(self, name: str):
        """A phase begins, and the one before is over."""
        self._finish()
        description, total = PHASES.get(name, name), None
        if name == "run":
            self._number += 1
            total = next(self._runs, None)
            self._began = time.monotonic()
            if self._count > 1:
                description = f"run {self._number} of {self._count}"
            self._forget_run()
        self._task = self._progress.add_task(description, total=total, note="")
        if self._number:
            self._of_run.append(self._task)

    def cycles(self, cycles: int):
        """The present run has run so many cycles."""
        seconds = time.monotonic() - self._began
        task = self._progress.tasks[-1]
        # The expectation is one of memories that do not stall: the bar waits short of its end.
        total = max(task.total or 0, cycles * 1.02)
        speed = f", {cycles / seconds:,.0f} a second" if seconds else ""
        self._progress.update(
            self._task, completed=cycles, total=total, note=f"{cycles:,} cycles{speed}"
        )

    def part(self, done: int, total: int):
        """So much of the present phase is done; of a phase that says so."""
        if self._task is not None:
            self._progress.update(self._task, completed=done, total=max(total, 1))

    def _forget_run(self):
        """One run is shown at a time."""
        for task in self._of_run:
            self._progress.remove_task(task)
        self._of_run.clear()

    def _finish(self):
        if self._task is not None:
            total = self._progress.tasks[-1].total or 1
            self._progress.update(self._task, completed=total, total=total)
            self._progress.stop_task(self._task)
            self._task = None
