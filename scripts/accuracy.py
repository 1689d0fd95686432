"""Rows of docs/data/accuracy.json, what they are compared with, and the tables made of both."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

__all__ = ["BLOCKS", "PAPER_FP16", "PAPER_PERPLEXITY", "TABLES", "report"]

FILE = Path(__file__).resolve().parent.parent / "docs" / "data" / "accuracy.json"
BLOCKS = (32, 64, 128, 256, 512)
#: arXiv 2603.28239, Table 1: perplexity of LLaMA-2-7B on WikiText-2 with fp16, and by method, bits
#: and block.
PAPER_FP16 = 5.4721
PAPER_PERPLEXITY = {
    ("ring", 8): (5.4742, 5.4755, 5.4757, 5.4839, 5.5050),
    ("inq", 8): (5.4736, 5.4746, 5.4741, 5.4815, 5.5020),
    ("ring", 4): (5.7977, 5.9782, 6.5894, 7.7286, 14.1795),
    ("inq", 4): (5.6055, 5.6695, 5.8628, 6.1649, 7.1776),
}
#: SQNR in dB of a calculation written apart from this code, 8 ranks, fp16 operands and scales: by
#: data and block, of INQ, ring and output only; and of MXINT8 at its block.
CALCULATED_BLOCKS = (32, 64, 128)
CALCULATED_DB = {
    "gaussian": {"inq8": (42.4, 41.5, 40.8), "ring8": (38.9, 38.0, 37.3),
                 "output8": (45.5, 44.6, 43.8), "mxint8": (38.8,)},
    "student-t": {"inq8": (39.1, 37.1, 35.1), "ring8": (36.1, 34.1, 32.2),
                  "output8": (43.0, 41.2, 39.4), "mxint8": (35.5,)},
    "outliers": {"inq8": (36.2, 33.7, 31.5), "ring8": (33.0, 30.8, 29.0),
                 "output8": (39.9, 38.0, 36.5), "mxint8": (32.7,)},
}  # fmt: skip
#: The same calculation's sequential fp16 accumulation of Gaussian data, by ranks.
CALCULATED_FP16_DB = {4: 69.5, 8: 66.7, 16: 64.0}
#: What tables call a method.
NAMES = {
    "inq": "INQ", "ring": "ring", "inq8": "INQ 8", "ring8": "ring 8", "mxint8": "MXINT8",
    "output8": "output only", "inq4": "INQ 4", "ring4": "ring 4", "inq8_bf16": "INQ 8, bf16",
    "inq8_e8m0": "INQ 8, E8M0", "fp16_sequential": "fp16 one by one", "fp16": "fp16, once",
    "fp32": "float32", "mxint": "MXINT",
}  # fmt: skip
RANKS = 8


@cache
def report() -> dict:
    """The whole report; no rows where it was not made."""
    return json.loads(FILE.read_text()) if FILE.exists() else {"tensor": [], "model": []}


def table(header: list[str], body: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def tensor(**what) -> dict | None:
    """The tensor row that is as `what` says."""
    for row in report()["tensor"]:
        if all(row[name] == value for name, value in what.items()):
            return row
    return None


def sqnr(**what) -> str:
    row = tensor(**what)
    return "" if row is None else f"{row['sqnr_db']:.1f}"


def kinds_of_data() -> list[str]:
    return list(dict.fromkeys(row["data"] for row in report()["tensor"]))


def model(method: str, bits: int, block: int | None, scale_format: str | None) -> dict | None:
    """The model row of that method."""
    for row in report()["model"]:
        names = ("method", "bits", "block", "scale_format")
        if tuple(row[name] for name in names) == (method, bits, block, scale_format):
            return row
    return None


def by_block(cell) -> str:
    """A table in the paper's shape: `cell` of the model row of each method, width and block."""
    body = []
    for method, bits in PAPER_PERPLEXITY:
        rows = [model(method, bits, block, "fp16") for block in BLOCKS]
        body.append([f"{NAMES[method]} INT{bits}", *("" if r is None else cell(r) for r in rows)])
    return table(["Method", *map(str, BLOCKS)], body)


def perplexity() -> str:
    """Perplexity, and its difference from fp16's with a standard error."""
    return by_block(
        lambda row: f"{row['perplexity']:.3f} ({row['delta']:+.3f} ± {row['stderr']:.3f})"
    )


def divergence() -> str:
    return by_block(lambda row: f"{row['kl']:.5f} ± {row['kl_stderr']:.5f}")


def orders() -> str:
    """INQ less ring."""
    body = [
        [
            f"INT{row['bits']}",
            str(row["block"]),
            f"{row['difference']:+.3f} ± {row['stderr']:.3f}",
            row["order"] or "not told apart",
            f"{row['kl']:+.5f} ± {row['kl_stderr']:.5f}",
            row["kl_order"] or "not told apart",
        ]
        for row in report().get("orders", [])
    ]
    header = "Codes,block,perplexity: INQ less ring,better,KL: INQ less ring,closer to fp16"
    return table(header.split(","), body)


def others() -> str:
    """Methods that stand outside the paper's table."""
    body = []
    for row in report()["model"]:
        plain = (row["method"], row["bits"]) in PAPER_PERPLEXITY and row["scale_format"] == "fp16"
        if plain:
            continue
        name = NAMES[row["method"]] + (f" {row['bits']}" if row["block"] else "")
        body.append(
            [
                name,
                str(row["block"] or ""),
                row["scale_format"] or "",
                f"{row['perplexity']:.4f}",
                f"{row['delta']:+.4f} ± {row['stderr']:.4f}",
                f"{row['kl']:.2e}",
            ]
        )
    return table(["Method", "block", "scales", "perplexity", "less fp16's", "KL"], body)


def paper() -> str:
    """The paper's table as differences from its fp16."""
    body = [
        [f"{NAMES[method]} INT{bits}", *(f"{value - PAPER_FP16:+.4f}" for value in values)]
        for (method, bits), values in PAPER_PERPLEXITY.items()
    ]
    return table(["Method", *map(str, BLOCKS)], body)


def blocks() -> str:
    """SQNR by data and block."""
    methods = ("inq8", "inq8_bf16", "inq8_e8m0", "mxint8", "ring8", "output8", "inq4", "ring4")
    body = [
        [data, str(block), *(sqnr(data=data, block=block, ranks=RANKS, method=m) for m in methods)]
        for data in kinds_of_data()
        for block in BLOCKS
    ]
    return table(["Data", "block", *(NAMES[method] for method in methods)], body)


def ranks() -> str:
    """SQNR by data and number of ranks."""
    methods = {"inq8": 64, "ring8": 64, "mxint8": 64, "fp16_sequential": None, "fp16": None}
    counts = sorted({row["ranks"] for row in report()["tensor"]})
    body = [
        [data, str(count),
         *(sqnr(data=data, block=block, ranks=count, method=m) for m, block in methods.items())]
        for data in kinds_of_data()
        for count in counts
    ]  # fmt: skip
    return table(["Data", "ranks", *(NAMES[method] for method in methods)], body)


def other_errors() -> str:
    """The errors that are not SQNR, at the default block."""
    body = []
    for data in kinds_of_data():
        for method in ("inq8", "ring8", "mxint8"):
            row = tensor(data=data, block=64, ranks=RANKS, method=method)
            body.append(
                [
                    data,
                    NAMES[method],
                    f"{row['relative_error']:.2%}",
                    f"{row['largest_error']:.2%}",
                    f"{row['largest_error_steps']:.2f}",
                    "" if row["rounding_steps"] is None else f"{row['rounding_steps']:.3f}",
                    f"{1 - row['cosine']:.1e}",
                ]
            )
    header = (
        "Data,method,relative error,largest error of largest value,largest error in steps,"
        "of it in the switch,1 - cosine"
    )
    return table(header.split(","), body)


def calculated() -> str:
    """Beside the calculation made apart."""
    body = []
    for data, methods in CALCULATED_DB.items():
        for method, values in methods.items():
            cells = []
            for block, value in zip(CALCULATED_BLOCKS, values, strict=False):
                own = sqnr(data=data, block=block, ranks=RANKS, method=method)
                cells.append(f"{own} / {value}")
            body.append(
                [data, NAMES[method], *cells, *[""] * (len(CALCULATED_BLOCKS) - len(cells))]
            )
    return table(["Data", "method", *map(str, CALCULATED_BLOCKS)], body)


#: Generated parts of the docs, by name.
TABLES = {
    "accuracy_perplexity": perplexity,
    "accuracy_divergence": divergence,
    "accuracy_orders": orders,
    "accuracy_others": others,
    "accuracy_paper": paper,
    "accuracy_blocks": blocks,
    "accuracy_ranks": ranks,
    "accuracy_errors": other_errors,
    "accuracy_calculated": calculated,
}
