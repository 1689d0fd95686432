"""What a build must know of a board."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from amaranth import Elaboratable
from amaranth.build import Platform
from amaranth.build.run import BuildPlan

from hdl.building.errors import BuildError
from hdl.building.resources import Resources
from hdl.config import SwitchConfig

from ..host.frames import BAUD
from ..pattern import Pattern
from ..top import BoardCore
from ..uart import divisor

__all__ = ["Board"]


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board, and how its build is planned.

    Parameters
    ----------
    name
        On the command line.
    summary
        One line for ``--list``.
    device
        The FPGA's part number.
    family
        Of `hdl.building.synthesis`.
    preset
        The configuration that it uses unless told otherwise.
    available
        What the device has.
    bram_bytes
        Data bytes of one block RAM unit, without the bits for parity.
    platform
        Makes the Amaranth platform; single use, so one a build.
    check_clock
        Raises `ConfigError` for a clock that the board cannot make.
    top
        Makes the board's top.
    options
        Options of the platform's build.
    constraints
        Name of the constraint file in the plan.
    host
        Whether a host drives it; a self-test alone leaves more of a small device to the switch.
    vendor_tool
        The tool that makes the bitstream where no tool from Python packages does; None otherwise.
    next_command
        What to do with a bitstream; ``{folder}`` is where it stands.
    """

    name: str
    summary: str
    device: str
    family: str
    preset: str
    available: Resources
    bram_bytes: int
    platform: Callable[[], Platform]
    check_clock: Callable[[SwitchConfig], None]
    top: Callable[[SwitchConfig], Elaboratable]
    constraints: str
    options: dict = field(default_factory=dict)
    host: bool = True
    vendor_tool: str | None = None
    next_command: str = ""

    @property
    def script(self) -> str:
        """The plan's script, which runs the tools."""
        return "build_top.sh"

    def check(self, config: SwitchConfig):
        """Refuse at once what can be told without synthesis.

        Raises
        ------
        ConfigError
            The board, its self-test or its UART cannot do this.
        BuildError
            The rank memories alone are more than the device has.
        """
        self.check_clock(config)
        divisor(config.clock_hz, BAUD)
        Pattern(config)
        needed = config.ranks * config.memory_bytes
        has = int(self.available.bram * self.bram_bytes)
        if needed > has:
            raise BuildError(
                f"memory_bytes: {config.ranks} ranks must fit the {has} bytes of block RAM in "
                f"{self.device}, not take {needed}"
            )

    def core(self, config: SwitchConfig) -> BoardCore:
        """What stands on the board, without clock and pins."""
        return BoardCore(config, host=self.host)

    def plan(self, config: SwitchConfig) -> BuildPlan:
        """Files and commands of the board's build, the same bytes in any folder."""
        return self.platform().build(
            self.top(config), do_build=False, emit_src=False, **self.options
        )
