"""Exact sum of sign-and-magnitude integers in fixed order."""

from amaranth import Cat, Const, Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .formats import tree_levels

__all__ = ["LEVELS_PER_STAGE", "AdderTree"]

#: Levels of a tree between two registers.
LEVELS_PER_STAGE = 2


class AdderTree(wiring.Component):
    """Adds one magnitude with a sign from every rank; exact, so order does not matter.

    A node adds or subtracts its second operand, by whether the signs differ, and hands the first
    operand's sign up: no operand is negated on its own, and each node is one carry chain.

    Parameters
    ----------
    ranks : number of operands
    width : bits of a magnitude

    Ports
    -----
    valid : operands are there in this cycle; without it the registers keep still
    magnitudes, signs : the operands, rank 0 first
    sum, sign : the sum is ``sum`` if ``sign`` is 0, ``-sum`` if it is 1; after `delay` cycles
    """

    def __init__(self, ranks: int, width: int):
        self._ranks = ranks
        self._width = width
        super().__init__(
            {
                "valid": In(1),
                "magnitudes": In(unsigned(width)).array(ranks),
                "signs": In(ranks),
                "sum": Out(signed(width + tree_levels(ranks) + 1)),
                "sign": Out(1),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from operands to sum."""
        return -(-tree_levels(self._ranks) // LEVELS_PER_STAGE)

    def elaborate(self, platform):
        m = Module()
        nodes = [(self.magnitudes[rank], self.signs[rank]) for rank in range(self._ranks)]
        levels = tree_levels(self._ranks)
        valid = self.valid
        for level in range(1, levels + 1):
            nodes = self._add_pairs(m, level, nodes)
            if level % LEVELS_PER_STAGE == 0 or level == levels:
                nodes = self._register(m, level, nodes, valid)
                if level < levels:
                    valid = self._delayed(m, level, valid)
        ((total, sign),) = nodes
        m.d.comb += [self.sum.eq(total), self.sign.eq(sign)]
        return m

    def _add_pairs(self, m, level, nodes):
        """The next level: pairs of neighbours added, an odd one out handed through."""
        width = self._width + level + 1
        result = []
        for k in range(0, len(nodes) - 1, 2):
            (a, sign_a), (b, sign_b) = nodes[k : k + 2]
            total = Signal(signed(width), name=f"level{level}_{k // 2}")
            differ = Signal(name=f"level{level}_{k // 2}_differ")
            m.d.comb += [
                differ.eq(sign_a ^ sign_b),
                total.eq(add_or_subtract(a, b, differ, width)),
            ]
            result.append((total, sign_a))
        if len(nodes) % 2:
            result.append(nodes[-1])
        return result

    def _register(self, m, level, nodes, valid):
        result = []
        for k, (total, sign) in enumerate(nodes):
            held = Signal(total.shape(), name=f"stage{level}_{k}")
            held_sign = Signal(name=f"stage{level}_{k}_sign")
            with m.If(valid):
                m.d.sync += [held.eq(total), held_sign.eq(sign)]
            result.append((held, held_sign))
        return result

    def _delayed(self, m, level, valid):
        later = Signal(name=f"valid{level}")
        m.d.sync += later.eq(valid)
        return later


def add_or_subtract(a, b, subtract, width):
    """``a - b`` if `subtract` else ``a + b``, as one carry chain with its carry-in below bit 0."""
    a = Cat(subtract, _extended(a, width))
    b = Cat(subtract, _extended(b, width) ^ subtract.replicate(width))
    return (a + b)[1 : width + 1].as_signed()


def _extended(value, width):
    missing = width - len(value)
    sign = value[-1] if value.shape().signed else Const(0, 1)
    return Cat(value, sign.replicate(missing))
