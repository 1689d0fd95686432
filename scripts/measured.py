"""Measured rows of docs/data, what they are compared with, and the tables made of both."""

from __future__ import annotations

import json
from pathlib import Path

from hdl.config import SwitchConfig
from sim.formula import first_wave_stages, wave_cycles

DATA = Path(__file__).resolve().parent.parent / "docs" / "data"

#: Switch planes that an accelerator's traffic is spread over in the paper's eight-GPU node.
PLANES = 4
#: Figures of arXiv 2603.28239: payload and raw bandwidth of an accelerator, both in one direction.
PAPER_GBPS, PAPER_RAW_GBPS = 360, 450
#: arXiv 2603.28239: All-Reduce without synchronization on its prototype, in ns by bytes.
PAPER_NS = {4 << 10: 2620, 16 << 20: 2_270_000}
#: GB/s by waves, of a queueing model written apart from this design: one port, 64 KiB of buffer,
#: entries freed at read-out, memory answering in 82 ns, 16 MB.
REVIEWED_GBPS = {1: 142, 2: 209, 4: 283, 8: 343, 16: 351, 32: 352}


def rows(name: str) -> list[dict]:
    """Rows of a measurement; none where it was not made."""
    path = DATA / f"{name}.json"
    return json.loads(path.read_text())["rows"] if path.exists() else []


def write_whole(path: Path, report: dict):
    """Write a report whole or not at all: a measurement that is stopped leaves the one before."""
    written = path.with_suffix(".new")
    written.write_text(json.dumps(report, indent=1) + "\n")
    written.replace(path)


def size(count: int) -> str:
    """Bytes in the largest binary unit that is whole."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"


def time(ns: float) -> str:
    return f"{ns / 1e6:.3f} ms" if ns >= 1e6 else f"{ns / 1e3:.3f} us"


def table(header: list[str], body: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def paper_fpga() -> str:
    """The prototype configuration by size."""
    body = []
    for row in rows("paper-fpga"):
        paper = PAPER_NS.get(row["bytes"])
        body.append(
            [
                size(row["bytes"]),
                f"{row['cycles']['data']:,}",
                f"{row['formula']:,}",
                time(row["ns"]),
                time(paper) if paper else "",
                f"{row['utilization']:.4f}",
                f"{row['bound']:.4f}",
                f"{row['utilization'] / row['bound']:.4f}",
            ]
        )
    header = "Bytes a rank,cycles,closed form,time,the paper,utilization,bound,of bound"
    return table(header.split(","), body)


def first_wave() -> str:
    """The closed form's stages."""
    config = SwitchConfig.preset("paper-fpga")
    stages = first_wave_stages(config)
    body = [[stage.what, str(stage.cycles)] for stage in stages]
    body.append(["**first wave**", f"**{sum(stage.cycles for stage in stages)}**"])
    body.append(["each further wave", str(wave_cycles(config))])
    return table(["Stage", "cycles"], body)


def waves() -> str:
    """Bandwidth against k."""
    fixed = {row["waves"]: row for row in rows("waves-fixed-wave")}
    body = []
    for row in rows("waves-fixed-buffer"):
        k = row["waves"]
        other = fixed.get(k)
        gbps = PLANES * row["GBps"]
        body.append(
            [
                str(k),
                size(row["wave_bytes"]),
                f"{gbps:.1f}",
                f"{gbps / PAPER_GBPS:.1%}",
                str(REVIEWED_GBPS[k]),
                f"{PLANES * other['GBps']:.1f}" if other else "",
                str(row["reading_max"]),
                str(row["writing_max"]),
            ]
        )
    header = (
        "k,wave of 64 KiB / k,GB/s,of 360,queueing model,GB/s with waves of 4 KiB,"
        "most reading,most writing"
    )
    return table(header.split(","), body)


def latency() -> str:
    """4 KiB against the number of ranks."""
    body = [
        [
            str(row["ranks"]),
            str(row["reducer"]),
            *(str(row[how]["data"]) for how in ("plain", "straggler", "jitter")),
            *(str(row[how]["arrive_to_flag"]) for how in ("plain", "straggler", "jitter")),
        ]
        for row in rows("latency")
    ]
    header = (
        "Ranks,reducer,data,data: straggler,data: jitter,arrival to flag,with straggler,with jitter"
    )
    return table(header.split(","), body)


def speed() -> str:
    """Engines' cycles a second."""
    measured = {row["engine"]: row["cycles_per_second"] for row in rows("speed")}
    body = [[f"`{engine}`", f"{value:,.0f}"] for engine, value in measured.items()]
    if len(measured) == 2:
        body.append(["ratio", f"{measured['cxxrtl'] / measured['pysim']:,.0f}"])
    return table(["Engine", "cycles a second"], body)


def fairness() -> str:
    """The accelerator's part of contended links, fewest and most."""
    body = []
    for row in rows("fairness"):
        cycles = row["cycles"]
        shares = [
            f"{100 * min(row['shares'][way]):.1f} - {100 * max(row['shares'][way]):.1f} %"
            for way in ("sent", "received")
        ]
        busy = min(min(way) for way in row["busy"].values())
        latency = sum(row["latency_mean"]) / len(row["latency_mean"])
        body.append(
            [row["traffic"], *shares, f"{100 * busy:.1f} %", f"{cycles['alone']:,}",
             f"{cycles['beside']:,}", f"{latency:.0f}"]
        )  # fmt: skip
    return table(
        ["Ordinary traffic", "to ranks", "from ranks", "least busy link", "cycles alone", "beside",
         "ordinary latency"], body,
    )  # fmt: skip


def neighbours() -> str:
    """A tenant's All-Reduces beside another one."""
    body = [
        [row["neighbour"], f"{row['operations']:,}", f"{row['cycles']:,}",
         f"{100 * row['of_share']:.2f} %"]
        for row in rows("neighbours")
    ]  # fmt: skip
    return table(["Neighbour", "All-Reduces", "cycles", "of the first"], body)


#: arXiv 2603.28239: how much faster quantized waves move the same values.
PAPER_INQ_GAIN = 1.94


def inq_bandwidth() -> str:
    """The same values as fp16 and quantized."""
    measured = {row["dtype"]: row for row in rows("inq-bandwidth")}
    if not measured:
        return ""
    plain = measured["fp16"]
    body = []
    for dtype, row in measured.items():
        values = 2 * row["values"] / row["ns"]  # bytes as fp16 would have, a ns
        gain = plain["ns"] / row["ns"]
        body.append(
            [
                f"`{dtype}`",
                size(row["bytes"]),
                f"{row['cycles']['data']:,}",
                f"{row['utilization']:.4f}",
                f"{row['bound']:.4f}",
                f"{row['utilization'] / row['bound']:.1%}",
                f"{PLANES * values:.1f}",
                f"{gain:.3f}",
                f"{row['bound'] * 2 / plain['bound']:.3f}" if dtype == "inq8" else "",
                f"{PAPER_INQ_GAIN}" if dtype == "inq8" else "",
            ]
        )
    header = (
        "Format,bytes a rank and plane,cycles,utilization,bound,of bound,fp16-equivalent GB/s,gain,"
        "gain of the bounds,the paper's gain"
    )
    return table(header.split(","), body)


def inq_latency() -> str:
    """Codes beside as many bytes of fp16."""
    found = rows("inq-latency")
    body = []
    for row in found:
        if row["dtype"] != "inq8":
            continue
        (plain,) = (
            other
            for other in found
            if (other["preset"], other["bytes"], other["dtype"])
            == (row["preset"], row["bytes"], "fp16")
        )
        body.append(
            [
                f"`{row['preset']}`",
                size(row["bytes"]),
                f"{plain['cycles']['data']:,}",
                f"{plain['formula']:,}",
                f"{row['cycles']['data']:,}",
                f"{row['formula']:,}",
                f"{row['cycles']['data'] - plain['cycles']['data']:,}",
            ]
        )
    header = "Preset,bytes a rank,fp16,closed form,inq8,closed form,inq8 longer by"
    return table(header.split(","), body)


#: Generated parts of the docs, by name.
TABLES = {
    "paper_fpga": paper_fpga,
    "first_wave": first_wave,
    "waves": waves,
    "latency": latency,
    "inq_bandwidth": inq_bandwidth,
    "inq_latency": inq_latency,
    "fairness": fairness,
    "neighbours": neighbours,
    "speed": speed,
}
