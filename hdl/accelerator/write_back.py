"""One port's results on their way to the rank: a FIFO that always takes what was let start."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import MessageClass, PacketSource, PayloadFlit
from ..stream import Queue
from .read_out import PacketStart

__all__ = ["WriteBack", "write_back_flits"]

#: Cycles from a freed flit to the first flit of the packet that it let start, beyond the data
#: path: the FIFO's register and the transmitter's.
TURNAROUND = 4


def write_back_flits(config: SwitchConfig, data_delay: int) -> int:
    """Flits of a write-back FIFO: two packets at least, and no bubble while results stream.

    A packet starts once there is room for all of it, and reaches the FIFO `data_delay` later; what
    the FIFO still holds then must last until it does.
    """
    return max(2 * config.payload_flits, config.payload_flits + data_delay + TURNAROUND)


class WriteBack(wiring.Component):
    """Gives the reducer's results to one port as write packets.

    Parameters
    ----------
    data_delay
        Cycles from `PacketStart` to the packet's first result at ``i``.

    Members
    -------
    start : a packet begins; its room is reserved
    destination : the operation's address at this rank, while ``start.opens``
    room : a packet may start, of whatever length
    result_valid, result : a flit of results, taken always
    o : write packets

    Timing
    ------
    The head is offered so that the header leaves right before the first result: a packet's first
    result is on the link two cycles after it came.

    Stalls
    ------
    Waits for credits only, which the rank's memory frees.
    """

    def __init__(self, config: SwitchConfig, *, port: int, data_delay: int):
        self._config = config
        self._port = port
        self._data_delay = data_delay
        super().__init__(
            {
                "start": In(PacketStart(config)),
                "destination": In(config.address_bits),
                "room": Out(1),
                "result_valid": In(1),
                "result": In(config.flit_bits),
                "o": Out(PacketSource(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        depth = write_back_flits(config, self._data_delay)
        m.submodules.flits = flits = Queue(PayloadFlit(config), depth=depth)
        m.submodules.heads = heads = Queue(self._begun_layout(), depth=depth // 2)

        free = Signal(range(depth + 1), init=depth)
        left = flits.o.valid & flits.o.ready
        m.d.comb += [
            self.room.eq((free >= config.payload_flits) & heads.i.ready),
            flits.i.valid.eq(self.result_valid),
            flits.i.payload.data.eq(self.result),
        ]
        m.d.sync += free.eq(free - Mux(self.start.valid, self.start.flits, 0) + left)
        wiring.connect(m, flits.o, wiring.flipped(self.o.payload))

        next_address = Signal(config.address_bits)
        address = Signal(config.address_bits)
        begun = heads.i.payload
        m.d.comb += [
            address.eq(Mux(self.start.opens, self.destination, next_address)),
            heads.i.valid.eq(self.start.valid),
            begun.address.eq(address),
            begun.size.eq(self.start.size),
            begun.flits.eq(self.start.flits),
            begun.write_slot.eq(self.start.write_slot),
        ]
        with m.If(self.start.valid):
            m.d.sync += next_address.eq(address + self.start.size)
        self._release_heads(m, heads)
        return m

    def _begun_layout(self):
        """What differs from one packet to the next."""
        return data.StructLayout(
            {
                "address": unsigned(self._config.address_bits),
                "size": self.start.size.shape(),
                "flits": self.start.flits.shape(),
                "write_slot": self.start.write_slot.shape(),
            }
        )

    def _release_heads(self, m, heads):
        """Offer a head when its payload will follow its last header flit without a gap."""
        # A result that comes in cycle t can leave the FIFO in t + 1, behind the header's flits,
        # which a transmitter sends from the cycle on that follows the head's.
        lead = self._data_delay - self._config.header_flits
        imminent = self.start.valid
        for stage in range(lead - 1):
            delayed = Signal(name=f"start_delayed_{stage + 1}")
            m.d.sync += delayed.eq(imminent)
            imminent = delayed
        released = Signal(range(heads.depth + 2))
        head, begun = self.o.head, heads.o.payload
        header = head.payload.header
        m.d.comb += [
            head.valid.eq(heads.o.valid & (released != 0)),
            heads.o.ready.eq(head.ready & (released != 0)),
            head.payload.flits.eq(begun.flits),
            header.message_class.eq(MessageClass.WRITE_DATA),
            header.inc.eq(1),
            header.source.eq(self._port),
            header.destination.eq(self._port),
            header.tag.eq(begun.write_slot),
            header.address.eq(begun.address),
            header.length.eq(begun.size),
        ]
        m.d.sync += released.eq(released + imminent - (head.valid & head.ready))
