# amaranth: UnusedElaboratable=no
# A reducer makes its blocks at once, since its delay is theirs; who asks only for that uses none.
"""The reducer: adds or averages one flit of floating-point numbers of every rank each cycle."""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import Format, Operation
from .adder_tree import AdderTree
from .align import Align, fixed_headroom
from .decode import Decode
from .divide import DIVIDEND_BITS, DIVISOR_BITS, Divide
from .formats import LANE_BITS, WINDOW_BITS, headroom_bits
from .largest import LargestExponent
from .normalize import NORMALIZED_BITS, Normalize
from .pipeline import carry, tree_levels
from .round import Round

__all__ = ["Reducer", "ReducerInput", "ReducerOutput"]

OUTPUT_REGISTER = 1


class ReducerInput(data.StructLayout):
    """One flit of every rank.

    Members
    -------
    operands : rank r's flit at bits [r * flit_bits, (r + 1) * flit_bits), 16 bits a lane
    keep : the lane is inside the message; the others give 0 and count in no status
    sources : ranks that take part; the others count as nothing at all
    format : of operands and result
    operation : what becomes of them; there where more than sums are built
    """

    def __init__(self, config: SwitchConfig):
        members = {
            "operands": unsigned(config.ranks * config.flit_bits),
            "keep": unsigned(config.lanes),
            "sources": unsigned(config.ranks),
            "format": Format,
        }
        if config.chooses_operation:
            members["operation"] = Operation
        super().__init__(members)


class ReducerOutput(data.StructLayout):
    """One flit of sums.

    Members
    -------
    data : 16 bits a lane
    nan : a kept lane's result is NaN
    overflow : a kept lane with finite operands rounded to infinity
    """

    def __init__(self, config: SwitchConfig):
        super().__init__({"data": unsigned(config.flit_bits), "nan": 1, "overflow": 1})


class Reducer(wiring.Component):
    """Adds the ranks' flits lane by lane: a pipeline that takes one each cycle and never stalls.

    Where averages are built, every sum is divided before it is rounded: by 1, unless the flit's
    operation is an average. Flits of other operations and formats are not for it.

    Ports
    -----
    i : stream of `ReducerInput`
    o : stream of `ReducerOutput`; `delay` cycles behind the input, in order
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        ranks, formats = config.ranks, config.float_formats
        headroom = headroom_bits(formats)
        width = WINDOW_BITS + tree_levels(ranks)
        lanes = range(config.lanes)
        self._decode = [Decode(ranks, formats) for _ in lanes]
        self._largest = [LargestExponent(ranks) for _ in lanes if "bf16" in formats]
        self._align = [Align(ranks, formats) for _ in lanes]
        self._tree = [AdderTree(ranks, WINDOW_BITS) for _ in lanes]
        fixed = fixed_headroom(ranks, formats)
        kept = DIVIDEND_BITS if config.averages else NORMALIZED_BITS
        self._normalize = [Normalize(width, headroom, fixed, kept) for _ in lanes]
        self._divide = [Divide(headroom) for _ in lanes if config.averages]
        self._round = [Round(formats, headroom) for _ in lanes]
        super().__init__(
            {
                "i": In(stream.Signature(ReducerInput(config), always_ready=True)),
                "o": Out(stream.Signature(ReducerOutput(config), always_ready=True)),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from a flit of every rank to the flit of their sums."""
        return self._round_at + self._round[0].delay + OUTPUT_REGISTER

    # The cycles, counted from the input's, in which the blocks take a flit.

    @property
    def _align_at(self) -> int:
        return max(block.delay for block in (self._decode[0], *self._largest[:1]))

    @property
    def _tree_at(self) -> int:
        return self._align_at + self._align[0].delay

    @property
    def _normalize_at(self) -> int:
        return self._tree_at + self._tree[0].delay

    @property
    def _divide_at(self) -> int:
        return self._normalize_at + self._normalize[0].delay

    @property
    def _round_at(self) -> int:
        return self._divide_at + sum(block.delay for block in self._divide[:1])

    def elaborate(self, platform):
        m = Module()
        self._valid = self._delayed_valid(m)
        flit = self.i.payload
        bf16 = [flit.format == Format.BF16]
        for cycle in range(self._round_at):
            bf16.append(self._carry(m, f"bf16_{cycle}", bf16[-1], cycle, cycle + 1))
        keep = self._carry(m, "keep", flit.keep, 0, self._round_at)
        if self._divide:
            divisor = self._divisor_less_one(m, flit)
            self._divisor = self._carry(m, "divisor", divisor, 0, self._divide_at)

        operands = self._operands(m)
        for lane in range(self._config.lanes):
            self._connect_operands(m, lane, operands, bf16)
            self._connect_align(m, lane, bf16)
            self._connect_sum(m, lane)
            if self._divide:
                self._connect_division(m, lane)
            self._connect_round(m, lane, bf16)
        self._put_output(m, keep)
        return m

    def _delayed_valid(self, m):
        """The input's valid, of this cycle and of each of the last `delay` ones."""
        valid = [self.i.valid]
        for cycle in range(1, self.delay + 1):
            later = Signal(name=f"valid_{cycle}")
            m.d.sync += later.eq(valid[-1])
            valid.append(later)
        return valid

    def _carry(self, m, name, value, start, stop):
        """`value` of cycle `start` as it is to be had in cycle `stop`."""
        return carry(m, value, valids=self._valid[start:stop], name=name)

    def _operands(self, m):
        """The input's operands by lane and rank; +0 where a rank takes no part."""
        bits = self._config.flit_bits
        lanes = [[] for _ in range(self._config.lanes)]
        for rank in range(self._config.ranks):
            flit = Signal(bits, name=f"flit_{rank}")
            operands = self.i.payload.operands.word_select(rank, bits)
            m.d.comb += flit.eq(Mux(self.i.payload.sources[rank], operands, 0))
            for lane, ranks in enumerate(lanes):
                operand = Signal(LANE_BITS, name=f"operand_{lane}_{rank}")
                m.d.comb += operand.eq(flit.word_select(lane, LANE_BITS))
                ranks.append(operand)
        return lanes

    def _connect_operands(self, m, lane, operands, bf16):
        m.submodules[f"decode_{lane}"] = decode = self._decode[lane]
        m.d.comb += [
            decode.valid.eq(self._valid[0]),
            decode.sources.eq(self.i.payload.sources),
            decode.bf16.eq(bf16[0]),
            *(decode.operands[rank].eq(value) for rank, value in enumerate(operands[lane])),
        ]
        if self._largest:
            m.submodules[f"largest_{lane}"] = largest = self._largest[lane]
            m.d.comb += largest.valid.eq(self._valid[0])
            for rank, exponent in enumerate(decode.fields):
                m.d.comb += largest.exponents[rank].eq(exponent)

    def _connect_align(self, m, lane, bf16):
        m.submodules[f"align_{lane}"] = align = self._align[lane]
        decode = self._decode[lane]
        m.d.comb += [
            align.valid.eq(self._valid[self._align_at]),
            align.bf16.eq(bf16[self._align_at]),
        ]
        if self._largest:
            m.d.comb += align.largest.eq(self._largest[lane].largest)
        for field in ("exponents", "significands"):
            for rank in range(self._config.ranks):
                value = self._carry(
                    m,
                    f"{field}_{lane}_{rank}",
                    getattr(decode, field)[rank],
                    decode.delay,
                    self._align_at,
                )
                m.d.comb += getattr(align, field)[rank].eq(value)

    def _connect_sum(self, m, lane):
        m.submodules[f"tree_{lane}"] = tree = self._tree[lane]
        m.submodules[f"normalize_{lane}"] = normalize = self._normalize[lane]
        decode, align = self._decode[lane], self._align[lane]
        signs = self._carry(m, f"signs_{lane}", decode.signs, decode.delay, self._tree_at)
        headroom = align.headroom
        if self._largest:  # else it is a constant
            headroom = self._carry(
                m, f"headroom_{lane}", headroom, self._tree_at, self._normalize_at
            )
        m.d.comb += [
            tree.valid.eq(self._valid[self._tree_at]),
            tree.signs.eq(signs),
            *(tree.magnitudes[rank].eq(value) for rank, value in enumerate(align.magnitudes)),
            normalize.valid.eq(self._valid[self._normalize_at]),
            normalize.sum.eq(tree.sum),
            normalize.headroom.eq(headroom),
        ]

    def _divisor_less_one(self, m, flit):
        """What sums are divided by: the ranks that take part, or 1."""
        ranks, divisor = Signal(range(self._config.ranks + 1)), Signal(DIVISOR_BITS)
        m.d.comb += ranks.eq(sum(flit.sources[rank] for rank in range(self._config.ranks)))
        with m.If(flit.operation == Operation.AVERAGE):
            m.d.comb += divisor.eq(ranks - 1)
        return divisor

    def _connect_division(self, m, lane):
        m.submodules[f"divide_{lane}"] = divide = self._divide[lane]
        tree, normalize = self._tree[lane], self._normalize[lane]
        sign = self._carry(m, f"sum_sign_{lane}", tree.sign, self._normalize_at, self._divide_at)
        m.d.comb += [
            divide.valid.eq(self._valid[self._divide_at]),
            divide.dividend.eq(normalize.normalized),
            divide.negative.eq(normalize.negative),
            divide.sticky.eq(normalize.sticky),
            divide.room.eq(normalize.room),
            divide.sign.eq(sign),
            divide.divisor_less_one.eq(self._divisor),
        ]

    def _connect_round(self, m, lane, bf16):
        m.submodules[f"round_{lane}"] = rounder = self._round[lane]
        decode = self._decode[lane]
        flags = Cat(decode.all_negative, decode.plus, decode.minus)
        flags = self._carry(m, f"flags_{lane}", flags, decode.delay, self._round_at)
        m.d.comb += rounder.bf16.eq(bf16[self._round_at])
        if self._divide:
            self._put_quotient(m, self._divide[lane], flags, rounder)
        else:
            self._put_sum(m, lane, flags, rounder)

    def _put_sum(self, m, lane, flags, rounder):
        tree, normalize = self._tree[lane], self._normalize[lane]
        sign = self._carry(m, f"sign_{lane}", tree.sign, self._normalize_at, self._round_at)
        m.d.comb += [
            Cat(rounder.all_negative, rounder.plus, rounder.minus).eq(flags),
            rounder.sign.eq(sign),
            rounder.normalized.eq(normalize.normalized),
            rounder.negative.eq(normalize.negative),
            rounder.sticky.eq(normalize.sticky),
            rounder.room.eq(normalize.room),
        ]

    def _put_quotient(self, m, divide, flags, rounder):
        """A magnitude. Its sign stays where it rounds to zero, which no sum that is not does."""
        m.d.comb += [
            Cat(rounder.all_negative, rounder.plus, rounder.minus).eq(flags | divide.minus),
            rounder.normalized.eq(divide.quotient),
            rounder.sticky.eq(divide.quotient_sticky),
            rounder.room.eq(divide.quotient_room),
        ]

    def _put_output(self, m, keep):
        results = [Mux(keep[lane], block.result, 0) for lane, block in enumerate(self._round)]
        nan = Cat(block.nan for block in self._round) & keep
        overflow = Cat(block.overflow for block in self._round) & keep

        def registered(name, value):
            return self._carry(m, name, value, self._round_at, self._round_at + OUTPUT_REGISTER)

        m.d.comb += [
            self.o.valid.eq(self._valid[self.delay]),
            self.o.payload.data.eq(registered("data", Cat(results))),
            # The lanes' status is merged behind the register, since rounding fills its cycle.
            self.o.payload.nan.eq(registered("nan", nan).any()),
            self.o.payload.overflow.eq(registered("overflow", overflow).any()),
        ]
