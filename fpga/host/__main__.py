"""``python -m fpga.host``: drive a board, or its twin in simulation."""

import sys

#: As `sim.cli.output.EXIT_INTERRUPTED`, which is not there yet.
EXIT_INTERRUPTED = 130


def main() -> int:
    """The tool; also while it is being loaded, which takes a second or two, Ctrl-C is one line."""
    try:
        from .cli import main
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return main()


if __name__ == "__main__":
    sys.exit(main())
