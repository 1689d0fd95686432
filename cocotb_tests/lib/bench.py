"""The loop that every bench runs in: one clock, agents that act once a cycle, a time-out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from .ports import Ports

__all__ = ["Agent", "Bench", "TimedOut"]

CLOCK_NS = 10
RESET_CYCLES = 3
#: Cycles that a bench goes on after everything has come, to see that no more comes.
QUIET_CYCLES = 24
#: Registers that a dump shows, and the widest of them: counters and states, not data.
DUMPED_REGISTERS = 400
DUMPED_BITS = 64


class TimedOut(AssertionError):
    """What was waited for did not come; the message says where everything stands."""


class Agent(Protocol):
    """Something that drives or watches ports."""

    def cycle(self):
        """Called at every clock edge: ports read as they were before it."""

    def left(self) -> str:
        """What it still waits for, in words; empty when nothing is left."""


class Bench:
    """Agents around a design under test.

    Parameters
    ----------
    dut
        The top of the simulation.

    Members
    -------
    ports : the design's ports
    agents : called in this order in every cycle
    now : cycles since the simulation's start
    """

    def __init__(self, dut):
        self.dut = dut
        self.ports = Ports(dut, Path(os.environ["TIDEGATE_PORTS"]))
        self.agents: list[Agent] = []
        self.now = 0
        self._clock_runs = False

    def add(self, *agents: Agent):
        """More agents; the last of them."""
        self.agents += agents
        return agents[-1]

    async def reset(self):
        """Every input to 0, and a reset."""
        self.ports.clear()
        self.ports.set("rst", 1)
        if not self._clock_runs:
            Clock(self.dut.clk, CLOCK_NS, unit="ns").start()
            self._clock_runs = True
        for _ in range(RESET_CYCLES):
            await RisingEdge(self.dut.clk)
            self.now += 1
        self.ports.set("rst", 0)

    async def step(self, cycles: int = 1):
        """So many cycles."""
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)
            self.now += 1
            for agent in self.agents:
                agent.cycle()

    async def until(self, done: Callable[[], bool], *, limit: int, what: str):
        """Cycles until `done`, at most `limit`.

        Raises
        ------
        TimedOut
            With what every agent still waits for, and a dump of the design's registers.
        """
        for _ in range(limit):
            if done():
                return
            await self.step()
        if not done():
            raise TimedOut(f"{what}: not within {limit} cycles\n{self.state()}")

    async def finish(self, *, limit: int, quiet: int = QUIET_CYCLES):
        """Cycles until no agent waits for anything, and some more, in which nothing may come."""
        await self.until(lambda: not self._left(), limit=limit, what="the end of the case")
        await self.step(quiet)
        left = self._left()
        if left:
            raise AssertionError(f"after the end: {'; '.join(left)}\n{self.state()}")

    def _left(self) -> list[str]:
        return [left for agent in self.agents if (left := agent.left())]

    def state(self) -> str:
        """What the agents wait for, and the registers that are not zero."""
        lines = [f"cycle {self.now}"]
        lines += [f"  {type(agent).__name__}: {agent.left() or 'idle'}" for agent in self.agents]
        path = Path(os.environ["TIDEGATE_OUT"]) / "state.txt"
        registers = list(self._registers(self.dut))
        path.write_text("\n".join([*lines, *registers]) + "\n")
        lines.append(f"  {len(registers)} registers that are not zero: {path}")
        return "\n".join(lines)

    def _registers(self, scope, name: str = "", seen: list[int] | None = None):
        """Narrow signals below `scope` that are not zero."""
        seen = [0] if seen is None else seen
        try:
            children = sorted(scope, key=lambda child: child._name)
        except (TypeError, AttributeError):
            return
        for child in children:
            if seen[0] >= DUMPED_REGISTERS:
                return
            path = f"{name}{child._name}"
            if isinstance(child, cocotb.handle.HierarchyObject):
                yield from self._registers(child, f"{path}.", seen)
                continue
            try:
                value = child.value
                if len(child) <= DUMPED_BITS and int(value):
                    seen[0] += 1
                    yield f"{path} = {int(value):#x}"
            except (TypeError, ValueError, AttributeError, RuntimeError):
                continue  # an array, a real number, or unknown bits
