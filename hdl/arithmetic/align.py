"""Places one lane's operands in the fixed-point window that they are added in."""

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.interfaces import Format

from .adder_tree import LEVELS_PER_STAGE
from .decode import Decode
from .formats import (
    BF16,
    BF16_WINDOW_BITS,
    FP16_REFERENCE,
    SIGNIFICAND_BITS,
    WINDOW_BITS,
    tree_levels,
)

__all__ = ["Align", "LargestExponent", "headroom_bits"]


def headroom_bits(formats: tuple[str, ...]) -> int:
    """Bits of a sum's headroom (see `Align`)."""
    return BF16.exponent_bits + 1 if "bf16" in formats else 6


class LargestExponent(wiring.Component):
    """Finds the largest bf16 exponent field of one lane among the ranks that take part.

    Parameters
    ----------
    ranks : number of operands

    Ports
    -----
    valid : operands are there in this cycle
    operands : 16 bits a rank, rank 0 lowest
    sources : ranks that take part
    largest : the largest field, 0 if none takes part; after `delay` cycles
    """

    def __init__(self, ranks: int):
        self._ranks = ranks
        super().__init__(
            {
                "valid": In(1),
                "operands": In(16 * ranks),
                "sources": In(ranks),
                "largest": Out(BF16.exponent_bits),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from operands to the largest exponent."""
        return -(-tree_levels(self._ranks) // LEVELS_PER_STAGE)

    def elaborate(self, platform):
        m = Module()
        nodes = []
        for rank in range(self._ranks):
            field = self.operands.word_select(rank, 16)[BF16.fraction_bits : 15]
            nodes.append(Mux(self.sources[rank], field, 0))
        levels = tree_levels(self._ranks)
        valid = self.valid
        for level in range(1, levels + 1):
            nodes = self._larger_of_pairs(m, level, nodes)
            if level % LEVELS_PER_STAGE == 0 or level == levels:
                held = [Signal(8, name=f"stage{level}_{k}") for k in range(len(nodes))]
                with m.If(valid):
                    m.d.sync += [later.eq(node) for later, node in zip(held, nodes, strict=True)]
                nodes = held
                if level < levels:
                    later = Signal(name=f"valid{level}")
                    m.d.sync += later.eq(valid)
                    valid = later
        m.d.comb += self.largest.eq(nodes[0])
        return m

    def _larger_of_pairs(self, m, level, nodes):
        result = []
        for k in range(0, len(nodes) - 1, 2):
            larger = Signal(BF16.exponent_bits, name=f"level{level}_{k // 2}")
            m.d.comb += larger.eq(Mux(nodes[k] > nodes[k + 1], nodes[k], nodes[k + 1]))
            result.append(larger)
        if len(nodes) % 2:
            result.append(nodes[-1])
        return result


class Align(wiring.Component):
    """Decodes one lane's operands and shifts each to its place in the window; one register.

    The window's top bit weighs 2^E, E being 30 for fp16, which makes it exact, and the largest
    exponent for bf16, whose bits below 2^(E-31) are cut off.

    Parameters
    ----------
    ranks : number of operands
    formats : names of the formats built

    Ports
    -----
    valid : operands are there in this cycle
    operands : 16 bits a rank, rank 0 lowest
    sources : ranks that take part; the others count as nothing at all
    format : of the operands
    largest : largest bf16 exponent field; only where bf16 is built
    magnitudes, signs : the operands as integers
    headroom : bits by which the sum may be shifted up before its exponent reaches 1
    all_negative : every operand has its sign set, and there is one: only then is a zero negative
    plus, minus : an infinity of that sign takes part; both, if a NaN does
    """

    delay = 1

    def __init__(self, ranks: int, formats: tuple[str, ...]):
        self._ranks = ranks
        self._formats = formats
        super().__init__(
            {
                "valid": In(1),
                "operands": In(16 * ranks),
                "sources": In(ranks),
                "format": In(Format),
                "largest": In(BF16.exponent_bits),
                "magnitudes": Out(unsigned(WINDOW_BITS)).array(ranks),
                "signs": Out(ranks),
                "headroom": Out(headroom_bits(formats)),
                "all_negative": Out(1),
                "plus": Out(1),
                "minus": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        reference = self._reference(m)
        signs, plus, minus = [], [], []
        for rank in range(self._ranks):
            m.submodules[f"decode_{rank}"] = decode = Decode(self._formats)
            source = self.sources[rank]
            m.d.comb += [
                decode.operand.eq(self.operands.word_select(rank, 16)),
                decode.format.eq(self.format),
            ]
            with m.If(self.valid):
                m.d.sync += self.magnitudes[rank].eq(self._placed(m, rank, decode, reference))
            signs.append(decode.sign)
            plus.append(source & (decode.nan | (decode.infinite & ~decode.sign)))
            minus.append(source & (decode.nan | (decode.infinite & decode.sign)))
        negative = Signal(self._ranks)
        m.d.comb += negative.eq(Cat(signs) & self.sources)
        with m.If(self.valid):
            m.d.sync += [
                self.signs.eq(Cat(signs)),
                self.all_negative.eq((negative == self.sources) & negative.any()),
                self.plus.eq(Cat(plus).any()),
                self.minus.eq(Cat(minus).any()),
            ]
            if "bf16" in self._formats:
                m.d.sync += self.headroom.eq(reference + (tree_levels(self._ranks) - 1))
        if "bf16" not in self._formats:
            m.d.comb += self.headroom.eq(FP16_REFERENCE + tree_levels(self._ranks) - 1)
        return m

    def _reference(self, m):
        """E, the exponent of the window's top bit; None where it is fp16's constant."""
        if "bf16" not in self._formats:
            return None
        reference = Signal(BF16.exponent_bits)
        largest = self.largest | ~self.largest.any()
        if "fp16" in self._formats:
            largest = Mux(self.format == Format.BF16, largest, FP16_REFERENCE)
        m.d.comb += reference.eq(largest)
        return reference

    def _placed(self, m, rank, decode, reference):
        """One operand's magnitude: its significand from the window's top, shifted down."""
        absent = ~self.sources[rank]
        below = WINDOW_BITS - SIGNIFICAND_BITS
        if reference is None:
            # 30 - e is one less than ~e, so the shift by ~e starts one bit higher.
            window = Cat(Const(0, below + 1), decode.significand) >> ~decode.exponent
            return Mux(absent, 0, window[:WINDOW_BITS])
        distance = Signal(BF16.exponent_bits, name=f"distance_{rank}")
        m.d.comb += distance.eq(reference - decode.exponent)
        window = Signal(WINDOW_BITS, name=f"window_{rank}")
        m.d.comb += window.eq(Cat(Const(0, below), decode.significand) >> distance[:5])
        gone = absent | distance[5:].any()  # 32 places: nothing is left that either format keeps
        cut = WINDOW_BITS - BF16_WINDOW_BITS
        if "fp16" in self._formats:
            low = Mux(self.format == Format.BF16, 0, window[:cut])
        else:
            low = Const(0, cut)
        return Mux(gone, 0, Cat(low, window[cut:]))
