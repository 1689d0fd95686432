"""Requests out of the bytes that come in."""

from amaranth import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..host.frames import ACCESS_BYTES, ESCAPE, ESCAPE_XOR, FLAG, HEADER_BYTES, frame_bytes

__all__ = ["Deframer", "RequestLayout"]


class RequestLayout(data.StructLayout):
    """A request, without the data behind its argument.

    Members
    -------
    head, sequence : see `fpga.host.frames`
    length : bytes of payload
    argument : the first bytes behind the header, those of the check if there are no others
    """

    def __init__(self):
        super().__init__(
            {
                "head": unsigned(8),
                "sequence": unsigned(8),
                "length": unsigned(16),
                "argument": unsigned(8 * ACCESS_BYTES),
            }
        )


class Deframer(wiring.Component):
    """Stores a whole frame, and offers it once its check is right.

    Parameters
    ----------
    payload_bytes
        Most payload, an access's argument included.

    Members
    -------
    i : bytes, one a cycle at most, never refused
    request : the frame
    address, data : byte ``address`` of what stands behind the argument, a cycle later
    damaged : in this cycle a frame ended that is none (see `fpga.host.frames.Damage`)
    overrun : in this cycle a frame ended of which a byte came while a request was held

    Timing
    ------
    A request is offered one cycle after its last flag, and held, with its data, until it is taken.
    What comes meanwhile is dropped.
    """

    def __init__(self, payload_bytes: int):
        self._payload_bytes = payload_bytes
        super().__init__(
            {
                "i": In(stream.Signature(8, always_ready=True)),
                "request": Out(stream.Signature(RequestLayout())),
                "address": In(range(payload_bytes)),
                "data": Out(8),
                "damaged": Out(1),
                "overrun": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.check = self._check = catalog.CRC32_ISO_HDLC(data_width=8).create()
        self._count = Signal(range(frame_bytes(self._payload_bytes) + 1))
        inside = Signal()  # a flag has been seen
        escaped, spoiled = Signal(), Signal()
        put = Signal()
        flag = self.i.payload == FLAG
        escape = (self.i.payload == ESCAPE) & ~escaped
        ends = Signal()
        m.d.comb += [
            put.eq(self.i.valid & inside & ~flag & ~escape),
            ends.eq(self.i.valid & flag & inside & ((self._count != 0) | escaped)),
            self._check.start.eq(self.i.valid & flag),
        ]
        with m.If(self.request.ready):
            m.d.sync += self.request.valid.eq(0)
        long = self._store(m, put, self.i.payload ^ (escaped * ESCAPE_XOR))
        with m.If(self.i.valid):
            m.d.sync += escaped.eq(inside & escape)
        with m.If(put & self.request.valid):
            m.d.sync += spoiled.eq(1)
        with m.If(self.i.valid & flag):
            m.d.sync += [inside.eq(1), spoiled.eq(0)]
        intact = Signal()
        m.d.comb += [
            intact.eq(self._whole() & self._check.match_detected & ~escaped & ~long),
            self.overrun.eq(ends & spoiled),
            self.damaged.eq(ends & ~spoiled & ~intact),
        ]
        with m.If(ends & ~spoiled & intact):
            m.d.sync += self.request.valid.eq(1)
        return m

    def _whole(self):
        """Whether the frame has as many bytes as its length says."""
        return self._count == self.request.payload.length + frame_bytes(0)

    def _store(self, m, put, byte):
        """Keep `byte` where it belongs, unless a request is held; whether there were too many."""
        request, count = self.request.payload, self._count
        behind = HEADER_BYTES + ACCESS_BYTES
        # A power of two, so that every address is one of the memory's.
        most = frame_bytes(self._payload_bytes) - behind
        m.submodules.memory = memory = Memory(shape=8, depth=1 << (most - 1).bit_length(), init=[])
        write, read = memory.write_port(), memory.read_port()
        take, long = Signal(), Signal()
        m.d.comb += [
            take.eq(put & ~self.request.valid),
            self._check.valid.eq(put),
            self._check.data.eq(byte),
            write.en.eq(take & (count >= behind) & (count != frame_bytes(self._payload_bytes))),
            write.addr.eq(count - behind),
            write.data.eq(byte),
            read.en.eq(1),
            read.addr.eq(self.address),
            self.data.eq(read.data),
        ]
        with m.If(take):
            with m.Switch(count):
                with m.Case(0):
                    m.d.sync += request.head.eq(byte)
                with m.Case(1):
                    m.d.sync += request.sequence.eq(byte)
                with m.Case(2):
                    m.d.sync += request.length[:8].eq(byte)
                with m.Case(3):
                    m.d.sync += request.length[8:].eq(byte)
                with m.Case(*range(HEADER_BYTES, behind)):
                    m.d.sync += request.argument.eq(request.argument >> 8 | byte << 56)
        with m.If(put):
            with m.If(count == frame_bytes(self._payload_bytes)):
                m.d.sync += long.eq(1)
            with m.Else():
                m.d.sync += count.eq(count + 1)
        with m.If(self.i.valid & (self.i.payload == FLAG)):
            m.d.sync += [count.eq(0), long.eq(0)]
        return long
