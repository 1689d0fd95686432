# amaranth: UnusedElaboratable=no
# Some are only made to be asked for their delay.
"""Arithmetic against naive specifications, for all operands."""

from __future__ import annotations

from functools import reduce

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed

from hdl.arithmetic.adder_tree import AdderTree
from hdl.arithmetic.block_maximum import BlockMaximum
from hdl.arithmetic.formats import FP16
from hdl.arithmetic.largest import LargestExponent
from hdl.arithmetic.reducer import Reducer
from hdl.config import SwitchConfig

from .proof import BOUNDED, Fault, Proof
from .specification import Specification

__all__ = ["PROOFS"]

#: A flit, two ranks and one format.
FP16_PAIR = SwitchConfig.preset("tiny", ranks=2, formats=("fp16",))


class _Pipeline(Specification):
    """A pipeline that takes the same operands in each cycle, whichever they are.

    What it gives after its delay is the result of operands in the first cycle, so that a proof of
    that depth is a proof for all operands. It is no proof that operands before and behind do not
    matter: simulations show that.
    """

    def constant(self, value, name: str) -> Signal:
        """`value`, an input, is the same in every cycle."""
        chosen = self.any_constant(Value.cast(value).shape(), name)
        self.assume(f"{name}_stays", Value.cast(value) == chosen)
        return chosen

    def after(self, cycles: int, name: str = "cycle") -> Value:
        """So many cycles have passed since the first."""
        passed = Signal(range(cycles + 2), name=name)
        done = Signal(name=f"{name}_reached")
        self.helper.d.comb += done.eq(passed >= cycles)
        with self.helper.If(~done):
            self.helper.d.sync += passed.eq(passed + 1)
        return done


class ReducerContract(_Pipeline):
    """The fp16 sum of two numbers, rounded once, against a sum of 41-bit integers."""

    def __init__(self, config):
        self._config = config
        super().__init__(Reducer(config))

    def specify(self, m):
        reducer = self.component
        flit = reducer.i.payload
        self.assume("a_flit_each_cycle", reducer.i.valid)
        self.assume("all_take_part", flit.sources.all() & (flit.format.as_value() == 0))
        self.assume("all_lanes_count", flit.keep.all())
        operands = []
        for rank in range(self._config.ranks):
            lane = flit.operands.word_select(rank, self._config.flit_bits)[:16]
            # Lanes are alike; the others hold nothing.
            others = flit.operands.word_select(rank, self._config.flit_bits)[16:]
            self.assume(f"one_lane_{rank}", others == 0)
            operands.append(self.constant(lane, f"operand_{rank}"))
        want = fp16_sum(m, *operands)
        due = self.after(reducer.delay)
        self.always(
            "fp16_sum_of_two_is_exact_and_rounded_once",
            reducer.o.valid & (reducer.o.payload.data[:16] == want),
            "For all pairs of fp16 numbers, infinities, NaNs and zeros of both signs: the sum is "
            "that of integers in units of 2^-24, rounded once to nearest even.",
            when=due,
            trace=due & (want[:15] == 0x0400 + 3) & (operands[0][15] != operands[1][15]),
        )


def fp16_sum(m: Module, a: Value, b: Value) -> Value:
    """The sum, as naive as can be: no alignment, no normalization, no sticky bit."""
    one = FP16.fraction_bits

    def integer(x):
        """The number in units of 2^-24, of a finite operand."""
        fraction, exponent = x[:one], x[one : one + FP16.exponent_bits]
        significand = Cat(fraction, exponent != 0)
        magnitude = significand << Mux(exponent == 0, 0, exponent - 1)[: FP16.exponent_bits]
        return Mux(x[-1], -magnitude, magnitude)

    def is_infinite(x):
        return x[:-1] == FP16.infinity

    def is_nan(x):
        return x[:-1] > FP16.infinity

    total = Signal(signed(44))
    magnitude = Signal(43)
    m.d.comb += [total.eq(integer(a) + integer(b)), magnitude.eq(abs(total))]
    # Its leading bit tells how many places lie below a significand; a number's bits, read as an
    # integer, then are that exponent and the rounded significand, added.
    bits = Signal(17)
    m.d.comb += bits.eq(magnitude)
    for places in range(1, len(magnitude) - one):
        with m.If(magnitude >> (one + places) != 0):
            kept = magnitude >> places
            lost, half = magnitude & ((1 << places) - 1), 1 << (places - 1)
            up = (lost > half) | ((lost == half) & kept[0])
            m.d.comb += bits.eq((places << one) + kept + up)
    nan = is_nan(a) | is_nan(b) | (is_infinite(a) & is_infinite(b) & (a[-1] != b[-1]))
    infinite = is_infinite(a) | is_infinite(b)
    sign = Mux(total == 0, a[-1] & b[-1], total < 0)
    number = Cat(Mux(bits >= FP16.infinity, FP16.infinity, bits)[:15], sign)
    infinity = Cat(Const(FP16.infinity, 15), Mux(is_infinite(a), a[-1], b[-1]))
    return Mux(nan, FP16.nan, Mux(infinite, infinity, number))[:16]


class AdderTreeContract(_Pipeline):
    """Signs and magnitudes against their plain sum."""

    def __init__(self, ranks: int, width: int):
        self._ranks = ranks
        self._width = width
        super().__init__(AdderTree(ranks, width))

    def specify(self, m):
        tree = self.component
        self.assume("operands_each_cycle", tree.valid)
        magnitudes = [
            self.constant(value, f"magnitude_{r}") for r, value in enumerate(tree.magnitudes)
        ]
        signs = self.constant(tree.signs, "signs")
        terms = [Mux(signs[r], -value, value) for r, value in enumerate(magnitudes)]
        want = Signal(signed(self._width + self._ranks))
        m.d.comb += want.eq(sum(terms))
        due = self.after(tree.delay)
        self.always(
            "adder_tree_is_exact",
            Mux(tree.sign, -tree.sum, tree.sum) == want,
            "For all magnitudes and signs, the tree's sum is the exact one.",
            when=due,
            trace=due & (want < 0) & ~tree.sign,
        )


class LargestExponentContract(_Pipeline):
    """The largest of some exponents."""

    def __init__(self, ranks: int):
        super().__init__(LargestExponent(ranks))

    def specify(self, m):
        search = self.component
        self.assume("operands_each_cycle", search.valid)
        exponents = [
            self.constant(value, f"exponent_{r}") for r, value in enumerate(search.exponents)
        ]
        due = self.after(search.delay)
        self.always(
            "largest_exponent_is_the_largest",
            Cat(search.largest == e for e in exponents).any()
            & Cat(search.largest >= e for e in exponents).all(),
            "For all exponents, the one found is among them and none is larger.",
            when=due,
            trace=due & (search.largest == exponents[-1]) & (exponents[0] > exponents[1]),
        )


class BlockMaximumContract(_Pipeline):
    """The largest magnitude of two flits, followed by other blocks without a gap."""

    def __init__(self, lanes: int, width: int):
        self._lanes = lanes
        self._width = width
        super().__init__(BlockMaximum(lanes, width))

    def specify(self, m):
        block = self.component
        cycle = Signal(range(block.delay + 4))
        m.d.sync += cycle.eq(cycle + (cycle != block.delay + 3))
        first, second = cycle == 0, cycle == 1
        self.assume("block_of_two", ~(first | second) | block.valid)
        self.assume("begins", ~(first | second) | (block.first == first))
        self.assume("ends", ~(first | second) | (block.last == second))
        magnitudes = []
        for name, here in (("first", first), ("second", second)):
            for lane, value in enumerate(block.sums):
                chosen = self.any_constant(signed(self._width), f"{name}_{lane}")
                self.assume(f"{name}_{lane}_is_chosen", ~here | (value == chosen))
                lowest = -(1 << (self._width - 1))
                self.assume(f"{name}_{lane}_has_a_magnitude", chosen != lowest)
                magnitudes.append(abs(chosen)[: self._width - 1])
        want = reduce(lambda a, b: Mux(a > b, a, b), magnitudes)
        due = cycle == 1 + block.delay
        self.always(
            "block_maximum_is_the_largest_magnitude",
            block.done & (block.largest == want),
            "For all sums of a block of two flits, its largest magnitude, whatever follows it.",
            when=due,
            trace=due & (want == 5) & (magnitudes[0] == want),
        )


PROOFS = [
    Proof(
        name="reducer-fp16",
        component="Reducer",
        size="2 ranks, fp16, all operands of a lane",
        specify=lambda: ReducerContract(FP16_PAIR),
        mode=BOUNDED,
        depth=Reducer(FP16_PAIR).delay + 1,
        trace_depth=Reducer(FP16_PAIR).delay + 1,
        quick=False,
        timeout=1800,
        faults=(
            Fault("the last bit is always set", "round_0.result", lambda result: result | 1),
            Fault("infinities are not seen", "decode_0.plus", lambda plus: plus & 0),
        ),
    ),
    Proof(
        name="adder-tree",
        component="AdderTree",
        size="3 ranks, 6 bits",
        specify=lambda: AdderTreeContract(3, 6),
        mode=BOUNDED,
        depth=AdderTree(3, 6).delay + 1,
        faults=(Fault("differing signs add", "level1_0_differ", lambda differ: differ & 0),),
    ),
    Proof(
        name="largest-exponent",
        component="LargestExponent",
        size="3 ranks",
        specify=lambda: LargestExponentContract(3),
        mode=BOUNDED,
        depth=LargestExponent(3).delay + 1,
        faults=(Fault("the last rank is left out", "level2_0", lambda value: value & 0xFE),),
    ),
    Proof(
        name="block-maximum",
        component="BlockMaximum",
        size="2 lanes, 6 bits, 2 flits",
        specify=lambda: BlockMaximumContract(2, 6),
        mode=BOUNDED,
        depth=BlockMaximum(2, 6).delay + 2,
        faults=(Fault("blocks are not kept apart", "done", lambda done: done & 0),),
    ),
]
