"""``info``: what the board is."""

from __future__ import annotations

import argparse
import sys

from rich.table import Table

from fpga.self_test import Fault
from hdl.config import SwitchConfig
from sim.cli.errors import UsageError
from sim.cli.output import EXIT_OK, console, write_json
from sim.cli.progress import RunProgress
from sim.cli.units import binary_size

from ..frames import Identity, SelfTestState
from ..link import Link, UnknownBoardError, called
from ..outputs import try_out
from .command import Command

__all__ = ["INFO"]


def _add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--json", metavar="FILE|-", help="write it as JSON")


def _self_test(state: SelfTestState) -> str:
    if not state.built:
        return "none"
    if state.busy:
        return "goes on"
    if state.failed:
        return f"failed: {Fault(state.fault).name.lower().replace('_', ' ')}"
    return "passed" if state.passed else "not run"


def _report(link: Link, identity: Identity) -> dict:
    config = link.config
    return {
        "port": link.port,
        "simulated": link.simulated,
        "protocol": identity.protocol,
        "version": ".".join(map(str, identity.version)),
        "digest": f"{identity.config_digest:08x}",
        "preset": link.preset,
        "config": config and config.to_fields(),
        "ranks": identity.ranks,
        "flit_bytes": identity.flit_bytes,
        "memory_bytes": identity.memory_bytes,
        "burst_bytes": identity.burst_bytes,
        "self_test": _self_test(identity.self_test),
        "damaged_frames": identity.damaged_frames,
        "framing_errors": identity.framing_errors,
    }


def _print(out, report: dict):
    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    where = "the design in simulation" if report["simulated"] else report["port"]
    built = "not known to this checkout"
    if report["config"]:
        config = SwitchConfig.from_fields(report["config"])
        built = called(config, report["preset"]) if report["preset"] else "a file's"
    for name, value in (
        ("board", where),
        ("version", f"{report['version']}, frames {report['protocol']}"),
        ("configuration", f"{report['digest']}: {built}"),
        ("ranks", f"{report['ranks']}, {binary_size(report['memory_bytes'])} of memory each"),
        ("flit", f"{report['flit_bytes']} bytes"),
        ("self-test", report["self_test"]),
        ("frames", f"{binary_size(report['burst_bytes'])} of data at most"),
        ("line since reset", f"{report['damaged_frames']} damaged frames, "
                             f"{report['framing_errors']} framing errors"),
    ):  # fmt: skip
        table.add_row(name, value)
    out.print(table)


def _run(link: Link, given: argparse.Namespace) -> int:
    try_out(json=given.json)
    out = console(sys.stderr if given.json == "-" else sys.stdout)
    if link.simulated:
        link.configure()
        with RunProgress(console(sys.stderr), [], transient=True) as progress:
            link.open(progress.phase)
    refused = None
    try:
        link.configure()
    except UsageError as error:  # what the board says is of use all the same
        refused = error
    report = _report(link, link.identify())
    if refused:
        report |= {"preset": None, "config": None}
    _print(out, report)
    write_json(given.json, report)
    if refused and not (link.any_digest and isinstance(refused, UnknownBoardError)):
        raise refused
    return EXIT_OK


INFO = Command(
    summary="identity, version, configuration",
    description="Say what the board is: version and digest of its configuration, ranks, memories, "
    "self-test. A board that this checkout did not build is refused; see --any-digest.",
    add_arguments=_add_arguments,
    run=_run,
)
