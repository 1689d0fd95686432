"""Every bin of functional coverage: what a full regression must have seen at least once."""

from __future__ import annotations

from dataclasses import dataclass, field

from .patterns import SHAPES

__all__ = ["BINS", "Group"]


@dataclass(frozen=True)
class Group:
    """Bins of one property.

    Parameters
    ----------
    meaning
        One line.
    bins
        Their names.
    unreachable
        What one might miss here, and why nothing can reach it.
    """

    meaning: str
    bins: tuple[str, ...]
    unreachable: dict[str, str] = field(default_factory=dict)


def _every(*names) -> tuple[str, ...]:
    return tuple(str(name) for name in names)


def _crossed(*parts) -> tuple[str, ...]:
    """Names of every combination, joined by ``x``."""
    names = [""]
    for part in parts:
        names = [f"{name}x{other}" if name else str(other) for name in names for other in part]
    return tuple(names)


#: AXI4 responses; EXOKAY answers exclusive accesses, which the endpoint does not make.
RESPONSES = ("OKAY", "SLVERR", "DECERR")
STALLS = _crossed(SHAPES, SHAPES)

BINS: dict[str, Group] = {
    "endpoint.read_length": Group(
        "bytes of a read against flit and payload",
        ("zero", "under a flit", "a flit", "under a payload", "a payload", "several payloads"),
    ),
    "endpoint.write_length": Group(
        "bytes of a write against flit and payload",
        ("zero", "under a flit", "a flit", "under a payload", "a payload"),
    ),
    "endpoint.alignment": Group(
        "first byte within its flit", ("aligned", "first byte in the middle", "last byte of a flit")
    ),
    "endpoint.page": Group(
        "a packet's range against a 4 KiB page",
        ("inside", "ends at the boundary", "begins at the boundary", "crosses"),
    ),
    "endpoint.read_response": Group(
        "response of a read beat, and which beat of its burst",
        _crossed(RESPONSES, ("only", "first", "middle", "last")),
    ),
    "endpoint.write_response": Group(
        "response of a packet's first and second burst",
        RESPONSES + _crossed(RESPONSES, RESPONSES),
    ),
    "endpoint.stalls": Group("idle of the link x back-pressure of the memory", STALLS),
    "endpoint.memory": Group(
        "how the memory answers: write beats beside waiting reads, or shut out by them",
        ("two ports", "single-ported", "cocotbext-axi"),
    ),
    "endpoint.liberty": Group(
        "what the memory may do to reads of several IDs, while more than one waits",
        _crossed(("as asked", "any"), ("whole", "mixed")),
    ),
    "endpoint.last_beat": Group(
        "RLAST of a memory that breaks AXI4", ("never", "always", "by chance")
    ),
    "endpoint.latency": Group(
        "cycles of the memory's reads", _every("1", "2-4", "5-16", "17+")
    ),
    "endpoint.arrival": Group(
        "answers to arrivals", RESPONSES
    ),
    "switch.format": Group(
        "format and place of the result",
        _crossed(("fp16", "bf16", "inq8"), ("in place", "out of place")),
    ),
    "switch.length": Group(
        "bytes of an operand against flit, payload and wave",
        (
            "zero",
            *(
                f"{word} {unit}"
                for unit in ("flit", "payload", "wave")
                for word in ("an element under a", "a", "an element over a")
            ),
            "another below a wave", "whole waves", "several waves and a rest",
        ),
    ),
    "switch.arrival": Group(
        "order in which the ranks arrive for the first operation",
        ("together", "01", "10", "012", "021", "102", "120", "201", "210"),
    ),
    "switch.distance": Group(
        "cycles from an operation's last flag to the next one's last arrival",
        _every("0", "1-10", "11+"),
    ),
    "switch.queued": Group(
        "operations posted before the first arrival",
        _every(1, 2, 3, 4, "posted behind arrivals"),
    ),
    "switch.reading": Group(
        "most waves reading at once, of 4", _every(0, 1, 2, 3, "all")
    ),
    "switch.writing": Group(
        "most waves in their write phase at once", _every("1", "2-4", "5+"),
        unreachable={"0": "every operation has a wave that ends, be it one that writes nothing"},
    ),
    "switch.code": Group(
        "how an operation ended",
        ("OK", "READ_SLVERR", "READ_DECERR", "WRITE_SLVERR", "WRITE_DECERR"),
    ),
    "switch.failed_waves": Group(
        "waves of an operation that ended with an error",
        (
            "new before the error", "with a read error", "with a write error",
            "old behind a read error", "old behind a write error", "new behind a write error",
        ),
    ),
    "switch.memory_stalls": Group("back-pressure of a rank's memory", SHAPES),
    "switch.link_stalls": Group("idle x back-pressure of the ranks' links", STALLS),
    "switch.answers": Group("order of a rank's answers", ("in order", "any order")),
    "switch.ordinary": Group("ordinary packets on the links", ("none", "beside")),
    "switch.refused": Group(
        "arrivals that the barrier refuses", ("second arrival", "far epoch")
    ),
    "link.latency": Group("latency against the line's length", ("least", "between", "most")),
    "link.idle": Group("when flits are sent", SHAPES),
    "link.change": Group("what is under way when the latency changes", ("while idle", "under way")),
    "port.stalls": Group("idle of all sources x back-pressure of all sinks", STALLS),
    "port.payload": Group("payload of what the accelerator writes", ("full", "short")),
    "port.into": Group(
        "what a rank sends",
        ("read_data", "write_responses", "arrivals", "ordinary read", "ordinary write"),
    ),
    "core_stub.stalls": Group("idle x back-pressure", STALLS),
    "core_stub.request": Group("ordinary requests", ("read", "write")),
    "core.stalls": Group("idle of all inputs x back-pressure of all outputs", STALLS),
    "core.way": Group(
        "class of a packet, and whether it leaves where it came in",
        _crossed(
            ("requests", "read_data", "writes", "write_responses"), ("another port", "its own")
        ),
    ),
    "core.payload": Group("payload of a packet", ("none", "short", "full")),
    "core.stuck": Group(
        "what stands still while others go on", ("nothing", "an output", "a class")
    ),
    "barrier.arrival": Group(
        "arrivals against the barrier's epoch",
        (
            "current epoch", "next epoch", "second", "far epoch", "no member",
            "several in a cycle",
        ),
    ),
    "barrier.members": Group(
        "ranks that belong to the barrier", ("none", "one", "some", "all", "without rank 0")
    ),
    "barrier.change": Group(
        "arrivals for the epoch when other ranks become members",
        ("nobody has arrived", "some have arrived"),
    ),
    "barrier.take": Group("start of an operation", ("alone", "beside an arrival")),
    "wave_table.size": Group(
        "bytes of a wave", ("under a payload", "a payload", "under a wave", "a wave")
    ),
    "wave_table.scales": Group("waves with scales", ("with scales", "without")),
    "wave_table.response": Group(
        "response of a beat, and status of an answer without payload",
        RESPONSES + tuple(f"no payload {name}" for name in RESPONSES),
    ),
    "wave_table.stray": Group(
        "packets that nobody waits for", ("generation", "packet", "entry", "second")
    ),
    "wave_table.idle": Group("when beats come", SHAPES),
    "wave_table.occupancy": Group("entries in use at once, of 4", _every(1, 2, 3, "all")),
    "wave_table.order": Group("order of packets", ("in order", "any order")),
    "wave_controller.wave": Group(
        "waves that are issued", ("whole", "rest", "empty", "failed")
    ),
    "wave_controller.stalls": Group("back-pressure of the read-out order", SHAPES),
    "wave_controller.reading": Group(
        "most entries taken at once, of 4", _every(0, 1, 2, 3, "all")
    ),
    "write_back.stalls": Group("when packets begin x back-pressure of the link", STALLS),
    "write_back.size": Group("bytes of a packet", ("full", "short")),
    "write_back.room": Group("whether a packet waited for room", ("short", "always")),
    "reducer.values": Group(
        "format and kind of operands",
        _crossed(("fp16", "bf16"), ("alike", "cancelling", "bits", "edges")),
    ),
    "reducer.ranks": Group("ranks that take part, of 3", _every(1, 2, 3)),
    "reducer.mask": Group("lanes inside the message", ("none", "some", "all")),
    "reducer.status": Group("status of a flit", ("nan", "no nan", "overflow", "no overflow")),
    "reducer.idle": Group("when flits come", SHAPES),
    "inq.scales": Group("kind of scales", ("alike", "bits", "edges")),
    "inq.codes": Group("kind of codes", ("any", "small", "extreme", "zero")),
    "inq.block": Group("codes of a block", ("whole", "short")),
    "inq.ranks": Group("ranks that take part, of 2", _every(1, 2)),
    "inq.gap": Group("cycles between blocks", _every(0, 1, 5)),
    "inq.status": Group("status of a block", ("nan", "no nan", "overflow", "no overflow")),
    "registers.stalls": Group("stalls of every AXI4-Lite channel", SHAPES),
    "registers.access": Group(
        "accesses of known and other addresses",
        _crossed(("read", "write", "partial write"), ("known", "unknown")),
    ),
    "registers.kind": Group(
        "registers of the switch, read and written",
        ("constant", "ro", "rw", "wo", "beside the table"),
    ),
    "switch.context": Group(
        "contexts with operations at a time, and what a rank sees of them",
        ("one", "two", "turns at a rank", "one behind the other"),
    ),
}  # fmt: skip
