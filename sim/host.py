"""The host of a simulated system: registers over AXI4-Lite, runs to the cycle."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hdl.config import SwitchConfig

from .engines.base import Engine
from .register_host import Figures, HostError, Instruction, RegisterHost

__all__ = ["Figures", "Host", "HostError", "Instruction"]

#: Longest wait for one register access, in cycles; it takes four.
ACCESS_CYCLES = 100
#: A watched run is looked at about so often.
WATCH_SECONDS = 0.1
OKAY = 0
WORD_BYTES = 4


class Host(RegisterHost):
    """Drives a `System` in an engine through its registers.

    Parameters
    ----------
    engine
        With a `System` of `config` in it.
    """

    def __init__(self, engine: Engine, config: SwitchConfig):
        self.engine = engine
        super().__init__(config)

    # -- registers ------------------------------------------------------------------------------

    def _wait(self, port: str):
        for _ in range(ACCESS_CYCLES):
            if self.engine.get(port):
                return
            self.engine.step()
        raise HostError(f"{port}: no answer within {ACCESS_CYCLES} cycles")

    def write_word(self, address: int, value: int):
        """Write 32 bits."""
        engine = self.engine
        engine.set("axil__awaddr", address)
        engine.set("axil__wdata", value)
        engine.set("axil__wstrb", 0xF)
        engine.set("axil__awvalid", 1)
        engine.set("axil__wvalid", 1)
        engine.set("axil__bready", 1)
        self._wait("axil__awready")
        engine.step()
        engine.set("axil__awvalid", 0)
        engine.set("axil__wvalid", 0)
        self._wait("axil__bvalid")
        response = engine.get("axil__bresp")
        engine.step()
        if response != OKAY:
            raise HostError(f"register {address:#06x}: write answered with code {response}")

    def read_word(self, address: int) -> int:
        """Read 32 bits."""
        engine = self.engine
        engine.set("axil__araddr", address)
        engine.set("axil__arvalid", 1)
        engine.set("axil__rready", 1)
        self._wait("axil__arready")
        engine.step()
        engine.set("axil__arvalid", 0)
        self._wait("axil__rvalid")
        value, response = engine.get("axil__rdata"), engine.get("axil__rresp")
        engine.step()
        if response != OKAY:
            raise HostError(f"register {address:#06x}: read answered with code {response}")
        return value

    def read_words(self, address: int, count: int) -> list[int]:
        return [self.read_word(address + WORD_BYTES * word) for word in range(count)]

    def write_words(self, address: int, values: Sequence[int]):
        for word, value in enumerate(values):
            self.write_word(address + WORD_BYTES * word, value)

    # -- runs -----------------------------------------------------------------------------------

    def wait(self, cycles: int):
        self.engine.step(cycles)

    def run(self, max_cycles: int, watch: Callable[[int], None] | None = None) -> bool:
        self.start()
        if watch is None:
            return self.engine.run_until("done", max_cycles)
        ran, piece = 0, 1
        while ran < max_cycles:
            piece = min(piece, max_cycles - ran)
            start = time.perf_counter()
            if self.engine.run_until("done", piece):
                return True
            ran += piece
            watch(ran)
            if time.perf_counter() - start < WATCH_SECONDS:
                piece *= 2
        return False
