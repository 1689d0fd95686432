"""An instruction's addresses: staged by the host, and checked one after the other."""

from amaranth import Array, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import SwitchConfig
from .layouts import LENGTH_BITS, Status, address_kinds

__all__ = ["FLAG_BYTES", "HOST_BITS", "WORD_SHIFT", "AddressCheck", "Window", "folded", "word_bits"]

#: Size and alignment of a flag; the unit in which addresses are checked and kept.
FLAG_BYTES = 8
WORD_SHIFT = exact_log2(FLAG_BYTES)
#: Width of an address and of a length as a host writes them.
HOST_BITS = 64
#: Ranges of one size, which may be identical: an operand, and a result in its place.
OPERANDS = ("source", "destination")
SCALES = ("scale_source", "scale_destination")


def word_bits(config: SwitchConfig) -> int:
    """Bits of an address inside the memory, or of its very end, in words of `FLAG_BYTES`."""
    return (config.memory_bytes // FLAG_BYTES).bit_length()


def folded(value, bits):
    """`value` in one bit more than `bits`: what does not fit sets the top one.

    So a number that is too large stays too large, and cannot pass as a small one.
    """
    if len(value) <= bits:
        return value
    return Cat(value[:bits], value[bits:].any())


class Window(wiring.Signature):
    """What a context may touch of one rank's memory: words of `FLAG_BYTES` from base to limit."""

    def __init__(self, config: SwitchConfig):
        bits = word_bits(config)
        super().__init__({"base": Out(bits), "limit": Out(bits)})


class StagedAddress(data.StructLayout):
    """What the check has to know of an address.

    Members
    -------
    ragged : it is no multiple of `FLAG_BYTES`
    words : in words of `FLAG_BYTES`
    beyond : it has bits above those of ``words``, so it is past the memory
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {"ragged": unsigned(1), "words": unsigned(word_bits(config)), "beyond": unsigned(1)}
        )


class AddressCheck(wiring.Component):
    """Keeps what a host stages, and checks it range by range with one adder.

    Ranges are rounded up to the flit. For each rank, each kind's range is worked out and compared
    with the memory's end, then with the ranges of the kinds before it.

    Members
    -------
    address : the address to stage
    stage_source, stage_destination, stage_flag, stage_scale_source, stage_scale_destination : by
        rank, store ``address``; at most one bit of all of them in a cycle
    locked : what is staged stays as it is
    length : bytes of each rank's operand; stays from ``start`` to ``done``
    quantized : the scales' addresses belong to the instruction; stays likewise
    source_ranks, destination_ranks, members : ranks whose sources, destinations and flags count,
        where that may be some; stay likewise
    windows : by rank, where there are several contexts (`Window`)
    start : check every rank
    words : the address that is being checked, in words of 8 bytes
    store_source, store_destination, store_flag, store_scale_source, store_scale_destination : by
        rank, ``words`` is that address; only counts if the check ends well
    done : one cycle: the check ends with ``code``, for ``code_rank``

    Rules
    -----
    In this order for each rank, lowest rank first: every address is aligned, the flag to 8 bytes,
    others to the flit (UNALIGNED); every range lies inside the memory (OUT_OF_RANGE), and inside
    the context's window where there are several (OUT_OF_WINDOW); no two ranges
    share a flit or word, but source and destination may be identical, and so may the scales'
    (OVERLAP). A length of 0 claims nothing but the flag.

    Latency
    -------
    A rank takes kinds * (kinds + 1) / 2 + 3 cycles: 9 with 3 kinds, 18 with the 5 of a quantized
    instruction. ``done`` is in the last cycle of the rank that is refused, or of the last one.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        self._kinds = address_kinds(config)
        members = {
            "address": In(HOST_BITS),
            "locked": In(1),
            "length": In(LENGTH_BITS),
            "start": In(1),
            "words": Out(word_bits(config)),
            "done": Out(1),
            "code": Out(Status),
            "code_rank": Out(range(config.ranks)),
        }
        if config.quantizes:
            members["quantized"] = In(1)
        if config.subsets:
            subsets = ("source_ranks", "destination_ranks", "members")
            members |= {name: In(config.ranks) for name in subsets}
        if config.contexts > 1:
            members["windows"] = In(Window(config)).array(config.ranks)
        for kind in self._kinds:
            members |= {f"stage_{kind}": In(config.ranks), f"store_{kind}": Out(config.ranks)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self._config
        kind = range(len(self._kinds))
        self._rank = Signal(range(config.ranks))
        # Three stages, a range each: looked up, added, compared.
        self._looking = Signal()
        self._own = Signal(kind)
        self._other = Signal(kind)
        self._adding = Signal()
        self._comparing = Signal()
        self._judging = Signal()
        # Of the range in the second and third stage: it is the one that others are compared with.
        self._adding_own = Signal()
        self._comparing_own = Signal()
        self._adding_kind = Signal(kind)
        # What was found at this rank so far.
        self._unaligned = Signal()
        self._outside = Signal()
        self._overlap = Signal()
        self._foreign = Signal()  # outside the context's window

        staged = self._stage(m)
        self._walk(m)
        start, end = self._add(m, staged)
        self._store(m, staged)
        self._compare(m, start, end)
        self._judge(m)
        return m

    def _stage(self, m):
        """The memory of staged addresses; the one that was looked up in the cycle before."""
        kind_bits = len(self._own)
        strobes = {
            rank << kind_bits | number: getattr(self, f"stage_{kind}")[rank]
            for number, kind in enumerate(self._kinds)
            for rank in range(self._config.ranks)
        }
        m.submodules.staged = memory = Memory(
            shape=StagedAddress(self._config), depth=self._config.ranks << kind_bits, init=[]
        )
        write = memory.write_port()
        read = memory.read_port()
        index = Cat(
            Cat(strobe for place, strobe in strobes.items() if place >> bit & 1).any()
            for bit in range(len(write.addr))
        )
        words = folded(self.address[WORD_SHIFT:], word_bits(self._config))
        m.d.comb += [
            write.en.eq(Cat(strobes.values()).any() & ~self.locked),
            write.addr.eq(index),
            write.data.ragged.eq(self.address[:WORD_SHIFT].any()),
            Cat(write.data.words, write.data.beyond).eq(words),
            read.addr.eq(Cat(self._other, self._rank)),
        ]
        return read.data

    def _is(self, kind, name):
        """Whether `kind` is the one called `name`."""
        return kind == self._kinds.index(name) if name in self._kinds else Const(0)

    def _walk(self, m):
        """Each kind, and behind it every kind before it: itself, then down to the first."""
        own, other = self._own, self._other
        last_kind = self._kinds.index("flag")
        if self._config.quantizes:  # the scales' kinds follow
            last_kind = Mux(self.quantized, len(self._kinds) - 1, last_kind)
        last = self._looking & (own == last_kind) & (other == 0)
        adding_last = Signal()
        comparing_last = Signal()
        m.d.sync += [
            self._adding.eq(self._looking),
            self._adding_kind.eq(other),
            self._adding_own.eq(own == other),
            adding_last.eq(last),
            self._comparing.eq(self._adding),
            self._comparing_own.eq(self._adding_own),
            comparing_last.eq(adding_last),
            self._judging.eq(comparing_last),
        ]
        with m.If(self.start | self._judging):
            m.d.sync += [own.eq(0), other.eq(0)]
        with m.Elif(other == 0):
            m.d.sync += [own.eq(own + 1), other.eq(own + 1)]
        with m.Else():
            m.d.sync += other.eq(other - 1)
        with m.If(self.start | (self._judging & ~self.done)):
            m.d.sync += self._looking.eq(1)
        with m.Elif(last):
            m.d.sync += self._looking.eq(0)

    def _flits(self, codes_per_flit):
        """Flits that the operand takes with so many of its bytes to a flit: whole ones, a rest."""
        shift = exact_log2(codes_per_flit)
        return self.length[shift:], self.length[:shift].any()

    def _extents(self):
        """By range: the kinds that have it, its whole flits, and whether a part of one follows."""
        config = self._config
        extents = [(OPERANDS, *self._flits(config.flit_bytes))]
        if config.quantizes:
            # A flit of scales serves so many codes of one byte. Both are powers of two, so
            # rounding up to the block first, and then to the flit, is rounding up once.
            codes = config.block * (config.flit_bytes // config.scale_bytes)
            extents.append((SCALES, *self._flits(codes)))
        return extents

    def _add(self, m, staged):
        """Second stage: start and end of the range that was looked up, in words."""
        config = self._config
        bits = word_bits(config)
        flit_shift = exact_log2(config.flit_bytes // FLAG_BYTES)  # words in a flit
        size = Signal(bits)
        size_beyond = Signal()
        carry = Signal()
        is_flag = Signal()
        m.d.comb += is_flag.eq(self._is(self._adding_kind, "flag"))
        with m.If(is_flag):
            m.d.comb += carry.eq(1)
        for kinds, flits, part in self._extents():
            with m.If(Cat(self._is(self._adding_kind, name) for name in kinds).any()):
                # The part of a flit becomes a whole one by the carry through the bits below it.
                words = folded(Cat(part.replicate(flit_shift), flits), bits)
                m.d.comb += [Cat(size, size_beyond).eq(words), carry.eq(part)]

        start = Signal(bits)
        end = Signal(bits + 1)
        total = Signal(bits + 2)
        # One adder with a carry in at its lowest bit.
        m.d.comb += total.eq(Cat(Const(1, 1), staged.words) + Cat(carry, size))
        m.d.sync += [start.eq(staged.words), end.eq(total[1:])]

        off_grid = staged.ragged | (~is_flag & staged.words[:flit_shift].any())
        with m.If(self._adding & self._counts(self._adding_kind)):
            m.d.sync += [
                self._unaligned.eq(self._unaligned | off_grid),
                self._outside.eq(self._outside | staged.beyond | size_beyond),
            ]
        return start, end

    def _store(self, m, staged):
        """Second stage: the address that was looked up, handed on."""
        m.d.comb += self.words.eq(staged.words)
        for name in self._kinds:
            this = self._adding & self._is(self._adding_kind, name)
            m.d.comb += getattr(self, f"store_{name}").eq(
                Mux(this, Const(1, self._config.ranks) << self._rank, 0)
            )

    def _compare(self, m, start, end):
        """Third stage: the range against the memory's end, and against the one that is checked."""
        own_start = Signal.like(start)
        own_end = Signal.like(end)
        with m.If(self._comparing_own):
            m.d.sync += [own_start.eq(start), own_end.eq(end)]
        identical = self._may_be_identical(m) & (own_start == start)
        # Without a length only the flag is not empty: no range can start inside its one word.
        crossing = (start < own_end) & (own_start < end) & ~identical
        limit = self._config.memory_bytes // FLAG_BYTES
        this, own = self._both_count(m)
        with m.If(self._comparing & this):
            with m.If(end > limit):
                m.d.sync += self._outside.eq(1)
            if self._config.contexts > 1:
                with m.If(self._leaves_window(m, start, end)):
                    m.d.sync += self._foreign.eq(1)
            with m.If(~self._comparing_own & crossing & own):
                m.d.sync += self._overlap.eq(1)
        with m.If(self._judging | self.start):
            m.d.sync += [self._unaligned.eq(0), self._outside.eq(0), self._overlap.eq(0)]
            m.d.sync += self._foreign.eq(0)

    def _counts(self, kind):
        """Whether this rank's address of `kind` matters."""
        if not self._config.subsets:
            return Const(1)
        by_ranks = {
            "source": self.source_ranks,
            "destination": self.destination_ranks,
            "flag": self.members,
            "scale_source": self.source_ranks,
            "scale_destination": self.destination_ranks,
        }
        return Cat(
            self._is(kind, name) & by_ranks[name].bit_select(self._rank, 1) for name in self._kinds
        ).any()

    def _both_count(self, m):
        """Of the range in the third stage, and of the one that it is compared with."""
        if not self._config.subsets:
            return Const(1), Const(1)
        adding, comparing = Signal(2, name="counts_adding"), Signal(2, name="counts_comparing")
        m.d.sync += [
            adding.eq(Cat(self._counts(self._other), self._counts(self._own))),
            comparing.eq(adding),
        ]
        return comparing[0], comparing[1]

    def _leaves_window(self, m, start, end):
        bases = Array(window.base for window in self.windows)
        limits = Array(window.limit for window in self.windows)
        base, limit = bases[self._rank], limits[self._rank]
        # A length of 0 claims nothing, wherever it stands.
        return (start != end) & ((start < base) | (end > limit))

    def _may_be_identical(self, m):
        """Of the ranges in the third stage: a result that may lie in its operand's place."""
        pairs = [
            self._is(self._own, result) & self._is(self._other, operand)
            for operand, result in (OPERANDS, SCALES)
        ]
        adding_pair = Signal()
        comparing_pair = Signal()
        m.d.sync += [adding_pair.eq(Cat(pairs).any()), comparing_pair.eq(adding_pair)]
        return comparing_pair

    def _judge(self, m):
        """Behind the last range of a rank: the end, or the next rank."""
        last_rank = self._rank == self._config.ranks - 1
        refused = self._unaligned | self._outside | self._overlap | self._foreign
        m.d.comb += self.done.eq(self._judging & (refused | last_rank))
        m.d.comb += self.code_rank.eq(Mux(refused, self._rank, 0))
        with m.If(self._unaligned):
            m.d.comb += self.code.eq(Status.UNALIGNED)
        with m.Elif(self._outside):
            m.d.comb += self.code.eq(Status.OUT_OF_RANGE)
        if self._config.contexts > 1:
            with m.Elif(self._foreign):
                m.d.comb += self.code.eq(Status.OUT_OF_WINDOW)
        with m.Elif(self._overlap):
            m.d.comb += self.code.eq(Status.OVERLAP)
        with m.If(self.start):
            m.d.sync += self._rank.eq(0)
        with m.Elif(self._judging & ~self.done):
            m.d.sync += self._rank.eq(self._rank + 1)
