"""A tenant's part of a round while it is run: set up, posted, awaited."""

from __future__ import annotations

from hdl.accelerator.layouts import Status
from sim.bench import Bench
from sim.register_host import Instruction
from sim.tenants import Tenant, mask

from .endings import Ending
from .failure import ScenarioFailure
from .scenario import Part, Window
from .work import Work

__all__ = ["PartRun", "instruction"]


def instruction(bed: Bench, tenant: Tenant, work: Work) -> Instruction:
    """What is posted for an operation."""
    where = work.where
    return Instruction(
        length=work.length,
        sources=where.sources,
        destinations=where.destinations,
        flags=tenant.flags,
        format=work.format,
        scale_sources=where.scale_sources,
        scale_destinations=where.scale_destinations,
        **work.plan.fields(bed.config, work.length),
    )


class PartRun:
    """One tenant's part.

    Parameters
    ----------
    bed
        The system.
    window
        The tenant's.
    part
        What it does.
    """

    def __init__(self, bed: Bench, window: Window, part: Part):
        self.bed = bed
        self.part = part
        self.tenant = Tenant(bed, part.context, part.members, window.base, window.limit)
        #: Epoch of its first operation.
        self.first = bed.host.epochs[part.context]
        self.instructions = [instruction(bed, self.tenant, work) for work in part.orders]

    @property
    def epochs(self) -> range:
        """Of its operations."""
        return range(self.first, self.first + len(self.part.orders))

    # -- registers ------------------------------------------------------------------------------

    def set_program(self, rank: int, name: str, value: int):
        """A register that a rank has for this context."""
        self.tenant.set_rank_register(rank, name, value)

    def set_hasty(self, rank: int, on: bool):
        """Whether a rank waits for no flag of this context."""
        self.bed.host.write(f"rank{rank}", "hasty", (1 << self.part.context) if on else 0)

    def go(self):
        """Start the programs of this context alone."""
        self.bed.host.go([self.part.context])

    # -- from loading to the end ----------------------------------------------------------------

    def prepare(self):
        """Everything up to the start."""
        part, tenant = self.part, self.tenant
        tenant.enable()
        tenant.write("watchdog", part.watchdog)
        tenant.set_in_band(part.in_band)
        self._ended, self._orders = tenant.read("operations"), len(part.orders)
        for work in part.works:
            self._load(work)
        if part.in_band:
            self._stage()
        else:
            self._post()
        self._program()
        part.trouble.prepare(self)

    def _load(self, work: Work):
        """Operands of all members, also of those that are not read."""
        pieces = zip(work.where.operands, work.numbers(self.bed.config), strict=True)
        for starts, numbers in pieces:
            for rank in self.part.members:
                self.bed.fill(rank, starts[rank], numbers[rank])

    def _post(self):
        for number, each in enumerate(self.instructions):
            taken = self.bed.host.post(each, self.part.context)
            if taken != (Status.OK, 0):
                raise ScenarioFailure(
                    f"context {self.part.context}: operation {number} was refused with "
                    f"{Ending(*taken)}"
                )

    def _stage(self):
        """Members write their windows."""
        for rank in self.part.members:
            own = self.part.trouble.instruction(self, 0, rank)
            self.tenant.stage_instruction(own, rank)

    def _program(self):
        part = self.part
        self.bed.host.program(
            flags=self.tenant.flags,
            count=len(part.orders),
            delays=list(part.delays),
            context=part.context,
            ranks=part.members,
        )
        for rank in part.members:
            self.set_program(rank, "count", part.trouble.count(part, rank))

    def try_post(self, posted: Instruction, ending: Ending):
        """Post what must be answered with a code."""
        taken = Ending(*self.bed.host.post(posted, self.part.context))
        if taken != ending:
            raise ScenarioFailure(
                f"context {self.part.context}: a post was answered with {taken}, and must be with "
                f"{ending}"
            )

    @property
    def ended(self) -> bool:
        """Whether every operation has ended, with its flags sent or given up."""
        left = self.tenant.read("operations") - self._ended - self._orders
        return left >= 0 and not self.tenant.read("failing")

    def keep_last(self):
        """Note what registers say: in `last` of the last operation, in `stopped` of the one that a
        watchdog or a host has ended last.
        """
        self.last, self.stopped = (
            Ending(Status(self.tenant.read(f"{of}_code")), self.tenant.read(f"{of}_rank"))
            for of in ("last", "abort")
        )

    def end_an_empty_one(self):
        """Post an operation without data that no member arrives for, and end it."""
        tenant, config = self.tenant, self.bed.config
        tenant.enable()
        tenant.set_in_band(False)
        nowhere = [tenant.base] * config.ranks
        members = mask(self.part.members)
        empty = Instruction(
            0, nowhere, nowhere, tenant.flags, config.sum_formats[0],
            source_ranks=members, destination_ranks=members,
        )  # fmt: skip
        self._orders += 1
        self.try_post(empty, Ending(Status.OK))
        tenant.write("abort", 1)
        self.bed.host.epochs[self.part.context] += 1
