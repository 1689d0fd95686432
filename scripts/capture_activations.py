"""Make the committed activations: run SmolLM2-135M-Instruct and keep its partial sums.

Writes an .npz file and, beside it, a .json file with its provenance. Needs the model
(`make model`). With --check it writes nothing: it captures the tokens of the committed file
again and compares.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import pydoc_data.topics
import shlex
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sim import activations
from sim.llm import Model, ModelMissing
from sim.llm.capture import NOISE, capture, noise
from sim.llm.gguf_file import PACKAGE, installed_model, sha256_of

#: Largest fixture that is committed.
MAX_BYTES = 1 << 20
#: Text that the model reads: this many tokens from the start of the topic ...
TOKENS = 256
#: ... of which these positions are kept: the first, where massive activations sit, to the last.
KEEP = (0, 85, 170, 255)
#: An early, a middle and a late layer of 30. The FFN of layer 11 adds the massive activation of
#: the first token, that of layer 28 adds one of the other sign (docs/activations.md).
LAYERS = (2, 11, 28)
TOPIC = "objects"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.capture_activations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=activations.FILE,
        metavar="FILE.npz",
        help="file to write (default: the committed one, sim/data/activations.npz)",
    )
    parser.add_argument(
        "--topic",
        default=TOPIC,
        help=f"topic of Python's help that the model reads (default: {TOPIC})",
    )
    parser.add_argument(
        "--layers",
        default=",".join(map(str, LAYERS)),
        metavar="L0,L1,...",
        help="layers to keep, from 0, rising (default: %(default)s)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare a new capture with the committed file; exit 1 where they differ",
    )
    return parser


def _layers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"layers: must be whole numbers and commas, not {text!r}") from None


def _text(topic: str) -> str:
    topics = pydoc_data.topics.topics
    if topic not in topics:
        near = difflib.get_close_matches(topic, topics, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"topic: must be one that `pydoc topics` lists, not {topic!r}{hint}")
    return topics[topic]


@contextlib.contextmanager
def _progress(console: Console):
    """Makes progress callbacks by phase; bars appear on a terminal only."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as bars:

        def phase(description: str):
            task = bars.add_task(description, total=None)
            return lambda done, total: bars.update(task, completed=done, total=total)

        yield phase


def _npz(partials: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, partials=partials)
    return file.getvalue()


def _write(path: Path, content: bytes):
    """Write whole files only: a run that is cut short leaves the old one."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def _json(record: dict) -> bytes:
    """JSON with one top-level key a line: short to read, and a change shows as its line."""
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in record.items())
    return f"{{\n{lines}\n}}\n".encode()


def _provenance(
    arguments: argparse.Namespace,
    text: str,
    tokens: list[int],
    layers: list[int],
    partials: np.ndarray,
    npz: bytes,
) -> dict:
    path, wheel = installed_model()
    command = [
        "python", "-m", "scripts.capture_activations",
        "--topic", arguments.topic, "--layers", arguments.layers,
    ]  # fmt: skip
    return {
        "file_sha256": hashlib.sha256(npz).hexdigest(),
        "array": {
            "name": "partials",
            "dtype": "float32",
            "shape": list(partials.shape),
            "axes": ["part", "place", "token", "hidden"],
        },
        "places": [[layer, block] for layer in layers for block in ("attention", "ffn")],
        "model": {
            "name": "SmolLM2-135M-Instruct",
            "license": "Apache-2.0",
            "source": f"PyPI package {PACKAGE} {wheel}",
            "package": PACKAGE,
            "package_version": wheel,
            "file": path.name,
            "file_sha256": sha256_of(path),
        },
        "text": {
            "source": "pydoc_data.topics of the Python standard library",
            "python": platform.python_version(),
            "topic": arguments.topic,
            "topic_sha256": hashlib.sha256(text.encode()).hexdigest(),
        },
        "layers": layers,
        "positions": list(KEEP),
        "tokens": tokens,
        "versions": {
            name: importlib.metadata.version(name) for name in ("gguf", "numpy", "tokenizers")
        },
        "command": shlex.join(command),
    }


def _summary(partials: np.ndarray, places: list) -> Table:
    table = Table(title=f"{partials.shape[0]} partial sums, {partials.shape[2]} tokens a place")
    for heading in ("layer", "block", "rms", "largest", "largest sum"):
        table.add_column(heading, justify="left" if heading == "block" else "right")
    for number, (layer, block) in enumerate(places):
        values = partials[:, number]
        figures = (np.sqrt(np.mean(values**2)), np.abs(values).max())
        figures += (np.abs(values.sum(axis=0)).max(),)
        table.add_row(str(layer), block, *(f"{figure:.4g}" for figure in figures))
    return table


def _make(arguments: argparse.Namespace, console: Console) -> int:
    text, layers = _text(arguments.topic), _layers(arguments.layers)
    if not arguments.out.parent.is_dir() or arguments.out.suffix != ".npz":
        raise ValueError(f"out: must be an .npz file in a folder, not {str(arguments.out)!r}")
    with _progress(console) as phase:
        model = Model.load(progress=phase("dequantize layers"))
        tokens = model.encode(text)[:TOKENS]
        if len(tokens) < TOKENS:
            rule = f"must hold {TOKENS} tokens"
            raise ValueError(f"topic: {rule}, not {len(tokens)} as {arguments.topic!r}")
        partials = capture(
            model,
            tokens,
            layers=layers,
            keep=KEEP,
            parts=activations.PARTS,
            progress=phase("multiply"),
        )
    npz = _npz(partials)
    if len(npz) > MAX_BYTES:
        raise ValueError(f"layers: must fit {MAX_BYTES} bytes, not {len(npz)} for {layers}")
    record = _provenance(arguments, text, tokens, layers, partials, npz)
    _write(arguments.out, npz)
    _write(arguments.out.with_suffix(".json"), _json(record))
    console.print(_summary(partials, record["places"]))
    elements = partials[0].size
    shown = os.path.relpath(arguments.out)
    print(f"{shown}: {len(npz)} bytes, {activations.PARTS} parts of {elements} elements")
    print(f"{os.path.relpath(arguments.out.with_suffix('.json'))}: provenance")
    return 0


def _compare(console: Console) -> int:
    record = activations.provenance()
    with np.load(activations.FILE, allow_pickle=False) as file:
        committed = file["partials"]
    with _progress(console) as phase:
        model = Model.load(progress=phase("dequantize layers"))
        again = capture(
            model,
            record["tokens"],
            layers=record["layers"],
            keep=record["positions"],
            parts=activations.PARTS,
            progress=phase("multiply"),
        )
    difference = noise(again, committed)
    verdict = "equal within" if difference <= NOISE else "DIFFERENT, more than"
    print(f"{activations.FILE.name}: {verdict} {NOISE:g}, largest difference {difference:.2g}")
    return int(difference > NOISE)


def main(argv: list[str] | None = None) -> int:
    """Exit code: 0 written or equal, 1 different, 2 a bad argument or no model."""
    arguments = _parser().parse_args(argv)
    console = Console(stderr=True)
    try:
        return _compare(console) if arguments.check else _make(arguments, console)
    except (ModelMissing, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
