"""Runs the comparisons and puts their rows into one report."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hdl import __version__
from sim.engines.build import cache_folder
from sim.llm import Model
from sim.llm.gguf_file import PACKAGE, installed_model, sha256_of

from . import text
from .arguments import Options
from .cache import Cache
from .comparison import model_methods, model_rows, order_rows
from .perplexity import RANKS, score_windows
from .tensor import SEED, Sweep, tensor_rows

__all__ = ["Scale", "run"]


@dataclass(frozen=True)
class Scale:
    """How much is computed: `windows` texts of `tokens` each, blocks and variants of methods."""

    sweep: Sweep
    windows: int
    tokens: int
    blocks: tuple[int, ...]
    variants: bool


#: 20 texts of 511 predictions: 10,220.
FULL = Scale(Sweep(), windows=20, tokens=512, blocks=(32, 64, 128, 256, 512), variants=True)
SHORT = Scale(
    Sweep(ranks=(2, 8), blocks=(64,), elements=1 << 13),
    windows=2, tokens=64, blocks=(64,), variants=False,
)  # fmt: skip


def run(options: Options, messages: Console) -> dict:
    """The report; progress on `messages`, if that is a terminal.

    Raises
    ------
    ModelMissing
        The model is asked for and not installed.
    """
    scale = SHORT if options.short else FULL
    report = {"version": __version__, "short": options.short}
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=messages, disable=not messages.is_terminal,
    ) as progress:  # fmt: skip
        if "tensor" in options.parts:
            report |= _tensor(scale, progress)
        if "model" in options.parts:
            report |= _model(scale, progress)
    return report


def _tensor(scale: Scale, progress: Progress) -> dict:
    task = progress.add_task("tensors", total=None)
    rows = tensor_rows(
        scale.sweep, lambda done, total: progress.update(task, completed=done, total=total)
    )
    return {"seed": SEED, "elements": scale.sweep.elements, "tensor": rows}


def _model(scale: Scale, progress: Progress) -> dict:
    path, version = installed_model()
    sha256 = sha256_of(path)
    loading = progress.add_task("load the model", total=None)
    model = Model.load(
        path, lambda done, total: progress.update(loading, completed=done, total=total)
    )
    windows = text.windows(model, scale.tokens, scale.windows)
    methods = model_methods(scale.blocks, variants=scale.variants)
    scoring = progress.add_task("score texts", total=len(windows) * len(methods))
    scores = score_windows(
        model,
        sha256,
        windows,
        methods,
        Cache(cache_folder() / "accuracy"),
        lambda method: progress.advance(scoring),
    )
    return {
        "source": {
            "model": {"package": f"{PACKAGE} {version}", "file": path.name, "sha256": sha256},
            "text": text.provenance(),
            "windows": scale.windows,
            "tokens": scale.tokens,
            "predictions": scale.windows * (scale.tokens - 1),
            "ranks": RANKS,
        },
        "model": model_rows(scores),
        "orders": order_rows(scores),
    }
