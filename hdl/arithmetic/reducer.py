"""The reducer: adds one flit of every rank each cycle."""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hdl.config import SwitchConfig
from hdl.interfaces import Format

from .adder_tree import AdderTree
from .align import Align, LargestExponent, headroom_bits
from .formats import WINDOW_BITS, tree_levels
from .normalize import Normalize
from .round import Round

LANE_BITS = 16
OUTPUT_REGISTER = 1
#: Flags beside the headroom that go around the tree.
ASIDE_FLAGS = 3

__all__ = ["Reducer", "ReducerInput", "ReducerOutput"]


class ReducerInput(data.StructLayout):
    """One flit of every rank.

    Members
    -------
    operands : rank r's flit at bits [r * flit_bits, (r + 1) * flit_bits), 16 bits a lane
    keep : the lane is inside the message; the others give 0 and count in no status
    sources : ranks that take part; the others count as nothing at all
    format : of operands and result
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "operands": unsigned(config.ranks * config.flit_bits),
                "keep": unsigned(config.lanes),
                "sources": unsigned(config.ranks),
                "format": Format,
            }
        )


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

    Ports
    -----
    i : stream of `ReducerInput`
    o : stream of `ReducerOutput`; `delay` cycles behind the input, in order
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        ranks, formats = config.ranks, config.formats
        headroom = headroom_bits(formats)
        lanes = range(config.lanes)
        self._largest = [LargestExponent(ranks) for _ in lanes if "bf16" in formats]
        self._align = [Align(ranks, formats) for _ in lanes]
        self._tree = [AdderTree(ranks, WINDOW_BITS) for _ in lanes]
        width = WINDOW_BITS + tree_levels(ranks)
        self._normalize = [Normalize(width, headroom) for _ in lanes]
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

    # The cycle, counted from the input's, in which each block takes a flit.

    @property
    def _align_at(self) -> int:
        return self._largest[0].delay if self._largest else 0

    @property
    def _tree_at(self) -> int:
        return self._align_at + self._align[0].delay

    @property
    def _normalize_at(self) -> int:
        return self._tree_at + self._tree[0].delay

    @property
    def _round_at(self) -> int:
        return self._normalize_at + self._normalize[0].delay

    def elaborate(self, platform):
        m = Module()
        self._valid = [self.i.valid]
        for cycle in range(1, self.delay + 1):
            later = Signal(name=f"valid_{cycle}")
            m.d.sync += later.eq(self._valid[-1])
            self._valid.append(later)
        flit = self.i.payload
        operands = self._carried(m, "operands", flit.operands, 0, self._align_at)
        sources = self._carried(m, "sources", flit.sources, 0, self._align_at)
        keep = self._carried(m, "keep", flit.keep, 0, self._round_at)
        kind = self._carried(m, "format", flit.format.as_value(), 0, self._round_at)

        results, nans, overflows = [], [], []
        for lane in range(self._config.lanes):
            if self._largest:
                self._connect_largest(m, lane, flit)
            self._connect_align(m, lane, operands[-1], sources[-1], kind[self._align_at])
            self._connect_tree(m, lane)
            self._connect_normalize(m, lane)
            self._connect_round(m, lane, kind[-1])
            rounder = self._round[lane]
            results.append(Mux(keep[-1][lane], rounder.result, 0))
            nans.append(rounder.nan)
            overflows.append(rounder.overflow)

        m.d.comb += self.o.valid.eq(self._valid[-1])
        with m.If(self._valid[self._round_at]):
            m.d.sync += [
                self.o.payload.data.eq(Cat(results)),
                self.o.payload.nan.eq((Cat(nans) & keep[-1]).any()),
                self.o.payload.overflow.eq((Cat(overflows) & keep[-1]).any()),
            ]
        return m

    def _carried(self, m, name, value, start, stop):
        """`value` of cycle `start` in every cycle until `stop`: a list of ``stop - start + 1``."""
        values = [value]
        for cycle in range(start, stop):
            later = Signal(value.shape(), name=f"{name}_{cycle + 1}")
            with m.If(self._valid[cycle]):
                m.d.sync += later.eq(values[-1])
            values.append(later)
        return values

    def _lane_operands(self, operands, lane):
        """The operands of one lane, 16 bits a rank."""
        lanes = self._config.lanes
        ranks = range(self._config.ranks)
        return Cat(operands.word_select(rank * lanes + lane, LANE_BITS) for rank in ranks)

    def _connect_largest(self, m, lane, flit):
        m.submodules[f"largest_{lane}"] = block = self._largest[lane]
        m.d.comb += [
            block.valid.eq(self._valid[0]),
            block.operands.eq(self._lane_operands(flit.operands, lane)),
            block.sources.eq(flit.sources),
        ]

    def _connect_align(self, m, lane, operands, sources, kind):
        m.submodules[f"align_{lane}"] = block = self._align[lane]
        m.d.comb += [
            block.valid.eq(self._valid[self._align_at]),
            block.operands.eq(self._lane_operands(operands, lane)),
            block.sources.eq(sources),
            block.format.eq(kind),
        ]
        if self._largest:
            m.d.comb += block.largest.eq(self._largest[lane].largest)

    def _connect_tree(self, m, lane):
        m.submodules[f"tree_{lane}"] = block = self._tree[lane]
        align = self._align[lane]
        m.d.comb += [
            block.valid.eq(self._valid[self._tree_at]),
            block.signs.eq(align.signs),
            *(block.magnitudes[rank].eq(value) for rank, value in enumerate(align.magnitudes)),
        ]

    def _connect_normalize(self, m, lane):
        m.submodules[f"normalize_{lane}"] = block = self._normalize[lane]
        align, tree = self._align[lane], self._tree[lane]
        aside = Cat(align.all_negative, align.plus, align.minus, align.headroom)
        aside = self._carried(m, f"aside_{lane}", aside, self._tree_at, self._normalize_at)[-1]
        headroom = aside[ASIDE_FLAGS:]
        m.d.comb += [
            block.valid.eq(self._valid[self._normalize_at]),
            block.sum.eq(tree.sum),
            block.headroom.eq(headroom),
        ]
        # What rounding needs beside the normalized sum.
        self._rounding = self._carried(
            m, f"rounding_{lane}", Cat(tree.sign, aside), self._normalize_at, self._round_at
        )[-1]

    def _connect_round(self, m, lane, kind):
        m.submodules[f"round_{lane}"] = block = self._round[lane]
        normalize = self._normalize[lane]
        m.d.comb += [
            block.normalized.eq(normalize.normalized),
            block.negative.eq(normalize.negative),
            block.sticky.eq(normalize.sticky),
            block.places.eq(normalize.places),
            block.limited.eq(normalize.limited),
            block.format.eq(kind),
            Cat(block.sign, block.all_negative, block.plus, block.minus, block.headroom).eq(
                self._rounding
            ),
        ]
