"""Tables of docs/ made of docs/data/resources.json: how large and how fast switches are."""

from __future__ import annotations

from hdl.building.resources import Resources
from scripts.measured import rows, table
from scripts.resources import FEATURES, FORMATS, GRID, PROTOTYPE, Case, cases, row_of

__all__ = ["TABLES", "VU13P"]

#: AMD Virtex UltraScale+ XCVU13P, the device of the paper's boards (UltraScale Architecture and
#: Product Data Sheet: Overview, DS890). Its LUTs have six inputs and its block RAMs 36 kbit, as on
#: 7-series.
VU13P = Resources(lut=1_728_000, ff=3_456_000, bram=2_688, dsp=12_288)
#: arXiv 2603.28239: what the switch takes of it, in percent, with its links' IP cores.
PAPER_PERCENT = {"lut": 7, "ff": 5, "bram": 23}

UNITS = ("lut", "ff", "bram", "dsp")
#: Columns of the split and the parts in each; everything else is control.
COLUMNS = {
    "ports": ("port",),
    "wave tables": ("table",),
    "arithmetic": ("arithmetic",),
    "write-back": ("write_back",),
    "registers, counters": ("registers", "counters", "trace_buffer"),
}
CONTROL = "control"


def formats(case: Case) -> str:
    return ", ".join(FORMATS.get(case.formats, case.formats.split("+")))


def head(case: Case) -> list[str]:
    """The cells that say which row it is."""
    return [str(case.ranks), f"{case.flit_bytes} B", formats(case)]


def number(value: float) -> str:
    return f"{value:,g}" if value != int(value) else f"{int(value):,}"


def measured(family: str, *presets: str, featured=False) -> list[tuple[Case, dict]]:
    """Cases that there is a row of, and the row; by formats, ranks and flit.

    Those with features only if `featured`, which gives them in the order of `FEATURES`.
    """
    found = rows("resources")
    kept = [
        (case, row_of(case, found))
        for case in cases()
        if case.family == family and case.preset in presets and (featured or not case.features)
    ]
    order = list(FORMATS)
    kept = [(case, row) for case, row in kept if row is not None]

    def key(pair):
        case, _row = pair
        place = order.index(case.formats) if case.formats in order else -1
        return place, case.ranks, case.flit_bytes, list(FEATURES).index(case.features)

    return sorted(kept, key=key)


def size() -> str:
    """7-series resources in all."""
    body = []
    for case, row in measured("xc7", GRID):
        if "reason" in row:
            body.append([*head(case), row["reason"], "", "", ""])
        else:
            body.append([*head(case), *(number(row[unit]) for unit in UNITS)])
    text = table(["Ranks", "flit", "formats", "LUT", "FF", "block RAM", "DSP48E1"], body)
    left = missing("xc7")
    return f"{text}\n\nNot measured: {'; '.join(left)}." if left else text


def missing(family: str) -> list[str]:
    """What there is no row of, in words."""
    found = rows("resources")
    return [
        (f"{case.features}: " if case.features else "")
        + f"{case.ranks} ranks with flits of {case.flit_bytes} bytes, {formats(case)}"
        + ("" if case.preset == GRID else f" (`{case.preset}`)")
        for case in cases()
        if case.family == family and row_of(case, found) is None
    ]


def column_of(part: str) -> str:
    return next((column for column, parts in COLUMNS.items() if part in parts), CONTROL)


def split() -> str:
    """LUTs and flip-flops by part."""
    columns = [*COLUMNS, CONTROL]
    body = []
    for case, row in measured("xc7", GRID, PROTOTYPE):
        if "reason" in row:
            continue
        sums = {column: Resources() for column in columns}
        for part, taken in row["parts"].items():
            column = column_of(part)
            sums[column] = sums[column].plus(Resources(**taken), 1)
        which = f"`{case.preset}`" if case.preset != GRID else ""
        cells = [f"{number(sums[c].lut)}, {number(sums[c].ff)}" for c in columns]
        body.append([*head(case), *cells, which])
    header = ["Ranks", "flit", "formats", *columns, "preset"]
    return table(header, body)


def beside_the_paper() -> str:
    """The paper's prototype and ours of the same size, as parts of its device."""
    of = VU13P.as_json()

    def cell(count: float, unit: str) -> str:
        return f"{number(count)} ({100 * count / of[unit]:.1f} %)"

    body = [
        [
            "the paper, with its links' IP cores",
            *(f"{PAPER_PERCENT[unit]} %" for unit in PAPER_PERCENT),
            "",
        ]
    ]
    for case, row in measured("xc7", PROTOTYPE):
        if "reason" in row:
            body.append([formats(case), row["reason"], "", "", ""])
        else:
            body.append([formats(case), *(cell(row[unit], unit) for unit in UNITS)])
    return table(["Switch", "LUT", "FF", "block RAM", "DSP"], body)


def clock() -> str:
    """Clock and longest path on the ECP5."""
    body = []
    for case, row in measured("ecp5", GRID, "ulx3s-85f"):
        start = [f"`{case.preset}`", *head(case)]
        if "reason" in row:
            body.append([*start, row["reason"], "", "", "", "", "", ""])
            continue
        path = row["critical"]
        before = ", ".join(f"{old['mhz']:.1f}" for old in row["earlier"])
        body.append(
            [
                *start,
                *(number(row[unit]) for unit in UNITS),
                f"{row['mhz']:.1f}",
                before,
                f"`{path['begins']}` to `{path['ends']}`: {path['ns']:.1f} ns, "
                f"{path['routing_ns']:.1f} of them wires",
            ]
        )
    header = "Preset,ranks,flit,formats,LUT,FF,DP16KD,MULT18X18D,MHz,before,longest path"
    text = table(header.split(","), body)
    left = missing("ecp5")
    return f"{text}\n\nNot measured: {'; '.join(left)}." if left else text


def features() -> str:
    """What each feature takes beside the plain switch of the same ranks, flit and formats."""
    every = {
        family: {
            case.features: row
            for case, row in measured(family, GRID, featured=True)
            if (case.ranks, case.flit_bytes, case.formats) == (4, 8, "plain")
        }
        for family in ("xc7", "ecp5")
    }
    body = []
    for name in FEATURES:
        row, clocked = every["xc7"].get(name), every["ecp5"].get(name)
        if row is None or "reason" in row:
            continue
        base = every["xc7"].get("", row)

        def cell(unit, row=row, base=base):
            if row is base or not base[unit]:
                return number(row[unit])
            return f"{number(row[unit])} ({100 * (row[unit] / base[unit] - 1):+.0f} %)"

        mhz = clocked["reason"] if clocked and "reason" in clocked else ""
        if clocked and not mhz:
            mhz = f"{clocked['mhz']:.1f}"
        body.append([name or "plain", cell("lut"), cell("ff"), cell("bram"), cell("dsp"), mhz])
    return table(["Switch", "LUT", "FF", "block RAM", "DSP48E1", "MHz on ECP5"], body)


#: Generated parts of the docs, by name.
TABLES = {
    "switch_size": size,
    "switch_split": split,
    "switch_paper": beside_the_paper,
    "switch_clock": clock,
    "switch_features": features,
}
