"""The one parameter object: every size that is fixed when a switch is built.

Latency, jitter, stalls and skew are run-time registers; the fields named here for them are
their reset values, so one build serves many different runs.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

__all__ = ["ConfigError", "PRESETS", "SwitchConfig", "Traffic"]

#: Formats that the datapath knows, in the order of their codes in an instruction.
KNOWN_FORMATS = ("fp16", "bf16", "inq8", "int32")
#: Formats that a configuration has unless told.
DEFAULT_FORMATS = ("fp16", "bf16")
#: Of them, those whose numbers have an exponent.
FLOATS = ("fp16", "bf16")

#: What may be done with the ranks' operands, in the order of their codes in an instruction.
KNOWN_OPERATIONS = ("sum", "max", "min", "average")
#: Operations that a configuration has unless told.
DEFAULT_OPERATIONS = ("sum",)
#: The operations that a format has where they are built.
OPERATIONS_OF = {
    "fp16": KNOWN_OPERATIONS,
    "bf16": KNOWN_OPERATIONS,
    "inq8": ("sum",),
    "int32": ("sum", "max", "min"),
}

#: Bytes of a scale by format.
SCALE_BYTES = {"fp16": 2, "bf16": 2, "e8m0": 1}
#: Codes that may share a scale.
INQ_BLOCKS = (32, 64, 128, 256, 512)
#: How the exponent of an E8M0 scale is chosen: so that no code clips, or as OCP MX does.
E8M0_RULES = ("ceil", "floor")
#: What an instruction may do: the same vector at all ranks, or any collective over any of them.
COLLECTIVES = ("all-reduce", "all")
#: Whether quantized sums have multipliers of their own, or share them with fp16's.
INQ_REDUCERS = ("separate", "shared")

#: Fewest and most records of a trace buffer.
TRACE_RECORDS = (64, 1 << 16)

#: Where registers stand that only cut long ways: nowhere, or between all blocks that are apart.
REGISTER_SLICES = ("none", "all")

#: What register slices add: to a credit's round trip the transmitter's look at its credits and its
#: sources, to a read the address's and the data's slices, the array's and the transmitter's.
SLICED_ROUND_TRIP = 2
SLICED_READ = 4

#: Ways to share a link between the accelerator and the core.
LINK_SHARES = ("flits", "packets")
#: What ordinary packets meet in the switch: no channels at all, an error for each, or the way to
#: another rank.
CORES = ("none", "stub", "forward")

#: Fields whose value is a name, and the names.
NAMED_VALUES = {
    "scale_format": tuple(SCALE_BYTES),
    "e8m0_rule": E8M0_RULES,
    "inq_reducer": INQ_REDUCERS,
    "link_share": LINK_SHARES,
    "core": CORES,
    "register_slices": REGISTER_SLICES,
    "collectives": COLLECTIVES,
}

#: Fields whose value is a list of names.
LISTED_VALUES = ("formats", "operations")

#: Fields that came after the digests of 0.1.0, and the value at which the design is as it was
#: without them. The digest leaves them out there, so that it goes on naming the same design.
LATER_FIELDS = {
    "trace_records": 0,
    "core": "stub",
    "window_bytes": None,
    "traffic_requests": 64,
    "register_slices": "none",
    "operations": list(DEFAULT_OPERATIONS),
    "collectives": "all-reduce",
}

#: AXI4: a burst may not cross an address that is a multiple of this many bytes.
AXI_PAGE_BYTES = 4096
#: AXI4: the longest INCR burst.
AXI_MAX_BEATS = 256
#: A header takes this many bits on the wire (see `hdl.interfaces.Header`), rounded to flits.
HEADER_BYTES = 16


class ConfigError(ValueError):
    """A field breaks a rule. The message names the field, the rule and the value."""


class Traffic(NamedTuple):
    """What one rank's operand takes on a link: flits of payload, packets of them, read requests."""

    flits: int
    packets: int
    requests: int


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _next_power_of_two(value: int) -> int:
    return 1 << max(value - 1, 0).bit_length()


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def unknown_name(kind: str, name: str, valid) -> str:
    """One line for a name that does not exist: the valid ones, and the nearest."""
    valid = list(valid)
    near = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{kind}: must be one of {', '.join(valid)}, not {name!r}{hint}"


@dataclass(frozen=True, kw_only=True)
class SwitchConfig:
    """Everything that is fixed when a switch and its emulated ranks are built.

    Parameters
    ----------
    ranks
        Attached accelerators, 2..16; one switch port each.
    flit_bytes
        Bytes that a link carries in one cycle: a power of two, 8..64. Also the AXI4 data width.
    payload_bytes
        Largest packet payload: a multiple of the flit, at most 4096 bytes and 256 flits.
    wave_bytes
        Bytes of one wave, the unit of buffering and regulation: a multiple of ``payload_bytes``
        and of ``block``, at most 64 KiB.
    waves
        Entries of each wave table (the paper's k): a power of two, 1..64. At most this many waves
        are reading.
    write_waves
        Bound on the waves in their write phase: a power of two, 1..128; None is ``2 * waves``.
    read_request_bytes
        Bytes that one read request asks for: a multiple of ``payload_bytes`` that divides
        ``wave_bytes``; None is ``payload_bytes``.
    block
        Values that share a scale in quantized operations: a power of two, 2..4096.
    address_bits
        Width of a rank's byte address, 12..48.
    memory_bytes
        Memory of one rank: a multiple of the flit, at least a wave; an access beyond it is a
        decode error.
    contexts
        Tenants, 1..8, at most as many as ``waves``: each has a barrier, instructions, members,
        windows and a share of the wave tables of its own.
    queue_depth
        Instructions that a context's queue holds, 1..64.
    formats
        Number formats that are built, of ``fp16``, ``bf16``, ``inq8`` and ``int32``.
    scale_format
        Format of a block's scale in quantized operations: ``fp16``, ``bf16`` or ``e8m0``.
    e8m0_rule
        How an E8M0 scale is chosen: ``ceil`` (no code clips) or ``floor`` (OCP MX, codes
        saturate).
    inq_reducer
        ``separate``: quantized sums have multipliers of their own and take a flit each cycle.
        ``shared``: fp16 and inq8 use one set of them, and inq8 takes a flit every second cycle;
        for those two formats and fp16 scales.
    multiplier_bits
        Bits of a scale that one multiplier takes, without a sign, 8..32: 24 for a 7-series DSP
        slice, 17 for an ECP5 one.
    link_latency
        Cycles from a transmitter's output to the receiver at the link's other end: reset value,
        2..16384.
    link_latency_max
        The longest that the link's delay line is built for: a power of two, at least
        ``link_latency``; None is the smallest one from 8 on.
    memory_latency
        Cycles from a read address taken to its first data beat: reset value, 2..16384.
    link_share
        How a port's link is shared by accelerator and core: ``flits`` (round robin weighted by
        flits) or ``packets`` (plain round robin, the paper's).
    clock_hz
        Clock that turns cycles into time in reports, 1..10^12; boards also constrain it.
    trace_records
        Records of the trace buffer, a record a cycle with events: a power of two, 64..65536; 0 for
        no trace buffer.
    core
        ``none``: links have no channels for ordinary packets, which saves their buffers. ``stub``:
        every ordinary packet is answered with a decode error. ``forward``: ordinary reads and
        writes go from any rank to any other.
    window_bytes
        Where ordinary packets are forwarded: rank r's memory begins at r times this address. A
        power of two that holds ``memory_bytes``; None is the smallest.
    traffic_requests
        Where ordinary packets are forwarded: requests that an emulated rank's traffic generator
        may have outstanding, a power of two, 1..1024.
    register_slices
        ``all``: registers cut the ways between blocks, for a device whose wires are slow; an
        operation takes some cycles longer, a wave none. ``none``: fewest cycles.
    operations
        Operations that are built: ``sum``, and of ``max``, ``min`` and ``average`` what is named.
        Each works in the formats that have it: averages in fp16 and bf16, the largest and the
        smallest there and in int32, sums in all.
    collectives
        ``all-reduce``: an operation reads all members of its context and writes all. ``all``: it
        reads some and writes some (Reduce, Broadcast), and may cut the vector into a chunk a rank
        (All-Gather, Reduce-Scatter).
    """

    ranks: int = 4
    flit_bytes: int = 16
    payload_bytes: int = 128
    wave_bytes: int = 1024
    waves: int = 8
    write_waves: int | None = None
    read_request_bytes: int | None = None
    block: int = 64
    address_bits: int = 48
    memory_bytes: int = 4 << 20
    contexts: int = 1
    queue_depth: int = 4
    formats: tuple[str, ...] = DEFAULT_FORMATS
    scale_format: str = "fp16"
    e8m0_rule: str = "ceil"
    inq_reducer: str = "separate"
    multiplier_bits: int = 24
    link_latency: int = 32
    link_latency_max: int | None = None
    memory_latency: int = 16
    link_share: str = "flits"
    clock_hz: int = 250_000_000
    trace_records: int = 0
    core: str = "stub"
    window_bytes: int | None = None
    traffic_requests: int = 64
    register_slices: str = "none"
    operations: tuple[str, ...] = DEFAULT_OPERATIONS
    collectives: str = "all-reduce"

    def __post_init__(self):
        def default(field, value):
            if getattr(self, field) is None:
                object.__setattr__(self, field, value)

        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in LISTED_VALUES:
                if isinstance(value, str):
                    value = tuple(part for part in value.split(",") if part)
                if not isinstance(value, list | tuple):
                    rule = f"must be a list of {field.name.removesuffix('s')} names"
                    self._refuse(field.name, rule, value)
                object.__setattr__(self, field.name, tuple(value))
            elif field.name in NAMED_VALUES:
                if value not in NAMED_VALUES[field.name]:
                    raise ConfigError(
                        unknown_name(field.name, str(value), NAMED_VALUES[field.name])
                    )
            elif value is None and field.default is None:
                continue
            elif isinstance(value, bool) or not isinstance(value, int):
                self._refuse(field.name, "must be a whole number", value)

        self._between("ranks", 2, 16)
        self._between("flit_bytes", 8, 64)
        self._power_of_two("flit_bytes")
        self._between("payload_bytes", self.flit_bytes, AXI_PAGE_BYTES)
        self._multiple("payload_bytes", "flit_bytes")
        if self.payload_bytes > AXI_MAX_BEATS * self.flit_bytes:
            limit = f"must be at most {AXI_MAX_BEATS} flits ({AXI_MAX_BEATS * self.flit_bytes})"
            self._refuse("payload_bytes", limit, self.payload_bytes)
        self._between("block", 2, 4096)
        self._power_of_two("block")
        self._between("wave_bytes", self.payload_bytes, 1 << 16)
        self._multiple("wave_bytes", "payload_bytes")
        self._multiple("wave_bytes", "block")
        self._between("waves", 1, 64)
        self._power_of_two("waves")
        default("write_waves", 2 * self.waves)
        self._between("write_waves", 1, 128)
        self._power_of_two("write_waves")
        default("read_request_bytes", self.payload_bytes)
        self._between("read_request_bytes", self.payload_bytes, self.wave_bytes)
        self._multiple("read_request_bytes", "payload_bytes")
        if self.wave_bytes % self.read_request_bytes:
            rule = f"must divide wave_bytes ({self.wave_bytes})"
            self._refuse("read_request_bytes", rule, self.read_request_bytes)
        self._between("address_bits", 12, 48)
        self._between("memory_bytes", self.wave_bytes, 1 << self.address_bits)
        self._multiple("memory_bytes", "flit_bytes")
        self._between("contexts", 1, 8)
        if self.contexts > self.waves:
            rule = f"must be at most waves ({self.waves}), so that each has an entry"
            self._refuse("contexts", rule, self.contexts)
        self._between("queue_depth", 1, 64)
        self._names("formats", KNOWN_FORMATS)
        self._names("operations", KNOWN_OPERATIONS)
        if "sum" not in self.operations:
            self._refuse("operations", "must name sum", ",".join(self.operations))
        self._between("multiplier_bits", 8, 32)
        if self.quantizes:
            self._check_quantized()
        elif self.inq_reducer == "shared":
            self._refuse("inq_reducer", "must be separate where inq8 is not built", "shared")
        self._between("link_latency", 2, 1 << 14)
        default("link_latency_max", max(8, _next_power_of_two(self.link_latency)))
        self._between("link_latency_max", self.link_latency, 1 << 14)
        self._power_of_two("link_latency_max")
        self._between("memory_latency", 2, 1 << 14)
        self._between("clock_hz", 1, 10**12)
        if self.trace_records:
            low, high = TRACE_RECORDS
            if not low <= self.trace_records <= high:
                self._refuse("trace_records", f"must be 0 or {low}..{high}", self.trace_records)
            self._power_of_two("trace_records")
        self._check_core()

        packets = self.packets_per_wave + self.scale_packets
        tag_bits = (self.waves - 1).bit_length() + (packets - 1).bit_length()
        if tag_bits > 16:
            rule = f"waves times packets in a wave ({packets}) must fit a 16-bit tag"
            self._refuse("waves", rule, self.waves)

    # -- checks ---------------------------------------------------------------------------------

    def _check_quantized(self):
        """Rules that only hold where inq8 is built."""
        if self.block not in INQ_BLOCKS:
            rule = f"must be one of {', '.join(map(str, INQ_BLOCKS))} where inq8 is built"
            self._refuse("block", rule, self.block)
        chunk = self.wave_bytes // self.block * SCALE_BYTES[self.scale_format]
        if chunk % self.flit_bytes:
            rule = (
                f"must give whole flits of {self.flit_bytes} bytes of scales where inq8 is built: "
                f"a multiple of {self.flit_bytes // SCALE_BYTES[self.scale_format]} blocks of "
                f"{self.block}"
            )
            self._refuse("wave_bytes", rule, self.wave_bytes)
        if self.inq_reducer == "separate":
            return
        if set(self.formats) != {"fp16", "inq8"}:
            rule = "must be fp16 and inq8 where inq_reducer is shared"
            self._refuse("formats", rule, ",".join(self.formats))
        if self.operations != DEFAULT_OPERATIONS:
            rule = "must be sum where inq_reducer is shared"
            self._refuse("operations", rule, ",".join(self.operations))
        if self.collectives != "all-reduce":
            rule = "must be all-reduce where inq_reducer is shared"
            self._refuse("collectives", rule, self.collectives)
        if self.scale_format != "fp16":
            self._refuse(
                "scale_format", "must be fp16 where inq_reducer is shared", self.scale_format
            )
        if self.block < self.flit_bytes:
            rule = f"must be at least flit_bytes ({self.flit_bytes}) where inq_reducer is shared"
            self._refuse("block", rule, self.block)

    def _check_core(self):
        """Rules of ordinary traffic."""
        self._between("traffic_requests", 1, 1024)
        self._power_of_two("traffic_requests")
        if self.window_bytes is not None:
            self._between("window_bytes", self.memory_bytes, 1 << self.address_bits)
            self._power_of_two("window_bytes")
        if self.forwards and self.ranks * self.map_window_bytes > 1 << self.address_bits:
            rule = f"must leave room for {self.ranks} windows of {self.map_window_bytes} bytes"
            self._refuse("address_bits", rule, self.address_bits)

    def _refuse(self, field: str, rule: str, value):
        raise ConfigError(f"{field}: {rule}, not {value!r}")

    def _between(self, field: str, low: int, high: int):
        value = getattr(self, field)
        if not low <= value <= high:
            self._refuse(field, f"must be {low}..{high}", value)

    def _power_of_two(self, field: str):
        if not _is_power_of_two(getattr(self, field)):
            self._refuse(field, "must be a power of two", getattr(self, field))

    def _names(self, field: str, known: tuple[str, ...]):
        """The field lists names of `known`, each once, and at least one."""
        names = getattr(self, field)
        one = field.removesuffix("s")
        if not names:
            self._refuse(field, f"must name at least one {one}", names)
        for name in names:
            if name not in known:
                raise ConfigError(unknown_name(field, str(name), known))
        if len(set(names)) != len(names):
            self._refuse(field, f"must name each {one} once", names)

    def _multiple(self, field: str, of: str):
        if getattr(self, field) % getattr(self, of):
            rule = f"must be a multiple of {of} ({getattr(self, of)})"
            self._refuse(field, rule, getattr(self, field))

    # -- making, saving -------------------------------------------------------------------------

    @classmethod
    def field_names(cls) -> list[str]:
        """Names of all fields, in order."""
        return [field.name for field in dataclasses.fields(cls)]

    @classmethod
    def from_fields(cls, fields: dict) -> SwitchConfig:
        """A configuration from a mapping; keys that are no field are refused."""
        for name in fields:
            if name not in cls.field_names():
                raise ConfigError(unknown_name("field", name, cls.field_names()))
        return cls(**fields)

    @classmethod
    def preset(cls, name: str, **overrides) -> SwitchConfig:
        """The preset `name`, with single fields replaced."""
        if name not in PRESETS:
            raise ConfigError(unknown_name("preset", name, PRESETS))
        return cls.from_fields({**PRESETS[name], **overrides})

    @classmethod
    def load(cls, source: str, settings: dict | None = None) -> tuple[SwitchConfig, str | None]:
        """A configuration by preset name or from a JSON file, with `settings` on top.

        Returns the configuration and the preset's name, or None where it came from a file.
        """
        if source in PRESETS:
            return cls.preset(source, **(settings or {})), source
        if not source.endswith(".json"):
            raise ConfigError(unknown_name("preset", source, PRESETS))
        try:
            text = Path(source).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"config: cannot read {source!r}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise ConfigError(f"config: {source!r} is not UTF-8: {error.reason}") from None
        return cls.from_json(text, settings, name=repr(source)), None

    @classmethod
    def parse_setting(cls, text: str) -> tuple[str, object]:
        """One ``FIELD=VALUE`` of a command line, as (field, value)."""
        field, separator, value = text.partition("=")
        if not separator:
            raise ConfigError(f"set: must be FIELD=VALUE, not {text!r}")
        if field not in cls.field_names():
            raise ConfigError(unknown_name("field", field, cls.field_names()))
        if field in LISTED_VALUES or field in NAMED_VALUES:
            return field, value
        try:
            return field, int(value, 0)
        except ValueError:
            raise ConfigError(f"{field}: must be a whole number, not {value!r}") from None

    def to_fields(self) -> dict:
        """All fields, as JSON can hold them."""
        lists = {name: list(getattr(self, name)) for name in LISTED_VALUES}
        return {**dataclasses.asdict(self), **lists}

    def to_json(self) -> str:
        """All fields as JSON; the same text for equal configurations."""
        return json.dumps(self.to_fields(), indent=2) + "\n"

    @classmethod
    def from_json(
        cls, text: str, settings: dict | None = None, *, name: str = "text"
    ) -> SwitchConfig:
        """A configuration from JSON, with `settings` on top; errors call the text `name`."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"config: {name} is not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise ConfigError(f"config: {name} must hold one object of fields")
        return cls.from_fields({**fields, **(settings or {})})

    def replace(self, **overrides) -> SwitchConfig:
        """A copy with fields replaced. Values that were derived from others stay as they are."""
        return self.from_fields({**self.to_fields(), **overrides})

    @property
    def digest(self) -> str:
        """12 hexadecimal digits that name this configuration; see `LATER_FIELDS`."""
        fields = {
            name: value
            for name, value in self.to_fields().items()
            if name not in LATER_FIELDS or value != LATER_FIELDS[name]
        }
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    # -- derived values -------------------------------------------------------------------------

    @property
    def flit_bits(self) -> int:
        """Bits of data in a flit."""
        return 8 * self.flit_bytes

    @property
    def flit_address_bits(self) -> int:
        """Low address bits inside a flit."""
        return (self.flit_bytes - 1).bit_length()

    @property
    def lanes(self) -> int:
        """16-bit values in a flit."""
        return self.flit_bytes // 2

    @property
    def header_flits(self) -> int:
        """Flits of a packet's header."""
        return _ceil_div(HEADER_BYTES, self.flit_bytes)

    @property
    def payload_flits(self) -> int:
        """Flits of the longest payload."""
        return self.payload_bytes // self.flit_bytes

    @property
    def packet_flits(self) -> int:
        """Flits of the longest packet."""
        return self.header_flits + self.payload_flits

    @property
    def wave_flits(self) -> int:
        """Flits of a whole wave at one rank."""
        return self.wave_bytes // self.flit_bytes

    @property
    def packets_per_wave(self) -> int:
        """Payload packets of a whole wave."""
        return self.wave_bytes // self.payload_bytes

    @property
    def requests_per_wave(self) -> int:
        """Read requests of a whole wave."""
        return self.wave_bytes // self.read_request_bytes

    @property
    def subsets(self) -> bool:
        """Whether an operation may have fewer ranks than there are."""
        return self.contexts > 1 or self.chunks

    @property
    def chunks(self) -> bool:
        """Whether an operation may give every rank a chunk of the vector."""
        return self.collectives == "all"

    @property
    def recovers(self) -> bool:
        """Whether a context outlives ranks that fail, and emulated ranks can fail."""
        return self.contexts > 1

    @property
    def sliced(self) -> bool:
        """Whether registers cut the ways between blocks."""
        return self.register_slices == "all"

    @property
    def quantizes(self) -> bool:
        """Whether quantized operations are built."""
        return "inq8" in self.formats

    @property
    def sum_formats(self) -> tuple[str, ...]:
        """The formats whose operands are plain numbers."""
        return tuple(name for name in self.formats if name != "inq8")

    @property
    def float_formats(self) -> tuple[str, ...]:
        """The formats whose numbers have an exponent."""
        return tuple(name for name in self.formats if name in FLOATS)

    @property
    def integers(self) -> bool:
        """Whether integers are built."""
        return "int32" in self.formats

    @property
    def averages(self) -> bool:
        """Whether a format that is built has averages that are."""
        return "average" in self.operations and bool(self.float_formats)

    @property
    def extrema(self) -> tuple[str, ...]:
        """Of max and min, what is built in a format that is."""
        if not self.sum_formats:
            return ()
        return tuple(name for name in ("max", "min") if name in self.operations)

    @property
    def copies(self) -> bool:
        """Whether bits are copied from one rank."""
        return self.chunks and bool(self.sum_formats)

    @property
    def chooses_operation(self) -> bool:
        """Whether an instruction may ask for anything but a sum."""
        return self.averages or bool(self.extrema) or self.copies

    def operations_of(self, format: str) -> tuple[str, ...]:
        """What is built of a format's operations."""
        return tuple(name for name in OPERATIONS_OF[format] if name in self.operations)

    @property
    def scale_bytes(self) -> int:
        """Bytes of a block's scale."""
        return SCALE_BYTES[self.scale_format]

    @property
    def scale_chunk_bytes(self) -> int:
        """Bytes of a whole wave's scales; 0 where inq8 is not built."""
        return self.wave_bytes // self.block * self.scale_bytes if self.quantizes else 0

    @property
    def scale_flits(self) -> int:
        """Flits of a whole wave's scales; 0 where inq8 is not built."""
        return self.scale_chunk_bytes // self.flit_bytes

    @property
    def scale_packets(self) -> int:
        """Payload packets of a whole wave's scales; 0 where inq8 is not built."""
        return _ceil_div(self.scale_chunk_bytes, self.payload_bytes)

    @property
    def run_bytes(self) -> int:
        """Bytes whose read-out, once begun, goes on to the end: whole packets and whole blocks."""
        if not self.quantizes:
            return self.payload_bytes
        return math.lcm(self.payload_bytes, self.block)

    @property
    def memory_flits(self) -> int:
        """Flits of one rank's memory."""
        return self.memory_bytes // self.flit_bytes

    @property
    def operand_address_bits(self) -> int:
        """Width of an address inside one rank's memory; what an instruction is checked for."""
        return min(self.address_bits, self.memory_bytes.bit_length())

    @property
    def round_trip(self) -> int:
        """Cycles from spending a credit to having it back: two links and the ends' registers."""
        return 2 * self.link_latency_max + 8 + (SLICED_ROUND_TRIP if self.sliced else 0)

    @property
    def carries_ordinary(self) -> bool:
        """Whether links have channels for ordinary packets."""
        return self.core != "none"

    @property
    def forwards(self) -> bool:
        """Whether ordinary packets go from rank to rank."""
        return self.core == "forward"

    @property
    def map_window_bytes(self) -> int:
        """Distance of two ranks' windows in the address map of ordinary packets."""
        return self.window_bytes or _next_power_of_two(self.memory_bytes)

    @property
    def ordinary_credits(self) -> int:
        """Flits that either end of a link buffers of a class of forwarded packets.

        A full round trip, and the packet that waits in front: one class alone fills the link.
        """
        return self.round_trip + self.packet_flits

    @property
    def write_data_credits(self) -> int:
        """Flits a rank's endpoint buffers of the accelerator's write data: a full round trip."""
        return self.round_trip + self.packet_flits

    @property
    def read_request_credits(self) -> int:
        """Flits of read requests an endpoint buffers.

        One request in the time of a data packet, for a round trip.
        """
        packets = _ceil_div(self.round_trip, self.payload_flits + 2 * self.header_flits)
        # A wave's scales are as many requests more, and at their shortest hardly data.
        waves = _ceil_div(packets, self.packets_per_wave)
        return self.header_flits * (packets + 4 + waves * self.scale_packets)

    @property
    def endpoint_read_flits(self) -> int:
        """Read data that an endpoint has room for: covers the memory's latency at full rate."""
        slices = SLICED_READ if self.sliced else 0
        return self.memory_latency + 2 * self.payload_flits + 8 + slices

    @property
    def endpoint_reads(self) -> int:
        """Packets of read data an endpoint may have outstanding in its memory."""
        packets = _ceil_div(self.endpoint_read_flits, self.payload_flits) + 1
        waves = _ceil_div(packets, self.packets_per_wave)
        return packets + waves * self.scale_packets

    def scales_bytes(self, codes: int) -> int:
        """Bytes of the scales of `codes` codes."""
        return _ceil_div(codes, self.block) * self.scale_bytes

    def packets(self, data_bytes: int) -> int:
        """Payload packets that `data_bytes` of one rank's operand take."""
        full, rest = divmod(data_bytes, self.wave_bytes)
        return full * self.packets_per_wave + _ceil_div(rest, self.payload_bytes)

    def requests(self, data_bytes: int) -> int:
        """Read requests that `data_bytes` of one rank's operand take."""
        full, rest = divmod(data_bytes, self.wave_bytes)
        return full * self.requests_per_wave + _ceil_div(rest, self.read_request_bytes)

    def payload_cycles(self, data_bytes: int) -> int:
        """Flits, so cycles at line rate, that the bare operand takes."""
        return _ceil_div(data_bytes, self.flit_bytes)

    def _scale_pieces(self, codes: int, most: int) -> int:
        """Pieces of at most `most` bytes in which the scales of `codes` codes travel."""
        full, rest = divmod(codes, self.wave_bytes)
        whole = full * _ceil_div(self.scales_bytes(self.wave_bytes), most)
        return whole + _ceil_div(self.scales_bytes(rest), most)

    def traffic(self, data_bytes: int, format: str = "fp16") -> Traffic:
        """What `data_bytes` of one rank's operand take on a link, its scales included."""
        flits, packets = self.payload_cycles(data_bytes), self.packets(data_bytes)
        requests = self.requests(data_bytes)
        if format == "inq8":
            flits += _ceil_div(self.scales_bytes(data_bytes), self.flit_bytes)
            packets += self._scale_pieces(data_bytes, self.payload_bytes)
            requests += self._scale_pieces(data_bytes, self.read_request_bytes)
        return Traffic(flits, packets, requests)

    def utilization_bound(self, data_bytes: int, format: str = "fp16") -> float | None:
        """The limit of utilization that headers, requests, responses and scales leave.

        It is that of the busier link: to a rank go write packets and read requests, from it read
        data and write responses.
        """
        if data_bytes == 0:
            return None
        flits, packets, requests = self.traffic(data_bytes, format)
        headers = self.header_flits * (packets + max(requests, packets))
        return self.payload_cycles(data_bytes) / (flits + headers)


#: Preset configurations; `docs/configuration.md` says what each is for.
PRESETS: dict[str, dict] = {
    "tiny": dict(
        ranks=3, flit_bytes=8, payload_bytes=32, wave_bytes=256, waves=4,
        link_latency=3, link_latency_max=32, memory_latency=2,
        memory_bytes=16 << 10, clock_hz=100_000_000,
    ),
    "demo": dict(
        ranks=4, flit_bytes=16, payload_bytes=128, wave_bytes=1024, waves=8,
        link_latency=32, link_latency_max=64, memory_latency=16,
        memory_bytes=4 << 20, clock_hz=250_000_000,
    ),
    "arty": dict(
        ranks=4, flit_bytes=8, payload_bytes=128, wave_bytes=512, waves=8,
        write_waves=4, queue_depth=1, address_bits=32, link_latency=4, memory_latency=4,
        memory_bytes=16 << 10, formats=("fp16",), core="none", clock_hz=100_000_000,
    ),
    "arty-100": dict(
        ranks=4, flit_bytes=8, payload_bytes=128, wave_bytes=512, waves=8,
        queue_depth=4, address_bits=32, link_latency=4, memory_latency=4,
        memory_bytes=16 << 10, formats=("fp16", "inq8"), clock_hz=100_000_000,
    ),
    "ulx3s-85f": dict(
        ranks=4, flit_bytes=8, payload_bytes=128, wave_bytes=512, waves=8,
        write_waves=4, queue_depth=1, address_bits=32, link_latency=4, memory_latency=4,
        memory_bytes=16 << 10, formats=("fp16",), multiplier_bits=17, clock_hz=50_000_000,
    ),
    "ecpix5-85f": dict(
        ranks=4, flit_bytes=8, payload_bytes=128, wave_bytes=512, waves=8,
        write_waves=4, queue_depth=1, address_bits=32, link_latency=4, memory_latency=4,
        memory_bytes=16 << 10, formats=("fp16",), multiplier_bits=17, clock_hz=80_000_000,
    ),
    "paper-fpga": dict(
        ranks=4, flit_bytes=32, payload_bytes=4096, wave_bytes=4096, waves=16,
        link_latency=90, memory_latency=8,
        memory_bytes=64 << 20, clock_hz=250_000_000,
    ),
    "paper-8gpu": dict(
        ranks=8, flit_bytes=16, payload_bytes=128, wave_bytes=4096, waves=16,
        link_latency=1758, memory_latency=563,
        memory_bytes=16 << 20, clock_hz=7_031_250_000,
    ),
}  # fmt: skip
