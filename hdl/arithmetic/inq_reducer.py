# amaranth: UnusedElaboratable=no
# A reducer makes its blocks at once, since its delay is theirs; who asks only for that uses none.
"""In-network quantization: adds one flit of every rank's codes each cycle, and quantizes once."""

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .align_scales import AlignScales
from .block_maximum import BlockMaximum
from .block_scale import BlockScale
from .delay_line import DelayLine, delayed
from .dot_product import DotProduct
from .new_scale import NewScale
from .pipeline import register
from .quantize import Quantize
from .scale_formats import CODE_BITS, SCALE_FORMATS

__all__ = ["InqInput", "InqOutput", "InqReducer", "blocks_per_flit"]

BLOCKS = (32, 64, 128, 256, 512)


def blocks_per_flit(flit_bytes: int, block: int) -> int:
    """Blocks that a flit has codes of."""
    return max(1, flit_bytes // block)


class InqInput(data.StructLayout):
    """One flit of every rank's codes, and the scales of their block or blocks.

    Members
    -------
    codes : rank r's flit at bits [r * 8 * flit_bytes, (r + 1) * 8 * flit_bytes), 8 bits a lane
    scales : rank r's scales, first block's first, at [r * blocks_per_flit * bits, ...); the same in
        every flit of a block
    keep : the lane is inside the message; the others give code 0 and count in nothing
    sources : ranks that take part; the others count as nothing at all; the same in every flit of a
        block
    last : the message ends with this flit, and with it the block; the next flit begins another
    """

    def __init__(self, ranks: int, flit_bytes: int, block: int, scale_format: str):
        scales = ranks * blocks_per_flit(flit_bytes, block) * SCALE_FORMATS[scale_format].bits
        super().__init__(
            {
                "codes": unsigned(ranks * flit_bytes * CODE_BITS),
                "scales": unsigned(scales),
                "keep": unsigned(flit_bytes),
                "sources": unsigned(ranks),
                "last": 1,
            }
        )


class InqOutput(data.StructLayout):
    """One flit of codes, and with a block's first one its new scale.

    Members
    -------
    data : 8 bits a lane
    blocks : blocks that begin with this flit and have a lane inside the message: of these, and only
        in this cycle, the members below are valid
    scales : new scales, first block's first
    nan : a rank's scale was NaN, infinite or negative: scale NaN, codes 0
    overflow : no finite scale is large enough: the largest one, codes clamped
    """

    def __init__(self, flit_bytes: int, block: int, scale_format: str):
        blocks = blocks_per_flit(flit_bytes, block)
        super().__init__(
            {
                "data": unsigned(flit_bytes * CODE_BITS),
                "blocks": unsigned(blocks),
                "scales": unsigned(blocks * SCALE_FORMATS[scale_format].bits),
                "nan": unsigned(blocks),
                "overflow": unsigned(blocks),
            }
        )


class InqReducer(wiring.Component):
    """Dequantizes, adds and quantizes: a pipeline that takes a flit each cycle and never stalls.

    Parameters
    ----------
    ranks : number of operands, 2 to 16
    flit_bytes : codes in a flit: a power of two, 2 to 64
    block : codes that share a scale: 32, 64, 128, 256 or 512
    scale_format : ``fp16``, ``bf16`` or ``e8m0``
    e8m0_floor : E8M0 by the rule of the OCP MX specification (see `NewScale`)

    Ports
    -----
    i : stream of `InqInput`
    o : stream of `InqOutput`; `delay` cycles behind the input, in order

    The flits of one block come in consecutive cycles, as each waits the same time for the block's
    maximum; between blocks there may be any gap, or none. A block that `last` ends early waits as
    long as a whole one.

    Raises
    ------
    ValueError : a parameter is out of range
    """

    def __init__(
        self,
        ranks: int,
        flit_bytes: int,
        block: int,
        scale_format: str = "fp16",
        e8m0_floor: bool = False,
    ):
        _check(ranks, flit_bytes, block, scale_format)
        self._ranks = ranks
        self._flit_bytes = flit_bytes
        self._layout = layout = SCALE_FORMATS[scale_format]
        self._flits = max(1, block // flit_bytes)  # of a block
        sections = range(blocks_per_flit(flit_bytes, block))
        self._lanes = lanes = flit_bytes // len(sections)  # of a section: a block's in a flit
        self._align = [AlignScales(ranks, scale_format) for _ in sections]
        self._dot = [DotProduct(ranks, lanes, scale_format) for _ in sections]
        self._maximum = [BlockMaximum(lanes, layout.sum_bits(ranks)) for _ in sections]
        self._new_scale = [NewScale(ranks, scale_format, e8m0_floor) for _ in sections]
        self._block_scale = [BlockScale(scale_format) for _ in sections]
        self._quantize = [Quantize(ranks, lanes, scale_format) for _ in sections]
        inputs = InqInput(ranks, flit_bytes, block, scale_format)
        outputs = InqOutput(flit_bytes, block, scale_format)
        super().__init__(
            {
                "i": In(stream.Signature(inputs, always_ready=True)),
                "o": Out(stream.Signature(outputs, always_ready=True)),
            }
        )

    @property
    def delay(self) -> int:
        """Cycles from a flit of every rank's codes to the flit of new codes.

        It includes the wait for the block's maximum: as many cycles as it has flits, less one.
        """
        return self._quantize_at + self._quantize[0].delay

    @property
    def block_wait(self) -> int:
        """Cycles of the delay in which a block's first flit waits for its last."""
        return self._flits - 1

    # The cycles, counted from a flit's input, in which the blocks take it; for `NewScale` and what
    # follows, up to the wait, from the block's last flit.

    @property
    def _dot_at(self) -> int:
        return self._align[0].delay

    @property
    def _sums_at(self) -> int:
        return self._dot_at + self._dot[0].delay

    @property
    def _new_scale_at(self) -> int:
        return self._sums_at + self._maximum[0].delay

    @property
    def _scale_known_at(self) -> int:
        return self._new_scale_at + self._new_scale[0].delay

    @property
    def _block_scale_at(self) -> int:
        queue = 1 if self._flits > 1 else 0
        return self._scale_known_at + self.block_wait + queue

    @property
    def _quantize_at(self) -> int:
        return self._block_scale_at + self._block_scale[0].delay

    def elaborate(self, platform):
        m = Module()
        self._valid = self._delayed_valid(m)
        first, last = self._block_ends(m)
        flit = self.i.payload
        self._codes = self._skewed_codes(m)
        keep = delayed(m, flit.keep, self._dot_at + self._ranks - 1, name="keep_dot")
        m.submodules.wait_first = wait_first = DelayLine(1, self._block_scale_at)
        m.d.comb += wait_first.i.eq(first)
        begins = wait_first.o & self._valid[self._block_scale_at]
        for section in range(len(self._dot)):
            self._connect_sums(m, section, keep)
            done = self._connect_maximum(m, section, first, last)
            known = self._connect_new_scale(m, section, done)
            entry = self._wait_for_turn(m, section, known, begins)
            self._connect_quantize(m, section, keep, entry, begins)
        m.d.comb += self.o.valid.eq(self._valid[self.delay])
        return m

    def _delayed_valid(self, m):
        """The input's valid, of this cycle and of each of the last `delay` ones."""
        valid = [self.i.valid]
        for cycle in range(1, self.delay + 1):
            later = Signal(name=f"valid_{cycle}")
            m.d.sync += later.eq(valid[-1])
            valid.append(later)
        return valid

    def _block_ends(self, m):
        """Whether the input's flit begins a block, and whether it ends one."""
        if self._flits == 1:
            return Const(1), Const(1)
        position = Signal(range(self._flits))
        first, last = Signal(), Signal()
        m.d.comb += [
            first.eq(position == 0),
            last.eq(self.i.payload.last | (position == self._flits - 1)),
        ]
        with m.If(self.i.valid):
            m.d.sync += position.eq(Mux(last, 0, position + 1))
        return first, last

    def _section(self, section):
        return slice(section * self._lanes, (section + 1) * self._lanes)

    def _skewed_codes(self, m):
        """Each rank's codes when its aligned scale is there: one cycle after the rank before."""
        bits = self._flit_bytes * CODE_BITS
        codes = []
        for rank in range(self._ranks):
            flit = self.i.payload.codes.word_select(rank, bits)
            codes.append(delayed(m, flit, self._dot_at + rank, name=f"codes_{rank}"))
        return codes

    def _connect_sums(self, m, section, keep):
        m.submodules[f"align_{section}"] = align = self._align[section]
        m.submodules[f"dot_{section}"] = dot = self._dot[section]
        bits = self._layout.bits
        m.d.comb += [
            align.sources.eq(self.i.payload.sources),
            dot.keep.eq(keep[self._section(section)]),
        ]
        for rank in range(self._ranks):
            scale = self.i.payload.scales.word_select(rank * len(self._align) + section, bits)
            codes = self._codes[rank].word_select(section, self._lanes * CODE_BITS)
            m.d.comb += [
                align.scales[rank].eq(scale),
                dot.codes[rank].eq(codes),
                dot.aligned[rank].eq(align.aligned[rank]),
            ]

    def _connect_maximum(self, m, section, first, last):
        m.submodules[f"maximum_{section}"] = maximum = self._maximum[section]
        ends = delayed(m, Cat(first, last), self._sums_at, name=f"ends_{section}")
        m.d.comb += [
            maximum.valid.eq(self._valid[self._sums_at]),
            Cat(maximum.first, maximum.last).eq(ends),
            *(
                port.eq(total)
                for port, total in zip(maximum.sums, self._dot[section].sums, strict=True)
            ),
        ]
        return maximum.done

    def _connect_new_scale(self, m, section, done):
        """Whether a new scale is known in this cycle; then all that is kept of a block."""
        m.submodules[f"new_scale_{section}"] = new_scale = self._new_scale[section]
        align = self._align[section]
        wait = self._new_scale_at - self._dot_at
        reference = align.reference
        if self._layout.fixed_reference is None:
            reference = delayed(m, reference, wait, name=f"reference_{section}")
        bad = delayed(m, align.bad, wait, name=f"bad_{section}")
        m.d.comb += [
            new_scale.largest.eq(self._maximum[section].largest),
            new_scale.reference.eq(reference),
            new_scale.bad.eq(bad),
        ]
        known = done
        for cycle in range(new_scale.delay):
            later = Signal(name=f"known_{section}_{cycle}")
            m.d.sync += later.eq(known)
            known = later
        entry = [new_scale.scale, new_scale.overflow]
        entry.append(delayed(m, bad, new_scale.delay, name=f"bad_known_{section}"))
        if self._layout.fixed_reference is None:
            name = f"reference_known_{section}"
            entry.append(delayed(m, reference, new_scale.delay, name=name))
        return known, Cat(entry)

    def _wait_for_turn(self, m, section, known, begins):
        """A block's entry in the cycle in which its first flit is about to be quantized.

        Short blocks know their scale before the blocks ahead of them have left.
        """
        known, entry = known
        if self._flits == 1:
            return entry
        m.submodules[f"scales_{section}"] = memory = Memory(
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

    def _connect_quantize(self, m, section, keep, entry, begins):
        m.submodules[f"block_scale_{section}"] = block_scale = self._block_scale[section]
        m.submodules[f"quantize_{section}"] = quantize = self._quantize[section]
        scale, overflow, bad, reference = self._entry_fields(entry)
        m.d.comb += [
            block_scale.valid.eq(begins),
            block_scale.scale.eq(scale),
            block_scale.reference.eq(reference),
            quantize.places.eq(block_scale.places),
            quantize.negated.eq(block_scale.negated),
            quantize.reciprocal.eq(block_scale.reciprocal),
        ]
        result = Cat(scale, overflow, bad)
        result = register(m, result, valid=begins, name=f"result_{section}_first")
        begun = [begins]
        for cycle in range(block_scale.delay + quantize.delay):
            later = Signal(name=f"begun_{section}_{cycle}")
            m.d.sync += later.eq(begun[-1])
            begun.append(later)
        result = register(m, result, valid=begun[1], name=f"result_{section}_second")
        kept = self._connect_hold(m, section, keep, bad=result[-1])
        self._put_output(m, section, kept, result, begun[-1])

    def _entry_fields(self, entry):
        bits = self._layout.bits
        reference = entry[bits + 2 :]
        if self._layout.fixed_reference is not None:
            reference = Const(self._layout.fixed_reference)
        return entry[:bits], entry[bits], entry[bits + 1], reference

    def _connect_hold(self, m, section, keep, bad):
        """Sums, and which lanes count, wait for the block's scale."""
        quantize, dot = self._quantize[section], self._dot[section]
        bits = len(dot.sums[0])
        sums = self._lanes * bits
        hold = DelayLine(sums + self._lanes, self._quantize_at - self._sums_at)
        m.submodules[f"hold_{section}"] = hold
        for lane, total in enumerate(dot.sums):
            m.d.comb += [
                hold.i.word_select(lane, bits).eq(total),
                quantize.sums[lane].eq(hold.o.word_select(lane, bits)),
            ]
        keep = delayed(m, keep[self._section(section)], 3, name=f"keep_sums_{section}")
        m.d.comb += [
            hold.i[sums:].eq(keep),
            quantize.keep.eq(hold.o[sums:] & ~bad.replicate(self._lanes)),
        ]
        return hold.o[sums:].any()

    def _put_output(self, m, section, kept, result, begun):
        quantize, output, bits = self._quantize[section], self.o.payload, self._layout.bits
        result = delayed(m, Cat(result, kept), quantize.delay, name=f"output_{section}")
        block = begun & result[-1]
        m.d.comb += [
            output.data.word_select(section, self._lanes * CODE_BITS).eq(quantize.codes),
            output.blocks[section].eq(block),
            output.scales.word_select(section, bits).eq(result[:bits]),
            output.overflow[section].eq(block & result[bits]),
            output.nan[section].eq(block & result[bits + 1]),
        ]


def _check(ranks, flit_bytes, block, scale_format):
    def refuse(name, rule, value):
        raise ValueError(f"{name}: must be {rule}, not {value!r}")

    if not 2 <= ranks <= 16:
        refuse("ranks", "2..16", ranks)
    if not 2 <= flit_bytes <= 64 or flit_bytes & (flit_bytes - 1):
        refuse("flit_bytes", "a power of two, 2..64", flit_bytes)
    if block not in BLOCKS:
        refuse("block", f"one of {', '.join(map(str, BLOCKS))}", block)
    if scale_format not in SCALE_FORMATS:
        refuse("scale_format", f"one of {', '.join(SCALE_FORMATS)}", scale_format)
