# amaranth: UnusedElaboratable=no
# It makes its blocks at once, since its delay is theirs; who asks only for that uses none.
"""From the sums of blocks to codes and new scales: all that waits for a block's maximum."""

from amaranth import Cat, Const, Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .block_maximum import BlockMaximum
from .block_scale import BlockScale
from .delay_line import DelayLine, delayed
from .new_scale import NewScale
from .pipeline import register
from .quantize import Quantize
from .scale_formats import CODE_BITS, SCALE_FORMATS

__all__ = ["Requantize"]


class Requantize(wiring.Component):
    """Quantizes sums by the largest magnitude of their block; takes a flit each cycle.

    The flits of one block come in consecutive cycles. Each waits as long as a whole block takes to
    come, and to find its scale. A shorter block knows its scale before those ahead of it have left:
    so scales stand in a queue.

    Parameters
    ----------
    ranks : number of operands of the sums
    lanes : sums in a flit, a power of two from 2 on
    flits : of a whole block, a power of two
    scale_format : ``fp16``, ``bf16`` or ``e8m0``
    e8m0_floor : see `NewScale`

    Ports
    -----
    valid : a flit of sums is there in this cycle
    first, last : it begins, or ends, a block
    sums : in two's complement; 0 where a lane does not count
    keep : lanes that count
    reference, bad : of the block, in its last flit's cycle at least (see `AlignScales`)
    codes : a byte a lane, 0 where it does not count; after `delay` cycles
    begins : the codes are a block's first ones, and a lane counts; what follows is then valid
    scale : bits of the new scale
    overflow, nan : no finite scale is large enough; a rank's scale was bad
    """

    def __init__(
        self, ranks: int, lanes: int, flits: int, scale_format: str, e8m0_floor: bool = False
    ):
        self._lanes = lanes
        self._flits = flits
        self._layout = layout = SCALE_FORMATS[scale_format]
        self._maximum = BlockMaximum(lanes, layout.sum_bits(ranks))
        self._new_scale = NewScale(ranks, scale_format, e8m0_floor)
        self._block_scale = BlockScale(scale_format)
        self._quantize = Quantize(ranks, lanes, scale_format)
        super().__init__(
            {
                "valid": In(1),
                "first": In(1),
                "last": In(1),
                "sums": In(signed(layout.sum_bits(ranks))).array(lanes),
                "keep": In(lanes),
                "reference": In(layout.exponent_bits),
                "bad": In(1),
                "codes": Out(lanes * CODE_BITS),
                "begins": Out(1),
                "scale": Out(unsigned(layout.bits)),
                "overflow": Out(1),
                "nan": Out(1),
            }
        )

    @property
    def block_wait(self) -> int:
        """Cycles of the delay in which a block's first flit waits for its last."""
        return self._flits - 1

    @property
    def delay(self) -> int:
        """Cycles from sums to codes."""
        return self._quantize_at + self._quantize.delay

    # The cycles, counted from the sums', in which the blocks take them: from the sums of a block's
    # last flit up to where its scale is known, then from those of its first one.

    @property
    def _scale_known_at(self) -> int:
        return self._maximum.delay + self._new_scale.delay

    @property
    def _block_scale_at(self) -> int:
        queue = 1 if self._flits > 1 else 0
        return self._scale_known_at + self.block_wait + queue

    @property
    def _quantize_at(self) -> int:
        return self._block_scale_at + self._block_scale.delay

    def elaborate(self, platform):
        m = Module()
        known, entry = self._connect_new_scale(m)
        m.submodules.wait = wait = DelayLine(1, self._block_scale_at)
        m.d.comb += wait.i.eq(self.first)
        valid = self._later(m, "valid", self.valid, self._block_scale_at)
        begins = wait.o & valid
        entry = self._in_turn(m, known, entry, begins)
        self._connect_quantize(m, entry, begins)
        return m

    def _later(self, m, name, flag, cycles):
        """A flag after some cycles, which reset clears on its way."""
        for cycle in range(1, cycles + 1):
            later = Signal(name=f"{name}_{cycle}")
            m.d.sync += later.eq(flag)
            flag = later
        return flag

    def _connect_new_scale(self, m):
        """Whether a scale is known in this cycle, and all that is to be known of its block."""
        m.submodules.maximum = maximum = self._maximum
        m.submodules.new_scale = new_scale = self._new_scale
        m.d.comb += [
            maximum.valid.eq(self.valid),
            maximum.first.eq(self.first),
            maximum.last.eq(self.last),
            *(port.eq(total) for port, total in zip(maximum.sums, self.sums, strict=True)),
        ]
        facts = self.bad
        if self._layout.fixed_reference is None:
            facts = Cat(self.bad, self.reference)
        given = delayed(m, facts, maximum.delay, name="facts")
        m.d.comb += [
            new_scale.largest.eq(maximum.largest),
            new_scale.reference.eq(self._reference(given)),
            new_scale.bad.eq(given[0]),
        ]
        known = self._later(m, "known", maximum.done, new_scale.delay)
        given = delayed(m, given, new_scale.delay, name="facts_known")
        return known, Cat(new_scale.scale, new_scale.overflow, given)

    def _reference(self, facts):
        fixed = self._layout.fixed_reference
        return facts[1:] if fixed is None else Const(fixed)

    def _in_turn(self, m, known, entry, begins):
        """A block's entry in the cycle in which its first flit is about to be quantized."""
        if self._flits == 1:
            return entry
        m.submodules.scales = memory = Memory(
            shape=len(entry), depth=self._flits, init=[], attrs={"ram_style": "distributed"}
        )
        write, read = memory.write_port(), memory.read_port(domain="comb")
        put, taken = Signal(range(self._flits)), Signal(range(self._flits))
        m.d.comb += [
            write.en.eq(known),
            write.addr.eq(put),
            write.data.eq(entry),
            read.addr.eq(taken),
        ]
        m.d.sync += [put.eq(put + known), taken.eq(taken + begins)]
        return read.data

    def _connect_quantize(self, m, entry, begins):
        m.submodules.block_scale = block_scale = self._block_scale
        m.submodules.quantize = quantize = self._quantize
        bits = self._layout.bits
        m.d.comb += [
            block_scale.valid.eq(begins),
            block_scale.scale.eq(entry[:bits]),
            block_scale.reference.eq(self._reference(entry[bits + 1 :])),
            quantize.places.eq(block_scale.places),
            quantize.negated.eq(block_scale.negated),
            quantize.reciprocal.eq(block_scale.reciprocal),
        ]
        # As `BlockScale`, and its results, until the next block.
        result = register(m, entry[: bits + 2], valid=begins, name="result_first")
        begun = self._later(m, "begun", begins, 1)
        result = register(m, result, valid=begun, name="result_second")
        keep = self._connect_hold(m)
        m.d.comb += quantize.keep.eq(keep & ~result[-1].replicate(self._lanes))

        begun = self._later(m, "begun_sums", begun, block_scale.delay - 1)
        begun = self._later(m, "begun_codes", begun & keep.any(), quantize.delay)
        result = delayed(m, result, quantize.delay, name="result")
        m.d.comb += [
            self.codes.eq(quantize.codes),
            self.begins.eq(begun),
            Cat(self.scale, self.overflow, self.nan).eq(result),
        ]

    def _connect_hold(self, m):
        """Sums, and which lanes count, wait for the block's scale."""
        bits = len(self.sums[0])
        sums = self._lanes * bits
        m.submodules.hold = hold = DelayLine(sums + self._lanes, self._quantize_at)
        for lane, total in enumerate(self.sums):
            m.d.comb += [
                hold.i.word_select(lane, bits).eq(total),
                self._quantize.sums[lane].eq(hold.o.word_select(lane, bits)),
            ]
        m.d.comb += hold.i[sums:].eq(self.keep)
        return hold.o[sums:]
