"""What a host does through registers alone, wherever the system is: in an engine or on a board."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from hdl.interfaces import Format
from hdl.registers import (
    RANK_PAGE,
    SWITCH_PAGE,
    SYSTEM_PAGE,
    TRACE_PAGE,
    Register,
    addresses,
    rank_registers,
    switch_registers,
    system_registers,
    trace_registers,
)

__all__ = ["Figures", "HostError", "Instruction", "RegisterHost", "register_tables"]

WORD_BITS = 32


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


def register_tables(config: SwitchConfig) -> dict[str, tuple[list[Register], int]]:
    """Registers and page of the ``switch``, the ``system`` around it, each ``rankN``, and the
    ``trace`` buffer where there is one.
    """
    tables = {
        "switch": (switch_registers(config), SWITCH_PAGE),
        "system": (system_registers(config), SYSTEM_PAGE),
    }
    for rank in range(config.ranks):
        tables[f"rank{rank}"] = (rank_registers(config), RANK_PAGE + rank)
    if config.trace_records:
        tables["trace"] = (trace_registers(config), TRACE_PAGE)
    return tables


class RegisterHost(ABC):
    """Drives a `System` of `config` through its registers.

    Parameters
    ----------
    config
        The configuration that the system was built for.
    """

    def __init__(self, config: SwitchConfig):
        self.config = config
        self.tables = register_tables(config)
        self._address, self._words = {}, {}
        for where, (table, page) in self.tables.items():
            for name, address in addresses(table, page).items():
                self._address[where, name] = address
            for register in table:
                self._words[where, register.name] = register.words
        self.epoch = self.read("switch", "epoch")

    # -- registers ------------------------------------------------------------------------------

    @abstractmethod
    def read_words(self, address: int, count: int) -> list[int]:
        """`count` words of 32 bits from byte address `address` up."""

    @abstractmethod
    def write_words(self, address: int, values: Sequence[int]):
        """Write words of 32 bits from byte address `address` up."""

    def address(self, where: str, name: str) -> int:
        """Byte address of a register; `where` is a key of `tables`."""
        return self._address[where, name]

    def words_of(self, where: str, name: str, value: int) -> list[int]:
        """`value` as the words of a register, the low one first."""
        words = range(self._words[where, name])
        return [value >> (WORD_BITS * word) & 0xFFFFFFFF for word in words]

    def write(self, where: str, name: str, value: int):
        """Write a register by name; `where` is ``switch``, ``system`` or ``rankN``."""
        self.write_words(self._address[where, name], self.words_of(where, name, value))

    def read(self, where: str, name: str) -> int:
        """Read a register by name."""
        words = self.read_words(self._address[where, name], self._words[where, name])
        return sum(word << (WORD_BITS * number) for number, word in enumerate(words))

    # -- operations -----------------------------------------------------------------------------

    def post(self, instruction: Instruction) -> tuple[Status, int]:
        """Stage and post an instruction; how it was taken, and the rank that a refusal names.

        Addresses of scales that the instruction does not have stay as they were staged last.
        """
        high = None
        for kind in ("source", "destination", "flag", "scale_source", "scale_destination"):
            for rank, address in enumerate(getattr(instruction, f"{kind}s") or ()):
                if address >> WORD_BITS != high:
                    high = address >> WORD_BITS
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

    def start(self):
        """Set the run's counters to zero and start every rank's program."""
        self.write("switch", "clear", 1)
        self.write("system", "go", 1)

    @abstractmethod
    def wait(self, cycles: int):
        """Let the system run so many cycles at least."""

    @abstractmethod
    def run(self, max_cycles: int, watch: Callable[[int], None] | None = None) -> bool:
        """Start every rank; whether all ended within `max_cycles`.

        `watch` is called with the cycles run so far, some ten times a second; it changes nothing
        in what is run.
        """

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

    def state(self) -> dict[str, dict[str, int]]:
        """Every readable register, by where and name."""
        return {
            where: {
                register.name: self.read(where, register.name)
                for register in table
                if register.access != "wo"
            }
            for where, (table, _page) in self.tables.items()
        }
