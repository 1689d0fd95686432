"""Place and route a switch's parts alone on an ECP5, without and with all features.

    python -m scripts.part_clocks [--check] [PART ...]

Rows go to docs/data/part-clocks.json: LUTs, flip-flops, block RAMs, multipliers, clock and longest
path of each part between scan chains (see `hdl/building/block_timing.py`), in the preset `demo`
with four ranks and flits of 8 bytes, plain and with everything (see `scripts/resources.py`). A part
that only one of the two has is in that alone. From seconds to some minutes a row; a row whose
netlist is still the one that it was measured of is left as it is. `make docs` writes the table.
--check measures nothing, and exits with 1 where a row is missing or of another netlist.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console

from hdl.building.block_timing import block_timing
from hdl.building.breakdown import netlist
from hdl.building.components import component
from hdl.building.errors import BuildError
from hdl.building.tools import NEXTPNR_ECP5, YOSYS
from hdl.config import SwitchConfig
from scripts.measured import DATA, table, write_whole
from scripts.resources import FEATURES as SWITCH_FEATURES
from scripts.resources import FORMATS, GRID, MULTIPLIER_BITS

__all__ = ["FILE", "PARTS", "TABLES", "configuration"]

FILE = DATA / "part-clocks.json"
PLAIN, EVERYTHING = "", "everything"
FEATURES = (PLAIN, EVERYTHING)
#: Parts that every switch has, then those that features bring, by their names in
#: `hdl/building/components.py`, and the features that they are measured with.
PARTS = {
    **dict.fromkeys(
        (
            "instruction-queue", "wave-controller", "request-issuer", "wave-table", "read-out",
            "write-tracker", "operation-table", "flag-writer", "doorbell", "port",
        ),
        FEATURES,
    ),
    **dict.fromkeys(
        (
            "entry-shares", "recovery", "member-posts", "late-flags", "outstanding",
            "packet-drop", "packet-merge", "link-end",
        ),
        (EVERYTHING,),
    ),
}  # fmt: skip
UNITS = ("lut", "ff", "bram", "dsp")


def configuration(features: str) -> SwitchConfig:
    """That of a switch with the features."""
    return SwitchConfig.preset(GRID).replace(
        ranks=4,
        flit_bytes=8,
        formats=FORMATS["plain"],
        multiplier_bits=MULTIPLIER_BITS["ecp5"],
        **SWITCH_FEATURES[features],
    )


def read() -> list[dict]:
    """The rows that there are."""
    return json.loads(FILE.read_text())["rows"] if FILE.exists() else []


def row_of(part: str, features: str, rows: list[dict]) -> dict | None:
    """The row of a part, or None."""
    return next((r for r in rows if (r["part"], r["features"]) == (part, features)), None)


def outdated(parts: list[str]) -> Iterator[tuple[str, str, str]]:
    """Part, features and netlist of each row that is missing or old."""
    for part in parts:
        for features in PARTS[part]:
            design = netlist(component(part).create(configuration(features))).digest
            row = row_of(part, features, read())
            if row is None or row["design"] != design:
                yield part, features, design


def measure(part: str, features: str, design: str, phases) -> dict:
    """One row, which is put in the file, in its place."""
    made = component(part).create(configuration(features))
    timing = block_timing(made, phases=phases)
    row = {
        "part": part,
        "features": features,
        "mhz": timing.fmax_mhz,
        **timing.resources.as_json(),
        "critical": asdict(timing.critical),
        "design": design,
        "tools": [f"{tool.package} {tool.version}" for tool in (YOSYS, NEXTPNR_ECP5)],
    }
    rows = [r for r in read() if (r["part"], r["features"]) != (part, features)] + [row]
    places = [(name, each) for name, chosen in PARTS.items() for each in chosen]
    rows = [row_of(*place, rows) for place in places]
    report = {
        "made_by": "python -m scripts.part_clocks",
        "rows": [row for row in rows if row is not None],
    }
    write_whole(FILE, report)
    return row


def part_clocks() -> str:
    """Parts without and with all features."""
    rows, body = read(), []

    def cells(row: dict | None) -> list[str]:
        if row is None:
            return ["", "", ""]
        rams = f", {row['bram']} DP16KD" if row["bram"] else ""
        rams += f", {row['dsp']} MULT18X18D" if row["dsp"] else ""
        return [f"{row['lut']:,}{rams}", f"{row['ff']:,}", f"{row['mhz']:.1f}"]

    for part in PARTS:
        plain, everything = (row_of(part, features, rows) for features in FEATURES)
        if plain or everything:
            body.append([part, *cells(plain), *cells(everything)])
    header = ["Part", "LUT, plain", "FF", "MHz", "LUT, everything", "FF", "MHz"]
    return table(header, body)


#: Generated parts of the docs, by name.
TABLES = {"part_clocks": part_clocks}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.part_clocks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"default: all; {', '.join(PARTS)}"
    )
    parser.add_argument("--check", action="store_true", help="measure nothing; say what is old")
    options = parser.parse_args(arguments)
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"argument PART: must be one of {', '.join(PARTS)}, not {part!r}")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    console = Console(stderr=True)
    code = 0
    for part, features, design in outdated(options.parts or list(PARTS)):
        name = f"{part} {features or 'plain'}"
        if options.check:
            print(f"part_clocks: {name}: not measured, or of another netlist", file=sys.stderr)
            code = 1
            continue
        try:
            with console.status(name) as status:
                row = measure(
                    part, features, design, lambda text, n=name: status.update(f"{n}: {text}")
                )
        except BuildError as error:
            print(f"part_clocks: {name}: {error}", file=sys.stderr)
            return 2
        console.print(name, {unit: row[unit] for unit in ("mhz", *UNITS)}, highlight=False)
    return code


if __name__ == "__main__":
    sys.exit(main())
