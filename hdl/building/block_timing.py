"""How fast one block is: placed and routed alone on an ECP5, between registers.

A block's ports are far more than a device's pins, so a scan chain of registers drives its inputs
and another one keeps its outputs. Every path from, to and inside the block is then one between two
registers, as it is in a design whose neighbours register what they give.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from amaranth import Cat, ClockDomain, ClockSignal, Elaboratable, Module, Signal
from amaranth.back import rtlil
from amaranth.lib import wiring

from .cache import cached, digest
from .place_and_route import resources_of
from .resources import Resources
from .synthesis import HIDE_ALIASES
from .tools import NEXTPNR_ECP5, YOSYS
from .verilog import flat_ports

__all__ = ["BlockTiming", "CriticalPath", "Endpoint", "ScanHarness", "block_timing"]

#: The ULX3S board's device, speed grade 6.
DEVICE = ("--85k", "--package", "CABGA381", "--speed", "6")
#: Asked of the tool; far more than any block reaches, so that it does its best.
TARGET_MHZ = 200
#: Endpoints that are kept, the latest first.
ENDPOINTS = 200


class ScanHarness(Elaboratable):
    """A block between two scan chains.

    Ports
    -----
    clk, scan_in, scan_out
    """

    def __init__(self, block: wiring.Component):
        self._block = block
        self.clk = Signal()
        self.scan_in = Signal()
        self.scan_out = Signal()

    @property
    def ports(self) -> list[Signal]:
        return [self.clk, self.scan_in, self.scan_out]

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain(reset_less=True)
        m.submodules.block = self._block
        m.d.comb += ClockSignal().eq(self.clk)
        inputs, outputs = [], []
        for _path, member, value in flat_ports(self._block):
            (inputs if member.flow == wiring.In else outputs).append(value)
        drive = Signal(len(Cat(inputs)))
        kept, chain = Signal(len(Cat(outputs))), Signal(len(Cat(outputs)))
        m.d.sync += [
            drive.eq(Cat(self.scan_in, drive)),
            kept.eq(Cat(outputs)),
            # The exclusive or of two registers: no register can be left out, none is late.
            chain.eq(Cat(self.scan_in, chain) ^ kept),
        ]
        m.d.comb += [Cat(inputs).eq(drive), self.scan_out.eq(chain[-1])]
        return m


@dataclass(frozen=True)
class Endpoint:
    """A register input and when its signal arrives at the latest, in ns after the clock edge."""

    arrival_ns: float
    cell: str
    net: str


@dataclass(frozen=True)
class CriticalPath:
    """The longest path between two registers: where it begins and ends, ns in all and in wires.

    `levels` is the number of LUTs and carries between them.
    """

    begins: str
    ends: str
    ns: float
    routing_ns: float
    levels: int


@dataclass(frozen=True)
class BlockTiming:
    """What placing and routing a block gave; the harness's registers are in `resources`."""

    fmax_mhz: float
    resources: Resources
    latest: list[Endpoint]
    critical: CriticalPath


#: What Yosys appends to a register's name, and the harness puts before it.
_CELL_SUFFIX = re.compile(
    r"_(TRELLIS_FF|MULT18X18D)_.*|\.\d+\.\d+(_DO[AB]\d+|\$DPRAM_COMB\d)?$|\$\d+$"
)


def _register(cell: str) -> str:
    """A cell as people know it: without the harness, and what tools append."""
    name = cell.removeprefix("block.")
    while (shorter := _CELL_SUFFIX.sub("", name)) != name:
        name = shorter
    return name


def critical_path(report: dict) -> CriticalPath:
    """From nextpnr's report, the longest path from register to register."""
    paths = [
        path["path"]
        for path in report["critical_paths"]
        if path["from"] != "<async>" and path["to"] != "<async>"
    ]
    steps = max(paths, key=lambda steps: sum(step["delay"] for step in steps))
    return CriticalPath(
        begins=_register(steps[0]["from"]["cell"]),
        ends=_register(steps[-1]["to"]["cell"]),
        ns=round(sum(step["delay"] for step in steps), 2),
        routing_ns=round(sum(s["delay"] for s in steps if s["type"] == "routing"), 2),
        levels=sum(step["type"] == "logic" for step in steps),
    )


def block_timing(
    block: wiring.Component,
    *,
    seed: int | None = None,
    options: Sequence[str] = (),
    cpu_seconds: int | None = None,
    phases: Callable[[str], None] = lambda text: None,
) -> BlockTiming:
    """Place and route `block` between registers; cached.

    Placement starts from `seed`; None is the tool's own, always the same. `options` go to nextpnr.

    Raises
    ------
    TimeLimit
        A tool took more than `cpu_seconds` of processor time.
    BuildError
        A tool is missing or failed.
    """
    harness = ScanHarness(block)
    text = rtlil.convert(harness, name="top", ports=harness.ports, platform=None, emit_src=False)
    script = "\n".join(
        ["read_rtlil design.il", HIDE_ALIASES, "synth_ecp5 -top top", "write_json top.json"]
    )
    arguments = [
        "--report", "timing.json", "--detailed-timing-report", "--timing-allow-fail",
        "--router", "router2", *DEVICE, "--freq", str(TARGET_MHZ), "--lpf-allow-unconstrained",
        "--json", "top.json", "--textcfg", "top.config",
    ]  # fmt: skip
    if seed is not None:
        arguments += ["--seed", str(seed)]
    arguments += options

    def make(folder: Path):
        (folder / "design.il").write_text(text)
        (folder / "script.ys").write_text(script)
        phases(f"synthesis by Yosys {YOSYS.version}")
        YOSYS.run(["-q", "-s", "script.ys"], folder, cpu_seconds=cpu_seconds)
        phases(f"place and route by nextpnr {NEXTPNR_ECP5.version}")
        NEXTPNR_ECP5.run(arguments, folder, cpu_seconds=cpu_seconds)
        for path in folder.iterdir():
            if path.name != "timing.json":
                path.unlink()

    key = digest([text, script, *arguments, YOSYS.version, NEXTPNR_ECP5.version])
    kept, _made = cached(key, make)
    report = json.loads((kept / "timing.json").read_text())
    (clock,) = report["fmax"].values()
    endpoints = [
        Endpoint(endpoint["delay"][-1], endpoint["cell"], net["net"])
        for net in report["detailed_net_timings"]
        for endpoint in net["endpoints"]
    ]
    endpoints.sort(key=lambda endpoint: -endpoint.arrival_ns)
    return BlockTiming(
        round(clock["achieved"], 1),
        resources_of(report),
        endpoints[:ENDPOINTS],
        critical_path(report),
    )
