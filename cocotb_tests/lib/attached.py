"""Verilog of a switch with an endpoint and two links a rank, joined as a user would join them.

`hdl.build` writes the parts; the text here only instantiates and connects them by the names in
their ``ports.json``. So the parts are checked as they are handed out.
"""

from __future__ import annotations

import json
from pathlib import Path

from hdl.building.cache import cached, digest
from hdl.config import SwitchConfig

from .simulators import generate

__all__ = ["TOP", "attached_switch"]

TOP = "attached-switch"
PARTS = ("switch", "endpoint", "link", "axi4-lite-bridge")
CLOCK = ("clk", "rst")


def attached_switch(config: SwitchConfig) -> Path:
    """A folder with the joined Verilog as module ``attached_switch``, and its ``ports.json``.

    Ports: ``axil__*`` (registers), ``link_latency``, ``trace__*``, and by rank r ``axi__r__*`` (its
    memory), ``arrival__r__*``, ``acknowledged__r``, ``acknowledgement__r``.
    """
    folders = {part: generate(part, config) for part in PARTS}
    texts = {part: (path / f"{_module(part)}.v").read_text() for part, path in folders.items()}
    ports = {part: json.loads((path / "ports.json").read_text()) for part, path in folders.items()}

    def make(folder: Path):
        top = _Top(ports, config.ranks)
        (folder / "attached_switch.v").write_text("\n".join([*texts.values(), top.text()]))
        (folder / "ports.json").write_text(json.dumps(top.outside, indent=2) + "\n")

    source = Path(__file__).read_text()
    return cached(digest(["attached", source, *texts.values(), json.dumps(ports)]), make)[0]


def _module(part: str) -> str:
    return part.replace("-", "_")


class _Top:
    """Collects instances; each net is a port of the top, or a wire inside."""

    def __init__(self, ports: dict[str, list[dict]], ranks: int):
        self._ports = ports
        self.outside: list[dict] = [
            {"name": name, "width": 1, "direction": "input"} for name in CLOCK
        ]
        self._wires: dict[str, int] = {}
        self._instances: list[str] = []
        self._add_switch(ranks)
        for rank in range(ranks):
            self._add_rank(rank)

    def _add_switch(self, ranks: int):
        self._wires["now"] = 32
        self._instance("axi4-lite-bridge", "bridge", inside=("bus",), outside=("axil",))
        self._instance("switch", "switch", inside=("bus", "now", "rx", "tx"), outside=("trace",))

    def _add_rank(self, rank: int):
        places = {"rx": f"to_{rank}", "tx": f"from_{rank}"}
        self._instance(
            "endpoint", f"endpoint_{rank}", inside=("rx", "tx"), renamed=places, rank=rank,
            outside=("axi", "arrival", "acknowledged", "acknowledgement"),
        )  # fmt: skip
        for name, ends in (
            (f"link_to_{rank}", {"i": f"tx__{rank}", "o": f"to_{rank}"}),
            (f"link_from_{rank}", {"i": f"from_{rank}", "o": f"rx__{rank}"}),
        ):
            self._instance(
                "link", name, inside=("i", "o"), renamed=ends, outside=("latency",),
                names={"latency": "link_latency"},
            )  # fmt: skip

    def _instance(self, part, name, *, inside=(), outside=(), renamed=None, rank=None, names=None):
        connections = []
        for port in self._ports[part]:
            head, _, rest = port["name"].partition("__")
            if head in CLOCK:
                net = head
            elif head in inside:
                net = "__".join(filter(None, [(renamed or {}).get(head, head), rest]))
                self._wires[net] = port["width"]
            elif head in outside:
                place = (names or {}).get(head, head)
                place = place if rank is None else f"{place}__{rank}"
                net = "__".join(filter(None, [place, rest]))
                if all(known["name"] != net for known in self.outside):
                    self.outside.append({**port, "name": net})
            elif port["direction"] == "input":
                raise ValueError(f"{part}: nobody drives {port['name']}")
            else:
                continue
            connections.append(f".\\{port['name']} ({net})")
        self._instances.append(f"  {_module(part)} {name} ({', '.join(connections)});")

    def text(self) -> str:
        lines = [f"module attached_switch({', '.join(port['name'] for port in self.outside)});"]
        for port in self.outside:
            lines.append(f"  {port['direction']} [{port['width'] - 1}:0] {port['name']};")
        lines += [f"  wire [{width - 1}:0] {name};" for name, width in self._wires.items()]
        lines += [
            "  reg [31:0] cycles = 0;",
            "  always @(posedge clk) cycles <= rst ? 0 : cycles + 1;",
            "  assign now = cycles;",
        ]
        return "\n".join([*lines, *self._instances, "endmodule\n"])
