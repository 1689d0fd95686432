"""Verilog of a component: the same bytes in any folder and under any hash seed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from amaranth import Const, Shape, Value
from amaranth.back import verilog
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from amaranth.lib.wiring import Member

__all__ = ["flat_ports", "module_name", "start_constants", "to_verilog"]

#: Of a module: what Yosys declares to start every block once, and a block of a constant without it.
_STARTER = re.compile(r"  reg (?P<name>\\\$auto\$verilog_backend\S*) +(= 0)?;")
_CONSTANT_BLOCK = re.compile(
    r"^  always @\*\n    (?P<assignment>\S.* = \d+'h[0-9a-f]+;)$", re.MULTILINE
)


def module_name(component_name: str) -> str:
    """The Verilog module that a component becomes: its name with underscores."""
    return component_name.replace("-", "_")


def flat_ports(
    component: wiring.Component,
) -> Iterator[tuple[tuple[str | int, ...], Member, Value]]:
    """Path, member and value of each port that Verilog can have.

    Members that are constants, such as the ``ready`` of a stream that is always taken, and those
    without bits are none.
    """
    for path, member, value in component.signature.flatten(component):
        value = Value.cast(value)
        if not isinstance(value, Const) and Shape.cast(value.shape()).width:
            yield path, member, value


def to_verilog(component: wiring.Component, name: str) -> str:
    """`component` as a Verilog module `name`, submodules included.

    Sources are not named in it, since their paths differ from folder to folder.
    """
    ports = {
        "__".join(map(str, path)): (
            value,
            PortDirection.Input if member.flow == wiring.In else PortDirection.Output,
        )
        for path, member, value in flat_ports(component)
    }
    text = verilog.convert(
        component, name=name, ports=ports, emit_src=False, strip_internal_attrs=True
    )
    return start_constants(text)


def start_constants(text: str) -> str:
    """Let blocks that assign a constant to a part of a variable run once, in simulators too.

    ``always @*`` without anything to wait for never runs in Verilog-2005, so those bits would stay
    unknown. Yosys starts other blocks by a variable that has an initial value.
    """
    modules = re.split(r"^(?=module )", text, flags=re.MULTILINE)
    return "".join(map(_start_constants_of_module, modules))


def _start_constants_of_module(module: str) -> str:
    starter = _STARTER.search(module)
    if starter is None:
        return module
    condition = f"if ({starter['name']} ) begin end"
    return _CONSTANT_BLOCK.sub(
        lambda block: f"  always @* begin\n    {condition}\n    {block['assignment']}\n  end",
        module,
    )
