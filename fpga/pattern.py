"""Operands of the boards' self-test, whose sums have a closed form that costs no adder tree.

Element i of rank r's operand is s(i) * (r + 1), so the sum over N ranks is s(i) * N (N + 1) / 2:
one small multiplier makes both. s is a Weyl sequence, the upper bits of i * K mod 2^16, which
repeats in no period that packets, waves or lanes have. Every value is a whole number below 2048,
which fp16 holds exactly, so the expected sum is exact, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.config import ConfigError, SwitchConfig

__all__ = ["ELEMENT_BYTES", "VALUE_DELAY", "Pattern", "PatternGenerator"]

ELEMENT_BYTES = 2
#: Width and increment of the Weyl sequence: 2^16 divided by the golden ratio, made odd.
WEYL_BITS = 16
WEYL_STEP = 0x9E37
#: fp16: bits of the fraction, and the exponent's bias. Whole numbers of 11 bits are exact.
FRACTION_BITS = 10
EXPONENT_BIAS = 15
EXACT = 1 << (FRACTION_BITS + 1)
#: Waves that the memory must hold, so that operand, margins and flag have room.
LEAST_WAVES = 4
FLAG_BYTES = 8
#: Cycles from a state of the sequence to its value: factors, product, fp16.
VALUE_DELAY = 3


@dataclass(frozen=True)
class Pattern:
    """What the self-test puts in the memories, and what it expects there afterwards.

    The whole of each memory is filled with the rank's sequence. The operand, in place, is a window
    of it that starts elsewhere in each rank and ends inside a flit; every byte outside it, the flag
    excepted, must stay as it is.
    """

    config: SwitchConfig

    def __post_init__(self):
        config = self.config
        if "fp16" not in config.formats:
            raise ConfigError(
                f"formats: must have fp16 for the self-test, not {', '.join(config.formats)}"
            )
        if config.memory_bytes < LEAST_WAVES * config.wave_bytes:
            rule = f"must be at least {LEAST_WAVES} waves for the self-test"
            raise ConfigError(f"memory_bytes: {rule}, not {config.memory_bytes}")

    @property
    def memory_elements(self) -> int:
        """Elements in one rank's memory."""
        return self.config.memory_bytes // ELEMENT_BYTES

    @property
    def elements(self) -> int:
        """Elements of the operand: half of the memory, less one, so the last flit is not full."""
        return self.memory_elements // 2 - 1

    def address(self, rank: int) -> int:
        """Byte address of `rank`'s operand and result: another flit in each rank."""
        return self.config.flit_bytes * (1 + rank)

    def offset(self, rank: int) -> int:
        """The same, in elements."""
        return self.address(rank) // ELEMENT_BYTES

    @property
    def flag_address(self) -> int:
        """Byte address of every rank's flag: the memory's last word."""
        return self.config.memory_bytes - FLAG_BYTES

    @property
    def total_weight(self) -> int:
        """What s(i) is multiplied with in the sum."""
        return self.config.ranks * (self.config.ranks + 1) // 2

    @property
    def sequence_bits(self) -> int:
        """Bits of s: as many as keep every sum below 2048."""
        return (EXACT // self.total_weight).bit_length()

    def start(self, rank: int) -> int:
        """State of the Weyl sequence at the memory's first element: operand element 0 has 0."""
        return -self.offset(rank) * WEYL_STEP % (1 << WEYL_BITS)

    def sequence(self, index: int) -> int:
        """s(index)."""
        bits = self.sequence_bits
        upper = (index * WEYL_STEP % (1 << WEYL_BITS)) >> (WEYL_BITS - bits)
        return upper - (1 << bits) if upper >> (bits - 1) else upper

    def operand(self, rank: int, index: int) -> int:
        """Element `index` of `rank`'s operand; negative ones stand before it in memory."""
        return self.sequence(index) * (rank + 1)

    def total(self, index: int) -> int:
        """Element `index` of the sum."""
        return self.sequence(index) * self.total_weight


class PatternGenerator(wiring.Component):
    """The pattern's values as fp16, one element a cycle.

    Members
    -------
    load, start : take ``start`` as the state of the sequence, which is element 0 of a memory
    advance : to the next element
    weight : what s is multiplied with: rank + 1, or the sum's
    value : the element at hand as fp16, `VALUE_DELAY` cycles behind the sequence and ``weight``
    """

    def __init__(self, pattern: Pattern):
        self._pattern = pattern
        super().__init__(
            {
                "load": In(1),
                "start": In(WEYL_BITS),
                "advance": In(1),
                "weight": In(range(pattern.total_weight + 1)),
                "value": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        state = Signal(WEYL_BITS)
        with m.If(self.load):
            m.d.sync += state.eq(self.start)
        with m.Elif(self.advance):
            m.d.sync += state.eq(state + WEYL_STEP)

        upper = Signal(signed(self._pattern.sequence_bits))
        weight = Signal.like(self.weight)
        product = Signal(signed(FRACTION_BITS + 2))
        m.d.sync += [
            upper.eq(state[WEYL_BITS - self._pattern.sequence_bits :]),
            weight.eq(self.weight),
            product.eq(upper * weight),
            self.value.eq(self._fp16(m, product)),
        ]
        return m

    @staticmethod
    def _fp16(m, number):
        """A whole number of magnitude below 2048 as fp16, exactly."""
        magnitude = Signal(FRACTION_BITS + 1)
        exponent = Signal(5)
        fraction = Signal(FRACTION_BITS)
        m.d.comb += magnitude.eq(Mux(number < 0, -number, number))
        for leading in range(FRACTION_BITS + 1):  # the last assignment, of the highest bit, counts
            with m.If(magnitude[leading]):
                m.d.comb += [
                    exponent.eq(EXPONENT_BIAS + leading),
                    fraction.eq((magnitude << (FRACTION_BITS - leading))[:FRACTION_BITS]),
                ]
        sign = number < 0
        return sign << 15 | exponent << FRACTION_BITS | fraction
