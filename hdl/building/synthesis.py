"""Netlists by Yosys, and how large they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .cache import cached, digest
from .resources import Resources, count_7_series, count_ecp5
from .tools import YOSYS

__all__ = ["FAMILIES", "estimate"]

#: Amaranth names the bits of array fields like the elements of a vector, which makes ABC stop
#: without a message; hidden names do no harm.
HIDE_ALIASES = "rename -hide w:*[*]*"

#: Synthesis and counting by FPGA family. No pads: the design's ports are inside the device.
FAMILIES: dict[str, tuple[str, Callable[[str], Resources]]] = {
    "xc7": ("synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top {top}", count_7_series),
    "ecp5": ("synth_ecp5 -top {top}", count_ecp5),
}


def estimate(
    verilog: str, top: str, family: str, *, phases: Callable[[str], None] = lambda text: None
) -> Resources:
    """Resources that Yosys finds for module `top`, before placement; cached.

    Raises
    ------
    BuildError
        Yosys is missing or failed.
    """
    synthesize, count = FAMILIES[family]
    script = "\n".join(
        [
            "read_verilog design.v",
            HIDE_ALIASES,
            synthesize.format(top=top),
            "tee -q -o stat.json stat -json",
        ]
    )

    def make(folder: Path):
        phases(f"synthesis for {family} by Yosys {YOSYS.version}")
        (folder / "design.v").write_text(verilog)
        (folder / "script.ys").write_text(script)
        YOSYS.run(["-q", "-s", "script.ys"], folder)
        (folder / "design.v").unlink()

    kept, _made = cached(digest([verilog, script, YOSYS.version]), make)
    return count((kept / "stat.json").read_text())
