"""Write the generated parts of docs/: configuration tables, and the index of pages.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. With --check nothing
is written; the exit code is 1 if a file differs, and each is named.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections.abc import Callable
from pathlib import Path

from hdl.config import PRESETS, SwitchConfig
from scripts import (
    accuracy,
    field_reports,
    host_tables,
    measured,
    mutation_tables,
    part_clocks,
    proof_tables,
    reducer_tables,
    resource_tables,
)
from scripts.measured import size, table

DOCS = Path(__file__).resolve().parent.parent / "docs"

#: What each preset is for.
PURPOSE = {
    "tiny": "sweeps, formal, cocotb",
    "demo": "the default: quick, good waveforms",
    "arty": "an Artix-7 35T with four emulated ranks",
    "arty-100": "an Artix-7 100T with four emulated ranks and quantized operations",
    "ulx3s-85f": "an ECP5-85F with four emulated ranks",
    "ecpix5-85f": "an ECP5-5G 85F with four emulated ranks",
    "paper-fpga": "the paper's prototype",
    "paper-8gpu": "one of the paper's four switch planes",
}

#: Pages that come first in the index, in this order; the rest follow by name.
FIRST_PAGES = ("architecture", "memory-contract", "forward-progress", "configuration")


def code(value) -> str:
    """A value as code; lists of names without Python's marks."""
    return f"`{', '.join(value) if isinstance(value, tuple) else value}`"


def field_descriptions() -> dict[str, str]:
    """Field name to description, from the Parameters section of `SwitchConfig`'s docstring."""
    section = SwitchConfig.__doc__.split("----------\n", 1)[1]
    descriptions = {}
    for entry in re.split(r"\n(?=    \S)", section.rstrip()):
        names, *lines = entry.strip().splitlines()
        text = " ".join(line.strip() for line in lines)
        for name in names.split(", "):
            descriptions[name] = re.sub(r"``([^`]+)``", r"`\1`", text)
    return descriptions


def fields() -> str:
    """Every field with its default and its description."""
    descriptions = field_descriptions()
    rows = [
        [code(field.name), code(field.default), descriptions[field.name]]
        for field in dataclasses.fields(SwitchConfig)
    ]
    return table(["Field", "Default", "Meaning and rule"], rows)


def frequency(hertz: int) -> str:
    if hertz >= 10**9:
        return f"{hertz / 10**9:g} GHz"
    return f"{hertz / 10**6:g} MHz"


def presets() -> str:
    """The presets in a short form."""
    rows = []
    for name in PRESETS:
        c = SwitchConfig.preset(name)
        rows.append(
            [
                code(name),
                str(c.ranks),
                str(c.flit_bytes),
                str(c.payload_bytes),
                f"{c.wave_bytes} x {c.waves}",
                f"{c.link_latency}, {c.memory_latency}",
                size(c.memory_bytes),
                ", ".join(c.formats),
                frequency(c.clock_hz),
                code(c.digest),
                PURPOSE[name],
            ]
        )
    header = "Preset,ranks,flit,payload,wave x k,link and memory (cycles),memory,formats,clock"
    return table([*header.split(","), "digest", "for"], rows)


def derived() -> str:
    """Each derived property, its value in some configurations, and what it is."""
    quantizing = (*SwitchConfig.preset("demo").formats, "inq8")
    shown = {
        "`demo`": SwitchConfig.preset("demo"),
        "`demo` with inq8": SwitchConfig.preset("demo", formats=quantizing),
        "`paper-fpga`": SwitchConfig.preset("paper-fpga"),
    }

    def cell(value) -> str:
        return ", ".join(value) if isinstance(value, tuple) else str(value)

    rows = []
    for name, member in vars(SwitchConfig).items():
        if isinstance(member, property) and name != "digest":
            meaning = (member.fget.__doc__ or "").split("\n")[0].rstrip(".")
            rows.append([code(name), *(cell(getattr(c, name)) for c in shown.values()), meaning])
    return table(["Property", *shown, "Meaning"], rows)


def pages() -> str:
    """A link to every page, with its title."""

    def rank(path: Path):
        known = path.stem in FIRST_PAGES
        return (0, FIRST_PAGES.index(path.stem), "") if known else (1, 0, path.stem)

    return links(sorted((p for p in DOCS.glob("*.md") if p.name != "README.md"), key=rank))


def components() -> str:
    """A link to every component's page."""
    return links(sorted((DOCS / "components").glob("*.md")))


def links(paths: list[Path]) -> str:
    """A list of links to pages, by their titles."""
    titles = [path.read_text().splitlines()[0].removeprefix("# ") for path in paths]
    return "\n".join(
        f"- [{title}]({path.relative_to(DOCS)})" for title, path in zip(titles, paths, strict=True)
    )


#: Generated part to what writes it.
PARTS: dict[str, Callable[[], str]] = {
    "fields": fields,
    "presets": presets,
    "derived": derived,
    "pages": pages,
    "components": components,
    **measured.TABLES,
    **mutation_tables.TABLES,
    **accuracy.TABLES,
    **field_reports.TABLES,
    **host_tables.TABLES,
    **proof_tables.TABLES,
    **reducer_tables.TABLES,
    **part_clocks.TABLES,
    **resource_tables.TABLES,
}


def render(text: str) -> str:
    """`text` with each generated part written again."""

    def part(match: re.Match) -> str:
        return f"{match[1]}\n{PARTS[match[2]]()}\n<!-- end -->"

    return re.sub(r"(<!-- generated: (\w+) -->)\n.*?<!-- end -->", part, text, flags=re.DOTALL)


def stale() -> dict[Path, str]:
    """Pages that would change, with their new text."""
    found = {}
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text()
        new = render(text)
        if new != text:
            found[path] = new
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.make_docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs")
    check = parser.parse_args().check
    changed = stale()
    for path, text in changed.items():
        name = path.relative_to(DOCS.parent)
        if check:
            print(f"{name}: differs from what `make docs` writes", file=sys.stderr)
        else:
            path.write_text(text)
            print(f"{name}: written")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
