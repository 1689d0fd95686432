"""How many bytes of scales go with a wave."""

from amaranth import Module, Mux, Signal
from amaranth.utils import exact_log2

from ..config import SwitchConfig
from ..interfaces import Format

__all__ = ["scales_of"]


def scales_of(m: Module, config: SwitchConfig, format, size) -> Signal:
    """Bytes of the scales of a wave of `size` bytes; 0 unless its `format` has scales."""
    blocks = (size + (config.block - 1)) >> exact_log2(config.block)
    scales = Signal(config.scale_chunk_bytes.bit_length(), name="scale_size")
    m.d.comb += scales.eq(Mux(format == Format.INQ8, blocks << exact_log2(config.scale_bytes), 0))
    return scales
