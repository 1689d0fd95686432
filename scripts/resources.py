# amaranth: UnusedElaboratable=no
# A switch is asked for its parts; one that is not built is no mistake.
"""Measure how much of an FPGA a switch takes, part by part, and how fast it is.

    python -m scripts.resources [--check] [--family xc7 ecp5] [--ranks N ...] [--flits BYTES ...]
                                [--formats plain inq] [--features NAME ...] [--minutes M]
                                [--retry]

Rows go to docs/data/resources.json: size by Yosys for 7-series devices, each part by itself (see
`hdl/building/breakdown.py`); clock and longest path by Yosys and nextpnr on an ECP5-85F, between
scan chains (see `hdl/building/block_timing.py`). From minutes to an hour a row, the small ones
first. A row whose netlist is still the one that it was measured of is left as it is, so a run that
was stopped goes on. What does not fit the device, or takes a tool longer than --minutes of
processor time, is null, with the reason; --retry measures it again. `make docs` writes the tables.
--check measures nothing, and exits with 1 where a row is missing or of another netlist.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, astuple, dataclass
from functools import lru_cache
from pathlib import Path

from amaranth import __version__ as amaranth_version
from rich.console import Console

import hdl
from fpga.boards import BOARDS
from hdl.building.block_timing import block_timing
from hdl.building.breakdown import Netlist, breakdown, netlist
from hdl.building.cache import cached, digest
from hdl.building.errors import BuildError
from hdl.building.resources import Resources, check_fit
from hdl.building.synthesis import estimate
from hdl.building.tools import NEXTPNR_ECP5, YOSYS
from hdl.building.verilog import to_verilog
from hdl.config import KNOWN_OPERATIONS, SwitchConfig
from hdl.switch import Switch
from scripts.measured import DATA, write_whole

FILE = DATA / "resources.json"
FAMILIES = ("xc7", "ecp5")
RANKS, FLITS = (2, 4, 8), (8, 16, 32)
#: Formats by name, and how much more there is to synthesize with them.
FORMATS = {"plain": ("fp16", "bf16"), "inq": ("fp16", "bf16", "inq8")}
WORK = {"plain": 1, "inq": 2}
#: What a switch may have beside sums of all ranks for one tenant, and the options that build it.
FEATURES = {
    "": {},
    "core": {"core": "forward"},
    "operations": {"operations": KNOWN_OPERATIONS},
    "collectives": {"collectives": "all"},
    "2 contexts": {"contexts": 2},
    "4 contexts": {"contexts": 4},
    "everything": {
        "core": "forward",
        "operations": KNOWN_OPERATIONS,
        "collectives": "all",
        "contexts": 4,
    },
}
#: Features whose clock is measured too. The placer does not end with larger ones.
CLOCKED_FEATURES = ("core",)
#: What the grid varies in ranks, flit and formats, and the paper's prototype.
GRID, PROTOTYPE = "demo", "paper-fpga"
#: The part of a switch that is split again.
INSIDE = ("accelerator",)
#: Bits of a scale that one multiplier takes: 25 x 18 on 7-series, 18 x 18 on ECP5, both signed.
MULTIPLIER_BITS = {"xc7": 24, "ecp5": 17}
#: What rows of ECP5 are placed on.
ECP5_BOARD = BOARDS["ulx3s-85f"]
#: As for a whole board: after the default placer no router ends in reasonable time.
NEXTPNR_OPTIONS = ("--placer", "static")
#: nextpnr's, for all runs.
SEED = 1
MINUTES = 30


@dataclass(frozen=True)
class Case:
    """A switch that is measured: a preset with ranks, flit, formats and features of its own."""

    family: str
    preset: str
    ranks: int
    flit_bytes: int
    formats: str
    features: str = ""

    @property
    def key(self) -> dict:
        """What names its row."""
        return asdict(self)

    @property
    def config(self) -> SwitchConfig:
        preset = SwitchConfig.preset(self.preset)
        formats = FORMATS.get(self.formats, self.formats.split("+"))
        return preset.replace(
            ranks=self.ranks,
            flit_bytes=self.flit_bytes,
            formats=formats,
            multiplier_bits=MULTIPLIER_BITS[self.family],
            **FEATURES[self.features],
        )

    @property
    def work(self) -> int:
        """How much there is to synthesize, to do the small ones first."""
        return self.ranks * self.flit_bytes * WORK.get(self.formats, 1)

    def __str__(self) -> str:
        return " ".join(str(value) for value in astuple(self) if value != "")


def of_preset(family: str, preset: str, formats: str | None = None) -> Case:
    """The preset as it is, or with other formats."""
    config = SwitchConfig.preset(preset)
    formats = formats or "+".join(config.formats)
    return Case(family, preset, config.ranks, config.flit_bytes, formats)


def cases() -> list[Case]:
    """All rows that there must be, the small ones first."""
    sized = [Case("xc7", GRID, n, flit, f) for f in FORMATS for n in RANKS for flit in FLITS]
    sized += [of_preset("xc7", PROTOTYPE, formats) for formats in FORMATS]
    featured = [Case("xc7", GRID, 4, 8, "plain", each) for each in FEATURES if each]
    clocked = [of_preset("ecp5", "ulx3s-85f")]
    for ranks, flit_bytes, formats in ((2, 8, "plain"), (4, 8, "plain"), (4, 8, "inq")):
        clocked.append(Case("ecp5", GRID, ranks, flit_bytes, formats))
    clocked += [Case("ecp5", GRID, 4, 8, "plain", each) for each in CLOCKED_FEATURES]

    def in_order(group):
        return sorted(group, key=lambda case: case.work)

    return in_order(sized) + featured + in_order(clocked)


# -- the netlist that a row is of ------------------------------------------------------------------


@lru_cache(maxsize=1)
def netlist_of(config: SwitchConfig) -> Netlist:
    """The switch; some ten seconds, so the last one is kept."""
    return netlist(Switch(config))


@lru_cache
def sources() -> str:
    """32 digits that name everything that a netlist is made from, but for the configuration."""
    folder = Path(hdl.__file__).parent
    files = sorted(path for path in folder.rglob("*.py") if "building" not in path.parts)
    texts = [f"{path.relative_to(folder)}\n{path.read_text()}" for path in files]
    return digest([amaranth_version, *texts])


def design_of(config: SwitchConfig) -> str:
    """32 digits that name the netlist; made once for the same sources and configuration."""

    def make(folder: Path):
        (folder / "digest").write_text(netlist_of(config).digest)

    kept, _made = cached(digest(["netlist of a switch", sources(), config.to_json()]), make)
    return (kept / "digest").read_text()


# -- measuring ---------------------------------------------------------------------------------


def size(case: Case, cpu_seconds: int, heard: Callable[[str], None]) -> dict:
    """7-series resources, in all and by part."""
    parts = breakdown(netlist_of(case.config), inside=INSIDE, cpu_seconds=cpu_seconds, phases=heard)
    total = Resources()
    for part in parts.values():
        total = total.plus(part, 1)
    return {**total.as_json(), "parts": {name: part.as_json() for name, part in parts.items()}}


def clock(case: Case, cpu_seconds: int, heard: Callable[[str], None]) -> dict:
    """MHz on the ECP5, the longest path, and what is used, the scan chains included."""
    switch = Switch(case.config)
    needed = estimate(to_verilog(switch, "switch"), "switch", "ecp5", phases=heard)
    check_fit(needed, ECP5_BOARD.available, ECP5_BOARD.device)
    timing = block_timing(
        Switch(case.config),
        seed=SEED,
        options=NEXTPNR_OPTIONS,
        cpu_seconds=cpu_seconds,
        phases=heard,
    )
    return {
        "mhz": timing.fmax_mhz,
        **timing.resources.as_json(),
        "critical": asdict(timing.critical),
    }


MEASUREMENTS = {"xc7": size, "ecp5": clock}
#: A row's figures, null where there is a reason for none.
FIGURES = {"xc7": ("lut", "ff", "bram", "dsp"), "ecp5": ("mhz", "lut", "ff", "bram", "dsp")}
TOOLS = {"xc7": (YOSYS,), "ecp5": (YOSYS, NEXTPNR_ECP5)}


def figures(case: Case, cpu_seconds: int, heard: Callable[[str], None]) -> dict:
    """What was measured, or nulls and the reason.

    Raises
    ------
    BuildError
        A tool is missing.
    """
    missing = [tool for tool in TOOLS[case.family] if tool.path is None]
    if missing:
        raise BuildError(f"{missing[0].command}: not found; pip install {missing[0].package}")
    try:
        return MEASUREMENTS[case.family](case, cpu_seconds, heard)
    except BuildError as error:
        return {**dict.fromkeys(FIGURES[case.family]), "reason": str(error)}


# -- rows ----------------------------------------------------------------------------------------


def read() -> list[dict]:
    """The rows that there are."""
    return json.loads(FILE.read_text())["rows"] if FILE.exists() else []


def row_of(case: Case, rows: Iterable[dict]) -> dict | None:
    """The row of a case, or None."""
    return next((row for row in rows if case.key.items() <= row.items()), None)


def earlier(row: dict | None) -> list[dict]:
    """Clocks of a row that makes place for one of another netlist, the oldest first."""
    if row is None:
        return []
    own = [{"mhz": row["mhz"], "design": row["design"]}] if row.get("mhz") else []
    return [*row.get("earlier", []), *own]


def keep(case: Case, measured: dict, design: str):
    """Put one row in the file, in its place."""
    rows = read()
    old = row_of(case, rows)
    row = {
        **case.key,
        **measured,
        "digest": case.config.digest,
        "design": design,
        "tools": [f"{tool.package} {tool.version}" for tool in TOOLS[case.family]],
    }
    if case.family == "ecp5":
        row["earlier"] = [old for old in earlier(old) if old["design"] != design]
    rows = [other for other in rows if other is not old] + [row]
    in_order = (row_of(known, rows) for known in cases())
    report = {
        "made_by": "python -m scripts.resources",
        "seed": SEED,
        "rows": [row for row in in_order if row is not None],
    }
    write_whole(FILE, report)


def outdated(chosen: Iterable[Case], *, retry: bool = False) -> Iterator[tuple[Case, str, str]]:
    """Each case whose row is to be measured, the netlist that it is to be of, and why."""
    for case in chosen:
        row, design = row_of(case, read()), design_of(case.config)
        if row is None:
            yield case, design, "not measured"
        elif row["design"] != design:
            yield case, design, "of another netlist"
        elif retry and "reason" in row:
            yield case, design, row["reason"]


def measure(case: Case, design: str, cpu_seconds: int, console: Console):
    """One row.

    Raises
    ------
    BuildError
        A tool is missing.
    """
    with console.status(str(case)) as status:
        measured = figures(case, cpu_seconds, lambda text: status.update(f"{case}: {text}"))
    keep(case, measured, design)
    shown = {name: measured[name] for name in FIGURES[case.family]}
    console.print(str(case), shown, measured.get("reason", ""), highlight=False)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.resources",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--family", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--ranks", nargs="+", type=int, choices=RANKS, default=RANKS)
    parser.add_argument("--flits", nargs="+", type=int, choices=FLITS, default=FLITS)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=None, help="default: all")
    parser.add_argument(
        "--features",
        nargs="*",
        choices=[each for each in FEATURES if each],
        default=None,
        help="those rows alone, or with none named the rows without; default: all",
    )
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, metavar="M",
        help="processor time that a tool is given for a row (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--retry", action="store_true", help="measure rows again that are null")
    parser.add_argument("--check", action="store_true", help="measure nothing; say what is old")
    options = parser.parse_args(arguments)
    if options.minutes <= 0:
        parser.error(f"argument --minutes: must be more than 0, not {options.minutes:g}")
    return options


def chosen_by(options: argparse.Namespace) -> list[Case]:
    return [
        case
        for case in cases()
        if case.family in options.family
        and case.ranks in options.ranks
        and case.flit_bytes in options.flits
        and (options.formats is None or case.formats in options.formats)
        and (options.features is None or case.features in (options.features or ("",)))
    ]


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    console = Console(stderr=True)
    code = 0
    for case, design, why in outdated(chosen_by(options), retry=options.retry):
        if options.check:
            print(f"resources: {case}: {why}", file=sys.stderr)
            code = 1
            continue
        try:
            measure(case, design, int(60 * options.minutes), console)
        except BuildError as error:
            print(f"resources: {error}", file=sys.stderr)
            return 2
    return code


if __name__ == "__main__":
    sys.exit(main())
