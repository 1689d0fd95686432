"""The bridge: bytes of frames in, bytes of answers out, registers and memories behind it."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.config import SwitchConfig
from hdl.interfaces import Axi4LiteSignature

from ..host.frames import ACCESS_BYTES, BURST_BYTES
from ..host_memory import HostMemorySignature
from .deframer import Deframer
from .enframer import Enframer
from .executor import Executor, SelfTestLayout
from .session import Session

__all__ = ["HostBridge"]


class HostBridge(wiring.Component):
    """Answers a host's requests (docs/host-protocol.md).

    Parameters
    ----------
    burst_bytes
        Most data of a request or an answer.
    self_test
        Whether there is a self-test to start.

    Members
    -------
    rx : bytes from the host, never refused
    tx : bytes to it
    axil : registers (`Axi4LiteSignature`, manager)
    memory : rank memories
    blocked : a self-test goes on
    close : end the session
    reset, start_self_test : strobes
    framing_errors, self_test : for the identity
    judging : a request is being judged or executed
    active : anything is under way
    """

    def __init__(
        self, config: SwitchConfig, *, burst_bytes: int = BURST_BYTES, self_test: bool = True
    ):
        self._config = config
        self._burst_bytes = burst_bytes
        self._self_test = self_test
        super().__init__(
            {
                "rx": In(stream.Signature(8, always_ready=True)),
                "tx": Out(stream.Signature(8)),
                "axil": Out(Axi4LiteSignature()),
                "memory": Out(HostMemorySignature(config)),
                "blocked": In(1),
                "close": In(1),
                "reset": Out(1),
                "start_self_test": Out(1),
                "framing_errors": In(16),
                "self_test": In(SelfTestLayout),
                "judging": Out(1),
                "active": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        burst = self._burst_bytes
        m.submodules.deframer = deframer = Deframer(ACCESS_BYTES + burst)
        m.submodules.session = session = Session(burst)
        m.submodules.executor = executor = Executor(
            self._config, burst_bytes=burst, self_test=self._self_test
        )
        m.submodules.enframer = enframer = Enframer(burst)
        connect(m, flipped(self.rx), deframer.i)
        connect(m, deframer.request, session.request)
        connect(m, session.answer, enframer.answer)
        connect(m, enframer.o, flipped(self.tx))
        connect(m, executor.axil, flipped(self.axil))
        connect(m, executor.memory, flipped(self.memory))

        damaged = Signal(16)
        with m.If(deframer.damaged):
            m.d.sync += damaged.eq(damaged + 1)
        m.d.comb += [
            session.damaged.eq(deframer.damaged),
            session.overrun.eq(deframer.overrun),
            session.executed.eq(executor.done),
            session.status.eq(executor.status),
            session.size.eq(executor.size),
            session.close.eq(self.close),
            executor.request.eq(deframer.request.payload),
            executor.start.eq(session.execute),
            executor.data.eq(deframer.data),
            executor.blocked.eq(self.blocked),
            executor.damaged_frames.eq(damaged),
            executor.framing_errors.eq(self.framing_errors),
            executor.self_test.eq(self.self_test),
            deframer.address.eq(executor.at),
            enframer.write.eq(executor.write),
            enframer.address.eq(executor.at),
            enframer.data.eq(executor.written),
            self.reset.eq(executor.reset),
            self.start_self_test.eq(executor.start_self_test),
            self.judging.eq(session.judging),
            self.active.eq(session.active),
        ]
        return m
