"""What software on a rank does, and what the host does: arrive, wait for the flag; post."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

from hdl.config import SwitchConfig
from hdl.registers import (
    SWITCH_PAGE,
    addresses,
    context_page,
    context_registers,
    switch_registers,
)

from .operations import FORMATS, Operation

__all__ = ["Host", "RankProgram"]

MASK = 0xFFFFFFFF


class RankProgram:
    """For each operation: wait, arrive, poll the flag until it speaks of this epoch or a later one.

    Parameters
    ----------
    arrive
        Sends an arrival with this epoch.
    flag
        Reads the flag from the rank's memory.
    """

    def __init__(self, arrive: Callable[[int], None], flag: Callable[[], int]):
        self._arrive = arrive
        self._flag = flag
        self._todo: deque[tuple[int, int]] = deque()  # epoch, cycles before its arrival
        self._waiting: int | None = None
        self._delay = 0
        self.now = 0
        self.flags: list[int] = []  # words, as they were seen
        self.arrivals: dict[int, int] = {}  # cycle, by epoch
        self.ends: dict[int, int] = {}  # likewise

    def add(self, epoch: int, delay: int):
        self._todo.append((epoch, delay))
        if len(self._todo) == 1:
            self._delay = delay

    def cycle(self):
        self.now += 1
        if self._waiting is not None:
            word = self._flag()
            if ((word & MASK) - self._waiting) & MASK >= 1 << 31:
                return
            self.flags.append(word)
            self.ends[self._waiting] = self.now
            self._waiting = None
            self._todo.popleft()
            self._delay = self._todo[0][1] if self._todo else 0
        if not self._todo:
            return
        if self._delay:
            self._delay -= 1
            return
        self._waiting = self._todo[0][0]
        self.arrivals[self._waiting] = self.now
        self._arrive(self._waiting)

    def left(self) -> str:
        if not self._todo:
            return ""
        return f"{len(self._todo)} operations, waiting for epoch {self._waiting}"


class Host:
    """Posts operations through the switch's registers.

    Parameters
    ----------
    write, read
        Access a word by its byte address.
    context
        Whose instructions they are.
    """

    def __init__(
        self,
        config: SwitchConfig,
        write: Callable[[int, int], Awaitable[None]],
        read: Callable[[int], Awaitable[int]],
        *,
        context: int = 0,
    ):
        self._address = addresses(switch_registers(config), SWITCH_PAGE)
        if config.contexts > 1:
            page = context_page(config, context)
            self._address |= addresses(context_registers(config, context), page)
        self._write, self._read = write, read

    async def write(self, name: str, value: int):
        await self._write(self._address[name], value & MASK)

    async def read(self, name: str) -> int:
        return await self._read(self._address[name])

    async def post(self, operation: Operation, flags: list[int]) -> tuple[int, int]:
        """Stage and post; code and rank of the refusal, or 0 twice."""
        staged = {**operation.addresses, "flag": flags}
        for kind, places in staged.items():
            for rank, address in enumerate(places):
                await self.write(f"{kind}_{rank}", address)
        await self.write("length", operation.length)
        await self.write("format", FORMATS[operation.format])
        await self.write("post", 1)
        while await self.read("post_busy"):
            pass
        return await self.read("post_code"), await self.read("post_rank")
