"""What the accelerator's blocks hand to each other, and the codes that an operation ends with."""

from amaranth import unsigned
from amaranth.lib import data, enum

from ..arithmetic.inq_reducer import blocks_per_flit
from ..config import SwitchConfig
from ..interfaces import Format

__all__ = [
    "CODE_BYTES",
    "ELEMENT_BYTES",
    "FLAG_TAG",
    "LENGTH_BITS",
    "OperationLayout",
    "Status",
    "WaveLayout",
    "address_kinds",
    "block_flits",
    "entry_bits",
    "flit_scale_bits",
    "operation_length_bits",
    "operation_slots",
    "packet_bits",
    "slot_bits",
]

#: Bytes of a plain number, and of a code of a quantized operand.
ELEMENT_BYTES = 2
CODE_BYTES = 1
#: Width of an operation's length in bytes.
LENGTH_BITS = 40
#: Set in the tag of a flag's write, so that its acknowledgement is not counted with data.
FLAG_TAG = 1 << 15


class Status(enum.Enum, shape=8):
    """How an operation, or the attempt to post one, ended."""

    OK = 0x00
    # Refused when posted: nothing was queued, no memory touched.
    BAD_FORMAT = 0x01
    BAD_LENGTH = 0x02
    UNALIGNED = 0x03
    OUT_OF_RANGE = 0x04
    OVERLAP = 0x05
    QUEUE_FULL = 0x06
    # Ended early: each wave is old or new.
    READ_SLVERR = 0x12
    READ_DECERR = 0x13
    WRITE_SLVERR = 0x22
    WRITE_DECERR = 0x23


def address_kinds(config: SwitchConfig) -> tuple[str, ...]:
    """The addresses that an instruction has for each rank, by the names of their ports."""
    kinds = ("source", "destination", "flag")
    return (*kinds, "scale_source", "scale_destination") if config.quantizes else kinds


def operation_slots(config: SwitchConfig) -> int:
    """Slots of the ring: operations queued, one reading, one writing, one being staged."""
    return 1 << (config.queue_depth + 2).bit_length()


def slot_bits(config: SwitchConfig) -> int:
    return (operation_slots(config) - 1).bit_length()


def entry_bits(config: SwitchConfig) -> int:
    """Bits of a wave table entry's number (at least one, so that it can be named in a layout)."""
    return max(1, (config.waves - 1).bit_length())


def packet_bits(config: SwitchConfig) -> int:
    """Low bits of a read tag: the packet's number in its wave, behind the data's the scales'."""
    return (config.packets_per_wave + config.scale_packets - 1).bit_length()


def operation_length_bits(config: SwitchConfig) -> int:
    """Width of a checked operation's length: that of a memory."""
    return min(LENGTH_BITS, config.memory_bytes.bit_length())


def block_flits(config: SwitchConfig) -> int:
    """Flits of a whole block of codes; 1 where a flit has several blocks."""
    return max(1, config.block // config.flit_bytes)


def flit_scale_bits(config: SwitchConfig) -> int:
    """Bits of the scales of all blocks that have codes in one flit."""
    return 8 * config.scale_bytes * blocks_per_flit(config.flit_bytes, config.block)


class OperationLayout(data.StructLayout):
    """An operation on its way from the queue to the wave controller."""

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "slot": unsigned(slot_bits(config)),
                "format": Format,
                "length": unsigned(operation_length_bits(config)),
            }
        )


class WaveLayout(data.StructLayout):
    """A wave that reads, in the order of read-out.

    ``size`` is its bytes; 0 for a wave that only ends its operation. ``first`` and ``last`` are
    within the operation.
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "slot": unsigned(slot_bits(config)),
                "format": Format,
                "entry": unsigned(entry_bits(config)),
                "size": unsigned(config.wave_bytes.bit_length()),
                "first": unsigned(1),
                "last": unsigned(1),
            }
        )
