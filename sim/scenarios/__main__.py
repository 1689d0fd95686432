"""``python -m sim.scenarios``: random scenarios of everything, each replayed by its seed."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
