"""A system in an engine, and All-Reduces one after another in it."""

from __future__ import annotations

from collections.abc import Callable

from hdl.config import SwitchConfig
from hdl.system import System

from .bench import Bench, Outcome, Placement, place
from .engines import Engine, create
from .host import Host

__all__ = ["Outcome", "Placement", "Testbed", "place"]


class Testbed(Bench):
    """Runs All-Reduces in a simulated `System` and compares every byte of every memory.

    Parameters
    ----------
    config
        The configuration.
    engine
        ``cxxrtl`` or ``pysim``.
    vcd
        Whether waveforms will be asked for.
    phases
        Called with the name of each phase as it begins: of the build (see `engines.create`), and
        of each run ``run`` and ``compare``.
    cache_dir
        Where compiled models are kept.
    """

    __test__ = False  # not a pytest class

    def __init__(
        self,
        config: SwitchConfig,
        engine: str = "cxxrtl",
        *,
        vcd: bool = False,
        phases: Callable[[str], None] = lambda phase: None,
        cache_dir=None,
    ):
        self.engine: Engine = create(
            engine,
            lambda: System(config),
            clock_hz=config.clock_hz,
            vcd=vcd,
            phases=phases,
            cache_dir=cache_dir,
        )
        super().__init__(config, Host(self.engine, config), self.engine, phases)

    @property
    def cycle(self) -> int:
        return self.engine.cycle

    def restart(self):
        """As new: nothing of what was run is left, in memories neither."""
        self.engine.restart()
        host = Host(self.engine, self.config)
        super().__init__(self.config, host, self.engine, self._phases)

    def close(self):
        self.engine.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
