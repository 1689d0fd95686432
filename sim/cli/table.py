"""The report of a session as a table for people."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .units import binary_size, duration

__all__ = ["print_tables"]

#: Stalls by their name in the report, and how the table calls them.
STALLS = {
    "barrier": "barrier",
    "entries": "wave table entries",
    "data": "read data, by rank",
    "write_room": "write-back room, by port",
    "request_credits": "request credits, by port",
}


def _verdict(run: dict) -> str:
    if run["status"] == "ok":
        return "[green]yes, every byte of every rank[/]"
    if run["status"] == "timeout":
        return "[bold red]not compared: the run did not end within its cycles[/]"
    if run["status"] == "mismatch":
        return "[bold red]NO[/]"
    return f"[bold red]NO: the hardware ended with {run['status']}[/]"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _what(report: dict) -> str:
    config = report["config"]
    return (
        f"{report['preset'] or 'configuration'} {report['digest']}: "
        f"{config['ranks']} ranks x {binary_size(report['bytes'])} {report['dtype']}, "
        f"{'in place' if report['in_place'] else 'out of place'}"
    )


def _title(report: dict) -> str:
    if "collective" not in report:
        return "All-Reduce"
    everyone = list(range(report["config"]["ranks"]))
    name = "-".join(part.capitalize() for part in report["collective"].split("-"))
    if report["operation"] not in ("sum", "copy"):
        name += f" ({report['operation']})"
    for way, ranks in (("from", report["sources"]), ("to", report["destinations"])):
        if ranks != everyone:
            name += f" {way} {','.join(map(str, ranks))}"
    return name


def _waves(run: dict, name: str, most: int) -> str:
    figures = run["waves_in_flight"][name]
    return f"{figures['mean']:.2f} mean, {figures['max']} most, of {most}"


def _by_rank(value) -> str:
    return " ".join(f"{part:,}" for part in value) if isinstance(value, list) else f"{value:,}"


def _first_run(report: dict) -> Table:
    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    add = table.add_row
    seed = f", seed {report['seed']}" if report["input"] == "random" else ""
    add("input", escape(report["input"]) + seed)
    add("bit-exact", _verdict(report))
    if report["cycles"]["data"] is not None:
        _figures(add, report)
    speed = report["engine_cycles_per_second"]
    add("engine", report["engine"] + (f", {speed:,.0f} cycles a second" if speed else ""))
    return table


def _figures(add, report: dict):
    config, cycles, ns = report["config"], report["cycles"], report["ns"]
    for name, meaning in (
        ("data", "first read request to last write response"),
        ("arrive_to_flag", "last arrival to last flag"),
    ):
        add(meaning, f"{cycles[name]:,} cycles, {duration(ns[name])}")
    equivalent = report["fp16_equivalent_GBps"]
    overhead = "headers and requests" if equivalent is None else "headers, requests and scales"
    clock = f"{config['clock_hz'] / 1e6:g} MHz"
    if report["utilization"] is not None:
        add(
            "utilization",
            f"{_percent(report['utilization'])} of the link; {overhead} bound it to "
            f"{_percent(report['bound'])}",
        )
        add("bandwidth", f"{report['algbw_GBps']:.4g} GB/s a rank at {clock}")
    if equivalent is not None:
        add("the same values in fp16", f"{equivalent:.4g} GB/s a rank at {clock}")
    if report["blocks"] is not None:
        blocks = report["blocks"]
        add("blocks", f"{blocks['nan']:,} without a scale (NaN), {blocks['overflow']:,} clamped")
    add("waves reading", _waves(report, "reading", config["waves"]))
    add("waves in write phase", _waves(report, "writing", config["write_waves"]))
    for name, meaning in STALLS.items():
        add(f"stalled for {meaning}", f"{_by_rank(report['stalls'][name])} cycles")


def _all_runs(report: dict) -> Table:
    table = Table()
    for name, justify in (
        ("run", "right"), ("bytes a rank", "right"), ("cycles (data)", "right"),
        ("time", "right"), ("utilization", "right"), ("bound", "right"), ("bit-exact", "left"),
    ):  # fmt: skip
        table.add_column(name, justify=justify)
    for number, run in enumerate(report["runs"], 1):
        cycles, ns = run["cycles"]["data"], run["ns"]["data"]
        table.add_row(
            str(number),
            f"{run['bytes']:,}",
            "-" if cycles is None else f"{cycles:,}",
            "-" if ns is None else duration(ns),
            _percent(run["utilization"]),
            _percent(run["bound"]),
            "[green]yes[/]" if run["bit_exact"] else f"[bold red]{run['status']}[/]",
        )
    return table


def print_tables(console: Console, report: dict):
    """The first run in full and, where there are more, a line for each."""
    console.print(f"[bold]{_title(report)} on {_what(report)}")
    console.print(_first_run(report))
    if len(report["runs"]) > 1:
        console.print("[bold]All runs, one after another without a reset")
        console.print(_all_runs(report))
