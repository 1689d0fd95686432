"""Lines between a client and a simulated board: a clean one, and one on which anything happens."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from fpga.host.frames import FLAG
from fpga.twin import PIECE_CYCLES, SimulatedBoard

#: Cycles without an answer after which a line's `read` gives up, where the design does not rest.
PATIENCE_CYCLES = 100_000

#: Cycles that pass between two requests of a host while a self-test goes on.
SELF_TEST_CYCLES = 3000


class Line:
    """A serial port whose board runs while the host reads. No time passes but the board's."""

    def __init__(self, board: SimulatedBoard):
        self.board = board
        self.timeout: float | None = None
        self._came = bytearray()

    def write(self, data: bytes) -> int:
        if self.board.engine.get("busy"):  # a self-test, which a host does nothing but wait for
            self._came += self.board.run(SELF_TEST_CYCLES)
        self._came += self.board.feed(data)
        return len(data)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none once the board has nothing more to say."""
        end = self.board.engine.cycle + PATIENCE_CYCLES
        while not self._came and self.board.active and self.board.engine.cycle < end:
            self._came += self.board.run(PIECE_CYCLES)
        data = bytes(self._came[:size])
        del self._came[:size]
        return data

    def close(self):
        pass


@dataclass
class Trouble:
    """Probabilities, a frame, of what happens on a line; and how often it did."""

    flip: float = 0.04  # some bits of it
    cut: float = 0.02  # its end is lost
    lose: float = 0.04
    twice: float = 0.03
    late: float = 0.02  # once more, some frames later
    noise: float = 0.05  # bytes in front of it
    happened: dict[str, int] = field(default_factory=dict)

    def strikes(self, draw: random.Random, what: str) -> bool:
        if draw.random() >= getattr(self, what):
            return False
        self.happened[what] = self.happened.get(what, 0) + 1
        return True


class TroubledLine(Line):
    """A line that corrupts, loses and repeats frames both ways, with noise between them.

    Parameters
    ----------
    seed
        Of what happens.
    trouble
        How often.
    """

    def __init__(self, board: SimulatedBoard, *, seed: int, trouble: Trouble):
        super().__init__(board)
        self._draw = random.Random(seed)
        self._trouble = trouble
        self._kept: list[bytes] = []
        #: Frames that set out, both ways.
        self.frames = 0

    def write(self, data: bytes) -> int:
        super().write(self._after(data))
        return len(data)

    def read(self, size: int) -> bytes:
        # What comes until the board rests is an answer, or a few.
        came = bytearray()
        while piece := super().read(size):
            came += piece
        return self._after(bytes(came)) if came else b""

    def _after(self, data: bytes) -> bytes:
        """What arrives of a frame, or of a few."""
        draw, strikes = self._draw, self._strikes
        self.frames += 1
        original = data
        if strikes("lose"):
            data = b""
        if data and strikes("flip"):
            data = self._flipped(data)
        if data and strikes("cut"):
            data = data[: draw.randrange(len(data))]
        if strikes("twice"):
            data += original
        if self._kept and strikes("late"):
            data += draw.choice(self._kept)
        if strikes("noise"):
            data = self._noise() + data
        self._kept = [*self._kept[-20:], original]
        return data

    def _strikes(self, what: str) -> bool:
        return self._trouble.strikes(self._draw, what)

    def _flipped(self, data: bytes) -> bytes:
        flipped = bytearray(data)
        for _ in range(self._draw.choice((1, 1, 2, 8))):
            flipped[self._draw.randrange(len(data))] ^= 1 << self._draw.randrange(8)
        return bytes(flipped)

    def _noise(self) -> bytes:
        """Rubbish, now and then longer than any frame, with flags in it."""
        noise = self._draw.randbytes(self._draw.choice((1, 5, 40, 40, 3000)))
        return noise + bytes([FLAG] * self._draw.randrange(2))
