"""From a board to its folder: Verilog, constraints, script, resources, bitstream."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from amaranth import __version__ as amaranth_version
from amaranth.back import verilog

from ..config import SwitchConfig
from .errors import BuildError, OverDevice
from .place_and_route import PRODUCTS, TOOLS, place_and_route
from .progress import Progress
from .resources import Resources, check_fit
from .synthesis import estimate
from .tools import YOSYS
from .verilog import to_verilog

__all__ = ["BoardResult", "BuildError", "build_board"]

ESTIMATE = "synthesis estimate"
PLACED = "placed and routed"
BITSTREAM = "top.bit"
CORE = "self_test"


@dataclass(frozen=True)
class BoardResult:
    """What a board's build came to.

    `resources` and `fmax_mhz` are None where they were not asked for or not found out;
    `next_command` is what to do now.
    """

    folder: Path
    resources: Resources | None
    fmax_mhz: float | None
    next_command: str


def _report(board, config: SwitchConfig, resources, *, source, fmax, bitstream, tools) -> str:
    fields = {
        "board": board.name,
        "device": board.device,
        "digest": config.digest,
        **resources.as_json(),
        "available": board.available.as_json(),
        "source": source,
        "fmax_mhz": fmax,
        "bitstream": bitstream,
        "tools": {"amaranth": amaranth_version, **tools},
    }
    return json.dumps(fields, indent=2) + "\n"


def _check_clock(fmax: float | None, config: SwitchConfig):
    wanted = config.clock_hz / 1e6
    if fmax is not None and fmax < wanted:
        raise OverDevice(f"fmax_mhz: must be at least the clock of {wanted:g}, not {fmax:g}")


def _write_plan(board, plan, folder: Path):
    plan.extract(folder)
    if "top.v" not in plan.files:  # the tool reads RTLIL: Verilog, too, for whoever reads it
        with_verilog = verilog._convert_rtlil_text(plan.files["top.il"], strip_internal_attrs=True)
        (folder / "top.v").write_text(with_verilog)


def build_board(
    board, config: SwitchConfig, folder: Path, *, verilog_only: bool, progress: Progress
) -> BoardResult:
    """Build `board` (see `fpga.boards`) with `config` into `folder`.

    With `verilog_only` no tool runs, and there is neither bitstream nor report.

    Raises
    ------
    ConfigError
        The board cannot do this configuration.
    OverDevice
        The design does not fit the device or misses its clock. The report is written.
    BuildError
        A tool failed.
    """
    board.check(config)
    progress.phase("Verilog, constraints, script")
    plan = board.plan(config)
    folder.mkdir(parents=True, exist_ok=True)
    _write_plan(board, plan, folder)
    progress.over()
    script = f"sh {board.script}"
    if board.vendor_tool:
        next_command = f"cd {folder} && {script}   # where {board.vendor_tool} is installed"
    else:
        next_command = board.next_command.format(folder=folder)
    if verilog_only:
        return BoardResult(folder, None, None, f"cd {folder} && {script}")

    missing = [tool for tool in TOOLS.values() if tool.path is None]
    if board.vendor_tool is None and not missing:
        placed = place_and_route(plan, progress)
        for product in PRODUCTS:
            shutil.copyfile(placed.folder / product, folder / product)
        resources, fmax = placed.resources, placed.fmax_mhz
        source, bitstream = PLACED, BITSTREAM
        tools = {name: tool.version for name, tool in TOOLS.items()}
    else:
        text = to_verilog(board.core(config), CORE)
        resources = estimate(text, CORE, board.family, phases=progress.phase)
        progress.over()
        fmax, source, bitstream = None, ESTIMATE, None
        tools = {"yosys": YOSYS.version}
        if board.vendor_tool is None:
            next_command = f"pip install {missing[0].package}, then the same command again"
    text = _report(
        board, config, resources, source=source, fmax=fmax, bitstream=bitstream, tools=tools
    )
    (folder / "report.json").write_text(text)
    check_fit(resources, board.available, board.device)
    _check_clock(fmax, config)
    return BoardResult(folder, resources, fmax, next_command)
