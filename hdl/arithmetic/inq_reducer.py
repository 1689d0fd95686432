# amaranth: UnusedElaboratable=no
# A reducer makes its blocks at once, since its delay is theirs; who asks only for that uses none.
"""In-network quantization: adds one flit of every rank's codes each cycle, and quantizes once."""

from amaranth import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import INQ_BLOCKS, SwitchConfig
from .align_scales import AlignScales
from .delay_line import delayed
from .dot_product import DotProduct
from .product_chain import PART_BITS
from .requantize import Requantize
from .scale_formats import CODE_BITS, SCALE_FORMATS

__all__ = ["InqInput", "InqOutput", "InqReducer", "blocks_per_flit", "check_inq_parameters"]


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
    part_bits : bits of a scale that one multiplier takes (see `ProductChain`)

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
        part_bits: int = PART_BITS,
    ):
        check_inq_parameters(ranks, flit_bytes, block, scale_format)
        self._ranks = ranks
        self._flit_bytes = flit_bytes
        self._layout = SCALE_FORMATS[scale_format]
        self._flits = flits = max(1, block // flit_bytes)  # of a block
        sections = range(blocks_per_flit(flit_bytes, block))
        self._lanes = lanes = flit_bytes // len(sections)  # of a section: a block's in a flit
        self._align = [AlignScales(ranks, scale_format) for _ in sections]
        self._dot = [DotProduct(ranks, lanes, scale_format, part_bits) for _ in sections]
        self._requantize = [
            Requantize(ranks, lanes, flits, scale_format, e8m0_floor) for _ in sections
        ]
        inputs = InqInput(ranks, flit_bytes, block, scale_format)
        outputs = InqOutput(flit_bytes, block, scale_format)
        super().__init__(
            {
                "i": In(stream.Signature(inputs, always_ready=True)),
                "o": Out(stream.Signature(outputs, always_ready=True)),
            }
        )

    @classmethod
    def of(cls, config: SwitchConfig) -> "InqReducer":
        """The one that a switch of `config` has."""
        return cls(
            config.ranks,
            config.flit_bytes,
            config.block,
            config.scale_format,
            config.e8m0_rule == "floor",
            config.multiplier_bits,
        )

    @property
    def delay(self) -> int:
        """Cycles from a flit of every rank's codes to the flit of new codes.

        It includes the wait for the block's maximum: as many cycles as it has flits, less one.
        """
        return self._sums_at + self._requantize[0].delay

    @property
    def block_wait(self) -> int:
        """Cycles of the delay in which a block's first flit waits for its last."""
        return self._requantize[0].block_wait

    # The cycles, counted from a flit's input, in which the blocks take it.

    @property
    def _dot_at(self) -> int:
        return self._align[0].delay

    @property
    def _sums_at(self) -> int:
        return self._dot_at + self._dot[0].delay

    def elaborate(self, platform):
        m = Module()
        valid = self._delayed_valid(m)
        ends = delayed(m, Cat(self._block_ends(m)), self._sums_at, name="ends")
        codes = self._skewed_codes(m)
        # The dot product takes it in the last rank's turn.
        keep_at = self._dot_at + self._ranks - 1
        keep = delayed(m, self.i.payload.keep, keep_at, name="keep_dot")
        keep_sums = delayed(m, keep, self._sums_at - keep_at, name="keep_sums")
        for section in range(len(self._dot)):
            self._connect_sums(m, section, codes, keep)
            self._connect_requantize(m, section, valid[self._sums_at], ends, keep_sums)
        m.d.comb += self.o.valid.eq(valid[self.delay])
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

    def _skewed_codes(self, m):
        """Each rank's codes when its aligned scale is there: one cycle after the rank before."""
        bits = self._flit_bytes * CODE_BITS
        codes = []
        for rank in range(self._ranks):
            flit = self.i.payload.codes.word_select(rank, bits)
            codes.append(delayed(m, flit, self._dot_at + rank, name=f"codes_{rank}"))
        return codes

    def _connect_sums(self, m, section, codes, keep):
        m.submodules[f"align_{section}"] = align = self._align[section]
        m.submodules[f"dot_{section}"] = dot = self._dot[section]
        m.d.comb += [
            align.sources.eq(self.i.payload.sources),
            dot.keep.eq(keep.word_select(section, self._lanes)),
        ]
        for rank in range(self._ranks):
            number = rank * len(self._align) + section
            scale = self.i.payload.scales.word_select(number, self._layout.bits)
            m.d.comb += [
                align.scales[rank].eq(scale),
                dot.codes[rank].eq(codes[rank].word_select(section, self._lanes * CODE_BITS)),
                dot.aligned[rank].eq(align.aligned[rank]),
            ]

    def _connect_requantize(self, m, section, valid, ends, keep):
        m.submodules[f"requantize_{section}"] = requantize = self._requantize[section]
        align, dot, output = self._align[section], self._dot[section], self.o.payload
        facts = Cat(align.bad, align.reference)
        facts = delayed(m, facts, self._sums_at - self._dot_at, name=f"facts_{section}")
        m.d.comb += [
            requantize.valid.eq(valid),
            Cat(requantize.first, requantize.last).eq(ends),
            requantize.keep.eq(keep.word_select(section, self._lanes)),
            Cat(requantize.bad, requantize.reference).eq(facts),
            *(port.eq(total) for port, total in zip(requantize.sums, dot.sums, strict=True)),
            output.data.word_select(section, self._lanes * CODE_BITS).eq(requantize.codes),
            output.blocks[section].eq(requantize.begins),
            output.scales.word_select(section, self._layout.bits).eq(requantize.scale),
            output.nan[section].eq(requantize.begins & requantize.nan),
            output.overflow[section].eq(requantize.begins & requantize.overflow),
        ]


def check_inq_parameters(ranks: int, flit_bytes: int, block: int, scale_format: str):
    """Raises ValueError, which names a parameter, its rule and its value, where one is wrong."""

    def refuse(name, rule, value):
        raise ValueError(f"{name}: must be {rule}, not {value!r}")

    if not 2 <= ranks <= 16:
        refuse("ranks", "2..16", ranks)
    if not 2 <= flit_bytes <= 64 or flit_bytes & (flit_bytes - 1):
        refuse("flit_bytes", "a power of two, 2..64", flit_bytes)
    if block not in INQ_BLOCKS:
        refuse("block", f"one of {', '.join(map(str, INQ_BLOCKS))}", block)
    if scale_format not in SCALE_FORMATS:
        refuse("scale_format", f"one of {', '.join(SCALE_FORMATS)}", scale_format)
