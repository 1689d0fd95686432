"""Tenants of one switch: each a context with members, a window in their memories, and operations.

A tenant is driven through registers alone, and all that it may have written is written down beside
it, so that every byte of every memory can be compared afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hdl.accelerator.layouts import Status
from hdl.accelerator.window import format_word
from hdl.interfaces import Collective, Format
from hdl.interfaces import Operation as OperationCode
from hdl.registers import program_register

from .bench import Bench, Placement
from .golden.allreduce import all_reduce_sum
from .plan import ALL_REDUCE, Plan, mask
from .register_host import Instruction, context_name

__all__ = ["FLAG_BYTES", "Operation", "Tenant", "flag_word", "mask"]

#: Bytes of a flag.
FLAG_BYTES = 8
#: Set in the difference of two epochs of which the first is older.
EPOCH_SIGN = 1 << 31
#: Cycles between two looks at whether a tenant is done.
POLL_CYCLES = 20


def flag_word(epoch: int, code: Status = Status.OK, rank: int = 0, context: int = 0) -> int:
    """The word that a rank finds in its memory when an operation has ended."""
    return epoch | code.value << 32 | rank << 40 | context << 48


@dataclass
class Operation:
    """One operation of a tenant: (ranks, values) at `where`, which `plan` reads at some ranks and
    writes to some.
    """

    operands: np.ndarray
    where: Placement
    format: str = "fp16"
    plan: Plan = ALL_REDUCE
    epoch: int = 0

    @property
    def sources(self) -> Sequence[int]:
        return self.plan.sources

    @property
    def destinations(self) -> Sequence[int]:
        return self.plan.destinations

    @property
    def length(self) -> int:
        return self.operands.shape[1] * self.operands.itemsize

    @property
    def result(self) -> np.ndarray:
        """The sum that destinations hold, where that is what is asked for."""
        return all_reduce_sum(self.operands[list(self.sources)], self.format)[0]


@dataclass
class Tenant:
    """A context of `bed`'s switch.

    Parameters
    ----------
    bed
        The system, its host, and what its memories must hold.
    context
        Its number.
    members
        Ranks that belong to it.
    base, limit
        Bytes from where to where it may touch each member's memory, multiples of the flit.
    """

    bed: Bench
    context: int
    members: Sequence[int]
    base: int = 0
    limit: int = 0
    posted: list[Operation] = field(default_factory=list)

    def __post_init__(self):
        self.limit = self.limit or self.bed.config.memory_bytes
        self.where = context_name(self.bed.config, self.context)

    # -- registers ------------------------------------------------------------------------------

    def read(self, name: str) -> int:
        """A register of the context."""
        return self.bed.host.read(self.where, name)

    def write(self, name: str, value: int):
        """Write a register of the context."""
        self.bed.host.write(self.where, name, value)

    def rank_register(self, rank: int, name: str) -> int:
        """What a rank keeps for this context."""
        register = program_register(self.bed.config, name, self.context)
        return self.bed.host.read(f"rank{rank}", register)

    def enable(self):
        """Members, windows, and a share of the switch."""
        self.set_members(self.members)
        for rank in range(self.bed.config.ranks):
            self.write(f"window_base_{rank}", self.base)
            self.write(f"window_limit_{rank}", self.limit)
        self.write("enable", 1)

    def set_members(self, members: Sequence[int]):
        """Change who belongs to it, while it is idle."""
        self.members = tuple(members)
        self.write("members", mask(self.members))

    def disable(self):
        self.write("enable", 0)

    # -- operations -----------------------------------------------------------------------------

    @property
    def flags(self) -> list[int]:
        """By rank, where its flag is: at the window's end."""
        return [self.limit - self.bed.config.flit_bytes] * self.bed.config.ranks

    def operation(
        self,
        operands: np.ndarray,
        *,
        format: str = "fp16",
        in_place: bool = True,
        sources: Sequence[int] | None = None,
        destinations: Sequence[int] | None = None,
        plan: Plan = ALL_REDUCE,
    ) -> Operation:
        """An operation from the window's beginning up, its result there or behind it.

        Ranks that are neither given nor in the plan are all members.
        """
        config = self.bed.config
        size = -(-operands.shape[1] * operands.itemsize // config.flit_bytes) * config.flit_bytes
        source = [self.base] * config.ranks
        result = source if in_place else [self.base + size] * config.ranks
        where = Placement(source, result, self.flags)
        given = {
            "sources": plan.sources if sources is None else sources,
            "destinations": plan.destinations if destinations is None else destinations,
        }
        ranks = {
            name: tuple(self.members if chosen is None else chosen)
            for name, chosen in given.items()
        }
        return Operation(operands, where, format, replace(plan, **ranks))

    def load(self, operation: Operation):
        """Operands into the memories of the ranks that are read."""
        for rank in operation.sources:
            self.bed.fill(rank, operation.where.sources[rank], operation.operands[rank])

    def instruction(self, operation: Operation) -> Instruction:
        """What is posted for it."""
        where = operation.where
        return Instruction(
            operation.length, where.sources, where.destinations, where.flags, operation.format,
            **operation.plan.fields(self.bed.config, operation.length),
        )  # fmt: skip

    def post(self, operation: Operation) -> tuple[Status, int]:
        """Post it, loaded; how it was taken."""
        taken = self.bed.host.post(self.instruction(operation), self.context)
        if taken[0] is Status.OK:
            self.posted.append(operation)
        return taken

    def set_in_band(self, on: bool):
        """Whether members post, while it is idle."""
        self.write("in_band", on)
        for rank in range(self.bed.config.ranks):
            self.set_rank_register(rank, "posts", on)

    def set_rank_register(self, rank: int, name: str, value: int):
        """Set what a rank keeps for this context."""
        register = program_register(self.bed.config, name, self.context)
        self.bed.host.write(f"rank{rank}", register, value)

    def stage(self, operation: Operation, rank: int, **words: int):
        """What a member writes to its window before it arrives; `words` replace some of it."""
        self.stage_instruction(self.instruction(operation), rank, **words)

    def stage_instruction(self, instruction: Instruction, rank: int, **words: int):
        """Likewise, of what else would be posted."""
        own = {
            kind: getattr(instruction, f"{kind}s")[rank]
            for kind in ("source", "destination", "flag", "scale_source", "scale_destination")
            if getattr(instruction, f"{kind}s") is not None
        }
        own["length"] = instruction.length
        own["format"] = format_word(
            Format[instruction.format.upper()].value,
            instruction.source_ranks,
            instruction.destination_ranks,
            OperationCode[instruction.operation.upper()].value,
            Collective[instruction.collective.upper()].value,
        )
        if self.bed.config.chunks:
            own["chunk"] = instruction.chunk
        for name, value in (own | words).items():
            self.set_rank_register(rank, f"window_{name}", value)

    def program(self, *, count: int | None = None, ranks=None, delays=None):
        """Let members, or some of them, arrive for what is posted, as soon as they are told to."""
        first = self.bed.host.epochs[self.context]
        for number, operation in enumerate(self.posted):
            operation.epoch = first + number
        self.bed.host.program(
            flags=self.flags,
            count=len(self.posted) if count is None else count,
            delays=delays,
            context=self.context,
            ranks=self.members if ranks is None else ranks,
        )

    @property
    def done(self) -> bool:
        """Whether every member's memory has the flag of the last operation programmed, or of a
        later one.
        """
        last = self.bed.host.epochs[self.context] - 1
        return all(
            not (self.rank_register(rank, "flag") - last) & EPOCH_SIGN for rank in self.members
        )

    def wait(self, max_cycles: int = 300_000) -> bool:
        """Run until it is done; whether it was, within so many cycles."""
        end = self.bed.cycle + max_cycles
        while not self.done:
            if self.bed.cycle > end:
                return False
            self.bed.host.wait(POLL_CYCLES)
        return True

    def expect(self):
        """Write down results and flags of all that was posted, as ended well."""
        for operation in self.posted:
            results = operation.plan.results(
                self.bed.config, operation.operands, (self._before(operation),), operation.format
            )[0]
            for rank in operation.destinations:
                self._note(rank, operation.where.destinations[rank], results[rank])
            for rank in self.members:
                word = flag_word(operation.epoch, context=self.context)
                self._note(rank, operation.where.flags[rank], np.array([word], "<u8"))
        self.posted.clear()

    def expect_flag(self, rank: int, epoch: int, code: Status, code_rank: int):
        """Write down a flag with a code."""
        word = flag_word(epoch, code, code_rank, self.context)
        self.posted.clear()
        self._note(rank, self.flags[rank], np.array([word], "<u8"))

    def _before(self, operation: Operation) -> np.ndarray:
        """What every rank's memory must have held at the operation's destinations."""
        kind, size = operation.operands.dtype, operation.length
        held = [
            self.bed.expected[rank][start : start + size].copy().view(kind)
            for rank, start in enumerate(operation.where.destinations)
        ]
        return np.stack(held)

    def _note(self, rank, address, data):
        data = np.ascontiguousarray(data).view(np.uint8)
        self.bed.expected[rank][address : address + len(data)] = data
