"""One port's new scales on their way to the rank, in packets behind the wave's codes."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import MessageClass, PacketSource
from ..stream import Queue
from .layouts import write_tag_bits
from .scale_packer import ScaleFlit

__all__ = ["ScalePackets", "scale_write_back_flits"]


def scale_write_back_flits(config: SwitchConfig, inq_delay: int) -> int:
    """Flits of scales that a port keeps: of the wave that goes to the rank, of the one behind it,
    and of those that start while codes are on their way from read-out.
    """
    under_way = -(-inq_delay // config.wave_flits)
    return config.scale_flits * (2 + under_way)


class ScalePackets(wiring.Component):
    """Keeps the scales of waves until their codes have left, and cuts them into packets.

    Parameters
    ----------
    port, context : the rank's, and whose scales they are; for the headers
    flits : that it has room for, at least those of a whole wave

    Members
    -------
    start, size, write_slot : a wave begins; room for its scales, ``size`` bytes, is reserved
    opens, destination : it is its operation's first, and where the operation's scales go
    room : another wave may begin, of whatever length
    flit_valid, flit : new scales (`ScaleFlit`), taken always
    o : packets, to be drawn from once the wave's codes have left
    last_head, last_flit : what ``o`` offers is the wave's last
    """

    def __init__(self, config: SwitchConfig, *, port: int, context: int = 0, flits: int):
        self._config = config
        self._context = context
        self._port = port
        self._flits = flits
        super().__init__(
            {
                "start": In(1),
                "size": In(range(config.scale_chunk_bytes + 1)),
                "write_slot": In(write_tag_bits(config)),
                "opens": In(1),
                "destination": In(config.operand_address_bits),
                "room": Out(1),
                "flit_valid": In(1),
                "flit": In(ScaleFlit(config)),
                "o": Out(PacketSource(config)),
                "last_head": Out(1),
                "last_flit": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.flits = flits = Queue(ScaleFlit(config), depth=self._flits)
        # A wave has a flit of scales at least, so there are no more of them than flits.
        m.submodules.waves = waves = Queue(self._wave_layout(), depth=self._flits)
        free = Signal(range(self._flits + 1), init=self._flits)
        left = flits.o.valid & flits.o.ready
        reserved = Mux(self.start, self._flits_of(self.size), 0)
        m.d.sync += free.eq(free - reserved + left)
        m.d.comb += [
            self.room.eq((free >= config.scale_flits) & waves.i.ready),
            flits.i.valid.eq(self.flit_valid),
            flits.i.payload.eq(self.flit),
            self.o.payload.valid.eq(flits.o.valid),
            flits.o.ready.eq(self.o.payload.ready),
            self.o.payload.payload.data.eq(flits.o.payload.data),
            self.last_flit.eq(flits.o.payload.last),
        ]
        self._begin(m, waves.i)
        self._cut(m, waves.o)
        return m

    def _wave_layout(self):
        return data.StructLayout(
            {
                "address": unsigned(self._config.operand_address_bits),
                "size": self.size.shape(),
                "write_slot": self.write_slot.shape(),
            }
        )

    def _flits_of(self, size):
        return (size + (self._config.flit_bytes - 1)) >> self._config.flit_address_bits

    def _begin(self, m, waves):
        """Whole waves of an operation follow each other in memory."""
        following = Signal(self._config.operand_address_bits)
        address = waves.payload.address
        m.d.comb += [
            waves.valid.eq(self.start),
            address.eq(Mux(self.opens, self.destination, following)),
            waves.payload.size.eq(self.size),
            waves.payload.write_slot.eq(self.write_slot),
        ]
        with m.If(self.start):
            m.d.sync += following.eq(address + self._config.scale_chunk_bytes)

    def _cut(self, m, waves):
        """The oldest wave's scales into packets."""
        wave, head = waves.payload, self.o.head
        header = head.payload.header
        address, size = self._packet(m, wave)
        m.d.comb += [
            head.valid.eq(waves.valid),
            waves.ready.eq(head.ready & self.last_head),
            head.payload.flits.eq(self._flits_of(size)),
            header.message_class.eq(MessageClass.WRITE_DATA),
            header.inc.eq(1),
            header.source.eq(self._port),
            header.destination.eq(self._port),
            header.context.eq(self._context),
            header.tag.eq(wave.write_slot),
            header.address.eq(address),
            header.length.eq(size),
        ]

    def _packet(self, m, wave):
        """Address and bytes of the packet that is at hand."""
        most = self._config.payload_bytes
        if self._config.scale_packets == 1:
            m.d.comb += self.last_head.eq(1)
            return wave.address, wave.size
        sent, rest, size = (Signal.like(wave.size, name=n) for n in ("sent", "rest", "size"))
        m.d.comb += [
            rest.eq(wave.size - sent),
            self.last_head.eq(rest <= most),
            size.eq(Mux(self.last_head, rest, most)),
        ]
        with m.If(self.o.head.valid & self.o.head.ready):
            m.d.sync += sent.eq(Mux(self.last_head, 0, sent + most))
        return wave.address + sent, size
