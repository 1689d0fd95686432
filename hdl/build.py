"""``python -m hdl.build``: Verilog of any component, and whole builds for boards."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from fpga.boards import BOARDS

from .building.board_build import BoardResult, build_board
from .building.components import COMPONENTS, component
from .building.errors import BuildError, OverDevice
from .building.ports import ports_json
from .building.progress import Progress
from .building.verilog import module_name, to_verilog
from .config import PRESETS, ConfigError, SwitchConfig, unknown_name

__all__ = ["main"]

#: Exit codes, as of every command of the project.
DONE, DOES_NOT_FIT, BAD_ARGUMENT = 0, 1, 2
DEFAULT_CONFIG = "demo"
BUILD_FOLDER = Path("build")


class _Parser(argparse.ArgumentParser):
    """One line for a bad argument, without the usage text."""

    def error(self, message):
        raise BuildError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m hdl.build",
        description="Write the Verilog of a component, or build for a board.",
        epilog="Exit status: 0 done; 1 the design does not fit the board's device, or misses its "
        "clock; 2 a bad argument, or a tool failed. Results of slow tools are kept in build/cache.",
        allow_abbrev=False,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--board", metavar="NAME", help=f"one of {', '.join(BOARDS)}")
    what.add_argument(
        "--top",
        metavar="NAME",
        help="switch, system or another component of --list: writes its Verilog and ports.json",
    )
    what.add_argument("--list", action="store_true", help="name boards, presets and components")
    parser.add_argument(
        "--config",
        metavar="PRESET|FILE.json",
        help="a preset, or a file of fields (default: the board's own preset, else "
        f"{DEFAULT_CONFIG})",
    )
    parser.add_argument(
        "--set",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="replace a field of the configuration; may be repeated",
    )
    parser.add_argument(
        "--out", metavar="DIR", help=f"folder to write to (default: {BUILD_FOLDER}/NAME-DIGEST)"
    )
    parser.add_argument(
        "--verilog-only",
        action="store_true",
        help="run no synthesis: a board's Verilog, constraints and script, without a report",
    )
    return parser


def _list():
    """Everything that has a name."""
    sections = {
        "boards": {name: board.summary for name, board in BOARDS.items()},
        "presets": {name: _geometry(name) for name in PRESETS},
        "components": {name: item.summary for name, item in COMPONENTS.items()},
    }
    width = max(len(name) for names in sections.values() for name in names)
    for title, names in sections.items():
        print(f"{title}:")
        for name, summary in names.items():
            print(f"  {name:{width}}  {summary}")


def _geometry(preset: str) -> str:
    config = SwitchConfig.preset(preset)
    return (
        f"{config.ranks} ranks, flit {config.flit_bytes} bytes, "
        f"{config.waves} waves of {config.wave_bytes} bytes, {', '.join(config.formats)}"
    )


def _folder(out: str | None, name: str, config: SwitchConfig) -> Path:
    folder = BUILD_FOLDER / f"{name}-{config.digest}" if out is None else Path(out)
    if out == "" or os.path.isfile(folder):  # which never raises, as Path.is_file may
        raise BuildError(f"out: must be a folder, not {out!r}")
    _try_out(folder)
    return folder


def _try_out(folder: Path):
    """Refuse a folder that cannot be written, before the work that is to go there."""
    made = []
    try:
        for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
            missing.mkdir()
            made.append(missing)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        rule = f"must be a folder that can be written ({getattr(error, 'strerror', None) or error})"
        raise BuildError(f"out: {rule}, not {str(folder)!r}") from None
    finally:
        for each in reversed(made):
            each.rmdir()


def _build_component(name: str, config: SwitchConfig, folder: Path):
    """Write ``<module>.v`` and ``ports.json``."""
    made, module = component(name).create(config), module_name(name)
    ports = ports_json(made)
    text = to_verilog(made, module)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.v").write_text(text)
    (folder / "ports.json").write_text(ports)
    print(f"{name}: {config.digest}, module {module} in {module}.v, its ports in ports.json")
    print(f"folder: {folder}")
    print(f"next: iverilog -g2005-sv -t null {folder / module}.v")


def _print_board(board, result: BoardResult):
    findings = result.findings
    if findings is not None:
        have = board.available.as_json()
        shares = [
            f"{name} {number:,} of {have[name]:,} ({100 * number / have[name]:.1f} %)"
            for name, number in findings.resources.as_json().items()
        ]
        print(f"{board.name} ({board.device}), {findings.source}: {', '.join(shares)}")
        if findings.fmax_mhz is not None:
            print(f"fmax: {findings.fmax_mhz:.2f} MHz")
    print(f"folder: {result.folder}")
    print(f"next: {result.next_command}")


def _build_board(name: str, given: argparse.Namespace, settings: dict):
    board = BOARDS[name]
    config, _preset = SwitchConfig.load(
        board.preset if given.config is None else given.config, settings
    )
    folder = _folder(given.out, name, config)
    progress = Progress()
    result = build_board(board, config, folder, verilog_only=given.verilog_only, progress=progress)
    _print_board(board, result)


def _run(arguments: list[str]):
    given = _parser().parse_args(arguments)
    if given.list:
        _list()
        return
    settings = dict(SwitchConfig.parse_setting(text) for text in given.settings)
    if given.board is not None:
        if given.board not in BOARDS:
            raise BuildError(unknown_name("board", given.board, BOARDS))
        _build_board(given.board, given, settings)
    elif given.top is not None:
        component(given.top)
        config, _preset = SwitchConfig.load(
            DEFAULT_CONFIG if given.config is None else given.config, settings
        )
        _build_component(given.top, config, _folder(given.out, given.top, config))
    else:
        raise BuildError("board: must be given, or --top or --list")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit code."""
    os.environ.setdefault("AMARANTH_USE_YOSYS", "builtin")  # another Yosys writes other bytes
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
    except OverDevice as error:
        print(error, file=sys.stderr)
        return DOES_NOT_FIT
    except (ConfigError, BuildError, OSError) as error:
        print(error, file=sys.stderr)
        return BAD_ARGUMENT
    return DONE


if __name__ == "__main__":
    sys.exit(main())
