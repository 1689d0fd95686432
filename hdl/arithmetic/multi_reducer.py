# amaranth: UnusedElaboratable=no
# A reducer makes its blocks at once, since its delay is theirs; who asks only for that uses none.
"""The reducer of several operations: each has a pipeline of its own, all of the same length."""

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import SwitchConfig
from ..interfaces import Format, Operation
from .copy import Copy
from .delay_line import DelayLine
from .extremum import Extremum
from .formats import LANE_BITS
from .integer_sum import IntegerSum
from .reducer import Reducer, ReducerInput, ReducerOutput

__all__ = ["MultiReducer", "make_reducer"]


def make_reducer(config: SwitchConfig):
    """The smallest reducer of plain numbers for `config`'s formats and operations."""
    several = config.integers or config.extrema or config.copies
    return MultiReducer(config) if several else Reducer(config)


class MultiReducer(wiring.Component):
    """Reduces the ranks' flits by the operation of each: a flit each cycle, never a stall.

    Ports
    -----
    i : stream of `ReducerInput`; without its ``operation`` all are sums
    o : stream of `ReducerOutput`; `delay` cycles behind the input, in order whatever the operation
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        ranks, lanes = config.ranks, config.lanes
        self._floats = Reducer(config) if config.float_formats else None
        self._extremum = None
        if config.extrema:
            self._extremum = Extremum(ranks, lanes, integers=config.integers)
        self._integers = IntegerSum(ranks, lanes) if config.integers else None
        self._copy = Copy(ranks, lanes) if config.copies else None
        super().__init__(
            {
                "i": In(stream.Signature(ReducerInput(config), always_ready=True)),
                "o": Out(stream.Signature(ReducerOutput(config), always_ready=True)),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from a flit of every rank to its result: those of the longest pipeline."""
        blocks = (self._floats, self._extremum, self._integers, self._copy)
        return max(block.delay for block in blocks if block is not None)

    def elaborate(self, platform):
        m = Module()
        choice, chosen = self._choose(m)
        m.d.comb += self.o.valid.eq(self._delayed_valid(m))
        if self._floats:
            self._connect_floats(m, choice.floats)
        results = {}
        if self._integers:
            results["integers"] = self._connect_integers(m, choice.integers)
        if self._copy:
            results["copy"] = self._connect_copy(m, choice.copy)
        if self._extremum:
            results["extremum"], nan = self._connect_extremum(m, choice.extremum)
        for name, result in results.items():
            with m.If(getattr(chosen, name)):
                self._put(m, result, chosen.keep)
        if self._extremum:
            with m.If(chosen.extremum):
                m.d.comb += self.o.payload.nan.eq((nan & chosen.keep).any())
        return m

    def _choose(self, m):
        """Which pipeline a flit goes to, and which one the result at the output comes from."""
        flit = self.i.payload
        line = DelayLine(Choice(self._config).size, self.delay)
        m.submodules.choice_line = line
        choice, chosen = (data.View(Choice(self._config), value) for value in (line.i, line.o))
        extremum, copy = Const(0), Const(0)
        if self._extremum:
            extremum = (flit.operation == Operation.MAX) | (flit.operation == Operation.MIN)
        if self._copy:
            copy = flit.operation == Operation.COPY
        adds = ~extremum & ~copy
        integers = flit.format == Format.INT32
        m.d.comb += [
            choice.extremum.eq(extremum),
            choice.copy.eq(copy),
            choice.integers.eq(adds & integers),
            choice.floats.eq(adds & ~integers),
            # Without a source there are zeros.
            choice.keep.eq(Mux(flit.sources.any(), flit.keep, 0)),
        ]
        return choice, chosen

    def _delayed_valid(self, m):
        """The input's valid, `delay` cycles later; alone in being reset."""
        valid = self.i.valid
        for cycle in range(1, self.delay + 1):
            later = Signal(name=f"valid_{cycle}")
            m.d.sync += later.eq(valid)
            valid = later
        return valid

    def _put(self, m, result, keep):
        """`result` at the output, the lanes outside the message as zeros."""
        mask = Cat(lane.replicate(LANE_BITS) for lane in keep)
        m.d.comb += [self.o.payload.eq(0), self.o.payload.data.eq(result & mask)]

    def _connect_floats(self, m, wanted):
        m.submodules.floats = floats = self._floats
        m.d.comb += [
            floats.i.valid.eq(self.i.valid & wanted),
            floats.i.payload.eq(self.i.payload),
        ]
        m.d.comb += self.o.payload.eq(self._later(m, "floats", floats, floats.o.payload.as_value()))

    def _connect_integers(self, m, wanted):
        m.submodules.integers = integers = self._integers
        self._connect_operands(m, integers, wanted)
        return self._later(m, "integers", integers, integers.result)

    def _connect_copy(self, m, wanted):
        m.submodules.copy = copy = self._copy
        self._connect_operands(m, copy, wanted)
        return self._later(m, "copy", copy, copy.result)

    def _connect_extremum(self, m, wanted):
        m.submodules.extremum = extremum = self._extremum
        self._connect_operands(m, extremum, wanted)
        flit = self.i.payload
        m.d.comb += [
            extremum.smallest.eq(flit.operation == Operation.MIN),
            extremum.bf16.eq(flit.format == Format.BF16),
            extremum.wide.eq(flit.format == Format.INT32),
        ]
        later = self._later(m, "extremum", extremum, Cat(extremum.result, extremum.nan))
        bits = self._config.flit_bits
        return later[:bits], later[bits:]

    def _connect_operands(self, m, block, wanted):
        flit, bits = self.i.payload, self._config.flit_bits
        m.d.comb += [block.valid.eq(self.i.valid & wanted), block.sources.eq(flit.sources)]
        for rank, operand in enumerate(block.operands):
            m.d.comb += operand.eq(flit.operands.word_select(rank, bits))

    def _later(self, m, name, block, value):
        """A block's result as late as the slowest block's."""
        line = DelayLine(len(value), self.delay - block.delay)
        m.submodules[f"{name}_line"] = line
        m.d.comb += line.i.eq(value)
        return line.o


class Choice(data.StructLayout):
    """The pipeline that has a flit, one bit set, and the lanes that count."""

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "floats": 1,
                "integers": 1,
                "extremum": 1,
                "copy": 1,
                "keep": unsigned(config.lanes),
            }
        )
