"""Remake what docs/host.md shows of the host tool, with the twin: a session, and a bench.

``session`` writes docs/data/host-session.txt; ``bench`` measures into docs/data/board-bench.json;
``picture`` draws that as docs/images/board-bench. `make docs` puts text and table into the page.
Run it in the repository's root. Compiling the design takes most of the time.
"""

from __future__ import annotations

import argparse
import io
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout

from fpga.host.bench_picture import draw_bench
from fpga.host.cli import main as host
from scripts.host_tables import BENCH_FILE, SESSION_FILE
from scripts.make_figures import IMAGES

#: A small system with every format: it compiles in a minute or two.
PORT = "--port sim --config docs/examples/two-ranks.json"
#: What a session shows.
SESSION = ("info", "allreduce --dtype inq8 --bytes 1024", "dump --rank 1 --bytes 48")
#: What the bench measures: from a flit to nearly all of a memory.
SIZES = "8,64,256,512,1024,1792"


def session() -> None:
    """Run the commands, and keep what a user sees."""
    text = []
    for command in SESSION:
        out = io.StringIO()
        with redirect_stdout(out):
            status = host(shlex.split(f"{PORT} {command}"))
        if status:
            sys.exit(f"{command}: exit status {status}")
        text.append(f"$ python -m fpga.host {PORT} {command}\n{out.getvalue()}")
    SESSION_FILE.write_text("\n".join(text))
    print(f"{SESSION_FILE}: written")


def bench(rest: Sequence[str] = ()) -> None:
    """Measure, with the options `rest`, and draw."""
    words = ["bench", "--dtypes", "fp16,inq8", "--sizes", SIZES, "--json", str(BENCH_FILE)]
    status = host([*PORT.split(), *words, *rest])
    if status:
        sys.exit(f"bench: exit status {status}")
    picture()


def picture() -> None:
    """Draw what was measured."""
    for path in draw_bench(json.loads(BENCH_FILE.read_text()), IMAGES / "board-bench"):
        print(f"{path}: written")


PARTS: dict[str, Callable[[], None]] = {"session": session, "bench": bench, "picture": picture}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.host_example", description=__doc__)
    parser.add_argument("part", choices=PARTS, metavar="|".join(PARTS))
    parser.add_argument("--simulator", help="of the bench (default: the host tool's)")
    given = parser.parse_args()
    if given.part == "bench" and given.simulator:
        bench(["--simulator", given.simulator])
    else:
        PARTS[given.part]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
