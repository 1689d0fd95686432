"""Ranks that are not as they should be: memories with bad addresses, and arrivals ahead of time."""

# ruff: noqa: SIM117 (merging two `with m.If(...)` would change the hardware)

from contextlib import contextmanager
from unittest import mock

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

import hdl.emulated_rank
from hdl.config import SwitchConfig
from hdl.emulated_memory import EmulatedMemory
from hdl.interfaces import Response
from hdl.stream import Queue
from hdl.transport.endpoint import Arrival

__all__ = ["BAD_READ", "BAD_WRITE", "PoisonedMemory", "ProgramAhead", "poisoned_and_ahead"]

#: Flit addresses, as byte addresses in a memory of 16 KiB, where an access has an error.
BAD_READ = {Response.SLVERR: 0x2000, Response.DECERR: 0x2400}
BAD_WRITE = {Response.SLVERR: 0x2800, Response.DECERR: 0x2C00}
BURSTS = 32


class PoisonedMemory(wiring.Component):
    """`EmulatedMemory` in which single flits answer with errors: `BAD_READ` and `BAD_WRITE`.

    A read has the error on the beat of that flit, a write on the response of its burst.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        self._memory = EmulatedMemory(config)
        super().__init__(dict(self._memory.signature.members))

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self._memory
        connect(m, memory.storage, flipped(self.storage))
        for name in ("latency", "write_latency", "jitter", "stalls", "seed", "reseed"):
            m.d.comb += getattr(memory, name).eq(getattr(self, name))
        for name, member in self.axi.signature.members.items():
            if name in ("rresp", "bresp"):
                continue
            inner, outer = getattr(memory.axi, name), getattr(self.axi, name)
            # This component is the bus's subordinate, as the memory is.
            m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
        self._reads(m, memory.axi)
        self._writes(m, memory.axi)
        return m

    def _bursts(self, m, name, axi, channel, answered):
        """Bursts under way, in order; the oldest."""
        layout = data.StructLayout(
            {"flit": unsigned(self._config.address_bits), "length": unsigned(8)}
        )
        m.submodules[name] = queue = Queue(layout, depth=BURSTS)
        valid, ready = getattr(axi, channel + "valid"), getattr(axi, channel + "ready")
        m.d.comb += [
            queue.i.valid.eq(valid & ready),
            queue.i.payload.flit.eq(
                getattr(axi, channel + "addr") >> self._config.flit_address_bits
            ),
            queue.i.payload.length.eq(getattr(axi, channel + "len")),
            queue.o.ready.eq(answered),
        ]
        return queue.o.payload

    def _flit(self, address):
        return address >> self._config.flit_address_bits

    def _reads(self, m, axi):
        beat = Signal(8)
        transfer = axi.rvalid & axi.rready
        burst = self._bursts(m, "reads", axi, "ar", transfer & axi.rlast)
        with m.If(transfer):
            m.d.sync += beat.eq(Mux(axi.rlast, 0, beat + 1))
        m.d.comb += self.axi.rresp.eq(axi.rresp)
        for response, address in BAD_READ.items():
            with m.If(burst.flit + beat == self._flit(address)):
                m.d.comb += self.axi.rresp.eq(response)

    def _writes(self, m, axi):
        burst = self._bursts(m, "writes", axi, "aw", axi.bvalid & axi.bready)
        m.d.comb += self.axi.bresp.eq(axi.bresp)
        for response, address in BAD_WRITE.items():
            flit = self._flit(address)
            with m.If((burst.flit <= flit) & (burst.flit + burst.length >= flit)):
                m.d.comb += self.axi.bresp.eq(response)


class ProgramAhead(wiring.Component):
    """`RankProgram` that arrives for the next operation without waiting for this one's flag.

    It stays one ahead: an arrival waits for the flag of the operation before the last. At the end
    it waits for every flag.
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "go": In(1),
                "count": In(16),
                "epoch": In(32),
                "delay": In(32),
                "arrival": Out(stream.Signature(Arrival)),
                "flag_epoch": In(32),
                "arriving": Out(1),
                "done": Out(1, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        left = Signal(16)
        epoch = Signal(32)
        waited = Signal(32)
        behind = Signal(2)
        reached = ~(self.flag_epoch - (epoch - behind))[31]
        m.d.comb += self.arrival.payload.epoch.eq(epoch)
        with m.FSM(name="program"):
            with m.State("IDLE"):
                with m.If(self.go & (self.count != 0)):
                    m.d.sync += [
                        left.eq(self.count),
                        epoch.eq(self.epoch),
                        waited.eq(0),
                        self.done.eq(0),
                    ]
                    m.next = "DELAY"
            with m.State("DELAY"):
                m.d.sync += waited.eq(waited + 1)
                with m.If(waited == self.delay):
                    m.d.comb += self.arriving.eq(1)
                    m.next = "ARRIVE"
            with m.State("ARRIVE"):
                m.d.comb += self.arrival.valid.eq(1)
                with m.If(self.arrival.ready):
                    m.next = "WAIT"
                    m.d.sync += behind.eq(Mux(left == 1, 0, 1))
            with m.State("WAIT"):
                with m.If(reached):
                    m.d.sync += [left.eq(left - 1), epoch.eq(epoch + 1), waited.eq(0)]
                    m.next = "DELAY"
                    with m.If(left == 1):
                        m.d.sync += self.done.eq(1)
                        m.next = "IDLE"
        return m


@contextmanager
def poisoned_and_ahead():
    """Systems elaborated inside have `PoisonedMemory` and `ProgramAhead` at every rank."""
    with (
        mock.patch.object(hdl.emulated_rank, "EmulatedMemory", PoisonedMemory),
        mock.patch.object(hdl.emulated_rank, "RankProgram", ProgramAhead),
    ):
        yield
