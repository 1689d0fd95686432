"""Flags for ranks that could not be told when their operation ended."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import MessageClass, PacketSource
from .address_check import FLAG_BYTES
from .flag_writer import FlagWord
from .layouts import FLAG_TAG, operation_slots, slot_bits

__all__ = ["LateFlags"]


class LateFlags(wiring.Component):
    """Keeps each rank's last flag until the rank has it, and sends it once the rank owes nothing,
    if it was not sent, or if the link went down before it was answered.

    Parameters
    ----------
    context
        That the tags of their writes name.

    Members
    -------
    keep, missed, word, flags : by rank, an operation ends, and its flag was not sent; the word; by
        rank, the addresses
    sent, answered : by rank, a flag leaves; one is answered
    up : ranks whose link is UP
    idle : by rank, nothing is owed any more
    o : by port, the flag
    waiting : ranks that have missed one
    """

    def __init__(self, config: SwitchConfig, *, context: int):
        self._config = config
        self._context = context
        ranks = config.ranks
        super().__init__(
            {
                "keep": In(ranks),
                "missed": In(ranks),
                "word": In(FlagWord),
                "flags": In(config.operand_address_bits).array(ranks),
                "sent": In(ranks),
                "answered": In(ranks),
                "up": In(ranks, init=(1 << ranks) - 1),
                "idle": In(ranks),
                "o": Out(PacketSource(config)).array(ranks),
                "waiting": Out(ranks),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        tag = Const(FLAG_TAG | self._context << slot_bits(config), 16)
        for port, o in enumerate(self.o):
            address = Signal(config.operand_address_bits, name=f"address_{port}")
            word = Signal(FlagWord, name=f"word_{port}")
            with m.If(self.keep[port]):
                m.d.sync += [address.eq(self.flags[port]), word.eq(self.word)]
            begun = Signal(name=f"begun_{port}")  # its head is taken
            header = o.head.payload.header
            goes = self.waiting[port] & self.idle[port] & self.up[port]
            m.d.comb += [
                o.head.valid.eq(goes & ~begun),
                o.head.payload.flits.eq(1),
                header.message_class.eq(MessageClass.WRITE_DATA),
                header.inc.eq(1),
                header.source.eq(port),
                header.destination.eq(port),
                header.context.eq(self._context),
                header.tag.eq(tag),
                header.address.eq(address),
                header.length.eq(FLAG_BYTES),
                o.payload.valid.eq(begun),
                o.payload.payload.data.eq(
                    Cat(word.as_value() for _ in range(config.flit_bytes // FLAG_BYTES))
                ),
            ]
            with m.If(o.head.valid & o.head.ready):
                m.d.sync += begun.eq(1)
            with m.If(o.payload.valid & o.payload.ready):
                m.d.sync += begun.eq(0)
                with m.If(self.up[port]):  # or it has gone to nobody
                    m.d.sync += self.waiting[port].eq(0)
            lost = self._lose(m, port)
            with m.If(self.missed[port] | lost):
                m.d.sync += self.waiting[port].eq(1)
        return m

    def _lose(self, m, port):
        """Whether the link of a port goes down before its flags are answered."""
        unanswered = Signal(range(2 * operation_slots(self._config)), name=f"unanswered_{port}")
        came = self.answered[port] & (unanswered != 0)
        lost = ~self.up[port] & (unanswered != 0)
        m.d.sync += unanswered.eq(Mux(self.up[port], unanswered - came, 0) + self.sent[port])
        return lost
