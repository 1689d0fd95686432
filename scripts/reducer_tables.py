"""Tables of docs/ made of docs/data/reducers.json: how large and how fast each reducer is."""

from __future__ import annotations

from scripts.measured import rows, table

__all__ = ["TABLES"]

#: Bytes of a lane.
LANE_BYTES = 2
#: What tables call a reducer, and the codes that a lane of it does in a cycle.
NAMES = {
    "fp16": ("fp16", 0),
    "bf16": ("bf16", 0),
    "fp16-bf16": ("fp16 + bf16", 0),
    "inq-fp16": ("INQ, fp16 scales", 2),
    "inq-bf16": ("INQ, bf16 scales", 2),
    "inq-e8m0": ("INQ, E8M0 scales", 2),
    "shared": ("fp16 + INQ, shared", 1),
}
SUMS = ("fp16", "bf16", "fp16-bf16")
ALL = ("fp16", "bf16", "inq-fp16", "inq-bf16", "inq-e8m0", "shared")
UNITS = ("lut", "ff", "dsp")


def found(family: str, reducers: tuple[str, ...]) -> list[dict]:
    """Rows of a family, by ranks and then in the order of `reducers`."""
    kept = [
        row for row in rows("reducers") if row["family"] == family and row["reducer"] in reducers
    ]
    return sorted(kept, key=lambda row: (row["ranks"], reducers.index(row["reducer"])))


def head(row: dict) -> list[str]:
    """The cells that say which row it is."""
    return [str(row["ranks"]), NAMES[row["reducer"]][0]]


def size(reducers: tuple[str, ...]) -> str:
    """7-series resources a lane of 16 bits and, where codes are done, a code a cycle."""
    body = []
    for row in found("xc7", reducers):
        lanes, codes = row["flit_bytes"] // LANE_BYTES, NAMES[row["reducer"]][1]
        delays = [row["delay"], *([row["inq_delay"]] if "inq_delay" in row else [])]
        each = [row[unit] / lanes for unit in UNITS]
        body.append(
            [
                *head(row),
                *(f"{value:.0f}" for value in each),
                ", ".join(f"{value / codes:.0f}" for value in each) if codes else "",
                f"{row['bram']:g}",
                ", ".join(map(str, delays)),
            ]
        )
    header = ["Ranks", "reducer", "LUT a lane", "FF a lane", "DSP a lane"]
    return table([*header, "LUT, FF, DSP a code", "block RAM in all", "delay"], body)


def clock(reducers: tuple[str, ...]) -> str:
    """What clock each reaches on the ECP5, and of how many multipliers."""
    body = [
        [*head(row), f"{row['flit_bytes']} B", str(row["dsp"]), f"{row['mhz']:.1f}"]
        for row in found("ecp5", reducers)
    ]
    return table(["Ranks", "reducer", "flit", "multipliers", "MHz"], body)


#: Generated parts of the docs, by name.
TABLES = {
    "reducer_sums_size": lambda: size(SUMS),
    "reducer_sums_clock": lambda: clock(SUMS),
    "reducers_size": lambda: size(ALL),
    "reducers_clock": lambda: clock(ALL),
}
