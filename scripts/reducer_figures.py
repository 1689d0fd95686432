# amaranth: UnusedElaboratable=no
# A reducer's delay is asked of one that is not built.
"""Measure how large and how fast each reducer is, alone, and keep it in docs/data/reducers.json.

    python -m scripts.reducer_figures [--check] [NAME ...]

Size by Yosys for 7-series devices; clock by Yosys and nextpnr on an ECP5-85F, between scan chains
(see `hdl/building/block_timing.py`). A minute or more for each of some 40 runs. A row whose design
is still the one that it was measured of is left as it is, so a run that was stopped goes on.
`make docs` then writes the tables. `--check` measures nothing, and exits with 1 where a row is
missing or of another design.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from amaranth.back import rtlil
from amaranth.lib import wiring
from rich.console import Console

from hdl.arithmetic.inq_reducer import InqReducer
from hdl.arithmetic.reducer import Reducer
from hdl.arithmetic.shared_reducer import SharedReducer
from hdl.building.block_timing import block_timing
from hdl.building.cache import digest
from hdl.building.errors import BuildError
from hdl.building.synthesis import estimate
from hdl.building.tools import NEXTPNR_ECP5, YOSYS
from hdl.building.verilog import flat_ports, to_verilog
from hdl.config import SwitchConfig
from scripts.measured import DATA

FILE = DATA / "reducers.json"
RANKS = (2, 4, 8)
#: Four lanes of 16 bits: the widest flit of which most reducers fit the ECP5's 156 multipliers.
FLIT_BYTES = 8
#: Codes that share a scale, and what a packet carries, which no reducer of sums depends on.
BLOCK, PAYLOAD_BYTES = 64, 128
#: Bits of a scale that one multiplier takes: 25 x 18 on 7-series, 18 x 18 on ECP5, both signed.
PART_BITS = {"xc7": 24, "ecp5": 17}
#: nextpnr's, for all runs.
SEED = 1


def _sums(ranks: int, flit_bytes: int, part_bits: int, *, formats: tuple[str, ...]) -> Reducer:
    return Reducer(
        SwitchConfig(
            ranks=ranks, flit_bytes=flit_bytes, payload_bytes=PAYLOAD_BYTES, formats=formats
        )
    )


def _codes(ranks: int, flit_bytes: int, part_bits: int, *, scales: str) -> InqReducer:
    return InqReducer(ranks, flit_bytes, BLOCK, scales, part_bits=part_bits)


def _both(ranks: int, flit_bytes: int, part_bits: int) -> SharedReducer:
    return SharedReducer(ranks, flit_bytes, BLOCK, part_bits)


@dataclass(frozen=True)
class Kind:
    """A reducer that is measured.

    Parameters
    ----------
    create
        Makes it, of ranks, bytes of a flit, and bits of a scale that a multiplier takes.
    codes
        Codes that a lane of 16 bits does in a cycle; 0 where it only does numbers.
    smaller
        Bytes of a flit by ranks, where `FLIT_BYTES` take more multipliers than the ECP5 has, or so
        many beside as much logic that nextpnr had not ended after 24 minutes of processor time.
    """

    create: Callable[[int, int, int], wiring.Component]
    codes: int = 0
    smaller: tuple[tuple[int, int], ...] = ()

    def flit_bytes(self, ranks: int, family: str) -> int:
        """Bytes of the flit that it is measured with."""
        return dict(self.smaller).get(ranks, FLIT_BYTES) if family == "ecp5" else FLIT_BYTES

    def build(self, ranks: int, family: str) -> wiring.Component:
        """The reducer as it is measured for a family."""
        return self.create(ranks, self.flit_bytes(ranks, family), PART_BITS[family])


#: By name. Eight ranks' scales in three parts take 26 multipliers a code.
KINDS = {
    "fp16": Kind(partial(_sums, formats=("fp16",))),
    "bf16": Kind(partial(_sums, formats=("bf16",))),
    "inq-fp16": Kind(partial(_codes, scales="fp16"), codes=2, smaller=((8, 4),)),
    "inq-e8m0": Kind(partial(_codes, scales="e8m0"), codes=2),
    "shared": Kind(_both, codes=1, smaller=((8, 4),)),
    "fp16-bf16": Kind(partial(_sums, formats=("fp16", "bf16"))),
    "inq-bf16": Kind(partial(_codes, scales="bf16"), codes=2, smaller=((8, 4),)),
}


def design(component: wiring.Component) -> str:
    """32 digits that name a component's logic."""
    ports = [value for _path, _member, value in flat_ports(component)]
    return digest([rtlil.convert(component, name="top", ports=ports, emit_src=False)])


def size(kind: Kind, ranks: int, heard: Callable[[str], None]) -> dict:
    """Resources of all lanes on a 7-series device, and the cycles from operands to results."""
    component = kind.build(ranks, "xc7")
    delays = {
        name: getattr(component, name)
        for name in ("delay", "inq_delay", "block_wait")
        if hasattr(component, name)
    }
    used = estimate(to_verilog(component, "reducer"), "reducer", "xc7", phases=heard)
    return {**delays, **used.as_json()}


def clock(kind: Kind, ranks: int, heard: Callable[[str], None]) -> dict:
    """MHz on the ECP5, and what is used of it, the scan chains included."""
    timing = block_timing(kind.build(ranks, "ecp5"), seed=SEED, phases=heard)
    return {"mhz": timing.fmax_mhz, **timing.resources.as_json()}


MEASUREMENTS = {"xc7": size, "ecp5": clock}


def read() -> dict:
    """What was measured: rows by reducer, ranks and family."""
    return json.loads(FILE.read_text()) if FILE.exists() else {"rows": []}


def row_of(rows: list[dict], **key) -> dict | None:
    """The row that is as `key` says."""
    return next((row for row in rows if key.items() <= row.items()), None)


def plan(names: Sequence[str], ranks: Sequence[int] = RANKS) -> list[dict]:
    """Keys of the rows that there must be, in the order in which they are measured."""
    return [
        {"reducer": name, "ranks": count, "family": family}
        for family in MEASUREMENTS
        for name in names
        for count in ranks
    ]


def outdated(names: Sequence[str], ranks: Sequence[int]) -> Iterator[tuple[dict, str]]:
    """Key and design of each row that is missing, or was measured of another design."""
    rows = read()["rows"]
    for key in plan(names, ranks):
        now = design(KINDS[key["reducer"]].build(key["ranks"], key["family"]))
        if (row_of(rows, **key) or {}).get("design") != now:
            yield key, now


def keep(row: dict, key: dict):
    """Put one row in the file, for the one with its key."""
    rows = [other for other in read()["rows"] if not key.items() <= other.items()] + [row]
    order = plan(list(KINDS))
    rows.sort(key=lambda row: next(i for i, key in enumerate(order) if key.items() <= row.items()))
    report = {
        "made_by": "python -m scripts.reducer_figures",
        "block": BLOCK,
        "seed": SEED,
        "rows": rows,
    }
    FILE.write_text(json.dumps(report, indent=1) + "\n")


def measure(key: dict, design_now: str, console: Console):
    """One row."""
    kind, what = KINDS[key["reducer"]], " ".join(map(str, key.values()))
    tools = [f"Yosys {YOSYS.version}"]
    if key["family"] == "ecp5":
        tools.append(f"nextpnr {NEXTPNR_ECP5.version}")
    with console.status(what) as status:
        figures = MEASUREMENTS[key["family"]](
            kind, key["ranks"], lambda text: status.update(f"{what}: {text}")
        )
    flit_bytes = kind.flit_bytes(key["ranks"], key["family"])
    row = {**key, "flit_bytes": flit_bytes, **figures, "tools": tools, "design": design_now}
    keep(row, key)
    console.print(what, figures, highlight=False)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.reducer_figures", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "names", nargs="*", choices=[*KINDS, []], metavar="NAME",
        help=f"of {', '.join(KINDS)}; without any, all",
    )  # fmt: skip
    parser.add_argument(
        "--ranks", type=int, nargs="+", choices=RANKS, default=RANKS, help="default: all"
    )
    parser.add_argument("--check", action="store_true", help="measure nothing; say what is old")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    code = 0
    for key, design_now in outdated(options.names or list(KINDS), options.ranks):
        what = f"reducer_figures: {' '.join(map(str, key.values()))}"
        if options.check:
            print(f"{what}: not measured, or of another design", file=sys.stderr)
            code = 1
            continue
        try:
            measure(key, design_now, console)
        except BuildError as error:
            print(f"{what}: {error}", file=sys.stderr)
            code = 2
    return code


if __name__ == "__main__":
    sys.exit(main())
