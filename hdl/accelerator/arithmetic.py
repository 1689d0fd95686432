# amaranth: UnusedElaboratable=no
# It makes its reducers at once, since its delays are theirs; who asks only for those uses none.
"""What the accelerator does with operands: the reducers that are built, behind one face."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..arithmetic.delay_line import DelayLine
from ..arithmetic.inq_reducer import InqReducer, blocks_per_flit
from ..arithmetic.multi_reducer import make_reducer
from ..arithmetic.shared_reducer import SharedReducer
from ..config import SwitchConfig
from ..interfaces import Format, Operation
from .layouts import flit_scale_bits
from .merge import one_of
from .scale_packer import ScaleFlit, ScalePacker

__all__ = ["Arithmetic"]


class Arithmetic(wiring.Component):
    """Results of plain numbers, and codes and scales of quantized operands.

    Members
    -------
    valid, operands, keep, format : a flit of every rank, rank by rank (`ReadOut`)
    sources : likewise, where an operation may have some of the ranks only
    places : likewise, a bit for each context and rank, ranks innermost: where the result goes
    reduction : what becomes of plain numbers, where an instruction may ask for more than sums
    scales, ends_wave, ends_blocks : of codes: scales of the flit's block or blocks, rank by rank;
        the flit is its wave's last; its blocks are
    result_valid, result : a flit of sums or codes, in the order of the operands as long as read-out
        keeps sums `inq_lead` cycles behind codes
    result_places, scales_places : where the result, and the new scales, go; likewise
    result_ends : it is the last of a quantized wave
    scales_valid, new_scales : a flit of scales (`ScaleFlit`)
    nan, overflow : a kept sum is NaN; finite operands gave infinity
    blocks_nan, blocks_overflow : by block that begins with this flit of codes

    The members of codes are there where quantized operations are built.
    """

    def __init__(self, config: SwitchConfig):
        self._config = config
        self._sums = self._codes = self._shared = None
        if config.inq_reducer == "shared":
            self._shared = SharedReducer.of(config)
        else:
            if config.sum_formats:
                self._sums = make_reducer(config)
            if config.quantizes:
                self._codes = InqReducer.of(config)
        members = {
            "valid": In(1),
            "operands": In(config.ranks * config.flit_bits),
            "keep": In(config.flit_bytes if config.quantizes else config.lanes),
            "format": In(Format),
            "result_valid": Out(1),
            "result": Out(config.flit_bits),
            "nan": Out(1),
            "overflow": Out(1),
        }
        if config.subsets:
            ranks, places = config.ranks, config.contexts * config.ranks
            members |= {
                "sources": In(ranks),
                "places": In(places),
                "result_places": Out(places),
                "scales_places": Out(places),
            }
        if config.chooses_operation:
            members["reduction"] = In(Operation)
        if config.quantizes:
            blocks = blocks_per_flit(config.flit_bytes, config.block)
            members |= {
                "scales": In(config.ranks * flit_scale_bits(config)),
                "ends_wave": In(1),
                "ends_blocks": In(1),
                "result_ends": Out(1),
                "scales_valid": Out(1),
                "new_scales": Out(ScaleFlit(config)),
                "blocks_nan": Out(blocks),
                "blocks_overflow": Out(blocks),
            }
        super().__init__(members)

    @property
    def delay(self) -> int | None:
        """Cycles from operands to their sums; None where none are built."""
        reducer = self._shared or self._sums
        return reducer.delay if reducer else None

    @property
    def inq_delay(self) -> int | None:
        """Cycles from codes to new codes, the wait for the block included; None without.

        Shared multipliers take a flit of codes in its second cycle; this counts from its first.
        """
        if self._shared:
            return self._shared.inq_delay + 1
        return self._codes.delay if self._codes else None

    @property
    def inq_lead(self) -> int:
        """Cycles by which codes take longer than sums; 0 unless both are built."""
        if self.delay is None or self.inq_delay is None:
            return 0
        return self.inq_delay - self.delay

    def elaborate(self, platform):
        m = Module()
        sums = codes = None
        if self._shared:
            sums, codes = self._connect_shared(m)
        if self._sums:
            sums = self._connect_sums(m)
        if self._codes:
            codes = self._connect_codes(m)
        self._put_sums(m, sums)
        places = self._later_places(m) if self._config.subsets else {}
        if codes is not None:
            self._put_codes(m, sums, codes, self._owners(places))
        if self._config.subsets:
            self._put_places(m, codes, places)
        return m

    @property
    def _sources(self):
        return self.sources if self._config.subsets else (1 << self._config.ranks) - 1

    def _later_places(self, m):
        """Where results go, beside them: of sums, and of codes."""
        later = {}
        for name, delay in (("sums", self.delay), ("codes", self.inq_delay)):
            if delay is None:
                continue
            m.submodules[f"places_of_{name}"] = line = DelayLine(len(self.places), delay)
            m.d.comb += line.i.eq(self.places)
            later[name] = line.o
        return later

    def _owners(self, places):
        """By context, whether the codes that leave the reducer are its."""
        contexts, ranks = self._config.contexts, self._config.ranks
        if contexts == 1:
            return [1]
        return [places["codes"].word_select(context, ranks).any() for context in range(contexts)]

    def _put_places(self, m, codes, later):
        """Where results go, and scales."""
        of_codes = codes.valid if codes is not None else 0
        places = Mux(of_codes, later.get("codes", 0), later.get("sums", 0))
        m.d.comb += self.result_places.eq(places)
        # A flit of scales comes one cycle after the codes with which its last block begins.
        m.d.sync += self.scales_places.eq(later.get("codes", 0))

    @property
    def _quantized(self):
        return self.format == Format.INQ8 if self._config.quantizes else 0

    @property
    def _keep_numbers(self):
        """A bit a 16-bit lane."""
        return self.keep[::2] if self._config.quantizes else self.keep

    def _connect_sums(self, m):
        m.submodules.reducer = reducer = self._sums
        operands = reducer.i.payload
        m.d.comb += [
            reducer.i.valid.eq(self.valid & ~self._quantized),
            operands.operands.eq(self.operands),
            operands.keep.eq(self._keep_numbers),
            operands.sources.eq(self._sources),
            operands.format.eq(self.format),
        ]
        if self._config.chooses_operation:
            m.d.comb += operands.operation.eq(self.reduction)
        return reducer.o

    def _connect_codes(self, m):
        m.submodules.inq_reducer = reducer = self._codes
        operands = reducer.i.payload
        m.d.comb += [
            reducer.i.valid.eq(self.valid & self._quantized),
            operands.codes.eq(self.operands),
            operands.scales.eq(self.scales),
            operands.keep.eq(self.keep),
            operands.sources.eq(self._sources),
            operands.last.eq(self.ends_wave),
        ]
        return reducer.o

    def _connect_shared(self, m):
        m.submodules.shared_reducer = reducer = self._shared
        operands = reducer.i.payload
        m.d.comb += [
            reducer.i.valid.eq(self.valid),
            operands.operands.eq(self.operands),
            operands.scales.eq(self.scales),
            operands.keep.eq(Mux(self._quantized, self.keep, self._keep_numbers)),
            operands.sources.eq(self._sources),
            operands.quantized.eq(self._quantized),
            operands.last.eq(self.ends_wave),
        ]
        return reducer.o, reducer.q

    def _put_sums(self, m, sums):
        if sums is None:
            return
        m.d.comb += [
            self.result_valid.eq(sums.valid),
            self.result.eq(sums.payload.data),
            self.nan.eq(sums.valid & sums.payload.nan),
            self.overflow.eq(sums.valid & sums.payload.overflow),
        ]

    def _put_codes(self, m, sums, codes, owners):
        """Sums and codes never come in one cycle."""
        m.submodules.ends = ends = DelayLine(2, self.inq_delay)
        output = codes.payload
        begins = Signal()
        m.d.comb += [
            ends.i.eq(Cat(self.ends_wave, self.ends_blocks)),
            begins.eq(codes.valid & output.blocks.any()),
            self.result_ends.eq(codes.valid & ends.o[0]),
            self.blocks_nan.eq(Mux(begins, output.blocks & output.nan, 0)),
            self.blocks_overflow.eq(Mux(begins, output.blocks & output.overflow, 0)),
        ]
        self._pack_scales(m, begins, ends.o[1], output.scales, owners)
        if sums is None:
            m.d.comb += [self.result_valid.eq(codes.valid), self.result.eq(output.data)]
        else:
            with m.If(codes.valid):
                m.d.comb += [self.result_valid.eq(1), self.result.eq(output.data)]

    def _pack_scales(self, m, begins, ends, scales, owners):
        """Scales into flits, by context: blocks of several contexts' waves may take turns."""
        packers = []
        for context, owned in enumerate(owners):
            packer = ScalePacker(self._config)
            m.submodules["packer" if len(owners) == 1 else f"packer_{context}"] = packer
            m.d.comb += [packer.begins.eq(begins & owned), packer.ends.eq(ends)]
            m.d.comb += packer.scales.eq(scales)
            packers.append(packer)
        flits = [(packer.valid, packer.o) for packer in packers]
        m.d.comb += [
            self.scales_valid.eq(Cat(packer.valid for packer in packers).any()),
            self.new_scales.as_value().eq(one_of(flits)),
        ]
