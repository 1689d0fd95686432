"""Draw the block diagram of docs/architecture.md: docs/images/architecture.svg.

With --check nothing is written; the exit code is 1 if the file differs.
"""

from __future__ import annotations

import argparse
import sys
from html import escape
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "docs" / "images" / "architecture.svg"

WIDTH, HEIGHT = 1000, 520
#: Fill and outline by kind of box; text and lines are dark on a white ground, in any theme.
COLOURS = {
    "frame": ("#f6f7f9", "#8a94a3"),
    "inner": ("#eef4fb", "#5b8cc0"),
    "rank": ("#ffffff", "#59636e"),
    "control": ("#fff4dc", "#b98a1d"),
    "data": ("#dcecfb", "#2f6fad"),
    "other": ("#eeeeee", "#8a8a8a"),
}
CONTROL, DATA, OTHER = "#b07a00", "#1f5f9e", "#777777"

#: Frames and boxes: x, y, width, height, kind, lines of text (a frame's is its title).
FRAMES = [
    (20, 40, 230, 440, "frame", "rank r (one of N)"),
    (330, 40, 650, 440, "frame", "switch"),
    (500, 120, 465, 345, "inner", "in-switch accelerator"),
]
BOXES = {
    "memory": (40, 90, 190, 70, "rank", ["memory", "operand, result, flag"]),
    "endpoint": (40, 250, 190, 60, "rank", ["endpoint", "packets to AXI4 and back"]),
    "agent": (40, 390, 190, 60, "rank", ["arrive and wait", "doorbell, poll the flag"]),
    "port": (350, 90, 82, 370, "rank", ["port r", "", "credits,", "8 virtual", "channels"]),
    "core": (530, 62, 170, 44, "other", ["core", "ordinary traffic"]),
    "barrier": (510, 155, 120, 50, "control", ["barrier", "a bit a rank"]),
    "queue": (820, 155, 130, 50, "control", ["instruction", "queue"]),
    "controller": (660, 155, 130, 50, "control", ["wave", "controller"]),
    "table": (510, 250, 160, 56, "data", ["wave table r", "data and scales, by tag"]),
    "arithmetic": (770, 250, 180, 56, "data", ["arithmetic", "all ranks, one aligned sum"]),
    "writeback": (770, 340, 180, 50, "data", ["write-back r", "results, then scales"]),
    "tracker": (510, 405, 190, 46, "control", ["write tracker", "counts responses"]),
    "flags": (770, 405, 180, 46, "control", ["flags"]),
}
#: Arrows: points, colour, label, and where the label stands.
ARROWS = [
    ([(135, 160), (135, 250)], DATA, "AXI4", (145, 210), True),
    ([(135, 390), (135, 310)], CONTROL, "arrival", (145, 355), False),
    ([(230, 270), (350, 270)], DATA, "link", (275, 262), False),
    ([(350, 292), (230, 292)], DATA, "link", (275, 310), False),
    ([(432, 98), (530, 98)], OTHER, "", (0, 0), True),
    ([(432, 180), (510, 180)], CONTROL, "arrivals", (438, 172), False),
    ([(630, 180), (660, 180)], CONTROL, "", (0, 0), False),
    ([(820, 180), (790, 180)], CONTROL, "", (0, 0), False),
    ([(680, 205), (680, 226), (432, 226)], CONTROL, "read requests", (530, 221), False),
    ([(700, 205), (700, 268), (670, 268)], CONTROL, "reserves", (706, 240), False),
    ([(432, 278), (510, 278)], DATA, "read data", (438, 270), False),
    ([(670, 286), (770, 286)], DATA, "all ranks ready", (676, 302), False),
    ([(860, 306), (860, 340)], DATA, "", (0, 0), False),
    ([(770, 362), (432, 362)], DATA, "write data, to every rank", (530, 356), False),
    ([(432, 430), (510, 430)], CONTROL, "responses", (438, 422), False),
    ([(700, 430), (770, 430)], CONTROL, "all done", (708, 422), False),
    ([(860, 451), (860, 458), (432, 458)], CONTROL, "", (0, 0), False),
]


def text(
    x: float, y: float, line: str, *, size=13, anchor="middle", weight="normal", colour="#222"
):
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}" fill="{colour}">{escape(line)}</text>'
    )


def rectangle(x: int, y: int, width: int, height: int, kind: str) -> str:
    fill, outline = COLOURS[kind]
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" '
        f'fill="{fill}" stroke="{outline}" stroke-width="1.5"/>'
    )


def box(x: int, y: int, width: int, height: int, kind: str, lines: list[str]) -> list[str]:
    """A box with its text in the middle: the first line bold, the others smaller."""
    top = y + height / 2 - 9 * (len(lines) - 1) + 5
    body = [
        text(x + width / 2, top + 18 * i, line, size=14 if i == 0 else 12, weight=weight)
        for i, line in enumerate(lines)
        for weight in (["bold", "normal"][i > 0],)
    ]
    return [rectangle(x, y, width, height, kind), *body]


def head(tip: tuple[int, int], tail: tuple[int, int], colour: str) -> str:
    """An arrow's head at `tip`, coming from `tail` along an axis."""
    (x, y), (from_x, from_y) = tip, tail
    along = ((x > from_x) - (x < from_x), (y > from_y) - (y < from_y))
    across = (along[1], along[0])
    corners = [tip] + [
        (x - 9 * along[0] + side * 5 * across[0], y - 9 * along[1] + side * 5 * across[1])
        for side in (1, -1)
    ]
    points = " ".join(f"{a},{b}" for a, b in corners)
    return f'<polygon points="{points}" fill="{colour}"/>'


def arrow(points, colour: str, label: str, at: tuple[int, int], both: bool) -> list[str]:
    path = " ".join(f"{x},{y}" for x, y in points)
    parts = [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        head(points[-1], points[-2], colour),
    ]
    if both:
        parts.append(head(points[0], points[1], colour))
    if label:
        parts.append(text(*at, label, size=12, anchor="start", colour=colour))
    return parts


def legend() -> list[str]:
    parts = []
    for x, colour, label in (
        (330, DATA, "data"),
        (430, CONTROL, "control and synchronization"),
        (690, OTHER, "ordinary traffic"),
    ):
        parts += arrow([(x, 503), (x + 34, 503)], colour, label, (x + 42, 507), False)
    return parts


def draw() -> str:
    """The picture as SVG text; the same for every call."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="Helvetica, Arial, sans-serif" role="img" '
        'aria-label="Block diagram: rank, port and in-switch accelerator">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for x, y, width, height, kind, title in FRAMES:
        parts.append(rectangle(x, y, width, height, kind))
        parts.append(text(x + 12, y + 20, title, size=15, anchor="start", weight="bold"))
    for points, colour, label, at, both in ARROWS:
        parts += arrow(points, colour, label, at, both)
    for item in BOXES.values():
        parts += box(*item)
    parts += [*legend(), "</svg>"]
    return "\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.draw_architecture", description=__doc__
    )
    parser.add_argument("--check", action="store_true", help="write nothing; compare")
    check = parser.parse_args().check
    current = FILE.read_text() if FILE.exists() else None
    if check:
        return int(current != draw())
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(draw())
    return 0


if __name__ == "__main__":
    sys.exit(main())
