"""The board's twin: the prototype in a simulation engine, behind a pseudo-terminal.

It joins at the bytes between UART and bridge, so a byte costs a cycle or two and not thousands.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import tty
from collections.abc import Callable

from hdl.config import ConfigError, SwitchConfig
from sim import engines

from .host.frames import BURST_BYTES
from .pattern import Pattern
from .prototype import Prototype

__all__ = ["SimulatedBoard", "Twin"]

#: Largest rank memory that a twin's self-test fills and compares at power-up, a cycle an element.
SELF_TEST_BYTES = 64 << 10
#: Cycles between looks at the terminal while the design is at work.
PIECE_CYCLES = 2000
#: Cycles without a byte after which those that came are handed over.
GAP_CYCLES = 32
#: Cycles that an idle design runs on: acknowledgements of flags are still under way then, and
#: credits return. Links add to it.
SETTLE_CYCLES = 4096
#: Cycles that a design at work runs without a byte from the host: more than any operation takes,
#: so that a hung one does not run for ever.
PATIENCE_CYCLES = 100_000_000
READ_BYTES = 4096


def _has_self_test(config: SwitchConfig) -> bool:
    """Whether a board with this configuration has one that a simulation may wait for."""
    try:
        Pattern(config)
    except ConfigError:
        return False
    return config.memory_bytes <= SELF_TEST_BYTES


class SimulatedBoard:
    """The prototype in an engine: bytes in, bytes out, no terminal.

    Parameters
    ----------
    config
        The configuration.
    engine
        ``cxxrtl`` or ``pysim``; None is `engines.default_engine`.
    self_test
        Whether it has one, which runs first; None: where the configuration and its size allow it.
    burst_bytes
        See `Prototype`.
    vcd, phases, cache_dir
        See `engines.create`.

    Raises
    ------
    ConfigError, EngineError
        The prototype or the engine cannot be made.
    """

    def __init__(
        self,
        config: SwitchConfig,
        engine: str | None = None,
        *,
        self_test: bool | None = None,
        burst_bytes: int = BURST_BYTES,
        vcd: bool = False,
        phases: Callable[[str], None] = lambda phase: None,
        cache_dir=None,
    ):
        self.config = config
        self.self_test = _has_self_test(config) if self_test is None else self_test
        self.engine = engines.create(
            engine or engines.default_engine(),
            lambda: Prototype(
                config,
                self_test=self.self_test,
                block_storage=False,
                burst_bytes=burst_bytes,
            ),
            clock_hz=config.clock_hz,
            vcd=vcd,
            phases=phases,
            cache_dir=cache_dir,
        )
        self.engine.set("tx__ready", 1)

    @property
    def active(self) -> bool:
        """Whether bridge, self-test or a rank's program are at work, or a byte is to come out."""
        return bool(self.engine.get("active") or self.engine.get("tx__valid"))

    def feed(self, data: bytes) -> bytes:
        """Put bytes in, one a cycle; what came out meanwhile."""
        engine, came = self.engine, bytearray()
        engine.set("rx__valid", 1)
        for byte in data:
            engine.set("rx__payload", byte)
            self._step(came)
        engine.set("rx__valid", 0)
        return bytes(came)

    def _step(self, came: bytearray):
        """One cycle; the byte that stands at the output is taken at its end."""
        if self.engine.get("tx__valid"):
            came.append(self.engine.get("tx__payload"))
        self.engine.step()

    def run(self, cycles: int) -> bytes:
        """Bytes that come within `cycles`, or until a gap behind some."""
        engine, came, end = self.engine, bytearray(), self.engine.cycle + cycles
        while True:
            while engine.get("tx__valid"):
                self._step(came)
            left = end - engine.cycle
            if left <= 0:
                return bytes(came)
            if not engine.run_until("tx__valid", min(GAP_CYCLES, left) if came else left) and came:
                return bytes(came)

    def press(self):
        """Press the button."""
        self.engine.set("button", 1)
        self.engine.step()
        self.engine.set("button", 0)

    def close(self):
        self.engine.close()


class Twin:
    """A `SimulatedBoard` behind a pseudo-terminal, run by a thread of its own.

    Parameters
    ----------
    see `SimulatedBoard`

    Attributes
    ----------
    device : path of the terminal, for a serial port; its baud rate means nothing
    board : see `SimulatedBoard`; while the thread runs, use it inside ``with twin.lock``

    The simulation runs while the design is at work, some thousand cycles more, and then sleeps
    until a byte comes.
    """

    def __init__(self, config: SwitchConfig, engine: str | None = None, **options):
        self.board = SimulatedBoard(config, engine, **options)
        self.lock = threading.Lock()
        self._settle = SETTLE_CYCLES + 8 * config.link_latency_max
        self._master, self._slave = os.openpty()  # a slave held open: no end of file without a host
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.device = os.ttyname(self._slave)
        self._woken, self._wake = os.pipe()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="tidegate-twin", daemon=True)
        self._thread.start()

    def __enter__(self) -> Twin:
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """Stop, and give back what it holds. An error of the simulation is raised here."""
        if self._wake is None:
            return
        os.close(self._wake)  # the other end becomes readable
        self._wake = None
        self._thread.join()
        for descriptor in (self._woken, self._slave):
            os.close(descriptor)
        self.board.close()
        if self._error is not None:
            raise self._error

    def _serve(self):
        """The thread: between terminal and simulation until it is woken."""
        try:
            self._shuttle()
        except BaseException as error:  # told by `close`; the host finds its line dead
            self._error = error
        finally:
            os.close(self._master)

    def _shuttle(self):
        pending = bytearray()  # for the host
        quiet = waited = 0  # cycles: idle, and without a byte
        while True:
            runs = quiet < self._settle and waited < PATIENCE_CYCLES
            readable, writable, _ = select.select(
                [self._master, self._woken],
                [self._master] if pending else [],
                [],
                0 if runs else None,
            )
            if self._woken in readable:
                return
            with self.lock:
                if self._master in readable:
                    pending += self.board.feed(os.read(self._master, READ_BYTES))
                    quiet = waited = 0
                    runs = True
                if runs:
                    began = self.board.engine.cycle
                    pending += self.board.run(PIECE_CYCLES)
                    ran = self.board.engine.cycle - began
                    quiet = 0 if self.board.active else quiet + ran
                    waited += ran
            if pending:
                with contextlib.suppress(BlockingIOError):
                    del pending[: os.write(self._master, pending)]
