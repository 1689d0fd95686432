"""A session: one simulated system, the repetitions in it, and its waveform."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.quantized import element_bytes
from sim.testbed import Outcome, Testbed

from .arguments import Options
from .operands import guard_pattern

__all__ = ["Session", "open_bench", "run_once", "run_session", "settle_memories"]


@dataclass
class Session:
    """What came out: an outcome a run, up to the first that failed, and the engine's speed."""

    outcomes: list[Outcome]
    cycles_per_second: float | None
    cycles: int

    @property
    def failed(self) -> Outcome | None:
        """The run that failed."""
        return next((outcome for outcome in self.outcomes if outcome.status != "ok"), None)


def _memory_seeds(seed: int, ranks: int) -> list[int]:
    """Seeds of the ranks' jitter and stalls: unlike each other, and for neighbouring seeds."""
    return [int(word) for word in np.random.SeedSequence(seed).generate_state(ranks)]


def open_bench(
    options: Options,
    *,
    phases: Callable[[str], None] = lambda phase: None,
    vcd: bool = False,
) -> Testbed:
    """A testbed for `options`, ready to run: `vcd` says whether waveforms will be asked for."""
    return Testbed(options.config, options.engine, vcd=vcd, phases=phases)


def settle_memories(bench: Testbed, options: Options):
    """Set jitter, stalls and their seeds at every rank."""
    for rank, seed in enumerate(_memory_seeds(options.seed, options.config.ranks)):
        bench.set_memory(rank, jitter=options.jitter, stalls=options.stalls, seed=seed)


def run_once(
    bench: Testbed,
    options: Options,
    run: int,
    *,
    watch: Callable[[int], None] | None = None,
    during: Callable[[], None] = lambda: None,
) -> Outcome:
    """Repetition `run` (from 0) of `options`. See `Testbed.all_reduce` for `watch` and `during`."""
    elements = options.sizes[run] // element_bytes(options.dtype)
    operands = options.input.operands(options.config, elements, options.dtype, run)
    return bench.all_reduce(
        operands,
        options.dtype,
        out_of_place=options.out_of_place,
        delays=options.skew,
        max_cycles=options.max_cycles,
        guard=guard_pattern(),
        watch=watch,
        during=during,
        plan=options.plan,
    )


def run_session(
    options: Options,
    *,
    phases: Callable[[str], None] = lambda phase: None,
    watch: Callable[[int], None] | None = None,
    vcd: Path | None = None,
    window: tuple[int, int] | None = None,
) -> Session:
    """Run the repetitions that `options` ask for, up to the first that fails.

    The same options give the same cycles and bits; waveforms change neither.

    Parameters
    ----------
    phases
        Called with ``generate``, ``compile``, ``load``, ``run`` and ``compare`` as each begins.
    watch
        Called with the cycles of the present run, some ten times a second.
    vcd, window
        Waveform file, and (first, last) cycle of it.
    """
    outcomes = []
    with open_bench(options, phases=phases, vcd=vcd is not None) as bench:
        engine = bench.engine
        with engine.vcd(vcd, window) if vcd else nullcontext():
            settle_memories(bench, options)
            for run in range(len(options.sizes)):
                outcomes.append(run_once(bench, options, run, watch=watch))
                if outcomes[-1].status != "ok":
                    break
        return Session(outcomes, engine.cycles_per_second, engine.cycle)
