# amaranth: UnusedElaboratable=no
"""Write the tables of docs/ that come from the design: headers, channels, registers, ports.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. With --check nothing is written;
the exit code is 1 if a page differs, and each is named.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from amaranth import Shape
from amaranth.lib import stream
from amaranth.lib.wiring import FlippedSignature, In

from hdl import registers
from hdl.accelerator.arithmetic import Arithmetic
from hdl.accelerator.instruction_queue import COLLECTIVE_SHIFT, FORMAT_BITS, OPERATION_SHIFT
from hdl.accelerator.layouts import POST_RULES, STATUS_MEANINGS, Status
from hdl.accelerator.recovery import WAITS
from hdl.accelerator.scale_packets import scale_write_back_flits
from hdl.accelerator.wave_table import read_delay
from hdl.accelerator.window import FORMAT_WORD, WINDOW_WORDS, WORD_BYTES
from hdl.accelerator.write_back import write_back_flits
from hdl.config import PRESETS, SwitchConfig
from hdl.emulated_memory import EmulatedMemory
from hdl.interfaces import (
    HEADER_FIELDS,
    VIRTUAL_CHANNELS,
    Collective,
    Flit,
    Format,
    MessageClass,
    Operation,
    virtual_channel,
)
from hdl.traffic.generator import TrafficGenerator
from hdl.traffic.settings import TrafficValue, traffic_settings, traffic_totals
from hdl.transport import channels
from hdl.transport.axi_share import AxiShare
from hdl.transport.core import Core
from hdl.transport.endpoint import Arrival, Endpoint
from hdl.transport.link import Link
from hdl.transport.link_end import LinkEnd
from hdl.transport.port import Port
from hdl.transport.receiver import Receiver
from hdl.transport.route import Route
from hdl.transport.transmitter import Transmitter

DOCS = Path(__file__).resolve().parent.parent / "docs"

#: The configuration whose widths and depths are shown.
PRESET = "demo"

#: Contexts where several are shown.
CONTEXTS = 4

#: Records of a trace buffer where one is shown.
TRACE_RECORDS = 2048

#: Added to a preset's own formats where quantized operations are shown.
QUANTIZED = "inq8"

#: Layouts that have a name but no class.
NAMED_LAYOUTS = {"Arrival": Arrival}

#: What each header field says.
HEADER_MEANING = {
    "message_class": "0 read request, 1 read data, 2 write data, 3 write response",
    "inc": "1: from or to the in-switch accelerator",
    "source": "rank that sent it; of a packet from the accelerator, its port",
    "destination": "rank that it is for; of a packet to the accelerator, its port",
    "context": "tenant",
    "generation": "tells apart uses of one tag; an answer repeats it",
    "status": "of an answer without payload: 0 okay, 2 SLVERR, 3 DECERR",
    "tag": "says where an answer belongs; an answer repeats it, and counts up from it",
    "address": "byte address; of requests and writes",
    "length": "bytes asked for, or to be written; of read data whole flits",
}

#: What each flit field says.
FLIT_MEANING = {
    "channel": "virtual channel",
    "first": "a packet's first flit",
    "last": "a packet's last flit",
    "response": "of a payload flit of read data: response of its AXI4 beat",
    "data": "header bits, or payload",
}

#: What each field of the word `format` says.
FORMAT_WORD_MEANING = {
    "format": "as in the register `format`",
    "operation": "0 sum; others where they are built, as in the register `format`",
    "source_ranks": "ranks that are read, a bit each",
    "destination_ranks": "ranks that are written, a bit each",
    "collective": "0 whole; others where they are built, as in the register `format`",
    "reserved": "0",
}


def table(header: list[str], rows: list[list]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


def bits(low: int, width: int) -> str:
    return f"{low + width - 1}:{low}" if width > 1 else str(low)


def fields(shapes: dict, meaning: dict[str, str]) -> str:
    """Fields of a layout with their bits, from bit 0 up."""
    rows, low = [], 0
    for name, shape in shapes.items():
        width = Shape.cast(shape).width
        rows.append([bits(low, width), f"`{name}`", width, meaning[name]])
        low += width
    return table(["Bits", "Field", "Width", "Meaning"], rows)


def header_fields() -> str:
    return fields(HEADER_FIELDS, HEADER_MEANING)


def flit_fields() -> str:
    layout = Flit(SwitchConfig.preset(PRESET))
    return fields({name: field.shape for name, field in layout}, FLIT_MEANING)


def virtual_channels() -> str:
    """What each channel carries in each direction, and the credits that its sender has."""
    config = SwitchConfig.preset(PRESET)
    down = channels.accelerator_sources(config) + channels.core_sources(config)
    up = channels.endpoint_sources(config)
    directions = [
        (down, channels.credits_to_rank(config), channels.endpoint_channels(config)),
        (up, channels.credits_to_switch(config), channels.port_channels(config)),
    ]
    names = {virtual_channel(c, inc): (c, inc) for c in MessageClass for inc in (False, True)}
    rows = []
    for number in range(VIRTUAL_CHANNELS):
        message_class, inc = names[number]
        cells = [number, message_class.name.lower().replace("_", " "), "INC" if inc else "ordinary"]
        for sources, credits, depths in directions:
            users = ", ".join(f"`{s.name}`" for s in sources if s.channel == number) or "-"
            if number not in credits:
                cells += ["-", "-"]
            else:
                kind = "queue" if depths[number] else "sinks"
                cells += [users, f"{credits[number]}, {kind}"]
        rows.append(cells)
    header = ["Channel", "Class", "Traffic", "To the rank", "Credits", "To the switch", "Credits"]
    return table(header, rows)


def register_table(page: int, entries: list[registers.Register]) -> str:
    """One page of registers; rows of a register a rank are joined."""
    where = registers.addresses(entries, page)
    joined: dict[str, list[registers.Register]] = {}
    for entry in entries:
        name = re.sub(r"_\d+$", "_R", entry.name)
        joined.setdefault(name, []).append(entry)
    rows = []
    for name, group in joined.items():
        first, last = where[group[0].name], where[group[-1].name]
        address = f"`{first:#06x}`" if len(group) == 1 else f"`{first:#06x}` - `{last:#06x}`"
        meaning = re.sub(r"\d+$", "R", group[0].meaning) if len(group) > 1 else group[0].meaning
        reset = f"`{group[0].reset:#x}`" if group[0].access != "wo" else ""
        if group[0].access == "ro" and not group[0].constant:
            reset = ""
        rows.append([address, f"`{name}`", group[0].access, group[0].width, reset, meaning])
    return table(["Address", "Register", "Access", "Bits", "Reset", "Meaning"], rows)


def switch_registers() -> str:
    return register_table(
        registers.SWITCH_PAGE, registers.switch_registers(SwitchConfig.preset(PRESET))
    )


def system_registers() -> str:
    return register_table(
        registers.SYSTEM_PAGE, registers.system_registers(SwitchConfig.preset(PRESET))
    )


def trace_registers() -> str:
    config = SwitchConfig.preset(PRESET, trace_records=TRACE_RECORDS)
    return register_table(registers.TRACE_PAGE, registers.trace_registers(config))


def rank_registers() -> str:
    return register_table(
        registers.RANK_PAGE, registers.rank_registers(SwitchConfig.preset(PRESET))
    )


def sharing() -> SwitchConfig:
    """The preset with several contexts."""
    return SwitchConfig.preset(PRESET, contexts=CONTEXTS)


def context_registers() -> str:
    """A context's registers where there are several."""
    config = sharing()
    page = registers.context_page(config, 0)
    return register_table(page, registers.context_registers(config, 0))


def _port_registers(config: SwitchConfig) -> list[registers.Register]:
    return registers.port_registers(config) if config.contexts > 1 else []


def added_registers(config: SwitchConfig) -> str:
    """Registers of other pages that a configuration has and the preset has not."""
    plain = SwitchConfig.preset(PRESET)
    rows = []
    for where, page, entries in (
        ("switch", registers.SWITCH_PAGE, registers.switch_registers),
        ("system", registers.SYSTEM_PAGE, registers.system_registers),
        ("rank", registers.RANK_PAGE, registers.rank_registers),
        ("ports", registers.PORT_PAGE, _port_registers),
    ):
        known = {entry.name for entry in entries(plain)}
        at = registers.addresses(entries(config), page)
        seen = set()
        for entry in entries(config):
            name = re.sub(r"_\d+$", "_R", entry.name)
            if entry.name in known or name in seen:
                continue
            seen.add(name)
            meaning = re.sub(r"\d+$", "R", entry.meaning) if name != entry.name else entry.meaning
            reset = f"`{entry.reset:#x}`" if entry.access == "rw" else ""
            cells = [where, f"`{at[entry.name]:#06x}`", f"`{name}`", entry.access, entry.width]
            rows.append([*cells, reset, meaning])
    return table(["Page", "Address", "Register", "Access", "Bits", "Reset", "Meaning"], rows)


def status_codes() -> str:
    rows = [
        [f"`{status.name}`", f"{status.value:#04x}", *STATUS_MEANINGS[status]] for status in Status
    ]
    return table(["Code", "", "Meaning", "Rank"], rows)


def post_rules() -> str:
    """Rules of an instruction in the order in which they are looked at."""
    rows = [
        [f"`{status.name}`", f"{status.value:#04x}", rule, STATUS_MEANINGS[status][1]]
        for status, rule in POST_RULES.items()
    ]
    return table(["Code", "", "Rule", "Rank"], rows)


def instruction_codes() -> str:
    """Fields of the register `format` and their codes."""
    fields = (
        ("format", Format, 0, OPERATION_SHIFT),
        ("operation", Operation, OPERATION_SHIFT, COLLECTIVE_SHIFT),
        ("collective", Collective, COLLECTIVE_SHIFT, FORMAT_BITS),
    )
    rows = [
        [f"{end - 1}:{low}", name, ", ".join(f"{each.value} {each.name.lower()}" for each in shape)]
        for name, shape, low, end in fields
    ]
    return table(["Bits", "Field", "Codes"], rows)


def window_words() -> str:
    """What a member may write to its context's window."""
    rows = [
        [f"`{number * WORD_BYTES:#04x}`", f"`{name}`", meaning]
        for number, (name, meaning) in enumerate(WINDOW_WORDS.items())
    ]
    return table(["Offset", "Word", "Meaning"], rows)


def format_word_fields() -> str:
    shapes = {name: field.shape for name, field in FORMAT_WORD}
    return fields(shapes, FORMAT_WORD_MEANING)


def recovery_waits() -> str:
    """What a context may wait for, in the order in which it is looked at."""
    rows = [[f"`{name}`", meaning, f"`{status.name}`"] for name, (status, meaning) in WAITS.items()]
    return table(["", "Waited for", "Code"], rows)


def forwarding() -> SwitchConfig:
    """The preset with a core that forwards."""
    return SwitchConfig.preset(PRESET, core="forward")


def forward_registers() -> str:
    """Registers that are there only where the core forwards."""
    return added_registers(forwarding())


def traffic_values(values: list[TrafficValue], *, reset: bool) -> str:
    rows = [
        [f"`{value.name}`", value.width, *([value.reset] if reset else []), value.meaning]
        for value in values
    ]
    return table(["Name", "Bits", *(["Reset"] if reset else []), "Meaning"], rows)


def quantizing(preset: str) -> list[SwitchConfig]:
    """The preset with quantized operations, by each way to multiply."""
    own = SwitchConfig.preset(preset).sum_formats
    separate = SwitchConfig.preset(preset, formats=(*own, QUANTIZED))
    shared = SwitchConfig.preset(preset, formats=("fp16", QUANTIZED), inq_reducer="shared")
    return [separate, shared]


def arithmetic_delays() -> str:
    """Cycles of sums and codes through the arithmetic."""
    rows = []
    for preset in PRESETS:
        for config in quantizing(preset):
            made = Arithmetic(config)
            cells = [f"`{preset}`", ", ".join(config.formats), config.inq_reducer]
            rows.append([*cells, made.delay, made.inq_delay, made.inq_lead])
    header = ["Preset", "`formats`", "`inq_reducer`", "`delay`", "`inq_delay`", "`inq_lead`"]
    return table(header, rows)


def write_back_room() -> str:
    """Flits that a port's write-back holds, with and without quantized operations."""
    rows = []
    for preset in PRESETS:
        plain = SwitchConfig.preset(preset, formats=SwitchConfig.preset(preset).sum_formats)
        depths = [write_back_flits(plain, read_delay(plain) + Arithmetic(plain).delay)]
        config, _shared = quantizing(preset)
        delay = read_delay(config) + Arithmetic(config).inq_delay
        depths += [write_back_flits(config, delay), scale_write_back_flits(config, delay)]
        rows.append([f"`{preset}`", plain.wave_flits, *depths])
    header = ["Preset", "Wave", "FIFO", "FIFO with inq8", "scales"]
    return table(header, rows)


def described(component) -> dict[str, str]:
    """Port name to meaning, from the Members section of a component's docstring."""
    text = component.__doc__.split("Members\n    -------\n", 1)[1]
    text = re.split(r"\n\n", text, maxsplit=1)[0]
    meanings = {}
    for entry in re.split(r"\n(?=    \S)", text.rstrip()):
        names, meaning = entry.strip().split(" : ", 1)
        meaning = " ".join(line.strip() for line in meaning.splitlines())
        for name in names.split(", "):
            meanings[name] = re.sub(r"``([^`]+)``", r"`\1`", meaning)
    return meanings


def signature_name(signature) -> str:
    """The signature's name, or its payload's for a stream, whichever side it is seen from."""
    if isinstance(signature, FlippedSignature):
        signature = signature.flip()
    if not isinstance(signature, stream.Signature):
        return f"`{type(signature).__name__}`"
    shape = signature.members["payload"].shape
    names = [name for name, known in NAMED_LAYOUTS.items() if known is shape]
    return f"stream of `{(names or [type(shape).__name__])[0]}`"


def ports(component, *, others: dict[str, str] | None = None) -> str:
    """Ports of a component: direction, width or signature, meaning."""
    meanings = described(component) | (others or {})
    rows = []
    for name, member in component.signature.members.items():
        if member.is_port:
            what = Shape.cast(member.shape).width
        else:
            what = signature_name(member.signature)
        direction = "in" if member.flow is In else "out"
        rows.append([f"`{name}`", direction, what, meanings[name]])
    return table(["Port", "Direction", f"Bits in `{PRESET}`, or signature", "Meaning"], rows)


def component_ports() -> dict[str, Callable[[], str]]:
    """The port table of each component that has a page."""
    config = SwitchConfig.preset(PRESET)
    sources = channels.endpoint_sources(config)
    source = "packets of one source (here a rank's)"
    depths = channels.endpoint_channels(config)
    beats = "beats of that virtual channel (here a rank's)"
    return {
        "ports_link": lambda: ports(Link(config)),
        "ports_link_end": lambda: ports(LinkEnd()),
        "ports_transmitter": lambda: ports(
            Transmitter(config, sources, channels.credits_to_switch(config)),
            others={spec.name: source for spec in sources},
        ),
        "ports_receiver": lambda: ports(
            Receiver(config, depths), others={f"channel_{number}": beats for number in depths}
        ),
        "ports_port": lambda: ports(Port(config)),
        "ports_endpoint": lambda: ports(Endpoint(config, rank=0)),
        "ports_emulated_memory": lambda: ports(EmulatedMemory(config)),
        "ports_core": lambda: ports(Core(forwarding())),
        "ports_route": lambda: ports(Route(forwarding(), message_class=MessageClass.WRITE_DATA)),
        "ports_axi_share": lambda: ports(AxiShare(forwarding())),
        "ports_traffic_generator": lambda: ports(
            TrafficGenerator(forwarding(), rank=0),
            others={
                value.name: value.meaning
                for value in traffic_settings(config) + traffic_totals(config)
            },
        ),
    }


#: Table to what writes it.
TABLES: dict[str, Callable[[], str]] = {
    "header_fields": header_fields,
    "flit_fields": flit_fields,
    "virtual_channels": virtual_channels,
    "switch_registers": switch_registers,
    "system_registers": system_registers,
    "trace_registers": trace_registers,
    "rank_registers": rank_registers,
    "forward_registers": forward_registers,
    "context_registers": context_registers,
    "shared_registers": lambda: added_registers(sharing()),
    "status_codes": status_codes,
    "recovery_waits": recovery_waits,
    "post_rules": post_rules,
    "instruction_codes": instruction_codes,
    "window_words": window_words,
    "format_word": format_word_fields,
    "traffic_settings": lambda: traffic_values(traffic_settings(forwarding()), reset=True),
    "traffic_totals": lambda: traffic_values(traffic_totals(forwarding()), reset=False),
    "arithmetic_delays": arithmetic_delays,
    "write_back_room": write_back_room,
    **component_ports(),
}


def render(text: str) -> str:
    """`text` with each table written again."""

    def part(match: re.Match) -> str:
        return f"{match[1]}\n{TABLES[match[2]]()}\n<!-- end -->"

    return re.sub(r"(<!-- table: (\w+) -->)\n.*?<!-- end -->", part, text, flags=re.DOTALL)


def stale() -> dict[Path, str]:
    """Pages that would change, with their new text."""
    texts = {path: path.read_text() for path in sorted(DOCS.rglob("*.md"))}
    return {path: render(text) for path, text in texts.items() if render(text) != text}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.doc_tables", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs")
    check = parser.parse_args().check
    changed = stale()
    for path, text in changed.items():
        name = path.relative_to(DOCS.parent)
        if check:
            print(f"{name}: differs from what scripts/doc_tables.py writes", file=sys.stderr)
        else:
            path.write_text(text)
            print(f"{name}: written")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
