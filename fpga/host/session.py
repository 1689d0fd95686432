"""All-Reduces on a board, checked as simulated ones are."""

from __future__ import annotations

from sim.bench import Bench
from sim.cli.arguments import Options
from sim.cli.progress import RunProgress
from sim.cli.session import Session, run_once, settle_memories

from .board_host import BoardHost, BoardMemories
from .client import Client

__all__ = ["open_bench", "run_session"]


def open_bench(client: Client, config, progress: RunProgress) -> Bench:
    """A bench on the board, as after power-up: every register reset, every memory zero."""
    client.reset()
    memories = BoardMemories(client, config, phases=progress.phase, watch=progress.part)
    memories.zero()
    return Bench(config, BoardHost(client, config, memories), memories, progress.phase)


def run_session(client: Client, options: Options, progress: RunProgress) -> Session:
    """Run the repetitions that `options` ask for, up to the first that fails."""
    bench = open_bench(client, options.config, progress)
    settle_memories(bench, options)
    outcomes = []
    for run in range(len(options.sizes)):
        outcomes.append(run_once(bench, options, run, watch=progress.cycles))
        if outcomes[-1].status != "ok":
            break
    return Session(outcomes, None, 0)
