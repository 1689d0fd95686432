"""What a regression consists of: commands that can run side by side, and what each leaves."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cocotb_tests.conftest import DEFAULT_SEED
from formal.proofs import PROOFS
from mutation.components import COMPONENTS
from mutation.run import SURVIVORS
from mutation.sources import imported, imported_files

__all__ = [
    "BENCHES", "DESIGN_TESTS", "EVERYTHING", "FAULTS", "JUNIT", "LONG", "MUTATION", "OF_DESIGN",
    "PARTS", "PROOF", "ROOT", "ROWS", "RUNS", "TOOLS", "UNIT", "Item", "Options", "items",
]  # fmt: skip

ROOT = Path(__file__).resolve().parents[1]

UNIT, LONG, BENCHES, PROOF, FAULTS, MUTATION = (
    "tests", "long-tests", "benches", "proofs", "planted-faults", "mutation",
)  # fmt: skip
#: Names of the parts, and what they are.
PARTS = {
    UNIT: "unit tests, in Amaranth's simulator and CXXRTL",
    BENCHES: "cocotb benches on generated Verilog, in Icarus and Verilator",
    PROOF: "proofs of properties",
    FAULTS: "faults planted against the proofs",
    MUTATION: "faults planted against tests, benches and proofs",
    LONG: "unit tests that take minutes",
}
#: Where an item's rows or results are, in its folder.
JUNIT, ROWS, RUNS = "junit.xml", "rows.json", "cocotb"
#: Benches of the whole switch.
WHOLE_SWITCH = ("test_switch", "test_switch_registers", "test_golden_corrupted")
#: A run of pytest that had nothing to run ends with this.
NOTHING_CHOSEN = 5

#: What a result depends on: folders and files below the repository's root.
OF_PROOFS = ("hdl", "formal")
OF_MUTATION = ("hdl", "sim", "cocotb_tests", "formal", "mutation", "scripts", "tests")
OF_DESIGN = ("hdl", "sim", "formal", "tests")
#: Of hdl/, what makes files and figures of a design: a result depends on what it imports of them.
TOOLS = ("hdl/build.py", "hdl/building")
EVERYTHING = (
    *OF_DESIGN, "fpga", "cocotb_tests", "mutation", "regress", "scripts",
    "docs", "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile",
    ".ci",
)  # fmt: skip
#: Folders of unit tests that know of the design, its simulation, and what they import.
DESIGN_TESTS = (
    "accelerator", "arithmetic", "golden", "sim/scenarios", "system", "traffic",
    "transport",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What of a regression can be chosen.

    Parameters
    ----------
    seed
        Of the first random case of each bench.
    mutants
        Faults planted in each component.
    """

    seed: int = DEFAULT_SEED
    mutants: int = 12


@dataclass(frozen=True)
class Item:
    """One command of a regression.

    Parameters
    ----------
    name
        Unique, and a folder's name.
    part
        One of `PARTS`.
    command
        What runs, in the repository's root; ``{folder}`` is the item's own folder.
    sources
        Folders and files of the repository that its result depends on.
    fine
        Exit codes that are no failure.
    """

    name: str
    part: str
    command: tuple[str, ...]
    sources: tuple[str, ...]
    fine: tuple[int, ...] = (0,)


def items(options: Options) -> list[Item]:
    """All of a regression, what takes longest first."""
    return [
        *_pytest(LONG, _files("tests"), "-m", "long"),
        *_benches(options),
        *_mutation(options),
        *_proofs(),
        *_pytest(UNIT, _files("tests"), "-m", "not long"),
    ]  # fmt: skip


def _files(folder: str) -> Iterator[Path]:
    return (path.relative_to(ROOT) for path in sorted((ROOT / folder).rglob("test_*.py")))


def _pytest(part: str, files: Iterable[Path], *options: str) -> Iterator[Item]:
    for file in files:
        name = f"{part}-{file.with_suffix('').as_posix().replace('/', '-')}"
        command = (
            sys.executable, "-m", "pytest", str(file), *options, f"--junitxml={{folder}}/{JUNIT}",
            "-o", "junit_family=xunit2", "-q", "-p", "no:cacheprovider",
        )  # fmt: skip
        # Of a file of unit tests either share may be empty; a bench without tests is no success.
        fine = (0,) if part == BENCHES else (0, NOTHING_CHOSEN)
        yield Item(name, part, command, _sources(file), fine)


def _sources(test: Path) -> tuple[str, ...]:
    if test.is_relative_to("cocotb_tests"):
        benches = [path.relative_to(ROOT) for path in sorted((ROOT / "cocotb_tests").rglob("*.py"))]
        return (*_hardware(), *_tools(benches), "sim/golden", "cocotb_tests")
    if any(test.is_relative_to(Path("tests", folder)) for folder in DESIGN_TESTS):
        # All of the simulation: its engines and scenarios are not all imported by name.
        others = {*imported(test, ROOT)} - {"hdl"}
        return tuple(sorted({*_hardware(), *_tools([test]), "sim", *others}))
    return EVERYTHING


def _hardware() -> list[str]:
    """hdl/ without tools: what every test of the design and every bench depends on."""
    paths = (path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "hdl").iterdir()))
    return [path for path in paths if path not in TOOLS and not path.endswith("__pycache__")]


def _tools(files: Collection[Path]) -> list[str]:
    """What `files` import of the tools, however indirectly."""
    return [name for name in imported_files(files, ROOT) if name.startswith(TOOLS)]


def _benches(options: Options) -> Iterator[Item]:
    """Coverage of the Verilog comes from components: of the switch it would take long to build."""
    for file in _files("cocotb_tests"):
        of_verilog = () if file.stem in WHOLE_SWITCH else ("--verilog-coverage",)
        yield from _pytest(
            BENCHES, [file], "-m", "", *of_verilog,
            "--seed", str(options.seed), "--results", f"{{folder}}/{RUNS}",
        )  # fmt: skip


def _proofs() -> Iterator[Item]:
    for part, options in ((PROOF, ()), (FAULTS, ("--faults",))):
        for proof in PROOFS:
            command = ("formal", "--only", proof, *options, "--json", f"{{folder}}/{ROWS}")
            yield Item(f"{part}-{proof}", part, (sys.executable, "-m", *command), OF_PROOFS)


def _mutation(options: Options) -> Iterator[Item]:
    for component in COMPONENTS:
        command = (
            "mutation", "--only", component, "--count", str(options.mutants), "--proofs",
            "--json", f"{{folder}}/{ROWS}",
        )  # fmt: skip
        # How many may survive is a question of all together (`summary.LEAST_CAUGHT`).
        yield Item(
            f"{MUTATION}-{component}", MUTATION, (sys.executable, "-m", *command), OF_MUTATION,
            (0, SURVIVORS),
        )  # fmt: skip
