# amaranth: UnusedElaboratable=no
# Some are only made to be asked for their delay.
"""Arithmetic against naive specifications, for all operands.

The fp16 sum is proved in three steps that meet at their ports: operands become integers, integers
are added, the sum is rounded once. In one piece it is too much for a solver.
"""

from __future__ import annotations

from functools import reduce

from amaranth import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.arithmetic.adder_tree import AdderTree
from hdl.arithmetic.align import Align, fixed_headroom
from hdl.arithmetic.block_maximum import BlockMaximum
from hdl.arithmetic.decode import Decode
from hdl.arithmetic.formats import (
    FP16,
    FP16_REFERENCE,
    SIGNIFICAND_BITS,
    WINDOW_BITS,
    headroom_bits,
)
from hdl.arithmetic.largest import LargestExponent
from hdl.arithmetic.normalize import Normalize
from hdl.arithmetic.pipeline import tree_levels
from hdl.arithmetic.round import Round

from .proof import BOUNDED, Fault, Proof
from .specification import Specification

__all__ = ["PROOFS"]

#: Ranks whose fp16 sums are looked at.
PAIR = 2


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


def fp16_integer(x: Value) -> Value:
    """The magnitude of a finite number, in units of 2^-24."""
    exponent = x[FP16.fraction_bits : FP16.fraction_bits + FP16.exponent_bits]
    significand = Cat(x[: FP16.fraction_bits], exponent != 0)
    return significand << Mux(exponent == 0, 0, exponent - 1)[: FP16.exponent_bits]


def fp16_rounded(m: Module, total: Value) -> Value:
    """`total` units of 2^-24, rounded once to nearest even: the number's bits without its sign."""
    one = FP16.fraction_bits
    magnitude = Signal(43)
    # Its leading bit tells how many places lie below a significand; a number's bits, read as an
    # integer, then are that exponent and the rounded significand, added.
    bits = Signal(17)
    m.d.comb += [magnitude.eq(abs(total)), bits.eq(magnitude)]
    for places in range(1, len(magnitude) - one):
        with m.If(magnitude >> (one + places) != 0):
            kept = magnitude >> places
            lost, half = magnitude & ((1 << places) - 1), 1 << (places - 1)
            up = (lost > half) | ((lost == half) & kept[0])
            m.d.comb += bits.eq((places << one) + kept + up)
    return Mux(bits >= FP16.infinity, FP16.infinity, bits)[:15]


def _is_infinite(x: Value) -> Value:
    return x[:-1] == FP16.infinity


def _is_nan(x: Value) -> Value:
    return x[:-1] > FP16.infinity


class _Aligned(wiring.Component):
    """`Decode` and `Align` of one lane, as the reducer joins them for fp16 alone."""

    def __init__(self, ranks: int):
        self._ranks = ranks
        super().__init__(
            {
                "valid": In(1),
                "operands": In(16).array(ranks),
                "sources": In(ranks),
                "signs": Out(ranks),
                "all_negative": Out(1),
                "plus": Out(1),
                "minus": Out(1),
                "magnitudes": Out(WINDOW_BITS).array(ranks),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.decode = decode = Decode(self._ranks, ("fp16",))
        m.submodules.align = align = Align(self._ranks, ("fp16",))
        m.d.comb += [decode.valid.eq(self.valid), decode.sources.eq(self.sources)]
        m.d.comb += align.valid.eq(self.valid)
        for rank in range(self._ranks):
            m.d.comb += [
                decode.operands[rank].eq(self.operands[rank]),
                align.exponents[rank].eq(decode.exponents[rank]),
                align.significands[rank].eq(decode.significands[rank]),
                self.magnitudes[rank].eq(align.magnitudes[rank]),
            ]
        for name in ("signs", "all_negative", "plus", "minus"):
            m.d.comb += getattr(self, name).eq(getattr(decode, name))
        return m


class AlignedContract(_Pipeline):
    """What becomes of operands before they are added."""

    def __init__(self, ranks: int):
        self._ranks = ranks
        super().__init__(_Aligned(ranks))

    def specify(self, m):
        aligned, ranks = self.component, range(self._ranks)
        self.assume("operands_each_cycle", aligned.valid)
        sources = self.constant(aligned.sources, "sources")
        operands = [
            self.constant(value, f"operand_{r}") for r, value in enumerate(aligned.operands)
        ]
        for r in ranks:
            self.assume(f"zero_without_part_{r}", sources[r] | (operands[r] == 0))
        due = self.after(Align.delay)
        finite = [~_is_infinite(x) & ~_is_nan(x) for x in operands]
        self.always(
            "fp16_significands_are_exact_integers",
            Cat(
                ~finite[r] | (aligned.magnitudes[r] == fp16_integer(operands[r])) for r in ranks
            ).all(),
            "For all finite fp16 numbers: the aligned significand is the magnitude in units of "
            "2^-24, no bit lost.",
            when=due,
            trace=due & finite[0] & (aligned.magnitudes[0] == 3),
        )
        self.always(
            "fp16_infinities_and_nans_are_told",
            (aligned.plus == Cat(_is_nan(x) | (_is_infinite(x) & ~x[-1]) for x in operands).any())
            & (
                aligned.minus == Cat(_is_nan(x) | (_is_infinite(x) & x[-1]) for x in operands).any()
            ),
            "For all operands: infinities are told by their sign, a NaN as both.",
            when=due,
            trace=due & aligned.plus & aligned.minus & ~_is_nan(operands[0]),
        )
        negative = Cat(~sources[r] | operands[r][-1] for r in ranks).all() & sources.any()
        self.always(
            "fp16_signs_are_told",
            (aligned.all_negative == negative) & (aligned.signs == Cat(x[-1] for x in operands)),
            "Signs are the operands'; all are negative only if every rank that takes part is.",
            when=due,
            trace=due & aligned.all_negative & (sources == 1),
        )


class _Rounded(wiring.Component):
    """`Normalize` and `Round` of one lane, as the reducer joins them for fp16 alone."""

    def __init__(self, ranks: int):
        formats = ("fp16",)
        headroom = headroom_bits(formats)
        width = WINDOW_BITS + tree_levels(ranks)
        self.normalize = Normalize(width, headroom, fixed_headroom(ranks, formats))
        self.round = Round(formats, headroom)
        super().__init__(
            {
                "valid": In(1),
                "sum": In(signed(width + 1)),
                "sign": In(1),
                "all_negative": In(1),
                "plus": In(1),
                "minus": In(1),
                "result": Out(16),
                "nan": Out(1),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.normalize, m.submodules.round = normalize, rounder = self.normalize, self.round
        m.d.comb += [normalize.valid.eq(self.valid), normalize.sum.eq(self.sum)]
        for name in ("normalized", "negative", "sticky", "room"):
            m.d.comb += getattr(rounder, name).eq(getattr(normalize, name))
        for name in ("sign", "all_negative", "plus", "minus"):
            m.d.comb += getattr(rounder, name).eq(getattr(self, name))
        for name in ("result", "nan", "overflow"):
            m.d.comb += getattr(self, name).eq(getattr(rounder, name))
        return m


class RoundedContract(_Pipeline):
    """What becomes of a sum: all that `ranks` finite numbers can have."""

    def __init__(self, ranks: int):
        self._ranks = ranks
        super().__init__(_Rounded(ranks))

    def specify(self, m):
        rounded = self.component
        self.assume("a_sum_each_cycle", rounded.valid)
        total = self.constant(rounded.sum, "sum")
        sign, all_negative, plus, minus = (
            self.constant(getattr(rounded, name), name)
            for name in ("sign", "all_negative", "plus", "minus")
        )
        value = Signal(signed(len(total) + 1), name="value")
        m.d.comb += value.eq(Mux(sign, -total, total))
        largest = self._ranks * ((1 << SIGNIFICAND_BITS) - 1 << FP16_REFERENCE - 1)
        self.assume("sums_of_finite_numbers", abs(value) <= largest)
        self.assume("negative_operands_have_no_positive_sum", ~all_negative | (value <= 0))
        bits = fp16_rounded(m, value)
        wanted_sign = Mux(value == 0, all_negative, value < 0)
        due = self.after(Normalize.delay)
        finite = ~plus & ~minus
        self.always(
            "fp16_sums_are_rounded_once",
            rounded.result == Cat(bits, wanted_sign),
            "For all sums that finite numbers can have: rounded once to nearest even, also where "
            "the result is subnormal; too large is infinity; a zero has the operands' sign.",
            when=due & finite,
            trace=due & finite & (bits == 0x0400 + 3) & (value < 0),
        )
        self.always(
            "fp16_overflow_is_told",
            rounded.overflow == (bits == FP16.infinity),
            "Overflow is told where finite operands have an infinite sum.",
            when=due & finite,
            trace=due & finite & (bits == FP16.infinity),
        )
        infinity = Cat(Const(FP16.infinity, 15), minus)
        self.always(
            "fp16_infinities_and_nan_come_out",
            (rounded.nan == (plus & minus))
            & (rounded.result == Mux(plus & minus, FP16.nan, infinity))
            & ~rounded.overflow,
            "An infinite operand decides the result; infinities of both signs, or a NaN, give the "
            "one NaN.",
            when=due & ~finite,
            trace=due & plus & minus,
        )


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
            "For all sums of a block of two flits but the most negative number, which no sum of "
            "codes is and whose magnitude has no place: its largest magnitude, whatever follows "
            "it.",
            when=due,
            trace=due & (want == 5) & (magnitudes[0] == want),
        )


PROOFS = [
    Proof(
        name="fp16-align",
        component="Decode, Align",
        size="2 ranks, fp16, all operands of a lane",
        specify=lambda: AlignedContract(PAIR),
        mode=BOUNDED,
        depth=Align.delay + 1,
        trace_depth=Align.delay + 1,
        faults=(
            Fault("an operand loses its place", "decode.exponents__0", lambda field: field & 0),
            Fault("a NaN is an infinity", "decode.nan", lambda nan: nan & 0),
        ),
    ),
    Proof(
        name="fp16-round",
        component="Normalize, Round",
        size="2 ranks, fp16, all sums of finite numbers",
        specify=lambda: RoundedContract(PAIR),
        mode=BOUNDED,
        depth=Normalize.delay + 1,
        trace_depth=Normalize.delay + 1,
        quick=False,
        timeout=1800,
        faults=(
            Fault("never rounds up", "round.increment", lambda increment: increment & 0),
            Fault("the sticky bit is forgotten", "normalize.sticky", lambda sticky: sticky & 0),
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
        name="adder-tree-fp16",
        component="AdderTree",
        size="2 ranks, as wide as fp16 sums",
        specify=lambda: AdderTreeContract(PAIR, WINDOW_BITS),
        mode=BOUNDED,
        depth=AdderTree(PAIR, WINDOW_BITS).delay + 1,
        trace_depth=AdderTree(PAIR, WINDOW_BITS).delay + 1,
        faults=(Fault("the sign is always plus", "sign", lambda sign: sign & 0),),
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
