"""What each port of a component means, from the docstrings that define it.

A component's docstring names its ports in a section `Members` (or `Ports`), one entry
``name, name : text`` each; so do the signatures that it is made of. Signatures whose members are
standard (AXI4, streams) or are told in one sentence have them here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache

from amaranth.lib import stream, wiring

from ..accelerator.accelerator import Accelerator, AcceleratorPort, OperationEnd, Posting
from ..accelerator.arithmetic import Arithmetic
from ..accelerator.barrier import Barrier
from ..accelerator.counters import Counters
from ..accelerator.instruction_queue import InstructionQueue
from ..accelerator.read_out import PacketStart, ReadOut
from ..accelerator.scale_packer import ScalePacker
from ..accelerator.scale_packets import ScalePackets
from ..accelerator.wave_controller import Reservation, WaveIssue
from ..accelerator.wave_table import LookUp
from ..config import SwitchConfig
from ..interfaces import (
    Axi4LiteSignature,
    Axi4Signature,
    LinkSignature,
    PacketSource,
    StorageSignature,
)
from ..registers import RegisterBus, switch_registers
from ..transport.transmitter import Transmitter

__all__ = ["meaning"]

MAX_RANKS = 16

_AXI_CHANNELS = {
    "aw": "write address",
    "w": "write data",
    "b": "write response",
    "ar": "read address",
    "r": "read data",
}
_AXI_SIGNALS = {
    "id": "transaction identifier",
    "addr": "byte address of the first beat",
    "len": "beats of the burst, less one",
    "size": "bytes of a beat, as a power of two",
    "burst": "burst type, always INCR",
    "prot": "protection type, without effect",
    "data": "data",
    "strb": "bytes to write, one bit each",
    "resp": "how it ended: OKAY, EXOKAY, SLVERR, DECERR",
    "last": "last beat of the burst",
    "valid": "the channel's payload is offered",
    "ready": "the channel's payload is taken",
}
_AXI = {
    channel + signal: f"AXI4 {channel_text}: {signal_text}"
    for channel, channel_text in _AXI_CHANNELS.items()
    for signal, signal_text in _AXI_SIGNALS.items()
}

#: Members that no section of a docstring names.
_MEMBERS: dict[type, dict[str, str]] = {
    Axi4Signature: _AXI,
    Axi4LiteSignature: _AXI,
    stream.Signature: {
        "valid": "a transfer is offered; it and the payload hold until it is taken",
        "ready": "a transfer that is offered in this cycle is taken",
        "payload": "what is transferred",
    },
    LinkSignature: {
        "valid": "this cycle carries a flit",
        "flit": "the flit",
        "credit": "credits returned for the other direction, one bit a virtual channel",
    },
    StorageSignature: {
        "read_enable": "read a word",
        "read_address": "which word, counted in flits",
        "read_data": "the word, one cycle after read_enable; holds",
        "write_enable": "write a word",
        "write_address": "which word, counted in flits",
        "write_data": "the word",
        "write_strobe": "bytes of it to write, one bit each",
    },
    PacketSource: {
        "head": "header of a packet and its number of payload flits",
        "payload": "the payload, flit by flit",
    },
    RegisterBus: {
        "page": "page of the register, address bits 15..10",
        "word": "word in the page, address bits 9..2",
        "write": "write write_data",
        "write_data": "the value to write",
        "read": "read",
        "read_data": "the value, two cycles after read; zero where another bank answers",
        "known": "two cycles later, that the address was a register of this bank",
    },
    OperationEnd: {
        "valid": "an operation ended in this cycle",
        "code": "its status code",
        "rank": "rank that the code speaks of",
        "epoch": "its epoch",
        "waves": "waves of it that every rank acknowledged",
    },
    PacketStart: {
        "valid": "a packet starts in this cycle",
        "flits": "its payload flits",
        "size": "its payload bytes",
        "opens": "it is its operation's first, so addresses start anew",
        "write_slot": "write-phase slot that it counts in",
        "ranks": "ranks that it is written to",
        "quantized": "it has codes",
        "begins": "it is its wave's first",
        "ends": "it is its wave's last",
        "scale_size": "bytes of its wave's scales; 0 of sums",
    },
    Reservation: {
        "valid": "an entry is taken in this cycle",
        "entry": "which",
        "generation": "generation of its tags",
        "absent": "its packets that the wave does not have, one bit each",
        "ranks": "ranks in whose tables",
        "context": "whose it is",
    },
    LookUp: {
        "entry": "the entry to ask about",
        "taken": "it is taken for read-out",
        "ready": "all its packets are there, and it was not taken yet",
        "response": "the worst AXI response among its beats",
    },
    WaveIssue: {
        "valid": "a wave is issued in this cycle",
        "entry": "its wave table entry",
        "generation": "generation of its tags",
        "offset": "its byte offset in the operand",
        "first": "it is its operation's first",
        "address": "by rank, byte address of its operand",
        "size": "its bytes",
        "scale_address": "by rank, byte address of its scales",
        "scale_size": "bytes of its scales; 0 of a wave without",
        "ranks": "ranks that are asked",
        "context": "whose it is",
    },
    AcceleratorPort: {
        "read_data": "read data for the wave table, taken at once",
        "write_responses": "acknowledgements of data and flags, taken at once",
        "arrivals": "writes to the doorbells",
        "requests": "read requests",
        "writes": "results on their way to the rank",
        "flags": "flags on their way to the rank",
        "answers": "answers to arrivals",
    },
    Accelerator: {
        "request": "by port, the first flit of a read request is accepted",
        "response": "by port, a write response of data is taken",
    },
    Barrier: {"arrived": "ranks that have arrived for the current epoch"},
    # Its results are registers of the same names; those of the largest switch are all of them.
    Counters: {
        register.name: register.meaning
        for register in switch_registers(SwitchConfig(ranks=MAX_RANKS))
    },
    ReadOut: {
        "close_last": "the wave that closes is its operation's last",
        "operation": "operation slot of the oldest wave",
        "written": "the wave that opens is written, not dropped",
        "ends_wave": "beside the operands: the flit is its wave's last",
        "ends_blocks": "beside the operands: the flit's block or blocks are its wave's last",
    },
    Arithmetic: {
        "valid": "a flit of every rank comes in this cycle",
        "operands": "the flits, rank by rank",
        "keep": "16-bit lanes inside the message; bytes of it where quantized operations are built",
        "format": "what the operands are",
        "reduction": "what becomes of them",
        "scales": "scales of the flit's block or blocks of codes, rank by rank",
        "ends_wave": "the flit of codes is its wave's last",
        "ends_blocks": "the flit's block or blocks are its wave's last",
        "result_valid": "a flit of sums or codes comes out in this cycle",
        "result": "the sums or codes",
        "nan": "a kept sum of this flit is NaN",
        "overflow": "finite operands of a kept lane gave infinity",
        "blocks_nan": "by block that begins with this flit of codes: its scale is NaN",
        "blocks_overflow": "by block that begins with this flit of codes: no finite scale is large "
        "enough",
    },
    ScalePacker: {
        "scales": "the scale of the block, or the scales of the blocks, that begin",
        "valid": "a flit of scales is given in this cycle",
        "o": "the flit of scales; bits behind a wave's last scale mean nothing",
    },
    ScalePackets: {
        "start": "a wave begins; room for its scales is reserved",
        "size": "bytes of the scales of the wave that begins",
        "write_slot": "write-phase slot of the wave that begins",
        "opens": "the wave is its operation's first, so addresses start anew",
        "destination": "where the operation's scales go, while opens",
        "flit_valid": "a flit of new scales comes in this cycle; taken always",
        "flit": "the flit of new scales",
        "last_head": "the head that o offers is the wave's last",
        "last_flit": "the flit that o offers is the wave's last",
    },
    Transmitter: {
        "read_data": "packets of read data to send",
        "write_responses": "write responses to send",
        "arrivals": "arrivals to send",
    },
}
#: Signatures whose members mean what those of a component mean.
_SAME_AS: dict[type, type] = {Posting: InstructionQueue}

_SECTION = re.compile(r"^(?:Members|Ports)\n-+\n(.*?)(?=\n\n\S[^\n]*\n-{3,}|\Z)", re.M | re.S)
_ENTRY = re.compile(r"(?:^|; )([\w*]+(?:, [\w*]+)*) : ")


def _entries(text: str) -> Iterator[tuple[list[str], str]]:
    """(names, meaning) of each entry of a section."""
    for paragraph in re.split(r"\n(?=\S)", text):
        line = " ".join(part.strip() for part in paragraph.splitlines())
        found = list(_ENTRY.finditer(line))
        stops = [*(entry.start() for entry in found[1:]), len(line)]
        for entry, stop in zip(found, stops, strict=False):  # no entry: a remark
            yield entry[1].split(", "), line[entry.end() : stop].replace("`", "")


@cache
def _documented(kind: type) -> tuple[tuple[re.Pattern, str], ...]:
    """Patterns of member names, and their meanings, from the docstring of `kind`."""
    section = _SECTION.search(inspect.getdoc(kind) or "")
    found = []
    for names, text in _entries(section[1]) if section else ():
        for name in names:
            pattern = re.escape(name).replace(r"\*", r"\w*").replace("_N", r"_\d+")
            found.append((re.compile(pattern + r"\Z"), text))
        # Members that the text of another names: ``ready`` says that ...
    for names, text in _mentions(section[1]) if section else ():
        found += [(re.compile(re.escape(name) + r"\Z"), text) for name in names]
    return tuple(found)


def _mentions(section: str) -> Iterator[tuple[list[str], str]]:
    for paragraph in re.split(r"\n(?=\S)", section):
        line = " ".join(part.strip() for part in paragraph.splitlines())
        if names := re.findall(r"``(\w+)``", line):
            yield names, line.replace("`", "").partition(" : ")[2] or line.replace("`", "")


def _of_member(kind: type, name: str) -> str | None:
    """What member `name` of a component or signature of class `kind` means."""
    if name in _MEMBERS.get(kind, {}):
        return _MEMBERS[kind][name]
    for pattern, text in _documented(_SAME_AS.get(kind, kind)):
        if pattern.match(name):
            return text
    return None


def _kinds(signature) -> list[type]:
    plain = signature.flip() if isinstance(signature, wiring.FlippedSignature) else signature
    return [kind for kind in type(plain).__mro__ if issubclass(kind, wiring.Signature)]


def meaning(component: wiring.Component, path: tuple[str | int, ...]) -> str | None:
    """What the port at `path` of `component` means, or None where its own name is not explained.

    The meaning of a member of a member is told from outside in: what the outer one is for, then
    what the inner one is.
    """
    parts: list[str] = []
    kinds, signature = [type(component)], component.signature
    for step in path:
        if isinstance(step, int):
            parts[-1] += f" (number {step})"
            continue
        text = next(filter(None, (_of_member(kind, step) for kind in kinds)), None)
        if text is None:
            return None
        parts.append(text)
        member = signature.members[step]
        if member.is_signature:
            signature = member.signature
            kinds = _kinds(signature)
    return ": ".join(parts)
