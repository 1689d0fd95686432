"""A large design's reset by many short ways in place of one long one."""

from amaranth import (
    ClockDomain,
    ClockSignal,
    DomainRenamer,
    Instance,
    Module,
    ResetInserter,
    Signal,
)
from amaranth.hdl import Elaboratable, Fragment
from amaranth.vendor import LatticePlatform, XilinxPlatform

__all__ = ["RESET_DELAY", "ResetTree"]

#: Registers between `ResetTree.reset` and the design: in that many cycles it still runs.
RESET_DELAY = 2
#: Levels of modules, counted from the design, that are parts of their own.
LEVELS = 3
#: The domain of the design in synthesis.
DOMAIN = "design"


class ResetTree(Elaboratable):
    """A design whose parts each have a register of their own between the reset and what they hold.

    One net to all registers of a large design takes longer than anything that the design computes.
    From here the reset takes two cycles, each a part of the way. All parts leave it in the same
    cycle, so what the design does is the same. After power-up the design is in reset for as long.

    Parameters
    ----------
    design
        In the domain ``sync``; modules so many levels below it as `LEVELS` are parts, with all that
        is in them, and what is above each for its own registers.

    Attributes
    ----------
    reset
        Sets the design back, from `RESET_DELAY` cycles later on, for as long as it is 1. So does
        the reset of ``sync``.

    In synthesis the design is in a domain of the same clock that has no reset, so that the reset
    of ``sync`` takes the same way. In simulators, where a clock behind a clock would be late, it
    stays in ``sync``.
    """

    def __init__(self, design: Elaboratable):
        self._design = design
        self.reset = Signal()

    def elaborate(self, platform):
        m = Module()
        root = Signal(init=1)
        m.d.sync += root.eq(self.reset)
        self._root = root
        self._platform = platform
        design = self._insert(m, Fragment.get(self._design, platform), ("reset",))
        if platform is not None:
            m.domains += ClockDomain(DOMAIN, reset_less=True, local=True)
            m.d.comb += ClockSignal(DOMAIN).eq(ClockSignal())
            design = DomainRenamer(DOMAIN)(design)
        m.submodules.design = design
        return m

    def _insert(self, m, fragment, path):
        """`fragment` with registers in front of its reset and its parts'."""
        parts = []
        if len(path) <= LEVELS:
            parts, fragment.subfragments = fragment.subfragments, []
        if self._has_registers(fragment):
            reset = Signal(name="_".join(path), init=1, reset_less=True)
            self._register(m, reset)
            fragment = ResetInserter(reset)(fragment)
        for part, name, location in parts:
            part = self._insert(m, part, (*path, name))
            fragment.add_subfragment(part, name, src_loc=location)
        return fragment

    def _register(self, m, reset):
        """`reset` is the root a cycle later.

        By a cell of the device, as synthesis would make one of all registers with the same input.
        """
        match self._platform:
            case LatticePlatform(family="ecp5"):
                m.submodules += Instance(
                    "TRELLIS_FF",
                    p_GSR="DISABLED",
                    p_CEMUX="1",
                    p_LSRMUX="LSR",
                    p_REGSET="SET",
                    i_CLK=ClockSignal(),
                    i_LSR=0,
                    i_DI=self._root,
                    o_Q=reset,
                )
            case XilinxPlatform(family="series7"):
                m.submodules += Instance(
                    "FDSE",
                    p_INIT=1,
                    i_C=ClockSignal(),
                    i_CE=1,
                    i_S=0,
                    i_D=self._root,
                    o_Q=reset,
                    a_DONT_TOUCH="TRUE",
                )
            case _:
                m.d.sync += reset.eq(self._root)

    def _has_registers(self, fragment) -> bool:
        return "sync" in fragment.statements or any(
            self._has_registers(part) for part, _, _ in fragment.subfragments
        )
