"""Runs drawn as pictures: a lane a rank, a bar a wave, coloured by phase."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hdl.config import SwitchConfig

from .events import RunEvents, Wave

__all__ = ["PHASES", "draw_runs", "pack_rows", "phases", "save_picture"]


@dataclass(frozen=True)
class Phase:
    """A phase of a wave at one rank, and its colour."""

    name: str
    color: str


#: Phases in their order. Colours: Okabe and Ito's palette, apart for every kind of sight, and of
#: different lightness, so that they stay apart in grey.
PHASES = (
    Phase("read data on its way", "#A6D5F2"),
    Phase("complete, waits for other ranks and its turn", "#E69F00"),
    Phase("summed and written", "#0072B2"),
    Phase("acknowledgements on their way", "#009E73"),
)

WIDTH_INCHES = 11.0
ROW_INCHES = 0.115
#: Space between two ranks' lanes, in rows.
LANE_GAP_ROWS = 1.2
PANEL_GAP_INCHES = 0.68
HEAD_INCHES, FOOT_INCHES = 1.05, 0.62
LEFT_INCHES, RIGHT_INCHES = 0.85, 0.25
BAR_HEIGHT = 0.86
GRID_COLOR, INK, FAINT_INK = "#D9D9D9", "#222222", "#666666"
#: A wave's number takes this many points in its bar, and is left out of bars too short for it.
NUMBER_POINTS = 5.5
NUMBER_INCHES = 0.14
PNG_DPI = 160

STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
    "font.size": 9.0,
    "axes.edgecolor": FAINT_INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "tidegate",  # names in the SVG: the same in every run
    "svg.fonttype": "path",
    "path.simplify": False,
}


def phases(wave: Wave, rank: int) -> list[tuple[int, int]]:
    """(begin, end) cycle of each of `PHASES`, of a wave at a rank. Each begins as one ends."""
    edges = (
        wave.requested[rank],
        wave.complete[rank],
        wave.read_out,
        wave.released,
        wave.acknowledged[rank],
    )
    # A rank may have acknowledged its last packet before the slowest one let read-out end.
    edges = [min(edge, edges[-1]) for edge in edges]
    return list(zip(edges[:-1], edges[1:], strict=True))


def pack_rows(waves: list[Wave], rank: int) -> list[int]:
    """A row for each wave, the lowest one that is free: rows in use are waves in flight."""
    free_from: list[int] = []
    rows = []
    for wave in waves:
        begin, end = wave.requested[rank], wave.acknowledged[rank]
        row = next((r for r, free in enumerate(free_from) if free <= begin), len(free_from))
        free_from[row : row + 1] = [end]
        rows.append(row)
    return rows


@dataclass
class _Panel:
    """One run and where its bars stand: `rows` by rank and wave, `lane_rows` in a rank's lane."""

    run: RunEvents
    title: str

    def __post_init__(self):
        self.config = SwitchConfig.from_fields(self.run.config)
        ranks = range(self.config.ranks)
        self.rows = [pack_rows(self.run.waves, rank) for rank in ranks]
        self.lane_rows = max(max(rows) for rows in self.rows) + 1

    @property
    def lane_height(self) -> float:
        return self.lane_rows + LANE_GAP_ROWS

    @property
    def height(self) -> float:
        """Rows of the whole panel."""
        return self.config.ranks * self.lane_height + LANE_GAP_ROWS

    @property
    def cycles(self) -> int:
        return self.run.last_response - self.run.first_request

    def outcome(self) -> str:
        utilization = self.config.payload_cycles(self.run.seen_bytes) / self.cycles
        return (
            f"{self.cycles:,} cycles, {1e6 * self.cycles / self.config.clock_hz:.2f} us: "
            f"{100 * utilization:.1f} % of the link"
        )


def _draw_bars(axes, panel: _Panel, inches_per_cycle: float):
    start = panel.run.first_request
    for rank in range(panel.config.ranks):
        base = LANE_GAP_ROWS + rank * panel.lane_height
        for number, (wave, row) in enumerate(zip(panel.run.waves, panel.rows[rank], strict=True)):
            bottom = base + row
            spans = phases(wave, rank)
            axes.broken_barh(
                [(begin - start, end - begin) for begin, end in spans],
                (bottom, BAR_HEIGHT),
                facecolors=[phase.color for phase in PHASES],
                linewidth=0,
            )
            first = spans[0]
            if (first[1] - first[0]) * inches_per_cycle > NUMBER_INCHES:
                axes.text(
                    first[0] - start + 0.025 / inches_per_cycle,
                    bottom + BAR_HEIGHT / 2,
                    str(panel.run.first_wave + number),
                    fontsize=NUMBER_POINTS,
                    va="center_baseline",
                    color=INK,
                )


def _draw_panel(axes, panel: _Panel, last: int, inches_per_cycle: float):
    _draw_bars(axes, panel, inches_per_cycle)
    axes.axvline(panel.cycles, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    axes.set_ylim(panel.height, 0)
    axes.set_xlim(0, last)
    middle = LANE_GAP_ROWS + panel.lane_rows / 2
    axes.set_yticks(
        [middle + rank * panel.lane_height for rank in range(panel.config.ranks)],
        [f"rank {rank}" for rank in range(panel.config.ranks)],
    )
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="x", color=GRID_COLOR, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_title(panel.title, loc="left", fontweight="bold", fontsize=10.5)
    axes.set_title(panel.outcome(), loc="right", fontsize=9.5)


def draw_runs(runs: list[RunEvents], titles: list[str], heading: str) -> Figure:
    """One panel a run, the first on top, all on one cycle axis that starts at the first request."""
    panels = [_Panel(run, title) for run, title in zip(runs, titles, strict=True)]
    last = max(panel.cycles for panel in panels) * 1.01
    inches_per_cycle = (WIDTH_INCHES - LEFT_INCHES - RIGHT_INCHES) / last
    heights = [panel.height * ROW_INCHES for panel in panels]
    total = sum(heights) + PANEL_GAP_INCHES * (len(panels) - 1) + HEAD_INCHES + FOOT_INCHES
    with plt.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, total))
        top = total - HEAD_INCHES
        for panel, height in zip(panels, heights, strict=True):
            axes = figure.add_axes(
                (
                    LEFT_INCHES / WIDTH_INCHES,
                    (top - height) / total,
                    1 - (LEFT_INCHES + RIGHT_INCHES) / WIDTH_INCHES,
                    height / total,
                )
            )
            _draw_panel(axes, panel, last, inches_per_cycle)
            top -= height + PANEL_GAP_INCHES
        period = 1e9 / panels[-1].config.clock_hz
        axes.set_xlabel(
            f"cycles of {period:.3g} ns since the first read request; a bar's number is its wave's"
        )
        figure.text(
            LEFT_INCHES / WIDTH_INCHES, 1 - 0.16 / total, heading, va="top", fontsize=12,
            fontweight="bold",
        )  # fmt: skip
        figure.legend(
            handles=[Patch(facecolor=phase.color, label=phase.name) for phase in PHASES],
            loc="upper left",
            bbox_to_anchor=(LEFT_INCHES / WIDTH_INCHES - 0.008, 1 - 0.38 / total),
            ncols=len(PHASES),
            frameon=False,
            fontsize=8.3,
            handlelength=1.4,
            columnspacing=1.4,
        )
    return figure


def save_picture(figure: Figure, base: Path) -> list[Path]:
    """Write ``base.png`` and ``base.svg``; the same bytes for the same figure."""
    base.parent.mkdir(parents=True, exist_ok=True)
    png, svg = base.with_name(base.name + ".png"), base.with_name(base.name + ".svg")
    with plt.rc_context(STYLE):
        figure.savefig(png, dpi=PNG_DPI, metadata={"Software": None})
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return [png, svg]
