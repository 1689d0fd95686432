"""The prototype: a whole system with its host's bridge and its self-test."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.config import ConfigError, SwitchConfig
from hdl.interfaces import StorageSignature
from hdl.storage import BlockStorage
from hdl.system import System

from .bridge.bridge import HostBridge
from .host.frames import BURST_BYTES
from .host_memory import HostMemory
from .pattern import Pattern
from .reset_tree import ResetTree
from .self_test import Fault, SelfTest

__all__ = ["Prototype"]

#: Addresses of a request are 32 bits.
MOST_MEMORY_BYTES = 1 << 32


class Prototype(wiring.Component):
    """What stands on a board, without its clock, pins, UART and LEDs.

    Parameters
    ----------
    host
        Whether it has a host's bridge; one of the two there must be.
    self_test
        Whether it has a self-test, which runs at power-up and when asked.
    block_storage
        Rank memories are block RAM inside. Otherwise they are ports, ``storage``, and whoever runs
        the design owns their bytes.
    burst_bytes
        Most data of one of the host's requests.

    Members
    -------
    rx, tx : bytes from and to the host, if there is one
    framing_errors : of the UART, for it
    button : start a self-test, as soon as no request is being executed; ends the host's session
    busy, passed, failed, fault : of the self-test
    active : the host's bridge, the self-test or a rank's program is at work
    storage : by rank, the memory's array (`StorageSignature`), unless it is inside

    Who has the system
    ------------------
    The host, but while a self-test goes on: then its requests are answered with BUSY. A memory's
    port is the host's in the cycles that the system leaves (`HostMemory`), so that a run takes the
    same cycles with a host at work as without.

    Raises
    ------
    ConfigError
        The self-test cannot be built (see `Pattern`), or a memory is larger than the host can
        address.
    """

    def __init__(
        self,
        config: SwitchConfig,
        *,
        host: bool = True,
        self_test: bool = True,
        block_storage: bool = True,
        burst_bytes: int = BURST_BYTES,
    ):
        if config.memory_bytes > MOST_MEMORY_BYTES:
            rule = f"must be at most {MOST_MEMORY_BYTES} for a host"
            raise ConfigError(f"memory_bytes: {rule}, not {config.memory_bytes}")
        if not host and not self_test:
            raise ValueError("host: must be there where the self-test is not")
        self._config = config
        self._host = host
        if self_test:
            Pattern(config)
        self._self_test = self_test
        self._block_storage = block_storage
        self._burst_bytes = burst_bytes
        members = {
            "button": In(1),
            "busy": Out(1),
            "passed": Out(1),
            "failed": Out(1),
            "fault": Out(Fault),
            "active": Out(1),
        }
        if host:
            members |= {
                "rx": In(stream.Signature(8, always_ready=True)),
                "tx": Out(stream.Signature(8)),
                "framing_errors": In(16),
            }
        if not block_storage:
            members["storage"] = Out(StorageSignature(config)).array(config.ranks)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self._config
        system = System(config)
        m.submodules.system = tree = ResetTree(system)
        m.submodules.memory = memory = HostMemory(config)
        for rank in range(config.ranks):
            connect(m, system.storage[rank], memory.system[rank])
            self._connect_storage(m, rank, memory.storage[rank])
        test = self._make_test(m) if self._self_test else None
        bridge = self._make_bridge(m) if self._host else None
        resets = [side.reset for side in (test, bridge) if side is not None]
        m.d.comb += [
            tree.reset.eq(Cat(resets).any()),
            self.active.eq((bridge.active if bridge else 0) | self.busy | ~system.done),
        ]
        if test and bridge:
            self._start(m, bridge, test)
            self._share(m, test.busy, test.axil, bridge.axil, system.axil)
            self._share(m, test.busy, test.memory, bridge.memory, memory.host)
            return m
        alone = test or bridge
        connect(m, alone.axil, system.axil)
        connect(m, alone.memory, memory.host)
        if test:
            m.d.comb += test.start.eq(self.button)
        return m

    def _make_test(self, m):
        m.submodules.test = test = SelfTest(self._config)
        for name in ("busy", "passed", "failed", "fault"):
            m.d.comb += getattr(self, name).eq(getattr(test, name))
        return test

    def _make_bridge(self, m):
        m.submodules.bridge = bridge = HostBridge(
            self._config, burst_bytes=self._burst_bytes, self_test=self._self_test
        )
        connect(m, flipped(self.rx), bridge.rx)
        connect(m, bridge.tx, flipped(self.tx))
        m.d.comb += [
            bridge.framing_errors.eq(self.framing_errors),
            bridge.self_test.built.eq(self._self_test),
        ]
        for name in ("busy", "passed", "failed", "fault"):
            m.d.comb += getattr(bridge.self_test, name).eq(getattr(self, name))
        return bridge

    def _connect_storage(self, m, rank, port):
        if self._block_storage:
            m.submodules[f"storage_{rank}"] = storage = BlockStorage(self._config)
            connect(m, port, storage.port)
        else:
            connect(m, port, flipped(self.storage[rank]))

    def _start(self, m, bridge, test):
        """The host's request starts a test at once, the button between two requests."""
        pressed, start = Signal(), Signal()
        with m.If(self.button & ~test.busy):
            m.d.sync += pressed.eq(1)
        with m.If(start):
            m.d.sync += pressed.eq(0)
        m.d.comb += [
            start.eq(pressed & ~bridge.judging),
            test.start.eq(start | bridge.start_self_test),
            bridge.close.eq(start),
            bridge.blocked.eq(pressed | test.busy),
        ]

    @staticmethod
    def _share(m, first, ours, theirs, shared):
        """`shared` is `ours` while `first`, else `theirs`; each side drives its own members."""
        for name, member in ours.signature.members.items():
            if member.flow is Out:
                m.d.comb += getattr(shared, name).eq(
                    Mux(first, getattr(ours, name), getattr(theirs, name))
                )
            else:
                for side in (ours, theirs):
                    m.d.comb += getattr(side, name).eq(getattr(shared, name))
