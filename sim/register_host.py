"""What a host does through registers alone, wherever the system is: in an engine or on a board."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hdl.accelerator.instruction_queue import COLLECTIVE_SHIFT, OPERATION_SHIFT
from hdl.accelerator.layouts import Status
from hdl.config import SwitchConfig
from hdl.interfaces import Collective, Format, Operation
from hdl.registers import (
    PORT_PAGE,
    RANK_PAGE,
    SWITCH_PAGE,
    SYSTEM_PAGE,
    TRACE_PAGE,
    Register,
    addresses,
    context_page,
    context_registers,
    port_registers,
    program_register,
    rank_registers,
    switch_registers,
    system_registers,
    trace_registers,
)

__all__ = [
    "Figures",
    "HostError",
    "Instruction",
    "RegisterHost",
    "context_name",
    "register_tables",
]

WORD_BITS = 32


class HostError(RuntimeError):
    """The hardware did not answer as it must, or refused what was asked."""


@dataclass
class Instruction:
    """An All-Reduce: byte addresses by rank, and the bytes of each rank's operand.

    A quantized one (format ``inq8``) also has addresses of scales. Where that may be some of the
    ranks, the masks have a bit a rank: who is read and who is written; None is all. Where they are
    built, ``operation`` and ``collective`` are names of `Operation` and `Collective`, and ``chunk``
    bytes.
    """

    length: int
    sources: list[int]
    destinations: list[int]
    flags: list[int]
    format: str = "fp16"
    scale_sources: list[int] | None = None
    scale_destinations: list[int] | None = None
    source_ranks: int | None = None
    destination_ranks: int | None = None
    operation: str = "sum"
    collective: str = "whole"
    chunk: int = 0

    def common_fields(self, config: SwitchConfig) -> dict[str, int]:
        """What is not said rank by rank, by register, of those that `config` has."""
        fields = {"length": self.length, "format": self._format_word}
        if config.chunks:
            fields["chunk"] = self.chunk
        if config.subsets:
            everyone = (1 << config.ranks) - 1
            for name in ("source_ranks", "destination_ranks"):
                ranks = getattr(self, name)
                fields[name] = everyone if ranks is None else ranks
        return fields

    @property
    def _format_word(self) -> int:
        return (
            Format[self.format.upper()].value
            | Operation[self.operation.upper()].value << OPERATION_SHIFT
            | Collective[self.collective.upper()].value << COLLECTIVE_SHIFT
        )


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
    """Registers and page of the ``switch``, the ``system`` around it, each ``rankN``, the ``trace``
    buffer where there is one, and where there are several contexts the ``ports`` and each
    ``contextN``.
    """
    tables = {
        "switch": (switch_registers(config), SWITCH_PAGE),
        "system": (system_registers(config), SYSTEM_PAGE),
    }
    for rank in range(config.ranks):
        tables[f"rank{rank}"] = (rank_registers(config), RANK_PAGE + rank)
    if config.trace_records:
        tables["trace"] = (trace_registers(config), TRACE_PAGE)
    if config.contexts > 1:
        tables["ports"] = (port_registers(config), PORT_PAGE)
        for context in range(config.contexts):
            table = context_registers(config, context), context_page(config, context)
            tables[context_name(config, context)] = table
    return tables


def context_name(config: SwitchConfig, context: int) -> str:
    """Where a context's registers are, a key of `register_tables`."""
    return "switch" if config.contexts == 1 else f"context{context}"


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
        #: By context, the epoch of the next operation that ranks are programmed for.
        self.epochs = [
            self.read(context_name(config, context), "epoch") for context in range(config.contexts)
        ]

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

    @property
    def epoch(self) -> int:
        """That of the first context."""
        return self.epochs[0]

    @epoch.setter
    def epoch(self, value: int):
        self.epochs[0] = value

    def post(self, instruction: Instruction, context: int = 0) -> tuple[Status, int]:
        """Stage and post an instruction; how it was taken, and the rank that a refusal names.

        Addresses of scales that the instruction does not have stay as they were staged last.
        """
        where = context_name(self.config, context)
        high = None
        for kind in ("source", "destination", "flag", "scale_source", "scale_destination"):
            for rank, address in enumerate(getattr(instruction, f"{kind}s") or ()):
                if address >> WORD_BITS != high:
                    high = address >> WORD_BITS
                    self.write(where, "address_high", high)
                self.write(where, f"{kind}_{rank}", address & 0xFFFFFFFF)
        for name, value in instruction.common_fields(self.config).items():
            self.write(where, name, value)
        self.write(where, "post", 1)
        while self.read(where, "post_busy"):
            pass
        return Status(self.read(where, "post_code")), self.read(where, "post_rank")

    def program(
        self,
        *,
        flags: list[int],
        count: int = 1,
        delays: list[int] | None = None,
        context: int = 0,
        ranks: Sequence[int] | None = None,
    ):
        """Let every rank, or those of `ranks`, take part in the next `count` operations."""
        for rank in range(self.config.ranks):
            takes_part = ranks is None or rank in ranks
            for name, value in (
                ("flag_address", flags[rank]),
                ("epoch", self.epochs[context]),
                ("count", count if takes_part else 0),
                ("delay", delays[rank] if delays else 0),
            ):
                self.write(f"rank{rank}", program_register(self.config, name, context), value)
        self.epochs[context] += count

    def start(self):
        """Set the run's counters to zero and start every rank's programs."""
        self.write("switch", "clear", 1)
        self.go(range(self.config.contexts))

    def go(self, contexts: Sequence[int] = (0,)):
        """Start every rank's program for these contexts, in the same cycle."""
        self.write("system", "go", sum(1 << context for context in contexts))

    @abstractmethod
    def wait(self, cycles: int):
        """Let the system run so many cycles at least."""

    @abstractmethod
    def run(self, max_cycles: int, watch: Callable[[int], None] | None = None) -> bool:
        """Start every rank; whether all ended within `max_cycles`.

        `watch` is called with the cycles run so far, some ten times a second; it changes nothing
        in what is run.
        """

    def latest(self, name: str, context: int = 0) -> int:
        """The largest of a register that every rank has for a context: of ``flag_time``, say."""
        register = program_register(self.config, name, context)
        return max(self.read(f"rank{rank}", register) for rank in range(self.config.ranks))

    def figures(self) -> Figures:
        """What the run counted, once every rank is done; codes are the first context's."""
        ranks = range(self.config.ranks)
        arrived, flagged = self.latest("arrive_time"), self.latest("flag_time")
        first = context_name(self.config, 0)
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
            code=Status(self.read(first, "last_code")).name,
            code_rank=self.read(first, "last_rank"),
            waves=self.read(first, "last_waves"),
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
