"""A component's ports as Verilog has them: ``ports.json``."""

from __future__ import annotations

import json
from collections.abc import Iterator

from amaranth.lib import data, wiring

from .meanings import meaning
from .verilog import flat_ports

__all__ = ["describe_ports", "ports_json"]

#: Added by Amaranth for the clock domain that the design runs in.
CLOCK_PORTS = [
    {"name": "clk", "width": 1, "direction": "input", "meaning": "clock; rising edges count"},
    {"name": "rst", "width": 1, "direction": "input", "meaning": "synchronous reset, active high"},
]


def _fields(shape) -> list[dict]:
    """Fields of a struct, lowest bit first."""
    return [{"name": name, "offset": field.offset, "width": field.width} for name, field in shape]


def describe_ports(component: wiring.Component) -> Iterator[dict]:
    """Each port's ``name``, ``width`` (bits), ``direction`` and ``meaning``, in a fixed order.

    A port that carries a struct has its ``fields``, too: name, lowest bit and width of each.
    """
    yield from CLOCK_PORTS
    for path, member, value in flat_ports(component):
        port = {
            "name": "__".join(map(str, path)),
            "width": len(value),
            "direction": "input" if member.flow == wiring.In else "output",
            "meaning": meaning(component, path),
        }
        if isinstance(member.shape, data.StructLayout):
            port["fields"] = _fields(member.shape)
        yield port


def ports_json(component: wiring.Component) -> str:
    """The same, as the text of ``ports.json``."""
    return json.dumps(list(describe_ports(component)), indent=2) + "\n"
