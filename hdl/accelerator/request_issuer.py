"""One port's read requests, cut from the waves that the controller issues."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import MessageClass, PacketSource
from ..stream import Queue
from .layouts import entry_bits, packet_bits
from .wave_controller import GENERATION_BITS

__all__ = ["RequestIssuer"]

#: Waves waiting at a port: one being cut, one behind it so that no cycle is lost between them.
WAITING_WAVES = 2


class RequestIssuer(wiring.Component):
    """Cuts waves into read requests for one rank.

    Members
    -------
    valid, address, size, entry, generation : a wave; ``ready`` says that one can be taken
    o : read requests, tagged with entry and packet

    Timing
    ------
    A wave's first request is offered two cycles later, then one a cycle. Waits for credits only.
    """

    def __init__(self, config: SwitchConfig, *, port: int):
        self._config = config
        self._port = port
        super().__init__(
            {
                "valid": In(1),
                "ready": Out(1),
                "address": In(config.address_bits),
                "size": In(config.wave_bytes.bit_length()),
                "entry": In(entry_bits(config)),
                "generation": In(GENERATION_BITS),
                "o": Out(PacketSource(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.waves = waves = Queue(
            data.StructLayout(
                {
                    "address": unsigned(config.address_bits),
                    "size": self.size.shape(),
                    "entry": self.entry.shape(),
                    "generation": self.generation.shape(),
                }
            ),
            depth=WAITING_WAVES,
        )
        m.d.comb += self.ready.eq(waves.level < WAITING_WAVES)  # and one may be in the register
        m.d.sync += [
            waves.i.valid.eq(self.valid & self.ready),
            waves.i.payload.address.eq(self.address),
            waves.i.payload.size.eq(self.size),
            waves.i.payload.entry.eq(self.entry),
            waves.i.payload.generation.eq(self.generation),
        ]
        wave = waves.o.payload
        asked = Signal(range(config.wave_bytes + 1))  # bytes
        packet = Signal(range(config.packets_per_wave + 1))
        left = Signal.like(asked)
        last = Signal()
        head = self.o.head
        header = head.payload.header
        most = config.read_request_bytes
        tag_entry = wave.entry if config.waves > 1 else 0
        m.d.comb += [
            left.eq(wave.size - asked),
            last.eq(left <= most),
            head.valid.eq(waves.o.valid),
            waves.o.ready.eq(head.ready & last),
            header.message_class.eq(MessageClass.READ_REQUEST),
            header.inc.eq(1),
            header.source.eq(self._port),
            header.destination.eq(self._port),
            header.generation.eq(wave.generation),
            header.tag.eq((tag_entry << packet_bits(config)) | packet),
            header.address.eq(wave.address + asked),
            header.length.eq(Mux(last, left, most)),
        ]
        with m.If(head.valid & head.ready):
            m.d.sync += [
                asked.eq(Mux(last, 0, asked + most)),
                packet.eq(Mux(last, 0, packet + most // config.payload_bytes)),
            ]
        return m
