"""Flags for ranks that could not be told when their operation ended."""

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import MessageClass, PacketSource
from .address_check import FLAG_BYTES
from .flag_writer import FlagWord
from .layouts import FLAG_TAG, slot_bits

__all__ = ["LateFlags"]


class LateFlags(wiring.Component):
    """Keeps the last flag that each rank has missed, and sends it once the rank owes nothing.

    Parameters
    ----------
    context
        That the tags of their writes name.

    Members
    -------
    missed, word, flags : by rank, a flag is not sent; the word; by rank, the addresses
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
                "missed": In(ranks),
                "word": In(FlagWord),
                "flags": In(config.operand_address_bits).array(ranks),
                "idle": In(ranks),
                "o": Out(PacketSource(config)).array(ranks),
                "waiting": Out(ranks),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        word = Signal(FlagWord)
        copies = Cat(word.as_value() for _ in range(config.flit_bytes // FLAG_BYTES))
        tag = Const(FLAG_TAG | self._context << slot_bits(config), 16)
        with m.If(self.missed.any()):
            m.d.sync += word.eq(self.word)
        for port, o in enumerate(self.o):
            address = Signal(config.operand_address_bits, name=f"address_{port}")
            begun = Signal(name=f"begun_{port}")  # its head is taken
            header = o.head.payload.header
            took = o.payload.valid & o.payload.ready
            m.d.comb += [
                o.head.valid.eq(self.waiting[port] & self.idle[port] & ~begun),
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
                o.payload.payload.data.eq(copies),
            ]
            with m.If(o.head.valid & o.head.ready):
                m.d.sync += begun.eq(1)
            with m.If(took):
                m.d.sync += [begun.eq(0), self.waiting[port].eq(0)]
            with m.If(self.missed[port]):
                m.d.sync += [address.eq(self.flags[port]), self.waiting[port].eq(1)]
        return m
