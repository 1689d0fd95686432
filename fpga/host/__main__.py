"""``python -m fpga.host``: drive a board, or its twin in simulation."""

import sys

from .cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
