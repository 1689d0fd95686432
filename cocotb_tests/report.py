"""``python -m cocotb_tests.report [DIR]``: merge the runs in a results folder into its reports."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .lib.results import merge, summary

__all__ = ["main"]

DEFAULT_FOLDER = Path("build") / "cocotb"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 where a test failed, 2 where there is nothing to merge."""
    parser = argparse.ArgumentParser(prog="python -m cocotb_tests.report", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT_FOLDER)
    folder = parser.parse_args(arguments).folder
    report = merge(folder)
    if report is None:
        print(f"folder: must hold runs/*/run.json, not {str(folder)!r}", file=sys.stderr)
        return 2
    print(summary(report))
    print(f"holes: {', '.join(report['bins']['holes']) or 'none'}")
    return int(report["tests"]["passed"] != report["tests"]["run"])


if __name__ == "__main__":
    sys.exit(main())
