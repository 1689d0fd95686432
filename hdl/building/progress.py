"""What a build is doing, shown while it does it."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]


class Progress:
    """Names each phase as it begins, with its time once it is over; on a terminal only."""

    def __init__(self, stream=None):
        self._stream = sys.stderr if stream is None else stream
        self._shown = self._stream.isatty()
        self._phase: str | None = None
        self._begun = 0.0

    def phase(self, text: str):
        """The next phase begins."""
        self.over()
        self._phase, self._begun = text, time.monotonic()
        self._write(f"{text} ...")

    def step(self, text: str):
        """What the phase at hand is busy with."""
        if self._phase is not None:
            self._write(f"\r\033[K{self._phase}: {text}, {self._seconds()} ...")

    def over(self):
        """The last phase has ended."""
        if self._phase is not None:
            self._write(f"\r\033[K{self._phase}: {self._seconds()}\n")
        self._phase = None

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._begun:.0f} s"

    def _write(self, text: str):
        if self._shown:
            self._stream.write(text)
            self._stream.flush()
