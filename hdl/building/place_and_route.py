"""A bitstream by Yosys, nextpnr and Trellis, all of them Python packages."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from .cache import cached, digest
from .progress import Progress
from .resources import Resources
from .tools import ECPPACK, NEXTPNR_ECP5, YOSYS, Tool

__all__ = ["PRODUCTS", "TOOLS", "PlacedAndRouted", "place_and_route", "resources_of"]

#: The tools that a plan's commands name.
TOOLS: dict[str, Tool] = {"yosys": YOSYS, "nextpnr-ecp5": NEXTPNR_ECP5, "ecppack": ECPPACK}
#: What is kept of a build: the bitstream in two forms, and nextpnr's figures.
PRODUCTS = ("top.bit", "top.svf", "timing.json")
#: Logs that stay in the cache with them; netlists do not, they are large.
LOGS = ("top.rpt", "top.tim")
#: nextpnr's names of what `Resources` counts. A LUT RAM's write port blocks two LUTs.
_UNITS = {
    "TRELLIS_COMB": Resources(lut=1),
    "TRELLIS_RAMW": Resources(lut=2),
    "TRELLIS_FF": Resources(ff=1),
    "DP16KD": Resources(bram=1),
    "MULT18X18D": Resources(dsp=1),
}
#: nextpnr says what it begins, and counts iterations of placement and routing.
_STEP = re.compile(r"Info: (Packing|Creating|Placing|Placed|Running|Routing|Routed|Setting)\w*.*")


@dataclass(frozen=True)
class PlacedAndRouted:
    """A finished build: the folder with its `PRODUCTS`, its size, and the clock that it reaches."""

    folder: Path
    resources: Resources
    fmax_mhz: float


def _critical_fmax(report: dict) -> float:
    """The lowest ratio of reached to wanted frequency decides; that clock's reached MHz."""
    clocks = report["fmax"].values()
    return min(clocks, key=lambda clock: clock["achieved"] / clock["constraint"])["achieved"]


def resources_of(report: dict) -> Resources:
    """What nextpnr's report says is used."""
    resources = Resources()
    for unit, size in _UNITS.items():
        resources = resources.plus(size, report["utilization"].get(unit, {"used": 0})["used"])
    return resources


def place_and_route(plan, progress: Progress) -> PlacedAndRouted:
    """Run the commands of an Amaranth build plan; cached by the plan and the tools' versions.

    Raises
    ------
    BuildError
        A tool is missing or failed.
    """
    commands = json.loads(plan.files["build_top.json"])["commands"]
    inputs = [f"{name}\n{content}" for name, content in sorted(plan.files.items())]
    versions = [f"{name} {tool.version}" for name, tool in TOOLS.items()]

    def heard(line: str):
        if _STEP.match(line):
            progress.step(line.removeprefix("Info: ").rstrip(". "))

    def make(folder: Path):
        plan.extract(folder)
        for name, *arguments in commands:
            tool = TOOLS[name]
            progress.phase(f"{name} {tool.version}")
            # Told to be quiet it would say nothing until it ends, some minutes later.
            tool.run([text for text in arguments if text != "--quiet"], folder, heard)
        progress.over()
        for path in folder.iterdir():
            if path.name not in PRODUCTS + LOGS:
                path.unlink()

    folder, _made = cached(digest([*inputs, *versions]), make)
    report = json.loads((folder / "timing.json").read_text())
    return PlacedAndRouted(folder, resources_of(report), round(_critical_fmax(report), 2))
