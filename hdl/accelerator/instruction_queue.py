"""Instructions: staged word by word, checked, queued, and their addresses kept until the flag."""

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import KNOWN_FORMATS, SwitchConfig
from ..interfaces import Format
from .address_check import FLAG_BYTES, HOST_BITS, AddressCheck, folded
from .layouts import (
    ELEMENT_BYTES,
    LENGTH_BITS,
    OperationLayout,
    Status,
    address_kinds,
    operation_slots,
    slot_bits,
)

__all__ = ["FORMAT_BITS", "InstructionQueue"]

#: Kinds of addresses that stand in block RAM where quantized operations are built: their five kinds
#: take more LUT RAM than a small device has to spare.
BLOCK_RAM_KINDS = ("destination", "scale_source", "scale_destination")

#: Width of a format's code as a host writes it.
FORMAT_BITS = 32


class InstructionQueue(wiring.Component):
    """A ring of operations from posting to flag.

    A host stages an instruction: for each rank three addresses, five if it is quantized, and the
    common fields; then posts it. What breaks a rule is refused with a code and changes nothing, so
    the staged words can be mended and posted again. They also stay after a post that is accepted:
    the next instruction needs only the words that differ.

    Members
    -------
    address : the address to stage
    stage_source, stage_destination, stage_flag, stage_scale_source, stage_scale_destination : by
        rank, store ``address`` (ignored while ``busy``, so that what was checked is what runs); at
        most one bit of all of them in a cycle
    length, format : common fields, taken with ``post``
    post : check and queue (ignored while ``busy``)
    busy : the check goes on
    code, rank : how the last post ended (`Status`) and for which rank
    launch : the oldest operation not yet launched; its ``sources`` and ``scale_sources`` stand
        beside it
    destination_slot, destinations, scale_destinations : look-up, one cycle later
    flag_slot, flags : likewise
    retire : the oldest operation's flags are sent; its slot is free

    What speaks of scales is only there where quantized operations are built.

    Rules
    -----
    Format built; length a whole number of elements, below 2^40; then the addresses by the rules of
    `AddressCheck`; fewer than `queue_depth` operations waiting for their launch.

    Latency
    -------
    A post takes two cycles, and those of `AddressCheck`: with ``n`` kinds of addresses
    n * (n + 1) / 2 + 3 a rank, so 9, or 18 if it is quantized. A launch every other cycle.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        self._slots = operation_slots(config)
        slot = slot_bits(config)
        addresses = Out(config.operand_address_bits).array(config.ranks)
        members = {"address": In(HOST_BITS)}
        members |= {f"stage_{kind}": In(config.ranks) for kind in address_kinds(config)}
        members |= {
            "length": In(HOST_BITS),
            "format": In(FORMAT_BITS),
            "post": In(1),
            "busy": Out(1),
            "code": Out(Status),
            "rank": Out(4),
            "launch": Out(stream.Signature(OperationLayout(config))),
            "destination_slot": In(slot),
            "flag_slot": In(slot),
            "retire": In(1),
        }
        members |= {f"{kind}s": addresses for kind in address_kinds(config)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        bits = slot_bits(self._config)
        staged = Signal(bits)  # the slot that is being staged
        queued = Signal()  # a post was accepted, this cycle
        next_launch = Signal(bits)
        occupied = Signal(range(self._slots + 1))
        m.d.sync += occupied.eq(occupied + queued - self.retire)
        # One slot stays free for staging.
        waiting = Signal(range(self._slots + 1))
        full = (waiting >= self._config.queue_depth) | (occupied == self._slots - 1)
        with m.If(queued):
            m.d.sync += staged.eq(staged + 1)
        length = Signal(LENGTH_BITS + 1)
        number_format = Signal(Format.as_shape().width + 1)
        with m.If(self.post & ~self.busy):
            m.d.sync += [
                length.eq(folded(self.length, LENGTH_BITS)),
                number_format.eq(folded(self.format, Format.as_shape().width)),
            ]
        m.submodules.addresses = addresses = AddressCheck(self._config)
        self._stage(m, addresses, length, number_format)
        self._check(m, addresses, length, number_format, queued, full)
        self._keep_addresses(m, addresses, staged, next_launch)
        self._launch(m, length, number_format, staged, queued, next_launch, waiting)
        return m

    def _stage(self, m, addresses, length, number_format):
        for kind in address_kinds(self._config):
            m.d.comb += getattr(addresses, f"stage_{kind}").eq(getattr(self, f"stage_{kind}"))
        m.d.comb += [
            addresses.address.eq(self.address),
            addresses.locked.eq(self.busy),
            addresses.length.eq(length),
        ]
        if self._config.quantizes:
            m.d.comb += addresses.quantized.eq(number_format == Format.INQ8.value)

    def _keep_addresses(self, m, addresses, staged, next_launch):
        """A memory a rank and kind of address, by slot, of addresses as they are checked.

        They only count once the slot is queued. An address is kept in words, and with as many bits
        as the memory has: it is inside, and aligned at least to a word.
        """
        slots = {
            "source": next_launch,
            "destination": self.destination_slot,
            "flag": self.flag_slot,
            "scale_source": next_launch,
            "scale_destination": self.destination_slot,
        }
        below = Const(0, exact_log2(FLAG_BYTES))
        bits = self._config.operand_address_bits - len(below)
        for kind in address_kinds(self._config):
            for rank in range(self._config.ranks):
                block = self._config.quantizes and kind in BLOCK_RAM_KINDS
                m.submodules[f"{kind}_{rank}"] = memory = Memory(
                    shape=bits, depth=self._slots, init=[],
                    attrs={"ram_style": "block"} if block else {},
                )  # fmt: skip
                write = memory.write_port()
                read = memory.read_port()
                m.d.comb += [
                    write.en.eq(getattr(addresses, f"store_{kind}")[rank]),
                    write.addr.eq(staged),
                    write.data.eq(addresses.words),
                    read.addr.eq(slots[kind]),
                    getattr(self, f"{kind}s")[rank].eq(Cat(below, read.data)),
                ]

    def _launch(self, m, length, number_format, staged, queued, next_launch, waiting):
        m.submodules.operations = operations = Memory(
            shape=OperationLayout(self._config), depth=self._slots, init=[]
        )
        write = operations.write_port()
        read = operations.read_port()
        taken = self.launch.valid & self.launch.ready
        m.d.comb += [
            write.en.eq(queued),
            write.addr.eq(staged),
            write.data.slot.eq(staged),
            write.data.format.eq(number_format),
            write.data.length.eq(length),
            read.addr.eq(next_launch),
            self.launch.payload.eq(read.data),
        ]
        m.d.sync += [
            waiting.eq(waiting + queued - taken),
            # The look-up of slot `next_launch` is one cycle behind.
            self.launch.valid.eq((waiting != 0) & ~taken),
        ]
        with m.If(taken):
            m.d.sync += next_launch.eq(next_launch + 1)

    def _check(self, m, addresses, length, number_format, queued, full):
        """Check what is posted: first what all ranks have in common."""
        built = [
            Format[name.upper()].value for name in KNOWN_FORMATS if name in self._config.formats
        ]
        known = Cat(number_format == code for code in built).any()
        # Every number of bytes is a number of codes.
        divided = length[: exact_log2(ELEMENT_BYTES)].any()
        if self._config.quantizes:
            divided &= number_format != Format.INQ8.value

        def end(code, rank):
            m.d.sync += [self.code.eq(code), self.busy.eq(0), self.rank.eq(rank)]
            m.next = "IDLE"

        with m.FSM(name="check"):
            with m.State("IDLE"):
                with m.If(self.post):
                    m.d.sync += self.busy.eq(1)
                    m.next = "COMMON"
            with m.State("COMMON"):
                with m.If(full):
                    end(Status.QUEUE_FULL, 0)
                with m.Elif(~known):
                    end(Status.BAD_FORMAT, 0)
                with m.Elif(divided | length[LENGTH_BITS]):
                    end(Status.BAD_LENGTH, 0)
                with m.Else():
                    m.d.comb += addresses.start.eq(1)
                    m.next = "ADDRESSES"
            with m.State("ADDRESSES"):
                with m.If(addresses.done):
                    m.d.comb += queued.eq(addresses.code == Status.OK)
                    end(addresses.code, addresses.code_rank)
