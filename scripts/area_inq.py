"""Measures the area of in-network quantization on 7-series devices, and writes it in its page.

    python -m scripts.area_inq [--check]

Synthesizes 8 lanes, blocks of 64, with Yosys (`synth_xilinx -family xc7`) for 2, 4 and 8 ranks and
each format of scales. `--check` writes nothing and exits with 1 where the page's table differs.
"""

import re
import sys
from pathlib import Path

from hdl.arithmetic.inq_reducer import InqReducer
from scripts.area_reducer import RANKS, run, synthesize

PAGE = Path(__file__).resolve().parent.parent / "docs/components/inq-reducer.md"
LANES = 8
BLOCK = 64
SCALE_FORMATS = ("fp16", "bf16", "e8m0")
#: LUTs that a memory made of LUTs takes.
RAM_LUTS = {"RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2}


def measure(ranks: int, scale_format: str) -> dict[str, float]:
    """LUTs, flip-flops, carry blocks and DSP slices a lane, and block RAMs of 36 kbit in all."""
    counts = synthesize(InqReducer(ranks, LANES, BLOCK, scale_format))

    def count(pattern):
        return sum(n for name, n in counts.items() if re.fullmatch(pattern, name))

    ram = sum(luts * counts.get(name, 0) for name, luts in RAM_LUTS.items())
    return {
        "lut": (count(r"LUT\d|SRL.*|INV") + ram) / LANES,
        "ff": count(r"FD.*") / LANES,
        "carry": count("CARRY4") / LANES,
        "dsp": count("DSP48E1") / LANES,
        "bram": count("RAMB36E1") + count("RAMB18E1") / 2,
    }


def table() -> str:
    lines = [
        "| ranks | scales | LUT a lane | flip-flops a lane | CARRY4 a lane | DSP a lane "
        "| block RAM in all |",
        "|---|---|---|---|---|---|---|",
    ]
    for ranks in RANKS:
        for name in SCALE_FORMATS:
            area = measure(ranks, name)
            lines.append(
                f"| {ranks} | {name} | {area['lut']:.0f} | {area['ff']:.0f} "
                f"| {area['carry']:.0f} | {area['dsp']:.0f} | {area['bram']:g} |"
            )
            print(lines[-1], flush=True)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(run(PAGE, table, __doc__.splitlines()[0]))
