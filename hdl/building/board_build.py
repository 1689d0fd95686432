"""From a board to its folder: Verilog, constraints, script, resources, bitstream."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from amaranth import __version__ as amaranth_version
from amaranth.back import verilog

from ..config import SwitchConfig
from .errors import OverDevice
from .place_and_route import PRODUCTS, TOOLS, place_and_route
from .progress import Progress
from .resources import Resources, check_fit
from .synthesis import estimate
from .tools import YOSYS
from .verilog import to_verilog

__all__ = ["BoardResult", "build_board"]

BITSTREAM = "top.bit"
#: Module name of the design without clock and pins.
CORE = "board_core"


@dataclass(frozen=True)
class Findings:
    """What the tools found out, as the report has it."""

    resources: Resources
    source: str
    fmax_mhz: float | None
    bitstream: str | None
    tools: dict[str, str]


@dataclass(frozen=True)
class BoardResult:
    """What a board's build came to.

    `findings` is None where no tool was to run; `next_command` is what to do now.
    """

    folder: Path
    findings: Findings | None
    next_command: str


def _report(board, config: SwitchConfig, findings: Findings) -> str:
    """The text of ``report.json``."""
    fields = {
        "board": board.name,
        "device": board.device,
        "digest": config.digest,
        **findings.resources.as_json(),
        "available": board.available.as_json(),
        "source": findings.source,
        "fmax_mhz": findings.fmax_mhz,
        "bitstream": findings.bitstream,
        "tools": {"amaranth": amaranth_version, **findings.tools},
    }
    return json.dumps(fields, indent=2) + "\n"


def _write_plan(board, config: SwitchConfig, folder: Path, progress: Progress):
    """Verilog, constraints and script in `folder`; the plan."""
    progress.phase("Verilog, constraints, script")
    plan = board.plan(config)
    folder.mkdir(parents=True, exist_ok=True)
    plan.extract(folder)
    if "top.v" not in plan.files:
        # The tools read RTLIL; Verilog of the same is for people. Amaranth converts its own RTLIL
        # so, but offers it for components only.
        text = verilog._convert_rtlil_text(plan.files["top.il"], strip_internal_attrs=True)
        (folder / "top.v").write_text(text)
    progress.over()
    return plan


def _place_and_route(plan, folder: Path, progress: Progress) -> Findings:
    placed = place_and_route(plan, progress)
    for product in PRODUCTS:
        shutil.copyfile(placed.folder / product, folder / product)
    return Findings(
        resources=placed.resources,
        source="placed and routed",
        fmax_mhz=placed.fmax_mhz,
        bitstream=BITSTREAM,
        tools={name: tool.version for name, tool in TOOLS.items()},
    )


def _estimate(board, config: SwitchConfig, progress: Progress) -> Findings:
    """Of the design without clock and pins: pads of another vendor mean nothing to Yosys."""
    text = to_verilog(board.core(config), CORE)
    resources = estimate(text, CORE, board.family, phases=progress.phase)
    progress.over()
    return Findings(
        resources=resources,
        source="synthesis estimate",
        fmax_mhz=None,
        bitstream=None,
        tools={"yosys": YOSYS.version},
    )


def _check_clock(findings: Findings, config: SwitchConfig):
    wanted, reached = config.clock_hz / 1e6, findings.fmax_mhz
    if reached is not None and reached < wanted:
        raise OverDevice(f"fmax_mhz: must be at least the clock of {wanted:g}, not {reached:g}")


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
    plan = _write_plan(board, config, folder, progress)
    run_script = f"cd {folder} && sh {board.script}"
    if verilog_only:
        return BoardResult(folder, None, run_script)

    missing = [tool for tool in TOOLS.values() if tool.path is None]
    if board.vendor_tool:
        findings = _estimate(board, config, progress)
        next_command = f"{run_script}   # where {board.vendor_tool} is installed"
    elif missing:
        findings = _estimate(board, config, progress)
        next_command = f"pip install {missing[0].package}, then the same command again"
    else:
        findings = _place_and_route(plan, folder, progress)
        next_command = board.next_command.format(folder=folder)
    (folder / "report.json").write_text(_report(board, config, findings))
    check_fit(findings.resources, board.available, board.device)
    _check_clock(findings, config)
    return BoardResult(folder, findings, next_command)
