"""Say which system packages are missing, as one apt line. Installs nothing.

Runs with any Python 3 and nothing installed: it comes before the environment.
"""

import argparse
import importlib.util
import shutil
import sys

#: Oldest Python that the project runs on.
PYTHON = (3, 11)


class Tool:
    """A system package: how to see that it is there, and what does not work without it."""

    def __init__(self, package, why, needed_by, module=None):
        self.package = package
        self.why = why
        self.needed_by = needed_by
        self._module = module

    def present(self):
        if self._module:
            return importlib.util.find_spec(self._module) is not None
        return shutil.which(self.package) is not None


#: In the order of the apt line. `needed_by`: the make targets that cannot do without.
TOOLS = (
    Tool("git", "tests read which files are tracked", {"test"}),
    Tool("make", "runs the targets", {"run", "test"}),
    Tool("g++", "compiles CXXRTL models; without it runs fall back to pysim", {"test"}),
    Tool("perl", "Verilator's front end", {"test"}),
    # Debian splits ensurepip from Python; without it `python3 -m venv` makes no pip.
    Tool("python3-venv", "makes the environment", {"run", "test"}, module="ensurepip"),
    Tool("iverilog", "Icarus, for cocotb benches", {"test"}),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--for",
        dest="target",
        choices=("run", "test"),
        default="test",
        help="fail only where this needs a missing package (default: test, which needs all)",
    )
    target = parser.parse_args().target

    if sys.version_info < PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        needed = ".".join(map(str, PYTHON))
        print(
            f"python: must be {needed} or newer, not {found}; name one: make PYTHON=python3.12 ..."
        )
        return 1

    missing = [tool for tool in TOOLS if not tool.present()]
    for tool in missing:
        print(f"missing: {tool.package} ({tool.why})", file=sys.stderr)
    if missing:
        packages = " ".join(tool.package for tool in missing)
        print(f"sudo apt-get install -y {packages}")
    return 1 if any(target in tool.needed_by for tool in missing) else 0


if __name__ == "__main__":
    sys.exit(main())
