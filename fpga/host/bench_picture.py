"""A bench as a picture: latency and bandwidth by size, the board's beside the simulator's."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from hdl.config import SwitchConfig
from sim.cli.units import binary_size
from sim.waves.picture import save_picture

from .link import called

__all__ = ["draw_bench"]

#: Okabe and Ito's palette, which colour-blind readers tell apart, and a marker, by format.
LOOKS = {"fp16": ("#0072B2", "o"), "bf16": ("#009E73", "s"), "inq8": ("#D55E00", "^")}
INK, GRID = "#222222", "#E4E4E4"
STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "axes.axisbelow": True,
    "svg.hashsalt": "tidegate",  # names in the SVG: the same in every run
    "svg.fonttype": "path",
}
SIZE_INCHES = (9.6, 4.0)


def _sizes_axis(axes, rows: list[dict]):
    sizes = sorted({row["bytes"] for row in rows})
    ticks = [size for size in sizes if size & (size - 1) == 0] or sizes
    ticks = ticks[:: -(-len(ticks) // 7)]
    # The largest has a label of its own, and one that would touch it none.
    ticks = [tick for tick in ticks if 2 * tick <= sizes[-1]] + [sizes[-1]]
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [binary_size(size) for size in ticks])
    axes.set_xlabel("bytes of each rank's operand (inq8: codes)")


def _points(rows: list[dict], value) -> tuple[list[int], list[float]]:
    """Sizes and values of the rows that have one."""
    found = [(row["bytes"], value(row)) for row in rows]
    found = [(size, point) for size, point in found if point is not None]
    return [size for size, _ in found], [point for _, point in found]


def _curves(axes, rows: list[dict], board, simulated, labels: tuple[str, str]):
    """By format: the board's figures as marks, the simulator's as a line."""
    for dtype, (colour, marker) in LOOKS.items():
        of_it = [row for row in rows if row["dtype"] == dtype]
        if not of_it:
            continue
        sizes, points = _points(of_it, simulated)
        if sizes:
            axes.plot(sizes, points, color=colour, linewidth=1.1, label=f"{dtype}, {labels[1]}")
        sizes, points = _points(of_it, board)
        axes.plot(sizes, points, color=colour, marker=marker, markerfacecolor="none",
                  markersize=5.5, linestyle="none", label=f"{dtype}, {labels[0]}")  # fmt: skip


def draw_bench(report: dict, base: Path) -> list[Path]:
    """Draw what ``bench`` reports; the files, ``base.png`` and ``base.svg``.

    Latency is from the last arrival to the last flag. Bandwidth is bytes of an operand by the time
    from the first read request to the last write response.
    """
    rows = report["rows"]
    config = SwitchConfig.from_fields(report["config"])
    microseconds, period = 1e6 / config.clock_hz, 1e9 / config.clock_hz

    def latency(cycles: dict | None) -> float | None:
        return cycles and cycles["arrive_to_flag"] and cycles["arrive_to_flag"] * microseconds

    def bandwidth(size: int, cycles: dict | None) -> float | None:
        return size / (cycles["data"] * period) if cycles and cycles["data"] else None

    def simulated(row: dict) -> dict | None:
        return row["simulated"]["cycles"] if "simulated" in row else None

    what = "twin (simulated board)" if report["simulated_board"] else "board"
    labels = what, f"simulator, {report['simulator']}"
    beside = " beside simulator" if report["simulator"] else ""
    with plt.rc_context(STYLE):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        left, right = figure.subplots(1, 2)
        _curves(left, rows, lambda row: latency(row["cycles"]),
                lambda row: latency(simulated(row)), labels)  # fmt: skip
        left.set_yscale("log")
        for formatted in (left.yaxis.set_major_formatter, left.yaxis.set_minor_formatter):
            formatted("{x:g}")
        left.set_ylabel("last arrival to last flag (us)")
        _curves(right, rows, lambda row: bandwidth(row["bytes"], row["cycles"]),
                lambda row: bandwidth(row["bytes"], simulated(row)), labels)  # fmt: skip
        link = config.flit_bytes / period
        right.axhline(link, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
        right.annotate(f"one link, one direction: {link:.3g} GB/s", (0.02, link), color=INK,
                       xycoords=("axes fraction", "data"), xytext=(0, 4),
                       textcoords="offset points", fontsize=8.5)  # fmt: skip
        right.set_ylim(0, link * 1.12)
        right.set_ylabel("bandwidth a rank (GB/s)")
        for axes in (left, right):
            _sizes_axis(axes, rows)
        left.legend(frameon=False, fontsize=8.5)
        figure.suptitle(
            f"All-Reduce on {called(config, report['preset'])}, {config.ranks} ranks, "
            f"{config.clock_hz / 1e6:g} MHz: {what}{beside}",
            fontsize=11, fontweight="bold",
        )  # fmt: skip
        return save_picture(figure, base)
