"""The simulators that a top runs in, behind one interface: `create` one by name.

``pysim`` is Amaranth's own simulator; ``cxxrtl`` is the same netlist compiled to machine code.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from amaranth.lib import wiring

from .base import DEFAULT_CLOCK_HZ, Engine, EngineError, Harness, Recording, collector_paused
from .build import find_compiler, require_compiler
from .cxxrtl import CxxrtlEngine
from .pysim import PysimEngine

__all__ = [
    "ENGINES",
    "Engine",
    "EngineError",
    "Recording",
    "create",
    "default_engine",
]

#: Engines by name, the fast one first.
ENGINES = ("cxxrtl", "pysim")


def default_engine() -> str:
    """``cxxrtl`` where a C++ compiler is found, else ``pysim``."""
    return "cxxrtl" if find_compiler() else "pysim"


def create(
    name: str,
    top_factory: Callable[[], wiring.Component],
    *,
    clock_hz: int = DEFAULT_CLOCK_HZ,
    vcd: bool = False,
    phases: Callable[[str], None] = lambda phase: None,
    cache_dir: str | os.PathLike | None = None,
) -> Engine:
    """An engine with the top that `top_factory` makes, at cycle 0.

    Parameters
    ----------
    name
        ``cxxrtl`` or ``pysim``.
    top_factory
        Called once, in the phase ``generate``; ports of the component are reached by their
        flattened names.
    clock_hz
        Scales the time in waveforms; nothing else depends on it.
    vcd
        Whether `Engine.vcd` will be called. CXXRTL then builds with debug information.
    phases
        Called with the name of each phase as it begins: ``generate``, ``compile``, ``load``.
    cache_dir
        Where compiled tops are kept; None is the environment's TIDEGATE_CACHE, else
        ``build/cache``.

    Raises
    ------
    EngineError
        The name is unknown, or ``cxxrtl`` is asked for without a C++ compiler.
    """
    if name not in ENGINES:
        raise EngineError(f"engine: must be one of {', '.join(ENGINES)}, not {name!r}")
    if name == "cxxrtl":
        require_compiler()
    phases("generate")
    with collector_paused():
        harness = Harness(top_factory())
    if name == "pysim":
        return PysimEngine(harness, clock_hz=clock_hz)
    return CxxrtlEngine(harness, clock_hz=clock_hz, waves=vcd, phases=phases, cache_dir=cache_dir)
