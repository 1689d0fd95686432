# amaranth: UnusedElaboratable=no
# A reducer makes its blocks at once, since its delay is theirs; who asks only for that uses none.
"""fp16 sums and in-network quantization, of fp16 scales, on one set of multipliers."""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from .align import fixed_headroom
from .align_scales import AlignScales, is_bad
from .decode import Decode
from .delay_line import delayed
from .formats import FP16_REFERENCE, SIGNIFICAND_BITS, WINDOW_BITS, headroom_bits
from .inq_reducer import InqOutput, check_inq_parameters
from .normalize import Normalize
from .pipeline import register, tree_levels
from .product_chain import PART_BITS, ProductChain
from .requantize import Requantize
from .round import Round
from .scale_formats import CODE_BITS, SCALE_FORMATS

__all__ = ["SharedInput", "SharedOutput", "SharedReducer"]

FORMATS = ("fp16",)
SCALES = SCALE_FORMATS["fp16"]
LANE_BITS = 16
FACTOR_REGISTER = 1
#: A significand with its sign; codes are shorter.
NUMBER_BITS = SIGNIFICAND_BITS + 1


class SharedInput(data.StructLayout):
    """One flit of every rank.

    Members
    -------
    operands : rank r's flit at bits [r * 8 * flit_bytes, ...): fp16 numbers, or codes
    scales : rank r's scale of the block at [16 r, ...), the same in every flit of the block
    keep : the byte is inside the message, of codes; the number is, in the lower half
    sources : ranks that take part
    quantized : operands are codes
    last : of codes: the message ends with this flit
    """

    def __init__(self, ranks: int, flit_bytes: int):
        super().__init__(
            {
                "operands": unsigned(ranks * flit_bytes * 8),
                "scales": unsigned(ranks * SCALES.bits),
                "keep": unsigned(flit_bytes),
                "sources": unsigned(ranks),
                "quantized": 1,
                "last": 1,
            }
        )


class SharedOutput(data.StructLayout):
    """One flit of sums: `data`; `nan`, `overflow` of a kept lane (see `ReducerOutput`)."""

    def __init__(self, flit_bytes: int):
        super().__init__({"data": unsigned(8 * flit_bytes), "nan": 1, "overflow": 1})


class SharedReducer(wiring.Component):
    """Takes a flit of fp16 numbers each cycle, or one of codes every second cycle.

    An fp16 number is its signed significand times a power of two, and a code's value the code times
    an aligned scale: either is a product for the same chain, in units of 2^-24. A lane of 16 bits
    does one number, or one of its two codes, in a cycle: the flit's lower half first.

    Parameters
    ----------
    ranks, flit_bytes, block : as `InqReducer`'s, but a block is at least a flit
    part_bits : see `ProductChain`

    Ports
    -----
    i : stream of `SharedInput`; a flit of codes is taken in its second cycle
    o : stream of `SharedOutput`: sums, `delay` cycles behind the input
    q : stream of `InqOutput`: codes, `inq_delay` cycles behind the cycle that takes the input

    The flits of one block come without a gap: valid from the first one until the last is taken.
    """

    def __init__(self, ranks: int, flit_bytes: int, block: int, part_bits: int = PART_BITS):
        check_inq_parameters(ranks, flit_bytes, block, SCALES.name)
        if block < flit_bytes:
            raise ValueError(f"block: must be at least flit_bytes ({flit_bytes}), not {block!r}")
        self._ranks = ranks
        self._lanes = lanes = flit_bytes // 2
        self._halves = 2 * block // flit_bytes  # of flits, in a block
        self._decode = [Decode(ranks, FORMATS) for _ in range(lanes)]
        pairs = range(-(-ranks // 2))
        self._align = [AlignScales(1, SCALES.name, registered=False) for _ in pairs]
        self._chain = [
            ProductChain(ranks, NUMBER_BITS, SCALES.window_bits, part_bits) for _ in range(lanes)
        ]
        headroom = headroom_bits(FORMATS)
        width = WINDOW_BITS + tree_levels(ranks)
        fixed = fixed_headroom(ranks, FORMATS)
        self._normalize = [Normalize(width, headroom, fixed) for _ in range(lanes)]
        self._round = [Round(FORMATS, headroom) for _ in range(lanes)]
        self._requantize = Requantize(ranks, lanes, self._halves, SCALES.name)
        inputs = SharedInput(ranks, flit_bytes)
        codes = InqOutput(flit_bytes, block, SCALES.name)
        super().__init__(
            {
                "i": In(stream.Signature(inputs)),
                "o": Out(stream.Signature(SharedOutput(flit_bytes), always_ready=True)),
                "q": Out(stream.Signature(codes, always_ready=True)),
            }
        )

    @classmethod
    def of(cls, config: SwitchConfig) -> "SharedReducer":
        """The one that a switch of `config` has."""
        return cls(config.ranks, config.flit_bytes, config.block, config.multiplier_bits)

    @property
    def _sums_at(self) -> int:
        return FACTOR_REGISTER + self._chain[0].delay

    @property
    def _round_at(self) -> int:
        return self._sums_at + self._normalize[0].delay

    @property
    def delay(self) -> int:
        """Cycles from a flit of numbers to their sums."""
        return self._round_at + 1

    @property
    def inq_delay(self) -> int:
        """Cycles from when a flit of codes is taken to the new codes, the block's wait included."""
        return self._sums_at + self._requantize.delay

    def elaborate(self, platform):
        m = Module()
        flit = self.i.payload
        upper = Signal()  # the second cycle of a flit of codes
        quantized = self.i.valid & flit.quantized
        m.d.comb += self.i.ready.eq(~flit.quantized | upper)
        m.d.sync += upper.eq(quantized & ~upper)
        self._connect_scales(m, upper)
        keep = Mux(upper, flit.keep[self._lanes :], flit.keep[: self._lanes])
        keep_at = FACTOR_REGISTER + self._ranks - 1
        keep = delayed(m, keep, keep_at, name="keep")
        for lane in range(self._lanes):
            self._connect_chain(m, lane, quantized, upper, keep[lane])
            self._connect_sum(m, lane)
        keep = delayed(m, keep, self._sums_at - keep_at, name="keep_sums")
        self._put_sums(m, keep, self.i.valid & ~flit.quantized)
        self._put_codes(m, keep, quantized, upper)
        return m

    def _connect_scales(self, m, upper):
        """Two ranks share a shifter: the even one in the first cycle of a flit, in its own turn,
        and the odd one in the second, which is its turn too.
        """
        for pair, align in enumerate(self._align):
            m.submodules[f"align_{pair}"] = align
            even, odd = 2 * pair, min(2 * pair + 1, self._ranks - 1)
            scales = [self.i.payload.scales.word_select(r, SCALES.bits) for r in (even, odd)]
            scale = delayed(m, Mux(upper, scales[1], scales[0]), even, name=f"scale_{pair}")
            m.d.comb += [align.scales[0].eq(scale), align.sources.eq(1)]

    def _connect_chain(self, m, lane, quantized, upper, keep):
        m.submodules[f"decode_{lane}"] = decode = self._decode[lane]
        m.submodules[f"chain_{lane}"] = chain = self._chain[lane]
        flit = self.i.payload
        m.d.comb += [decode.valid.eq(1), decode.sources.eq(flit.sources), chain.keep.eq(keep)]
        for rank in range(self._ranks):
            bits = flit.operands.word_select(rank, 2 * self._lanes * CODE_BITS)
            # Without these two bits there is no infinity, NaN or sign; the number is cleared below.
            operand = bits.word_select(lane, LANE_BITS)
            operand = Cat(operand[:-2], operand[-2:] & flit.sources[rank].replicate(2))
            code = Mux(
                upper,
                bits.word_select(self._lanes + lane, CODE_BITS),
                bits.word_select(lane, CODE_BITS),
            )
            m.d.comb += decode.operands[rank].eq(operand)
            name = f"{lane}_{rank}"
            number = Mux(decode.signs[rank], -decode.significands[rank], decode.significands[rank])
            number = Mux(flit.quantized, code.as_signed(), number)
            fields = Cat(number[:NUMBER_BITS], decode.exponents[rank])
            fields = delayed(m, fields, rank, name=f"fields_{name}")
            flags = Cat(flit.sources[rank], quantized, upper)
            source, coded, upper_turn = delayed(m, flags, rank, name=f"flags_{name}")
            number = Signal(NUMBER_BITS, name=f"number_{name}", reset_less=True)
            m.d.sync += number.eq(fields[:NUMBER_BITS])
            with m.If(~source):
                m.d.sync += number.eq(0)
            factor = self._factor(m, name, rank, fields[NUMBER_BITS:], coded, upper_turn)
            m.d.comb += [
                chain.numbers[rank].eq(number.as_signed()),
                chain.factors[rank].eq(factor),
            ]

    def _factor(self, m, name, rank, exponent, coded, upper):
        """One register: a power of two, or the rank's scale, which the upper half keeps."""
        aligned = self._align[rank // 2].aligned[0]
        factor = Signal(SCALES.window_bits, name=f"factor_{name}", reset_less=True)
        power = _power_of_two(exponent)
        low, high = factor[: len(power)], factor[len(power) :]
        with m.If(~upper):
            m.d.sync += [low.eq(Mux(coded, aligned, power)), high.eq(aligned[len(power) :])]
            with m.If(~coded):
                m.d.sync += high.eq(0)
        return factor

    def _connect_sum(self, m, lane):
        m.submodules[f"normalize_{lane}"] = normalize = self._normalize[lane]
        m.submodules[f"round_{lane}"] = rounder = self._round[lane]
        decode, total = self._decode[lane], self._chain[lane].sum
        flags = Cat(decode.all_negative, decode.plus, decode.minus)
        flags = delayed(m, flags, self._round_at, name=f"flags_{lane}")
        m.d.comb += [
            normalize.valid.eq(1),
            normalize.sum.eq(total),
            Cat(rounder.all_negative, rounder.plus, rounder.minus).eq(flags),
            # The sum is what it seems: two's complement.
            rounder.sign.eq(0),
            rounder.normalized.eq(normalize.normalized),
            rounder.negative.eq(normalize.negative),
            rounder.sticky.eq(normalize.sticky),
            rounder.room.eq(normalize.room),
        ]

    def _put_sums(self, m, keep, valid):
        keep = delayed(m, keep, self._round_at - self._sums_at, name="keep_round")
        results = [Mux(keep[lane], block.result, 0) for lane, block in enumerate(self._round)]
        nan = Cat(block.nan for block in self._round) & keep
        overflow = Cat(block.overflow for block in self._round) & keep
        m.d.comb += [
            self.o.valid.eq(self._later(m, "sums", valid, self.delay)),
            self.o.payload.data.eq(register(m, Cat(results), valid=1, name="data")),
            self.o.payload.nan.eq(register(m, nan, valid=1, name="nan").any()),
            self.o.payload.overflow.eq(register(m, overflow, valid=1, name="overflow").any()),
        ]

    def _put_codes(self, m, keep, quantized, upper):
        m.submodules.requantize = requantize = self._requantize
        position = Signal(range(self._halves))
        first, last = position == 0, Signal()
        m.d.comb += last.eq(upper & (self.i.payload.last | (position == self._halves - 1)))
        with m.If(quantized):
            m.d.sync += position.eq(Mux(last, 0, position + 1))
        ends = delayed(m, Cat(first, last), self._sums_at, name="ends")
        scales = [self.i.payload.scales.word_select(r, SCALES.bits) for r in range(self._ranks)]
        bad = Cat(is_bad(scale, SCALES) for scale in scales) & self.i.payload.sources
        m.d.comb += [
            requantize.valid.eq(self._later(m, "codes", quantized, self._sums_at)),
            Cat(requantize.first, requantize.last).eq(ends),
            requantize.keep.eq(keep),
            requantize.reference.eq(SCALES.fixed_reference),
            requantize.bad.eq(delayed(m, bad.any(), self._sums_at, name="bad")),
            *(port.eq(chain.sum) for port, chain in zip(requantize.sums, self._chain, strict=True)),
        ]
        # What the lower half gives waits for the upper one.
        results = [requantize.scale, requantize.overflow, requantize.nan, requantize.begins]
        lower = register(m, Cat(requantize.codes, results), valid=1, name="lower")
        bits = len(requantize.codes)
        output = self.q.payload
        begins = lower[-1]
        m.d.comb += [
            self.q.valid.eq(self._later(m, "taken", quantized & upper, self.inq_delay)),
            output.data.eq(Cat(lower[:bits], requantize.codes)),
            output.blocks.eq(begins),
            output.scales.eq(lower[bits:]),
            output.overflow.eq(begins & lower[-3]),
            output.nan.eq(begins & lower[-2]),
        ]

    def _later(self, m, name, flag, cycles):
        """A flag after some cycles, which reset clears on its way."""
        for cycle in range(1, cycles + 1):
            later = Signal(name=f"{name}_{cycle}")
            m.d.sync += later.eq(flag)
            flag = later
        return flag


def _power_of_two(exponent):
    """2^(exponent - 1), which a significand counts in units of 2^-24, for fields from 1 on."""
    low = [exponent[:3] == k for k in range(8)]
    high = [exponent[3:] == k for k in range(4)]
    return Cat(low[k % 8] & high[k // 8] for k in range(1, FP16_REFERENCE + 1))
