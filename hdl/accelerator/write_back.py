"""One port's results on their way to the rank: a FIFO that always takes what was let start."""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import MessageClass, PacketSource, PayloadFlit
from ..stream import Queue
from .read_out import PacketStart
from .scale_packer import ScaleFlit
from .scale_packets import ScalePackets, scale_write_back_flits

__all__ = ["WriteBack", "write_back_flits"]

#: Cycles from a freed flit to the first flit of the packet that it let start, beyond the data
#: path: the FIFO's register and the transmitter's.
TURNAROUND = 4
#: What register slices add to that: room and start are registered, and so is the transmitter's
#: source.
SLICED_TURNAROUND = 3
#: Words of a bank of LUT RAM on 7-series.
LUT_RAM_WORDS = 32


def write_back_flits(config: SwitchConfig, data_delay: int) -> int:
    """Flits of a write-back FIFO: two runs at least, and no bubble while results stream.

    A run of packets starts once there is room for all of it, and reaches the FIFO `data_delay`
    later; what the FIFO still holds then must last until it does.
    """
    run = config.run_bytes // config.flit_bytes
    turnaround = TURNAROUND + (SLICED_TURNAROUND if config.sliced else 0)
    return max(2 * run, run + data_delay + turnaround)


class WriteBack(wiring.Component):
    """Gives the reducer's results to one port as write packets.

    Parameters
    ----------
    port
        The rank's.
    context
        Whose results they are; in the headers.
    data_delay
        Cycles from `PacketStart` to the packet's first result at ``i``, of sums; None where none
        are built.
    inq_delay
        The same of codes.

    Members
    -------
    start : a packet begins; its room is reserved
    destination : the operation's address at this rank, while ``start.opens``
    passes : a packet begins, here or at other ports only: addresses go on; where a vector may be
        cut into chunks
    room : a run of packets may start, of whatever length
    result_valid, result : a flit of results, taken always
    o : write packets

    Where quantized operations are built:

    scale_destination : of the scales, while ``start.opens``
    result_ends : the flit is the last of a quantized wave; its scales go next
    scales_valid, scales : a flit of new scales (`ScaleFlit`), taken always; a wave's last one comes
        no later than a cycle behind its last codes

    Timing
    ------
    The head is offered so that the header leaves right before the first result: a packet's first
    result is on the link two cycles after it came.

    Ordering
    --------
    A wave's scales follow its codes, in packets of their own.

    Stalls
    ------
    Waits for credits only, which the rank's memory frees.
    """

    def __init__(
        self,
        config: SwitchConfig,
        *,
        port: int,
        context: int = 0,
        data_delay: int | None,
        inq_delay: int | None = None,
    ):
        self._config = config
        self._port = port
        self._context = context
        self._data_delay = data_delay
        self._inq_delay = inq_delay
        members = {
            "start": In(PacketStart(config)),
            "destination": In(config.operand_address_bits),
            "room": Out(1),
            "result_valid": In(1),
            "result": In(config.flit_bits),
            "o": Out(PacketSource(config)),
        }
        if config.chunks:
            members["passes"] = In(1)
        if config.quantizes:
            members |= {
                "scale_destination": In(config.operand_address_bits),
                "result_ends": In(1),
                "scales_valid": In(1),
                "scales": In(ScaleFlit(config)),
            }
        super().__init__(members)

    @property
    def _longest_delay(self) -> int:
        return max(delay for delay in (self._data_delay, self._inq_delay) if delay is not None)

    def elaborate(self, platform):
        m = Module()
        config = self._config
        depth = write_back_flits(config, self._longest_delay)
        m.submodules.flits = flits = Queue(self._result_layout(), depth=depth)
        m.submodules.heads = heads = Queue(self._begun_layout(), depth=self._heads(depth))

        run_packets = config.run_bytes // config.payload_bytes
        has_heads = heads.i.ready
        if run_packets > 1:
            has_heads = heads.level <= heads.depth + 1 - run_packets
        free = Signal(range(depth + 1), init=depth)
        left = flits.o.valid & flits.o.ready
        has_room = (free >= config.run_bytes // config.flit_bytes) & has_heads
        m.d.comb += [flits.i.valid.eq(self.result_valid), flits.i.payload.data.eq(self.result)]
        m.d.sync += free.eq(free - Mux(self.start.valid, self.start.flits, 0) + left)
        self._begin(m, heads.i)
        head = self._release_heads(m, heads)
        if not config.quantizes:
            m.d.comb += self.room.eq(has_room)
            wiring.connect(m, flits.o, wiring.flipped(self.o.payload))
            return m
        m.d.comb += flits.i.payload.ends.eq(self.result_ends)
        m.submodules.scale_packets = scales = self._connect_scales(m)
        m.d.comb += self.room.eq(has_room & scales.room)
        self._choose_head(m, heads.o.payload.ends, head, scales)
        self._choose_payload(m, flits.o, scales)
        return m

    @staticmethod
    def _heads(flits):
        """Packets that may wait: half as many as flits, and of 32 one less, since a queue holds one
        more and LUT RAM comes in banks of 32 words.
        """
        heads = flits // 2
        return heads - 1 if heads == LUT_RAM_WORDS else heads

    def _begun_layout(self):
        """What differs from one packet to the next."""
        fields = {
            "address": unsigned(self._config.operand_address_bits),
            "size": self.start.size.shape(),
            "flits": self.start.flits.shape(),
            "write_slot": self.start.write_slot.shape(),
        }
        if self._config.quantizes:
            fields["ends"] = unsigned(1)  # scales go next
        return data.StructLayout(fields)

    def _result_layout(self):
        """A flit of results, and whether scales go next."""
        if not self._config.quantizes:
            return PayloadFlit(self._config)
        return data.StructLayout({"data": unsigned(self._config.flit_bits), "ends": unsigned(1)})

    def _begin(self, m, heads):
        """A packet begins: note what its header needs."""
        next_address = Signal(self._config.operand_address_bits)
        address = Signal(self._config.operand_address_bits)
        begun = heads.payload
        m.d.comb += [
            address.eq(Mux(self.start.opens, self.destination, next_address)),
            heads.valid.eq(self.start.valid),
            begun.address.eq(address),
            begun.size.eq(self.start.size),
            begun.flits.eq(self.start.flits),
            begun.write_slot.eq(self.start.write_slot),
        ]
        if self._config.quantizes:
            m.d.comb += begun.ends.eq(self.start.ends & self.start.quantized)
        with m.If(self.passes if self._config.chunks else self.start.valid):
            m.d.sync += next_address.eq(address + self.start.size)

    def _release_heads(self, m, heads):
        """A head when its payload will follow its last header flit without a gap."""
        imminent = self._imminent(m)
        released = Signal(range(heads.depth + 2))
        begun = heads.o.payload
        head = self.o.head if not self._config.quantizes else self.o.head.signature.create()
        header = head.payload.header
        m.d.comb += [
            head.valid.eq(heads.o.valid & (released != 0)),
            heads.o.ready.eq(head.ready & (released != 0)),
            head.payload.flits.eq(begun.flits),
            header.message_class.eq(MessageClass.WRITE_DATA),
            header.inc.eq(1),
            header.source.eq(self._port),
            header.destination.eq(self._port),
            header.context.eq(self._context),
            header.tag.eq(begun.write_slot),
            header.address.eq(begun.address),
            header.length.eq(begun.size),
        ]
        m.d.sync += released.eq(released + imminent - (head.valid & head.ready))
        return head

    def _imminent(self, m):
        """A packet's first result is about to come.

        A result that comes in cycle t can leave the FIFO in t + 1, behind the header's flits, which
        a transmitter sends from the cycle on that follows the head's. Results come in the order of
        their packets, so only one is imminent at a time, however long each kind takes.
        """
        quantized = self.start.quantized if self._config.quantizes else 0
        result = 0
        for name, delay, started in (
            ("start", self._data_delay, self.start.valid & ~quantized),
            ("quantized", self._inq_delay, self.start.valid & quantized),
        ):
            if delay is None:
                continue
            for stage in range(delay - self._config.header_flits - 1):
                delayed = Signal(name=f"{name}_delayed_{stage + 1}")
                m.d.sync += delayed.eq(started)
                started = delayed
            result = result | started
        return result

    def _connect_scales(self, m):
        scales = ScalePackets(
            self._config, port=self._port, context=self._context,
            flits=scale_write_back_flits(self._config, self._inq_delay),
        )  # fmt: skip
        m.d.comb += [
            scales.start.eq(self.start.valid & self.start.begins & self.start.quantized),
            scales.size.eq(self.start.scale_size),
            scales.opens.eq(self.start.opens),
            scales.write_slot.eq(self.start.write_slot),
            scales.destination.eq(self.scale_destination),
            scales.flit_valid.eq(self.scales_valid),
            scales.flit.eq(self.scales),
        ]
        return scales

    def _choose_head(self, m, ends, head, scales):
        """Behind the head of a wave's last codes those of its scales."""
        of_scales = Signal()
        taken = self.o.head.valid & self.o.head.ready
        with m.If(of_scales):
            wiring.connect(m, scales.o.head, wiring.flipped(self.o.head))
            with m.If(taken & scales.last_head):
                m.d.sync += of_scales.eq(0)
        with m.Else():
            wiring.connect(m, head, wiring.flipped(self.o.head))
            with m.If(taken & ends):
                m.d.sync += of_scales.eq(1)

    def _choose_payload(self, m, codes, scales):
        """Behind a wave's last codes its scales."""
        of_scales = Signal()
        payload = self.o.payload
        taken = payload.valid & payload.ready
        with m.If(of_scales):
            wiring.connect(m, scales.o.payload, wiring.flipped(payload))
            with m.If(taken & scales.last_flit):
                m.d.sync += of_scales.eq(0)
        with m.Else():
            m.d.comb += [
                payload.valid.eq(codes.valid),
                payload.payload.data.eq(codes.payload.data),
                codes.ready.eq(payload.ready),
            ]
            with m.If(taken & codes.payload.ends):
                m.d.sync += of_scales.eq(1)
