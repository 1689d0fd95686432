"""Who may import whom, read from the sources: docs/architecture.md, "One way to import"."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = {
    "hdl", "sim", "fpga", "cocotb_tests", "formal", "mutation", "regress", "tests", "scripts",
}  # fmt: skip
EVERYTHING = OURS - {"tests"}

#: A part of the source, and what it may import: of ours, and of others (None: anything). The first
#: part that a file lies in counts.
RULES = [
    ("sim/golden", {"sim.golden"}, {"numpy", "ml_dtypes"}),
    ("sim", {"sim", "hdl"}, None),
    ("hdl/build.py", {"hdl", "fpga"}, None),
    ("hdl", {"hdl"}, {"amaranth"}),
    ("fpga/host", {"fpga", "hdl", "sim"}, None),
    ("fpga/twin.py", {"fpga", "hdl", "sim"}, None),
    ("fpga", {"fpga", "hdl"}, None),
    ("cocotb_tests", {"cocotb_tests", "hdl", "sim.golden"}, None),
    ("formal", {"formal", "hdl"}, None),
    ("mutation", {"mutation", "cocotb_tests", "formal", "sim", "hdl"}, None),
    ("regress", {"regress", "cocotb_tests", "formal", "mutation", "hdl"}, None),
    ("scripts", EVERYTHING, None),
    ("tests", OURS, None),
]


def imports(source: str, path: Path) -> Iterator[str]:
    """Every module that `source` imports, also inside functions; relative names made absolute."""
    package = list(path.with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from sim import golden` names a package: give it in full.
            yield from (f"{module}.{alias.name}" for alias in node.names)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def violations(source: str, path: Path) -> list[str]:
    """Imports in `source`, which stands at `path` in the repository, that its part forbids."""
    part, ours, others = next(
        rule for rule in RULES if path == Path(rule[0]) or Path(rule[0]) in path.parents
    )
    found = []
    for name in imports(source, path):
        top = name.split(".")[0]
        if top in OURS:
            allowed = any(within(name, package) for package in ours)
        else:
            allowed = others is None or top in others or top in sys.stdlib_module_names
        if not allowed:
            found.append(f"{path} ({part}): {name}")
    return found


def sources() -> list[Path]:
    return [
        path.relative_to(ROOT)
        for folder in sorted(OURS)
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]


def test_imports_point_one_way():
    found = [v for path in sources() for v in violations((ROOT / path).read_text("utf-8"), path)]
    assert not found, "\n".join(found)


def test_the_parts_are_there():
    """Guards the test above against looking in the wrong place."""
    tops = {path.parts[0] for path in sources()}
    assert {"hdl", "sim", "tests", "scripts"} <= tops
    assert Path("hdl/config.py") in sources()


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("sim/golden/reducer.py", "import hdl"),
        ("sim/golden/reducer.py", "from hdl.config import SwitchConfig"),
        ("sim/golden/reducer.py", "from ..engines import base"),
        ("sim/golden/reducer.py", "from sim import engines"),
        ("sim/golden/reducer.py", "import rich"),
        ("sim/golden/reducer.py", "def f():\n    from sim.engines import base"),
        ("sim/allreduce.py", "from fpga import boards"),
        ("sim/allreduce.py", "import tests.sim"),
        ("hdl/switch.py", "import sim.golden"),
        ("hdl/switch.py", "import numpy"),
        ("hdl/switch.py", "from fpga import boards"),
        ("hdl/transport/link.py", "from ...sim import golden"),
        ("hdl/build.py", "import sim"),
        ("fpga/boards.py", "import sim"),
        ("fpga/prototype.py", "from sim import engines"),
        ("cocotb_tests/tb_link.py", "from sim import engines"),
        ("cocotb_tests/tb_link.py", "import tests"),
        ("mutation/unit.py", "import tests.lib"),
        ("regress/run.py", "import scripts"),
        ("scripts/draw_waves.py", "import tests"),
    ],
)
def test_a_forbidden_import_is_found(path, source):
    assert violations(source, Path(path))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("sim/golden/reducer.py", "from . import formats\nfrom .align import align"),
        ("sim/golden/reducer.py", "import numpy as np\nimport ml_dtypes\nimport fractions"),
        ("sim/golden/reducer.py", "from sim.golden.align import align"),
        ("sim/allreduce.py", "import hdl.system\nfrom sim import golden\nimport rich"),
        ("hdl/transport/link.py", "from ..config import SwitchConfig\nimport amaranth.lib.wiring"),
        ("hdl/build.py", "from fpga import boards\nfrom .config import SwitchConfig"),
        ("fpga/boards.py", "import hdl.config\nimport amaranth_boards"),
        ("fpga/host/client.py", "import sim.testbed\nfrom .frames import encode"),
        ("fpga/twin.py", "from sim import engines\nimport hdl.config"),
        ("cocotb_tests/tb_link.py", "from sim import golden\nimport cocotb\nimport hdl.config"),
        ("tests/test_x.py", "import fpga.boards\nfrom tests.sim import engine_top"),
    ],
)
def test_an_allowed_import_is_not(path, source):
    assert violations(source, Path(path)) == []


def test_sim_itself_is_empty():
    """So that importing `sim.golden` brings in nothing else."""
    assert (ROOT / "sim" / "__init__.py").read_text() == ""
