"""Draw the pictures of docs/ from docs/data; `scripts.make_docs` writes the tables.

Pictures are the same bytes each time they are drawn from the same data.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

from scripts import accuracy
from scripts.measured import PAPER_GBPS, PAPER_RAW_GBPS, PLANES, REVIEWED_GBPS, rows

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "svg.hashsalt": "tidegate",
    "svg.fonttype": "none",
}
#: Okabe and Ito's palette, which colour-blind readers tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#666666"


def waves_curve():
    """Bandwidth against waves in flight: the paper's Figure 11."""
    figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for name, label, colour, marker in (
        ("waves-fixed-buffer", "buffer of 64 KiB a rank, cut in k waves", BLUE, "o"),
        ("waves-fixed-wave", "waves of 4 KiB, k of them", ORANGE, "s"),
    ):
        measured = rows(name)
        if not measured:
            continue
        axes.plot(
            [row["waves"] for row in measured],
            [PLANES * row["GBps"] for row in measured],
            color=colour, marker=marker, label=f"measured: {label}",
        )  # fmt: skip
    axes.plot(
        list(REVIEWED_GBPS), list(REVIEWED_GBPS.values()),
        color=GREY, linestyle="none", marker="x", label="independent queueing model, 64 KiB",
    )  # fmt: skip
    axes.axhline(PAPER_GBPS, color=GREEN, linewidth=1)
    axes.annotate("360 GB/s: the paper, and 8 flits of payload in 10",
                  (1, PAPER_GBPS), xytext=(0, 4), textcoords="offset points",
                  color=GREEN, fontsize=9)  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    axes.set_ylim(0, PAPER_RAW_GBPS)
    axes.set_xlabel("waves that may read at once, k")
    axes.set_ylabel("All-Reduce bandwidth, four planes (GB/s)")
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    return figure


def latency():
    """4 KiB against the number of ranks."""
    measured = rows("latency")
    figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
    ranks = [row["ranks"] for row in measured]
    for key, label, colour, marker in (
        ("jitter", "memories answer up to 64 cycles later", ORANGE, "s"),
        ("plain", "plain", BLUE, "o"),
        ("straggler", "one rank 1,000 cycles late, from its arrival", GREEN, "x"),
    ):
        axes.plot(ranks, [row[key]["arrive_to_flag"] for row in measured],
                  color=colour, marker=marker, linestyle="none" if marker == "x" else "-",
                  label=label)  # fmt: skip
    axes.set_xticks(ranks)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("ranks")
    axes.set_ylabel("last arrival to last flag (cycles)")
    axes.legend(frameon=False, fontsize=9)
    return figure


def accuracy_perplexity():
    """How much worse than fp16 a language model gets, by block: the paper's Table 1."""
    figure, both = plt.subplots(1, 2, figsize=(7.2, 3.6), layout="constrained")
    for axes, bits in zip(both, (8, 4), strict=True):
        for method, colour, marker in (("ring", ORANGE, "s"), ("inq", BLUE, "o")):
            found = [accuracy.model(method, bits, block, "fp16") for block in accuracy.BLOCKS]
            axes.errorbar(
                accuracy.BLOCKS, [row["delta"] for row in found],
                yerr=[2 * row["stderr"] for row in found],
                color=colour, marker=marker, capsize=3, label=accuracy.NAMES[method],
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_xticks(accuracy.BLOCKS, map(str, accuracy.BLOCKS))
        axes.set_xlabel("codes a block")
        axes.set_title(f"INT{bits}", fontsize=10)
        if bits == 4:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
    both[0].set_ylabel("perplexity less fp16's, ± 2 standard errors")
    both[0].legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def accuracy_sqnr():
    """Signal to quantization noise against the number of ranks."""
    figure, both = plt.subplots(1, 2, figsize=(7.2, 3.6), layout="constrained", sharey=True)
    kinds = ("gaussian", "activations, later tokens")
    for axes, data in zip(both, kinds, strict=True):
        for method, colour, marker in (
            ("inq8", BLUE, "o"), ("ring8", ORANGE, "s"), ("mxint8", GREEN, "^"),
        ):  # fmt: skip
            found = [
                row
                for row in accuracy.report()["tensor"]
                if (row["data"], row["method"], row["block"]) == (data, method, 64)
            ]
            axes.plot(
                [row["ranks"] for row in found], [row["sqnr_db"] for row in found],
                color=colour, marker=marker, label=accuracy.NAMES[method],
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_xticks([2, 4, 8, 16], ["2", "4", "8", "16"])
        axes.set_xlabel("ranks")
        axes.set_title(data, fontsize=10)
    both[0].set_ylabel("signal to quantization noise (dB)")
    both[0].legend(frameon=False, fontsize=9, loc="lower left")
    return figure


PICTURES = {
    "waves-curve": waves_curve,
    "latency": latency,
    "accuracy-perplexity": accuracy_perplexity,
    "accuracy-sqnr": accuracy_sqnr,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.make_figures", description=__doc__)
    parser.add_argument("--out", type=Path, default=IMAGES, metavar="DIR",
                        help="folder of the pictures (default: docs/images)")  # fmt: skip
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        for name, draw in PICTURES.items():
            figure = draw()
            for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
                path = options.out / f"{name}{suffix}"
                figure.savefig(path, dpi=160, metadata=metadata)
                print(f"{path}: written")
            plt.close(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
