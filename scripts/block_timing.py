"""Place and route single blocks on an ECP5 and show how fast each is, and its latest registers.

    python -m scripts.block_timing read-out wave-table --config ulx3s-85f --latest 10

A block stands between two chains of registers (see `hdl/building/block_timing.py`); their
flip-flops are counted with it. Some seconds for a small block, minutes for a switch; results are
kept.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from hdl.building.block_timing import block_timing
from hdl.building.components import COMPONENTS, component
from hdl.building.errors import BuildError
from hdl.config import ConfigError, SwitchConfig


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("blocks", nargs="+", metavar="BLOCK", help=", ".join(COMPONENTS))
    parser.add_argument(
        "--config", default="ulx3s-85f", metavar="PRESET|FILE.json", help="default: %(default)s"
    )
    parser.add_argument(
        "--latest", type=int, default=0, metavar="N", help="also the N latest registers of each"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    console = Console()
    table = Table("block", "MHz", "LUT", "FF", "block RAM", "DSP")
    try:
        config, _preset = SwitchConfig.load(options.config)
        blocks = {name: component(name) for name in options.blocks}
        for name, block in blocks.items():
            with console.status(name) as status:
                timing = block_timing(
                    block.create(config), phases=lambda text, n=name: status.update(f"{n}: {text}")
                )
            size = timing.resources
            table.add_row(
                name, *map(str, (timing.fmax_mhz, size.lut, size.ff, size.bram, size.dsp))
            )
            for end in timing.latest[: options.latest]:
                console.print(f"{name}: {end.arrival_ns:6.2f} ns at {end.cell}", highlight=False)
    except (ConfigError, BuildError) as error:
        print(f"block_timing: {error}", file=sys.stderr)
        return 2
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
