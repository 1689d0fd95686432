"""Largest and smallest of a flit of every rank, lane by lane."""

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import BF16, FP16, LANE_BITS
from .pipeline import carry, reduce_pairs, register, tree_delay

__all__ = ["Extremum"]

SIGN_BIT = 1 << (LANE_BITS - 1)
ALL_BITS = (1 << LANE_BITS) - 1


class Extremum(wiring.Component):
    """Finds the largest or smallest operand of each lane: a pipeline that never stalls.

    Operands are turned into unsigned keys that order as the numbers do; the keys' maximum is turned
    back. The smallest number has the largest inverted key. -0 is below +0, and any NaN gives the
    format's one NaN.

    Parameters
    ----------
    ranks : number of operands
    lanes : 16-bit lanes
    integers : whether int32 is built; its numbers take two lanes, the low one first

    Ports
    -----
    valid : operands are there in this cycle
    operands : rank r's flit
    sources : ranks that take part; at least one
    smallest : find the smallest, not the largest
    bf16, wide : the operands' format: int32 where ``wide``
    result : 16 bits a lane, after `delay` cycles
    nan : by lane: the result is NaN
    """

    def __init__(self, ranks: int, lanes: int, *, integers: bool):
        self._ranks = ranks
        self._lanes = lanes
        self._integers = integers
        super().__init__(
            {
                "valid": In(1),
                "operands": In(lanes * LANE_BITS).array(ranks),
                "sources": In(ranks),
                "smallest": In(1),
                "bf16": In(1),
                "wide": In(1),
                "result": Out(lanes * LANE_BITS),
                "nan": Out(lanes),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from operands to result: the keys, their maximum, the number."""
        return 1 + tree_delay(self._ranks) + 1

    def elaborate(self, platform):
        m = Module()
        valids = [self.valid]
        for cycle in range(1, self.delay):
            later = Signal(name=f"valid_{cycle}")
            m.d.sync += later.eq(valids[-1])
            valids.append(later)
        self._wide = self.wide if self._integers else Const(0, 1)
        keys, nans = self._keys(m)
        largest = self._largest(m, keys, valids)

        def carried(name, value, start=0):
            return carry(m, value, valids=valids[start:-1], name=name)

        smallest, wide = carried("smallest", self.smallest), carried("wide", self._wide)
        bf16, nan = carried("bf16", self.bf16), carried("nan", nans, start=1)
        numbers = []
        for lane, key in enumerate(largest):
            number = Signal(LANE_BITS, name=f"number_{lane}")
            canonical = Mux(bf16, BF16.nan, FP16.nan)
            m.d.comb += number.eq(Mux(nan[lane], canonical, _number(key, lane, smallest, wide)))
            numbers.append(number)
        m.d.comb += [
            self.result.eq(register(m, Cat(numbers), valid=valids[-1], name="result_register")),
            self.nan.eq(register(m, nan, valid=valids[-1], name="nan_register")),
        ]
        return m

    def _keys(self, m):
        """By lane the keys of all ranks, and the lanes in which a rank has a NaN; registered."""
        keys, nans = [], []
        for lane in range(self._lanes):
            special = Signal(self._ranks, name=f"special_{lane}")
            keys.append([])
            for rank, flit in enumerate(self.operands):
                operand = flit.word_select(lane, LANE_BITS)
                key = _key(operand, lane, self.smallest, self._wide)
                key = Mux(self.sources[rank], key, 0)
                name = f"key_{lane}_{rank}"
                keys[-1].append(register(m, key, valid=self.valid, name=name))
                infinity = Mux(self.bf16, BF16.infinity, FP16.infinity)
                m.d.comb += special[rank].eq(operand[:-1] > infinity)
            nans.append((special & self.sources).any() & ~self._wide)
        return keys, register(m, Cat(nans), valid=self.valid, name="nan_0")

    def _largest(self, m, keys, valids):
        """By lane the largest key; those of two lanes are one number where the format is wide."""
        if not self._integers:
            return [self._tree(m, (lane,), keys, valids, None)[0] for lane in range(self._lanes)]
        wide = register(m, self._wide, valid=self.valid, name="keys_wide")
        pairs = [(lane, lane + 1) for lane in range(0, self._lanes, 2)]
        return [key for pair in pairs for key in self._tree(m, pair, keys, valids, wide)]

    def _tree(self, m, lanes, keys, valids, wide):
        """The largest keys of one or two lanes."""
        label = "_".join(map(str, lanes))
        # Every node has the format beside it, which synthesis keeps once a cycle.
        mode = () if wide is None else (wide,)
        leaves = [(*(keys[lane][rank] for lane in lanes), *mode) for rank in range(self._ranks)]

        def larger(left, right, name):
            greater = [left[part] > right[part] for part in range(len(lanes))]
            if wide is not None:
                equal = left[1] == right[1]
                greater[0] = Mux(left[2], greater[1] | (equal & greater[0]), greater[0])
            chosen = []
            for part, is_greater in enumerate(greater):
                takes_left = Signal(name=f"{name}_{label}_{part}_left")
                key = Signal(LANE_BITS, name=f"{name}_{label}_{part}")
                m.d.comb += [
                    takes_left.eq(is_greater),
                    key.eq(Mux(takes_left, left[part], right[part])),
                ]
                chosen.append(key)
            return (*chosen, *left[len(lanes) :])

        return reduce_pairs(m, leaves, larger, valid=valids[1], label=f"_{label}")[: len(lanes)]


def _key(operand, lane, smallest, wide):
    """A number's place in the order of all, as an unsigned number; inverted for the smallest.

    Of floating-point numbers the negative ones are inverted and the others get a top bit; of an
    integer, the top bit alone is inverted, which stands in its upper lane.
    """
    floating = Mux(operand[-1], ALL_BITS, SIGN_BIT)
    integer = SIGN_BIT if lane % 2 else 0
    return operand ^ Mux(wide, integer, floating) ^ Mux(smallest, ALL_BITS, 0)


def _number(key, lane, smallest, wide):
    """The number whose `_key` it is."""
    upright = key ^ Mux(smallest, ALL_BITS, 0)
    floating = Mux(upright[-1], SIGN_BIT, ALL_BITS)
    integer = SIGN_BIT if lane % 2 else 0
    return upright ^ Mux(wide, integer, floating)
