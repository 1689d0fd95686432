"""Instructions: staged word by word, checked, queued, and their addresses kept until the flag."""

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import KNOWN_FORMATS, SwitchConfig
from ..interfaces import Format
from .layouts import (
    ELEMENT_BYTES,
    LENGTH_BITS,
    OperationLayout,
    Status,
    operation_slots,
    slot_bits,
)

__all__ = ["FLAG_BYTES", "FORMAT_BITS", "HOST_BITS", "InstructionQueue"]

#: Size and alignment of a flag.
FLAG_BYTES = 8
#: Width of an address and of a length as a host writes them.
HOST_BITS = 64
#: Width of a format's code as a host writes it.
FORMAT_BITS = 32
#: Widest address that a packet can carry.
ADDRESS_BITS = 48


def folded(value, bits):
    """`value` in one bit more than `bits`: what does not fit sets the top one.

    So a number that is too large stays too large, and cannot pass as a small one.
    """
    return Cat(value[:bits], value[bits:].any())


class InstructionQueue(wiring.Component):
    """A ring of operations from posting to flag.

    A host stages an instruction: for each rank three addresses, and the common fields; then posts
    it. The check takes four cycles a rank. What breaks a rule is refused with a code and changes
    nothing, so the staged words can be mended and posted again. They also stay after a post that
    is accepted: the next instruction needs only the words that differ.

    Members
    -------
    address : the address to stage
    stage_source, stage_destination, stage_flag : by rank, store ``address`` (ignored while
        ``busy``, so that what was checked is what runs)
    length, format : common fields, taken with ``post``
    post : check and queue (ignored while ``busy``)
    busy : the check goes on
    code, rank : how the last post ended (`Status`) and for which rank
    launch : the oldest operation not yet launched; its ``sources`` stand beside it
    destination_slot, destinations : look-up, one cycle later
    flag_slot, flags : likewise
    retire : the oldest operation's flags are sent; its slot is free

    Rules
    -----
    Format built; length a whole number of elements, below 2^40; source and destination on the flit
    grid, flag on 8 bytes; every range inside the memory; source and destination identical or
    disjoint (to the flit); the flag in neither; fewer than `queue_depth` operations waiting for
    their launch.

    Throughput
    ----------
    A launch every other cycle.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        self._slots = operation_slots(config)
        slot = slot_bits(config)
        address = config.address_bits
        super().__init__(
            {
                "address": In(HOST_BITS),
                "stage_source": In(config.ranks),
                "stage_destination": In(config.ranks),
                "stage_flag": In(config.ranks),
                "length": In(HOST_BITS),
                "format": In(FORMAT_BITS),
                "post": In(1),
                "busy": Out(1),
                "code": Out(Status),
                "rank": Out(4),
                "launch": Out(stream.Signature(OperationLayout(config))),
                "sources": Out(address).array(config.ranks),
                "destination_slot": In(slot),
                "destinations": Out(address).array(config.ranks),
                "flag_slot": In(slot),
                "flags": Out(address).array(config.ranks),
                "retire": In(1),
            }
        )

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
        checked = Signal(self._config.ranks)  # this rank's addresses keep the rules
        addresses = self._check(m, length, number_format, queued, full, checked)
        self._keep_addresses(m, addresses, checked, staged, next_launch)
        self._launch(m, length, number_format, staged, queued, next_launch, waiting)
        return m

    def _keep_addresses(self, m, addresses, checked, staged, next_launch):
        """A memory a rank and kind of address, by slot, of addresses that were checked."""
        for kind, slot, outputs in (
            ("source", next_launch, self.sources),
            ("destination", self.destination_slot, self.destinations),
            ("flag", self.flag_slot, self.flags),
        ):
            for rank in range(self._config.ranks):
                m.submodules[f"{kind}_{rank}"] = memory = Memory(
                    shape=self._config.address_bits, depth=self._slots, init=[]
                )
                write = memory.write_port()
                read = memory.read_port()
                m.d.comb += [
                    write.en.eq(checked[rank]),
                    write.addr.eq(staged),
                    write.data.eq(addresses[kind]),
                    read.addr.eq(slot),
                    outputs[rank].eq(read.data),
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

    def _check(self, m, length, number_format, queued, full, checked):
        """Check what is posted, a rank at a time; the addresses of the rank at hand, by kind."""
        config = self._config
        shift = config.flit_address_bits
        rank = Signal(range(config.ranks))
        staging = {}
        for kind, strobes in (
            ("source", self.stage_source),
            ("destination", self.stage_destination),
            ("flag", self.stage_flag),
        ):
            m.submodules[f"staged_{kind}"] = memory = Memory(
                shape=ADDRESS_BITS + 1, depth=config.ranks, init=[]
            )
            write = memory.write_port()
            read = memory.read_port()
            m.d.comb += [
                write.en.eq(strobes.any() & ~self.busy),
                write.data.eq(folded(self.address, ADDRESS_BITS)),
                read.addr.eq(rank),
            ]
            for number in range(config.ranks):
                with m.If(strobes[number]):
                    m.d.comb += write.addr.eq(number)
            staging[kind] = read.data
        source, destination, flag = (staging[k] for k in ("source", "destination", "flag"))

        # Ends of the ranges, rounded up to the flit; one bit more than a staged address.
        rounded = Signal(LENGTH_BITS + 1)
        source_end = Signal(ADDRESS_BITS + 2)
        destination_end = Signal(ADDRESS_BITS + 2)
        flag_end = Signal(ADDRESS_BITS + 2)
        m.d.comb += rounded.eq(((length + (config.flit_bytes - 1)) >> shift) << shift)
        limit = Const(config.memory_bytes, ADDRESS_BITS + 2)
        in_source = (flag >= source) & (flag < source_end)
        in_destination = (flag >= destination) & (flag < destination_end)
        crossing = (source != destination) & (source < destination_end) & (destination < source_end)
        built = Signal()
        m.d.comb += built.eq(
            sum(
                number_format == Format[name.upper()].value
                for name in KNOWN_FORMATS
                if name in config.formats
            )
            != 0
        )

        def end(code, rank):
            m.d.sync += [self.code.eq(code), self.busy.eq(0), self.rank.eq(rank)]
            m.next = "IDLE"

        with m.FSM(name="check"):
            with m.State("IDLE"):
                m.d.sync += rank.eq(0)
                with m.If(self.post):
                    m.d.sync += self.busy.eq(1)
                    m.next = "COMMON"
            with m.State("COMMON"):
                m.next = "ENDS"
                with m.If(full):
                    end(Status.QUEUE_FULL, 0)
                with m.Elif(~built):
                    end(Status.BAD_FORMAT, 0)
                with m.Elif(length[: exact_log2(ELEMENT_BYTES)].any() | length[LENGTH_BITS]):
                    end(Status.BAD_LENGTH, 0)
            with m.State("ENDS"):
                m.d.sync += [
                    source_end.eq(source + rounded),
                    destination_end.eq(destination + rounded),
                    flag_end.eq(flag + FLAG_BYTES),
                ]
                m.next = "RULES"
            with m.State("RULES"):
                grid = source[:shift].any() | destination[:shift].any()
                m.next = "NEXT"
                with m.If(grid | flag[: exact_log2(FLAG_BYTES)].any()):
                    end(Status.UNALIGNED, rank)
                with m.Elif((source_end > limit) | (destination_end > limit) | (flag_end > limit)):
                    end(Status.OUT_OF_RANGE, rank)
                with m.Elif(crossing | in_source | in_destination):
                    end(Status.OVERLAP, rank)
            with m.State("NEXT"):
                m.d.comb += checked.eq(1 << rank)
                with m.If(rank == config.ranks - 1):
                    m.d.comb += queued.eq(1)
                    end(Status.OK, 0)
                with m.Else():
                    m.d.sync += rank.eq(rank + 1)
                    m.next = "LOOK_UP"
            with m.State("LOOK_UP"):
                m.next = "ENDS"
        return staging
