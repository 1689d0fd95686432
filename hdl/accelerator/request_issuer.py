"""One port's read requests, cut from the waves that the controller issues."""

from amaranth import Module, Mux, Signal
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

    Parameters
    ----------
    port
        The rank's.
    context
        Whose waves they are; in the headers.

    Members
    -------
    valid, address, size, entry, generation : a wave; ``ready`` says that one can be taken
    scale_address, scale_size : of its scales (0 bytes: none), where quantized operations are built
    o : read requests, tagged with entry and packet; those of the scales first
    drop : waves go no further than they have come, where contexts outlive failures
    idle : it has no wave; likewise

    Timing
    ------
    A wave's first request is offered two cycles later, then one a cycle. Waits for credits only.
    """

    def __init__(self, config: SwitchConfig, *, port: int, context: int = 0):
        self._config = config
        self._context = context
        self._port = port
        members = {
            "valid": In(1),
            "ready": Out(1),
            "address": In(config.operand_address_bits),
            "size": In(config.wave_bytes.bit_length()),
            "entry": In(entry_bits(config)),
            "generation": In(GENERATION_BITS),
            "o": Out(PacketSource(config)),
        }
        if config.quantizes:
            members |= {
                "scale_address": In(config.operand_address_bits),
                "scale_size": In(config.scale_chunk_bytes.bit_length()),
            }
        self._fields = [name for name in members if name not in ("valid", "ready", "o")]
        if config.recovers:
            members |= {"drop": In(1), "idle": Out(1)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.waves = waves = Queue(
            data.StructLayout({name: getattr(self, name).shape() for name in self._fields}),
            depth=WAITING_WAVES,
        )
        m.d.comb += self.ready.eq(waves.level < WAITING_WAVES)  # and one may be in the register
        m.d.sync += [
            waves.i.valid.eq(self.valid & self.ready),
            *(getattr(waves.i.payload, name).eq(getattr(self, name)) for name in self._fields),
        ]
        wave = waves.o.payload
        address, size, first_packet, of_scales = self._piece(m, wave)
        asked = Signal(range(config.wave_bytes + 1))  # bytes
        packet = Signal(range(config.packets_per_wave + 1))
        left = Signal.like(asked)
        last = Signal()
        head = self.o.head
        header = head.payload.header
        most = config.read_request_bytes
        dropped = self.drop if config.recovers else 0
        tag_entry = wave.entry if config.waves > 1 else 0
        m.d.comb += [
            left.eq(size - asked),
            last.eq(left <= most),
            head.valid.eq(waves.o.valid & ~dropped),
            waves.o.ready.eq((head.ready & last & ~of_scales) | dropped),
            header.context.eq(self._context),
            header.message_class.eq(MessageClass.READ_REQUEST),
            header.inc.eq(1),
            header.source.eq(self._port),
            header.destination.eq(self._port),
            header.generation.eq(wave.generation),
            header.tag.eq((tag_entry << packet_bits(config)) | (first_packet + packet)),
            header.address.eq(address + asked),
            header.length.eq(Mux(last, left, most)),
        ]
        with m.If(head.valid & head.ready):
            m.d.sync += [
                asked.eq(Mux(last, 0, asked + most)),
                packet.eq(Mux(last, 0, packet + most // config.payload_bytes)),
            ]
        if config.recovers:
            m.d.comb += self.idle.eq((waves.level == 0) & ~waves.i.valid)
            with m.If(dropped):
                m.d.sync += [asked.eq(0), packet.eq(0)]
        if config.quantizes:
            with m.If(head.valid & head.ready & last):
                m.d.sync += self._scales_asked.eq(of_scales)
            if config.recovers:
                with m.If(dropped):
                    m.d.sync += self._scales_asked.eq(0)
        return m

    def _piece(self, m, wave):
        """What is asked for now: address, bytes, first packet's number, whether it is scales."""
        config = self._config
        if not config.quantizes:
            return wave.address, wave.size, 0, 0
        self._scales_asked = Signal()
        of_scales = Signal()
        m.d.comb += of_scales.eq((wave.scale_size != 0) & ~self._scales_asked)
        return (
            Mux(of_scales, wave.scale_address, wave.address),
            Mux(of_scales, wave.scale_size, wave.size),
            Mux(of_scales, config.packets_per_wave, 0),
            of_scales,
        )
