"""The host of a simulated system: registers over AXI4-Lite, instructions, programs, figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from hdl.interfaces import Format
from hdl.registers import (
    RANK_PAGE,
    SWITCH_PAGE,
    SYSTEM_PAGE,
    addresses,
    rank_registers,
    switch_registers,
    system_registers,
)

from .engines.base import Engine

__all__ = ["Figures", "Host", "HostError", "Instruction"]

#: Longest wait for one register access, in cycles; it takes three.
ACCESS_CYCLES = 100
#: A watched run is looked at about so often.
WATCH_SECONDS = 0.1
OKAY = 0


class HostError(RuntimeError):
    """The hardware did not answer as it must, or refused what was asked."""


@dataclass
class Instruction:
    """An All-Reduce: byte addresses by rank, and the bytes of each rank's operand.

    A quantized one (format ``inq8``) also has addresses of scales.
    """

    length: int
    sources: list[int]
    destinations: list[int]
    flags: list[int]
    format: str = "fp16"
    scale_sources: list[int] | None = None
    scale_destinations: list[int] | None = None


@dataclass
class Figures:
    """What the hardware counted in one run. Cycles; lists are by rank or port."""

    arrive_to_flag: int
    data: int
    reading_max: int
    reading_mean: float
    writing_max: int
    writing_mean: float
    stalls: dict = field(default_factory=dict)
    code: str = "OK"
    code_rank: int = 0
    waves: int = 0


class Host:
    """Drives a `System` in an engine through its registers.

    Parameters
    ----------
    engine
        With a `System` of `config` in it.
    """

    def __init__(self, engine: Engine, config: SwitchConfig):
        self.engine = engine
        self.config = config
        self.tables = {
            "switch": (switch_registers(config), SWITCH_PAGE),
            "system": (system_registers(config), SYSTEM_PAGE),
        } | {
            f"rank{rank}": (rank_registers(config), RANK_PAGE + rank)
            for rank in range(config.ranks)
        }
        self._address, self._width = {}, {}
        for where, (table, page) in self.tables.items():
            for name, address in addresses(table, page).items():
                self._address[where, name] = address
            for register in table:
                self._width[where, register.name] = register.width
        self.epoch = self.read("switch", "epoch")

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

    def write(self, where: str, name: str, value: int):
        """Write a register by name; `where` is ``switch``, ``system`` or ``rankN``."""
        address = self._address[where, name]
        for word in range(-(-self._width[where, name] // 32)):
            self.write_word(address + 4 * word, value >> (32 * word) & 0xFFFFFFFF)

    def read(self, where: str, name: str) -> int:
        """Read a register by name."""
        address = self._address[where, name]
        words = -(-self._width[where, name] // 32)
        return sum(self.read_word(address + 4 * word) << (32 * word) for word in range(words))

    # -- operations -----------------------------------------------------------------------------

    def post(self, instruction: Instruction) -> tuple[Status, int]:
        """Stage and post an instruction; how it was taken, and the rank that a refusal names.

        Addresses of scales that the instruction does not have stay as they were staged last.
        """
        high = None
        for kind in ("source", "destination", "flag", "scale_source", "scale_destination"):
            for rank, address in enumerate(getattr(instruction, f"{kind}s") or ()):
                if address >> 32 != high:
                    high = address >> 32
                    self.write("switch", "address_high", high)
                self.write("switch", f"{kind}_{rank}", address & 0xFFFFFFFF)
        self.write("switch", "length", instruction.length)
        self.write("switch", "format", Format[instruction.format.upper()].value)
        self.write("switch", "post", 1)
        while self.read("switch", "post_busy"):
            pass
        return Status(self.read("switch", "post_code")), self.read("switch", "post_rank")

    def program(self, *, flags: list[int], count: int = 1, delays: list[int] | None = None):
        """Let every rank take part in the next `count` operations."""
        for rank in range(self.config.ranks):
            where = f"rank{rank}"
            self.write(where, "flag_address", flags[rank])
            self.write(where, "epoch", self.epoch)
            self.write(where, "count", count)
            self.write(where, "delay", delays[rank] if delays else 0)
        self.epoch += count

    def run(self, max_cycles: int, watch: Callable[[int], None] | None = None) -> bool:
        """Start every rank; whether all ended within `max_cycles`.

        `watch` is called with the cycles run so far, some ten times a second; it changes nothing
        in what is simulated.
        """
        self.write("switch", "clear", 1)
        self.write("system", "go", 1)
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

    def figures(self) -> Figures:
        """What the run counted, once every rank is done."""
        ranks = range(self.config.ranks)
        arrived = max(self.read(f"rank{rank}", "arrive_time") for rank in ranks)
        flagged = max(self.read(f"rank{rank}", "flag_time") for rank in ranks)
        answered = self.read("switch", "last_response")
        # Nothing was written if nothing was asked for, or the first wave's data had an error.
        data = answered - self.read("switch", "first_request") if answered else 0
        means = {
            what: self.read("switch", f"{what}_sum") / data if data else 0.0
            for what in ("reading", "writing")
        }
        return Figures(
            arrive_to_flag=flagged - arrived,
            data=data,
            reading_max=self.read("switch", "reading_max"),
            reading_mean=means["reading"],
            writing_max=self.read("switch", "writing_max"),
            writing_mean=means["writing"],
            stalls={
                "barrier": self.read("switch", "stall_barrier"),
                "entries": self.read("switch", "stall_entries"),
            }
            | {
                what: [self.read("switch", f"stall_{what}_{rank}") for rank in ranks]
                for what in ("data", "write_room", "request_credits")
            },
            code=Status(self.read("switch", "last_code")).name,
            code_rank=self.read("switch", "last_rank"),
            waves=self.read("switch", "last_waves"),
        )
