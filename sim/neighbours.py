"""What a tenant loses to another one on the same switch, whose rank has died."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hdl.config import SwitchConfig

from .tenants import Operation, Tenant
from .testbed import Testbed

__all__ = ["CASES", "Neighbours"]

#: Channels of a memory that stands still altogether.
ALL_CHANNELS = 0b11111
#: What the other tenant does, one after the other: its rank is well and idle; dead, and nobody
#: watches; dead, and found.
CASES = ("idle", "dead", "dead, watched")
#: Cycles without progress until a dead rank is found.
WATCHDOG = 2000
#: Cycles in which the other tenant's operation gets stuck.
STUCK_CYCLES = 1000
#: Cycles that an operation is given.
CYCLES_PER_OPERATION = 5000


@dataclass
class Neighbours:
    """Two tenants of `config`'s switch: all ranks, and all but the last.

    Parameters
    ----------
    config
        With two contexts at least.
    elements
        fp16 numbers of an operation.
    """

    config: SwitchConfig
    elements: int = 300

    def __post_init__(self):
        self.bed = Testbed(self.config)
        ranks, size = self.config.ranks, self.config.memory_bytes // 2
        self.other = Tenant(self.bed, 0, range(ranks), 0, size)
        self.tenant = Tenant(self.bed, 1, range(ranks - 1), size, 2 * size)
        for each in (self.other, self.tenant):
            each.enable()

    def _operation(self, tenant: Tenant, seed: int) -> Operation:
        rng = np.random.default_rng(seed)
        numbers = rng.normal(size=(self.config.ranks, self.elements)).astype(np.float16)
        operation = tenant.operation(numbers.view(np.uint16), in_place=False)
        tenant.load(operation)
        tenant.posted = [operation]
        return operation

    def disturb(self, case: str):
        """Bring the other tenant into the next of `CASES`."""
        host = self.bed.host
        if case == "dead":
            self.other.post(self._operation(self.other, 1))
            self.other.program()
            host.write(f"rank{self.config.ranks - 1}", "hold", ALL_CHANNELS)
            host.go([self.other.context])
            host.wait(STUCK_CYCLES)
        if case == "dead, watched":
            self.other.write("watchdog", WATCHDOG)

    def run(self, count: int) -> int:
        """`count` All-Reduces of the tenant, which its members post; cycles from first to last.

        Raises
        ------
        RuntimeError
            One does not end, or a byte at a rank of the tenant is not what it must be.
        """
        tenant, host = self.tenant, self.bed.host
        tenant.set_in_band(True)
        operation = self._operation(tenant, 2)
        for rank in tenant.members:
            tenant.stage(operation, rank)
        tenant.program(count=count)
        host.go([tenant.context])
        start = self.bed.cycle
        if not tenant.wait(count * CYCLES_PER_OPERATION):
            raise RuntimeError(f"operations do not end: {self.bed.state()[tenant.where]}")
        for rank in tenant.members:
            low = operation.where.destinations[rank]
            if self.bed.engine.read(rank, low, operation.length) != operation.result.tobytes():
                raise RuntimeError(f"rank {rank}: the result differs")
        return host.latest("flag_time", tenant.context) - start
