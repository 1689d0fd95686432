"""The ports of a generated component, as ``ports.json`` describes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Layout", "Ports"]


class Layout:
    """Fields of a port that carries a struct: packs them into a number and takes it apart."""

    def __init__(self, fields: Mapping[str, tuple[int, int]]):
        self._fields = dict(fields)  # name: (offset, width)

    def pack(self, values: Mapping[str, int]) -> int:
        """The number that holds `values`; a field that is not named is 0.

        Raises ValueError where a value does not fit its field.
        """
        total = 0
        for name, value in values.items():
            offset, width = self._fields[name]
            if value >> width:
                raise ValueError(f"{name}: must fit {width} bits, not {value:#x}")
            total |= value << offset
        return total

    def unpack(self, number: int) -> dict[str, int]:
        """Every field of `number`."""
        return {
            name: number >> offset & ((1 << width) - 1)
            for name, (offset, width) in self._fields.items()
        }


class Ports:
    """Reads and writes ports of a design under test by name, as plain numbers.

    Reading inside a cycle gives what stood before its clock edge; what is written stands behind
    it. A value is handed to the simulator only where it differs from the one written last.
    """

    def __init__(self, dut, description: Path):
        ports = json.loads(description.read_text())
        self.widths = {port["name"]: port["width"] for port in ports}
        self.inputs = [port["name"] for port in ports if port["direction"] == "input"]
        self.layouts = {
            port["name"]: Layout(
                {field["name"]: (field["offset"], field["width"]) for field in port["fields"]}
            )
            for port in ports
            if "fields" in port
        }
        self._handles = {name: dut[name] for name in self.widths}
        self._written: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._handles

    def get(self, name: str) -> int:
        """The port's value; an unknown bit (X or Z) is an error that names the port."""
        try:
            return int(self._handles[name].value)
        except ValueError:
            value = self._handles[name].value
            raise AssertionError(f"{name}: has unknown bits: {value}") from None

    def set(self, name: str, value: int):
        """Drive an input from the clock edge of this cycle on."""
        value = int(value)
        if self._written.get(name) != value:
            self._written[name] = value
            self._handles[name].value = value

    def fields(self, name: str) -> dict[str, int]:
        """The fields of a port that carries a struct."""
        return self.layouts[name].unpack(self.get(name))

    def set_fields(self, name: str, **values: int):
        """Drive such a port; a field that is not named becomes 0."""
        self.set(name, self.layouts[name].pack(values))

    def clear(self):
        """Drive every input to 0, the clock apart."""
        for name in self.inputs:
            if name != "clk":
                self.set(name, 0)
