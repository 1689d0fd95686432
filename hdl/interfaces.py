"""What travels: message classes, headers, flits, streams of packets, AXI4 and storage ports.

Every signature is written from the initiator's or source's side.
"""

from amaranth import unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from .config import SwitchConfig

__all__ = [
    "Axi4LiteSignature",
    "Axi4Signature",
    "Collective",
    "Flit",
    "Format",
    "Header",
    "LinkSignature",
    "LinkState",
    "MessageClass",
    "Operation",
    "Response",
    "StorageSignature",
    "VIRTUAL_CHANNELS",
    "carries_payload",
    "is_inc",
    "virtual_channel",
]


class MessageClass(enum.Enum, shape=2):
    """The four kinds of memory message. Each has credits of its own."""

    READ_REQUEST = 0
    READ_DATA = 1
    WRITE_DATA = 2
    WRITE_RESPONSE = 3


class Format(enum.Enum, shape=2):
    """Number format of an operand; the code is a field of the instruction."""

    FP16 = 0
    BF16 = 1
    INQ8 = 2
    INT32 = 3


class Operation(enum.Enum, shape=3):
    """What becomes of the ranks' operands; the code is a field of the instruction."""

    SUM = 0
    MAX = 1
    MIN = 2
    AVERAGE = 3
    COPY = 4  # of the only rank that is read: its bits, whatever they mean


class Collective(enum.Enum, shape=2):
    """Which part of the vector goes from whom to whom; the code is a field of the instruction."""

    WHOLE = 0  # all of it from every source to every destination
    GATHER = 1  # chunk i from the i-th source, to every destination
    SCATTER = 2  # from every source, chunk i to the i-th destination


class Response(enum.Enum, shape=2):
    """AXI4 response codes. A larger code is the worse one, so that merging is a maximum."""

    OKAY = 0
    EXOKAY = 1
    SLVERR = 2
    DECERR = 3


class LinkState(enum.Enum, shape=2):
    """What one end of a link says of itself, and what the other hears; see `LinkEnd`."""

    UP = 0
    DOWN = 1  # what was under way before is being ended here
    CLEAN = 2  # nothing of before is left here
    SILENT = 3  # no end says so: the line carries nothing


#: Virtual channels on a link: one a message class, for ordinary and for accelerator traffic.
VIRTUAL_CHANNELS = 8


def virtual_channel(message_class: MessageClass, inc: bool) -> int:
    """The number of the virtual channel of a class; INC ones are the upper four."""
    return message_class.value + (4 if inc else 0)


def is_inc(channel):
    """Whether a virtual channel is the accelerator's; for numbers and for signals."""
    return channel >= len(MessageClass)


def carries_payload(channel: int) -> bool:
    """Whether packets of a virtual channel may have payload: those of the data classes."""
    return MessageClass(channel % len(MessageClass)) in (
        MessageClass.READ_DATA,
        MessageClass.WRITE_DATA,
    )


#: Header fields from bit 0 up: 102 bits, sent in one flit, or in two where a flit is 8 bytes.
HEADER_FIELDS = {
    "message_class": MessageClass,
    "inc": unsigned(1),  # from or to the in-switch accelerator
    "source": unsigned(4),  # rank that sent it; for INC packets the accelerator's port
    "destination": unsigned(4),
    "context": unsigned(4),
    "generation": unsigned(4),  # distinguishes uses of one tag
    "status": Response,  # of a write response, and of read data that has no payload
    "tag": unsigned(16),
    "address": unsigned(48),
    "length": unsigned(17),  # bytes asked for, or carried
}

Header = data.StructLayout(HEADER_FIELDS)


class Flit(data.StructLayout):
    """What a link carries in one cycle.

    Members
    -------
    channel : virtual channel
    first, last : the packet's first and last flit
    response : of a read-data payload flit: how its AXI beat ended (`Response`); else OKAY
    data : header bits or payload
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "channel": unsigned(3),
                "first": unsigned(1),
                "last": unsigned(1),
                "response": Response,
                "data": unsigned(config.flit_bits),
            }
        )


class Beat(data.StructLayout):
    """One beat of a packet inside the switch: the header beside each flit of payload.

    A packet without payload is one beat with ``empty`` set.
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "header": Header,
                "data": unsigned(config.flit_bits),
                "response": Response,
                "empty": unsigned(1),
                "first": unsigned(1),
                "last": unsigned(1),
            }
        )


class PacketHead(data.StructLayout):
    """What a transmitter must know before it starts a packet: the header and the payload flits."""

    def __init__(self, config: SwitchConfig):
        super().__init__({"header": Header, "flits": unsigned(config.payload_flits.bit_length())})


class PayloadFlit(data.StructLayout):
    """A flit of payload on its way to a transmitter."""

    def __init__(self, config: SwitchConfig):
        super().__init__({"data": unsigned(config.flit_bits), "response": Response})


class PacketSource(wiring.Signature):
    """A queue of packets that a transmitter draws from: heads, and the payload behind them.

    A head is offered only when its payload will follow without waiting for anything but the
    rank's own memory.
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "head": Out(stream.Signature(PacketHead(config))),
                "payload": Out(stream.Signature(PayloadFlit(config))),
            }
        )


class LinkSignature(wiring.Signature):
    """One direction of a link at its sending end: a flit and returned credits each cycle.

    ``credit`` travels beside the flits and returns credits for the *other* direction, one bit a
    virtual channel. So does ``state``, the sending end's, where contexts outlive failures: links
    may go down and come back there.
    """

    def __init__(self, config: SwitchConfig):
        super().__init__(
            {
                "valid": Out(1),
                "flit": Out(Flit(config)),
                "credit": Out(VIRTUAL_CHANNELS),
            }
            | ({"state": Out(LinkState)} if config.recovers else {})
        )


class StorageSignature(wiring.Signature):
    """A memory array with one read and one write port a cycle, seen from its user.

    Addresses count flits. ``read_data`` follows ``read_enable`` by one cycle and holds; a read and
    a write of one address in the same cycle read the old value.
    """

    def __init__(self, config: SwitchConfig):
        address = max(1, (config.memory_flits - 1).bit_length())
        super().__init__(
            {
                "read_enable": Out(1),
                "read_address": Out(address),
                "read_data": In(config.flit_bits),
                "write_enable": Out(1),
                "write_address": Out(address),
                "write_data": Out(config.flit_bits),
                "write_strobe": Out(config.flit_bytes),
            }
        )


class Axi4Signature(wiring.Signature):
    """AXI4, manager's side, INCR bursts of full-width beats; names as in the specification."""

    def __init__(self, *, address_bits: int, data_bytes: int, id_bits: int = 1):
        self._parameters = (address_bits, data_bytes, id_bits)
        members = {}
        for channel in ("aw", "ar"):
            members |= {
                f"{channel}id": Out(id_bits),
                f"{channel}addr": Out(address_bits),
                f"{channel}len": Out(8),
                f"{channel}size": Out(3),
                f"{channel}burst": Out(2),
                f"{channel}valid": Out(1),
                f"{channel}ready": In(1),
            }
        members |= {
            "wdata": Out(8 * data_bytes),
            "wstrb": Out(data_bytes),
            "wlast": Out(1),
            "wvalid": Out(1),
            "wready": In(1),
            "bid": In(id_bits),
            "bresp": In(2),
            "bvalid": In(1),
            "bready": Out(1),
            "rid": In(id_bits),
            "rdata": In(8 * data_bytes),
            "rresp": In(2),
            "rlast": In(1),
            "rvalid": In(1),
            "rready": Out(1),
        }
        super().__init__(members)

    def __eq__(self, other):
        return isinstance(other, Axi4Signature) and self._parameters == other._parameters


class Axi4LiteSignature(wiring.Signature):
    """AXI4-Lite, manager's side, 32-bit data; names as in the specification."""

    def __init__(self, *, address_bits: int = 16):
        self._parameters = (address_bits,)
        super().__init__(
            {
                "awaddr": Out(address_bits),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(address_bits),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(32),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )

    def __eq__(self, other):
        return isinstance(other, Axi4LiteSignature) and self._parameters == other._parameters
