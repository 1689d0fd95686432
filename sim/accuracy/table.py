"""The report as tables for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .comparison import CLAIM, CLAIM_WINDOWS

__all__ = ["print_tables"]

#: Methods of the tensor table, and what its columns call them.
METHODS = {
    "inq8": "INQ 8", "ring8": "ring 8", "mxint8": "MXINT8", "fp16_sequential": "fp16 one by one",
}  # fmt: skip


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _tensor(rows: list[dict]) -> Table:
    table = Table(title="Signal to quantization noise (dB)")
    for name in ("data", "ranks", "block", *METHODS.values()):
        table.add_column(name, justify="left" if name == "data" else "right")
    table.add_column("INQ 8: largest error (steps)", justify="right")
    found = {(r["data"], r["ranks"], r["block"], r["method"]): r for r in rows}
    for (data, ranks, block, method), row in found.items():
        if method != "inq8":
            continue
        others = [
            found.get((data, ranks, each, name))
            for name in METHODS
            for each in ((None,) if name.startswith("fp16") else (block,))
        ]
        cells = [_number(other and other["sqnr_db"], ".2f") for other in others]
        steps = _number(row["largest_error_steps"], ".2f")
        table.add_row(data, str(ranks), str(block), *cells, steps)
    return table


def _model(report: dict) -> Table:
    source = report["source"]
    table = Table(
        title=f"Perplexity, {source['predictions']:,} predictions in texts of {source['tokens']}"
    )
    table.add_column("method")
    for name in ("bits", "block", "perplexity", "less fp16's", "standard error", "KL (nats)"):
        table.add_column(name, justify="right")
    for row in report["model"]:
        scale = row["scale_format"]
        name = row["method"] + (f", {scale} scales" if scale not in (None, "fp16") else "")
        table.add_row(
            name,
            str(row["bits"]),
            _number(row["block"], "d"),
            _number(row["perplexity"], ".4f"),
            _number(row["delta"], "+.4f"),
            _number(row["stderr"], ".4f"),
            _number(row["kl"], ".2e"),
        )
    return table


def _orders(rows: list[dict]) -> Table:
    rule = f"an order beyond {CLAIM} standard errors of {CLAIM_WINDOWS} texts or more"
    table = Table(title=f"INQ less ring, perplexity; {rule}")
    for name in ("bits", "block", "difference", "standard error"):
        table.add_column(name, justify="right")
    table.add_column("better")
    for row in rows:
        table.add_row(
            str(row["bits"]),
            str(row["block"]),
            _number(row["difference"], "+.4f"),
            _number(row["stderr"], ".4f"),
            row["order"] or "not told apart",
        )
    return table


def print_tables(console: Console, report: dict):
    """All tables that the report has rows for."""
    if "tensor" in report:
        console.print(_tensor(report["tensor"]))
    if "model" in report:
        console.print(_model(report))
        console.print(_orders(report["orders"]))
