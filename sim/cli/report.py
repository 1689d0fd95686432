"""The report of a session as one JSON object. Its keys are fixed: other programs read them."""

from __future__ import annotations

import json

from hdl import __version__
from hdl.accelerator.layouts import ELEMENT_BYTES
from hdl.config import SwitchConfig
from sim.host import Figures
from sim.plan import ALL_REDUCE, Plan
from sim.quantized import QUANTIZED
from sim.testbed import Outcome

from .arguments import Options
from .session import Session

__all__ = ["dumps", "report", "run_report"]


def _durations(figures: Figures | None, scale: float | int) -> dict:
    if figures is None:
        return {"arrive_to_flag": None, "data": None}
    return {"arrive_to_flag": figures.arrive_to_flag * scale, "data": figures.data * scale}


def _in_flight(figures: Figures | None) -> dict:
    return {
        what: {
            "max": figures and getattr(figures, f"{what}_max"),
            "mean": figures and getattr(figures, f"{what}_mean"),
        }
        for what in ("reading", "writing")
    }


def _stalls(figures: Figures | None) -> dict:
    names = ("barrier", "entries", "data", "write_room", "request_credits")
    return {name: figures.stalls[name] if figures else None for name in names}


def run_report(config: SwitchConfig, outcome: Outcome, plan: Plan = ALL_REDUCE) -> dict:
    """One run. Figures are null where the run has none: it did not end, or moved no bytes."""
    figures = outcome.figures
    ns = _durations(figures, 1e9 / config.clock_hz)
    payload = config.payload_cycles(outcome.bytes)
    quantized = outcome.format == QUANTIZED
    moved = figures is not None and outcome.bytes > 0 and figures.data > 0
    return {
        "bytes": outcome.bytes,
        "bit_exact": outcome.bit_exact,
        "status": outcome.status,
        "cycles": _durations(figures, 1),
        "ns": ns,
        "payload_cycles": payload,
        "utilization": payload / figures.data if moved else None,
        "bound": plan.bound(config, outcome.bytes, outcome.format),
        "algbw_GBps": outcome.bytes / ns["data"] if moved else None,
        "fp16_equivalent_GBps": (
            ELEMENT_BYTES * outcome.bytes / ns["data"] if moved and quantized else None
        ),
        "blocks": outcome.blocks and outcome.blocks._asdict(),
        "waves_in_flight": _in_flight(figures),
        "stalls": _stalls(figures),
    }


def _collective(options: Options) -> dict:
    """What `sim.collective` was asked for."""
    if not options.collective:
        return {}
    plan, config = options.plan, options.config
    return {
        "collective": plan.kind,
        "operation": "copy" if plan.copies else plan.operation,
        "sources": list(plan.source_ranks(config)),
        "destinations": list(plan.destination_ranks(config)),
        "chunk_bytes": plan.chunk_bytes(config, options.sizes[0]),
    }


def report(options: Options, session: Session) -> dict:
    """The session: what ran, the first run's figures, and each run's in ``runs``.

    ``bit_exact`` and ``status`` at the top speak of all runs: the status is the one of the run
    that failed.
    """
    config = options.config
    runs = [run_report(config, outcome, options.plan) for outcome in session.outcomes]
    failed = session.failed
    return {
        "version": __version__,
        "preset": options.preset,
        "config": config.to_fields(),
        "digest": config.digest,
        "engine": options.engine,
        "dtype": options.dtype,
        "in_place": not options.out_of_place,
        "seed": options.seed,
        "input": options.input.name,
        **_collective(options),
        **runs[0],
        "bit_exact": all(run["bit_exact"] for run in runs),
        "status": failed.status if failed else "ok",
        "runs": runs,
        "engine_cycles_per_second": session.cycles_per_second,
    }


def dumps(value: dict) -> str:
    """JSON text; never NaN or Infinity, which JSON has not."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"
