"""Instructions: staged word by word, checked, queued, and their addresses kept until the flag."""

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import KNOWN_FORMATS, SwitchConfig
from ..interfaces import Collective, Format, Operation
from .address_check import FLAG_BYTES, HOST_BITS, AddressCheck, Window, folded
from .layouts import (
    ELEMENT_BYTES,
    INTEGER_BYTES,
    LENGTH_BITS,
    OperationLayout,
    Status,
    address_kinds,
    operation_slots,
    slot_bits,
)

__all__ = [
    "COLLECTIVE_SHIFT",
    "FORMAT_BITS",
    "OPERATION_SHIFT",
    "SUBSETS",
    "InstructionQueue",
    "Posting",
]

#: Kinds of addresses that stand in block RAM where quantized operations are built: their five kinds
#: take more LUT RAM than a small device has to spare.
BLOCK_RAM_KINDS = ("destination", "scale_source", "scale_destination")

#: Width of a format's code as a host writes it.
FORMAT_BITS = 32
#: Where the codes of the operation and of the collective stand above the format's, in the same
#: word, where an instruction has them.
OPERATION_SHIFT = 8
COLLECTIVE_SHIFT = 16
#: Common fields that say which ranks are read and written, where that may be some.
SUBSETS = ("source_ranks", "destination_ranks")


class Posting(wiring.Signature):
    """How instructions come in; see `InstructionQueue`."""

    def __init__(self, config: SwitchConfig):
        staged = {f"stage_{kind}": Out(config.ranks) for kind in address_kinds(config)}
        super().__init__(
            {
                "address": Out(HOST_BITS),
                "length": Out(HOST_BITS),
                "format": Out(FORMAT_BITS),
                "post": Out(1),
                "busy": In(1),
                "code": In(Status),
                "rank": In(4),
            }
            | staged
            | {name: Out(config.ranks) for name in SUBSETS if config.subsets}
            | ({"chunk": Out(HOST_BITS)} if config.chunks else {})
        )


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
    length, format : common fields, taken with ``post``; ``format`` has the operation from
        `OPERATION_SHIFT` up, and the collective from `COLLECTIVE_SHIFT` up, where they are built
    chunk : likewise: bytes of a chunk, where the collective has chunks
    source_ranks, destination_ranks : likewise, where that may be some of the ranks
    members : ranks that the context has; enabled, windows : see below; likewise
    post : check and queue (ignored while ``busy``)
    busy : the check goes on
    code, rank : how the last post ended (`Status`) and for which rank
    unreachable, down : ranks that may not be named yet (DRAINING), or while their link is down
        (LINK_DOWN); busy posts wait while ``hold``; where contexts outlive failures
    waiting : operations not yet launched; likewise
    flags_only : taken with ``post``: nothing but flags is looked at, and the operation has no more;
        present : ranks that have one; likewise
    flagged : those of ``flag_slot``, one cycle later; likewise
    launch : the oldest operation not yet launched; its ``sources`` and ``scale_sources`` stand
        beside it
    destination_slot, destinations, scale_destinations : look-up, one cycle later
    flag_slot, flags : likewise
    retire : the oldest operation's flags are sent; its slot is free

    What speaks of scales is only there where quantized operations are built.

    Rules
    -----
    Format built, and operation and collective for it; length a whole number of elements, below
    2^40; a chunk whole flits, and not 0; one rank to copy from; then the addresses by the rules of
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
        if config.subsets:
            members |= {name: In(config.ranks) for name in (*SUBSETS, "members")}
        if config.chunks:
            members["chunk"] = In(HOST_BITS)
        if config.contexts > 1:
            members |= {"enabled": In(1), "windows": In(Window(config)).array(config.ranks)}
        if config.recovers:
            members |= {"unreachable": In(config.ranks), "hold": In(1), "waiting": Out(1)}
            members["down"] = In(config.ranks)
            members |= {"flags_only": In(1), "present": In(config.ranks)}
            members["flagged"] = Out(config.ranks)
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
        self._sources = Signal(self._config.ranks)
        self._destinations = Signal(self._config.ranks)
        length = Signal(LENGTH_BITS + 1)
        number_format = Signal(Format.as_shape().width + 1)
        self._bare = Signal()  # it has flags only
        self._choice = self._chosen(m)
        format_word = self.format[:OPERATION_SHIFT] if self._choice else self.format
        with m.If(self.post & ~self.busy):
            if self._config.recovers:
                m.d.sync += self._bare.eq(self.flags_only)
            m.d.sync += [
                length.eq(folded(self.length, LENGTH_BITS)),
                number_format.eq(folded(format_word, Format.as_shape().width)),
            ]
            if self._config.subsets:
                m.d.sync += [
                    self._sources.eq(self.source_ranks),
                    self._destinations.eq(self.destination_ranks),
                ]
        m.submodules.addresses = addresses = AddressCheck(self._config)
        self._stage(m, addresses, length, number_format)
        self._check(m, addresses, length, number_format, queued, full)
        self._keep_addresses(m, addresses, staged, next_launch)
        if self._config.recovers:
            self._keep_ranks(m, staged, queued)
        self._launch(m, length, number_format, staged, queued, next_launch, waiting)
        return m

    def _chosen(self, m):
        """The instruction's operation, collective and chunk, by name, where it has them."""
        config, chosen = self._config, {}
        if config.chooses_operation:
            operations = self.format[OPERATION_SHIFT:COLLECTIVE_SHIFT]
            chosen["operation"] = folded(operations, Operation.as_shape().width)
            collectives = self.format[COLLECTIVE_SHIFT:]
            chosen["collective"] = folded(collectives, Collective.as_shape().width)
        if config.chunks:
            chosen["chunk"] = folded(self.chunk, LENGTH_BITS)
        kept = {}
        for name, value in chosen.items():
            kept[name] = Signal(len(value), name=name)
            with m.If(self.post & ~self.busy):
                m.d.sync += kept[name].eq(value)
        return kept

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
        if self._config.subsets:
            m.d.comb += [
                addresses.source_ranks.eq(self._sources),
                addresses.destination_ranks.eq(self._destinations),
                addresses.members.eq(self.present if self._config.recovers else self.members),
            ]
        if self._config.contexts > 1:
            for window, checked in zip(self.windows, addresses.windows, strict=True):
                m.d.comb += [checked.base.eq(window.base), checked.limit.eq(window.limit)]

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

    def _keep_ranks(self, m, staged, queued):
        """By slot, the ranks that have a flag."""
        m.submodules.flagged = flagged = Memory(
            shape=self._config.ranks, depth=self._slots, init=[]
        )
        write, read = flagged.write_port(), flagged.read_port()
        m.d.comb += [
            write.en.eq(queued),
            write.addr.eq(staged),
            write.data.eq(self.present),
            read.addr.eq(self.flag_slot),
            self.flagged.eq(read.data),
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
            *self._launch_ranks(write.data),
            *self._launch_choice(write.data),
            read.addr.eq(next_launch),
            self.launch.payload.eq(read.data),
        ]
        if self._config.recovers:
            m.d.comb += self.waiting.eq(waiting != 0)
        m.d.sync += [
            waiting.eq(waiting + queued - taken),
            # The look-up of slot `next_launch` is one cycle behind.
            self.launch.valid.eq((waiting != 0) & ~taken),
        ]
        with m.If(taken):
            m.d.sync += next_launch.eq(next_launch + 1)

    def _launch_ranks(self, operation):
        if not self._config.subsets:
            return []
        return [operation.sources.eq(self._sources), operation.destinations.eq(self._destinations)]

    def _launch_choice(self, operation):
        choice = dict(self._choice)
        if self._config.chunks:
            # Longer than any vector is: all that it may be, and not what is left of its low bits.
            bits = len(operation.chunk)
            chunk = choice["chunk"]
            choice["chunk"] = Mux(chunk[bits:].any(), (1 << bits) - 1, chunk[:bits])
        else:
            choice.pop("collective", None)
        return [Value.cast(getattr(operation, name)).eq(value) for name, value in choice.items()]

    def _bad_ranks(self):
        """Others than members are named, or none to read or none to write, or several to copy."""
        strangers = (self._sources | self._destinations) & ~self.members
        bad = strangers.any() | ~self._sources.any() | ~self._destinations.any()
        if self._config.copies:
            others = self._sources & (self._sources - 1)[: len(self._sources)]
            gathers = self._choice["collective"] == Collective.GATHER.value
            copies = self._choice["operation"] == Operation.COPY.value
            bad |= copies & ~gathers & others.any()
        return bad

    def _bad_operation(self, number_format):
        """The operation or the collective is not built, or not for the format."""
        config = self._config
        operation, collective = self._choice["operation"], self._choice["collective"]
        known = Const(0)
        for name in config.formats:
            built = config.operations_of(name)
            if config.copies and name in config.sum_formats:
                built = (*built, "copy")
            codes = [operation == Operation[each.upper()].value for each in built]
            known |= (number_format == Format[name.upper()].value) & Cat(codes).any()
        whole = collective == Collective.WHOLE.value
        scatters = collective == Collective.SCATTER.value
        # A chunk has one source where it is gathered; scales are not cut.
        gathers = (collective == Collective.GATHER.value) & (operation == Operation.COPY.value)
        cut = (gathers | scatters) & (number_format != Format.INQ8.value)
        return ~known | ~(whole | (cut if config.chunks else 0))

    def _bad_chunk(self):
        """The collective has chunks, and they are none, not whole flits, or too long."""
        chunk = self._choice["chunk"]
        bad = ~chunk.any() | chunk[: self._config.flit_address_bits].any() | chunk[LENGTH_BITS]
        return (self._choice["collective"] != Collective.WHOLE.value) & bad

    @staticmethod
    def _lowest(m, ranks, name):
        """The number of the lowest bit that is set."""
        number = Signal(4, name=f"lowest_{name}")
        for rank in reversed(range(len(ranks))):
            with m.If(ranks[rank]):
                m.d.comb += number.eq(rank)
        return number

    def _bad_length(self, length, number_format):
        """It is no whole number of elements, or too long."""
        divided = length[: exact_log2(ELEMENT_BYTES)].any()
        if self._config.quantizes:  # every number of bytes is a number of codes
            divided &= number_format != Format.INQ8.value
        if self._config.integers:
            of_integers = length[: exact_log2(INTEGER_BYTES)].any()
            divided |= (number_format == Format.INT32.value) & of_integers
        return divided | length[LENGTH_BITS]

    def _check(self, m, addresses, length, number_format, queued, full):
        """Check what is posted: first what all ranks have in common."""
        refusals = self._refusals(m, length, number_format, full)

        def end(code, rank):
            m.d.sync += [self.code.eq(code), self.busy.eq(0), self.rank.eq(rank)]
            m.next = "IDLE"

        with m.FSM(name="check"):
            with m.State("IDLE"):
                with m.If(self.post):
                    m.d.sync += self.busy.eq(1)
                    m.next = "COMMON"
            with m.State("COMMON"):
                if self._config.recovers:
                    with m.If(~self.hold):
                        self._judge(m, addresses, refusals, end)
                else:
                    self._judge(m, addresses, refusals, end)
            with m.State("ADDRESSES"):
                with m.If(addresses.done):
                    if self._config.recovers:
                        self._finish(m, addresses, queued, end)
                    else:
                        m.d.comb += queued.eq(addresses.code == Status.OK)
                        end(addresses.code, addresses.code_rank)

    def _judge(self, m, addresses, refusals, end):
        """The first of the rules in common that is broken; or addresses are next."""

        def go_on():
            m.d.comb += addresses.start.eq(1)
            m.next = "ADDRESSES"

        for number, (refused, code, rank) in enumerate(refusals):
            with m.If(refused) if number == 0 else m.Elif(refused):
                if code is Status.OK:
                    go_on()
                else:
                    end(code, rank)
        with m.Else():
            go_on()

    def _finish(self, m, addresses, queued, end):
        with m.If(self.hold):
            m.next = "COMMON"  # who can be reached may be others by then
        with m.Else():
            m.d.comb += queued.eq(addresses.code == Status.OK)
            end(addresses.code, addresses.code_rank)

    def _refusals(self, m, length, number_format, full):
        """Rules that all ranks have in common, in their order: broken, code, rank.

        Where one has the code OK, those behind it do not matter.
        """
        config = self._config
        built = [Format[name.upper()].value for name in KNOWN_FORMATS if name in config.formats]
        known = Cat(number_format == code for code in built).any()
        rules = []
        if config.contexts > 1:  # which all have recovery; who waits is told even so
            rules.append((~self.enabled & ~self._bare, Status.DISABLED, 0))
        rules.append((full, Status.QUEUE_FULL, 0))
        if config.recovers:
            rules.append((self._bare, Status.OK, 0))
        rules.append((~known, Status.BAD_FORMAT, 0))
        if self._choice:
            rules.append((self._bad_operation(number_format), Status.BAD_OPERATION, 0))
        rules.append((self._bad_length(length, number_format), Status.BAD_LENGTH, 0))
        if config.chunks:
            rules.append((self._bad_chunk(), Status.BAD_CHUNK, 0))
        if config.subsets:
            rules.append((self._bad_ranks(), Status.BAD_RANKS, 0))
        if config.recovers:
            for name, status, ranks in (
                ("down", Status.LINK_DOWN, self.down),
                ("draining", Status.DRAINING, self.unreachable),
            ):
                named = self.members & ranks
                rules.append((named.any(), status, self._lowest(m, named, name)))
        return rules
