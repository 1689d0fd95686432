"""What the accelerator's blocks hand to each other, and the codes that an operation ends with."""

from amaranth import unsigned
from amaranth.lib import data, enum

from ..arithmetic.inq_reducer import blocks_per_flit
from ..config import SwitchConfig
from ..interfaces import Collective, Format, Operation

__all__ = [
    "CODE_BYTES",
    "ELEMENT_BYTES",
    "FLAG_TAG",
    "INTEGER_BYTES",
    "LENGTH_BITS",
    "OperationLayout",
    "POST_RULES",
    "STATUS_MEANINGS",
    "Status",
    "WaveLayout",
    "address_kinds",
    "block_flits",
    "choice_fields",
    "chunk_fields",
    "context_bits",
    "entry_bits",
    "flit_scale_bits",
    "operation_length_bits",
    "operation_slots",
    "packet_bits",
    "slot_bits",
    "subset_fields",
    "write_slot_bits",
    "write_tag_bits",
]

#: Bytes of a floating-point number, of an integer, and of a code of a quantized operand.
ELEMENT_BYTES = 2
INTEGER_BYTES = 4
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
    BAD_RANKS = 0x07
    DISABLED = 0x08
    OUT_OF_WINDOW = 0x09
    DRAINING = 0x0A
    BAD_OPERATION = 0x0B
    BAD_CHUNK = 0x0C
    MEMBERS_POST = 0x0D
    # Ended early: each wave is old or new.
    READ_SLVERR = 0x12
    READ_DECERR = 0x13
    WRITE_SLVERR = 0x22
    WRITE_DECERR = 0x23
    # Ended by its context's watchdog, or with it: each packet is old or new.
    NOT_ARRIVED = 0x31
    READ_TIMEOUT = 0x32
    WRITE_TIMEOUT = 0x33
    FLAG_TIMEOUT = 0x34
    # Ended since a member cannot be reached; also refused when posted.
    LINK_DOWN = 0x38
    ABORTED = 0x40
    # Ended before it began: what members have posted does not fit together.
    DISAGREES = 0x50


#: What each code says, and whose the rank beside it is ("" where it says nothing).
STATUS_MEANINGS: dict[Status, tuple[str, str]] = {
    Status.OK: ("done", ""),
    Status.BAD_FORMAT: ("refused: the format is unknown or not built", ""),
    Status.BAD_LENGTH: ("refused: no whole elements, or 2^40 bytes and more", ""),
    Status.UNALIGNED: ("refused: the flag is off 8 bytes, or another address off the flit", "its"),
    Status.OUT_OF_RANGE: ("refused: a range ends beyond the memory", "its"),
    Status.OVERLAP: ("refused: two ranges share a flit, and may not be identical", "its"),
    Status.QUEUE_FULL: ("refused: `queue_depth` operations wait already", ""),
    Status.BAD_RANKS: (
        "refused: no rank to read, none to write, several to copy, or no member",
        "",
    ),
    Status.DISABLED: ("refused, or ended: the context is not enabled", ""),
    Status.OUT_OF_WINDOW: ("refused: a range leaves the context's window", "its"),
    Status.DRAINING: ("refused: a member still owes answers of an operation that failed", "its"),
    Status.BAD_OPERATION: (
        "refused: operation or collective is unknown, not built, or not for the format",
        "",
    ),
    Status.BAD_CHUNK: ("refused: a chunk is no whole flits, none, or 2^40 bytes and more", ""),
    Status.MEMBERS_POST: ("refused: the context's members post, and no host", ""),
    Status.READ_SLVERR: ("a read was answered with SLVERR", "its"),
    Status.READ_DECERR: ("a read was answered with DECERR", "its"),
    Status.WRITE_SLVERR: ("a write was answered with SLVERR", "its"),
    Status.WRITE_DECERR: ("a write was answered with DECERR", "its"),
    Status.NOT_ARRIVED: ("watchdog: others have arrived, this rank has not", "its"),
    Status.READ_TIMEOUT: ("watchdog: read data does not come, or requests do not go", "its"),
    Status.WRITE_TIMEOUT: ("watchdog: writes are not taken, or not answered", "its"),
    Status.FLAG_TIMEOUT: ("watchdog: a flag is not taken", "its"),
    Status.LINK_DOWN: ("refused, or ended: the link to a member is down", "its"),
    Status.DISAGREES: (
        "members have posted different lengths, formats, ranks or chunks",
        "the odd one",
    ),
    Status.ABORTED: ("a host ended it, or an operation before it in its context was ended", ""),
}


#: What an instruction must keep to be taken, in the order in which it is looked at: rules in
#: common, then by rank, from 0 up, those of its addresses. The first that is broken gives the code.
POST_RULES: dict[Status, str] = {
    Status.MEMBERS_POST: "a host posts: the context's instructions do not come from its members",
    Status.DISABLED: "the context is enabled",
    Status.QUEUE_FULL: "room for one more operation",
    Status.BAD_FORMAT: "the format is known, and built",
    Status.BAD_OPERATION: "operation and collective are known, built, and for the format; what is "
    "gathered is copied; quantized operands are summed, whole",
    Status.BAD_LENGTH: "whole elements (2 bytes, of `inq8` 1 byte, of `int32` 4), below 2^40 bytes",
    Status.BAD_CHUNK: "of a collective with chunks: whole flits, not 0, below 2^40 bytes",
    Status.BAD_RANKS: "sources and destinations are members, at least one each; one source of a "
    "copy that is not gathered",
    Status.LINK_DOWN: "the links of all members are up",
    Status.DRAINING: "no member owes answers or a flag of what has failed",
    Status.UNALIGNED: "the flag on 8 bytes, every other address on the flit grid",
    Status.OUT_OF_RANGE: "every range ends inside the memory",
    Status.OUT_OF_WINDOW: "every range lies inside the context's window",
    Status.OVERLAP: "all ranges disjoint; but source and destination may be identical, and so may "
    "the scales' two",
}


def address_kinds(config: SwitchConfig) -> tuple[str, ...]:
    """The addresses that an instruction has for each rank, by the names of their ports."""
    kinds = ("source", "destination", "flag")
    return (*kinds, "scale_source", "scale_destination") if config.quantizes else kinds


def operation_slots(config: SwitchConfig) -> int:
    """Slots of the ring: operations queued, one reading, one writing, one being staged."""
    return 1 << (config.queue_depth + 2).bit_length()


def slot_bits(config: SwitchConfig) -> int:
    return (operation_slots(config) - 1).bit_length()


def context_bits(config: SwitchConfig) -> int:
    return (config.contexts - 1).bit_length()


def write_slot_bits(config: SwitchConfig) -> int:
    """Bits of a write-phase slot's number in its context (at least one)."""
    return max(1, (config.write_waves - 1).bit_length())


def write_tag_bits(config: SwitchConfig) -> int:
    """Bits of the tag of a data write: the slot, above it the context."""
    return write_slot_bits(config) + context_bits(config)


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


def subset_fields(config: SwitchConfig) -> dict:
    """The ranks that an operation reads and those that it writes, where that may be some of them.

    Without subsets all ranks are both, and nothing has to say so.
    """
    ranks = unsigned(config.ranks)
    return {"sources": ranks, "destinations": ranks} if config.subsets else {}


def choice_fields(config: SwitchConfig) -> dict:
    """What becomes of the operands, where an instruction may ask for more than sums."""
    return {"operation": Operation} if config.chooses_operation else {}


def chunk_fields(config: SwitchConfig) -> dict:
    """How the vector is cut, where an instruction may ask for that; a chunk's bytes."""
    if not config.chunks:
        return {}
    return {"collective": Collective, "chunk": unsigned(operation_length_bits(config))}


class OperationLayout(data.StructLayout):
    """An operation on its way from the queue to the wave controller.

    See `subset_fields`, `choice_fields` and `chunk_fields`.
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "slot": unsigned(slot_bits(config)),
                "format": Format,
                "length": unsigned(operation_length_bits(config)),
            }
            | subset_fields(config)
            | choice_fields(config)
            | chunk_fields(config)
        )


class WaveLayout(data.StructLayout):
    """A wave that reads, in the order of read-out.

    ``size`` is its bytes; 0 for a wave that only ends its operation. ``first`` and ``last`` are
    within the operation. See `subset_fields` and `choice_fields`.
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
            | subset_fields(config)
            | choice_fields(config)
        )
