"""From a top to a loaded library: RTLIL by Amaranth, C++ by Yosys, machine code by the compiler.

Each step's result is kept in a cache folder under the hash of all that it was made from, so a
second run with the same hardware neither calls Yosys nor the compiler.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

from amaranth._toolchain.yosys import _BuiltinYosys
from amaranth.back import rtlil
from amaranth.hdl import Fragment
from amaranth.hdl._ir import PortDirection

from . import runtime
from .advance import add_advance
from .base import STORAGE_PORTS, EngineError, Harness, collector_paused
from .split import split

__all__ = ["build_library", "cache_folder", "find_compiler", "require_compiler"]

#: Compilers looked for where the environment names none.
COMPILERS = ("g++", "c++", "clang++")
#: See docs/engines.md for what was measured.
FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-semantic-interposition",
    "-shared",
    "-w",
)
#: The environment's flags that follow ours, so they win: ``-O1`` where building counts more than
#: running, as in short tests.
MORE_FLAGS = "TIDEGATE_CXXFLAGS"
#: Yosys passes before the C++ is written.
PASSES = ()

#: A line that is a comment.
COMMENT = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)
SHIM = Path(__file__).with_name("shim.cc")
#: The repository's own folder for what can be made again.
DEFAULT_CACHE = Path(__file__).resolve().parents[2] / "build" / "cache"


def cache_folder(cache_dir: str | os.PathLike | None = None) -> Path:
    """`cache_dir`, else the environment's TIDEGATE_CACHE, else ``build/cache`` of the project."""
    folder = Path(cache_dir or os.environ.get("TIDEGATE_CACHE") or DEFAULT_CACHE)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def find_compiler() -> str | None:
    """Path of the C++ compiler: the environment's CXX alone if set, else the first found."""
    named = os.environ.get("CXX")
    for name in [named] if named else COMPILERS:
        if path := shutil.which(name):
            return path
    return None


def require_compiler() -> str:
    if compiler := find_compiler():
        return compiler
    wanted = os.environ.get("CXX") or ", ".join(COMPILERS)
    raise EngineError(
        f"engine: cxxrtl needs a C++ compiler, and none was found (tried {wanted}); "
        "install g++ or use pysim"
    )


@functools.cache
def _compiler_version(compiler: str) -> str:
    run = subprocess.run([compiler, "--version"], check=False, capture_output=True, text=True)
    return run.stdout


def _more_flags() -> list[str]:
    text = os.environ.get(MORE_FLAGS, "")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise EngineError(f"engine: {MORE_FLAGS}: {error} in {text!r}") from None


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:".encode())
        digest.update(part.encode())
    return digest.hexdigest()[:32]


def _keep(path: Path, write: Callable[[Path], None]) -> Path:
    """`path`, made by `write` unless it is there; whole or not at all, whoever else makes it."""
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="new-") as folder:
            made = Path(folder) / path.name
            write(made)
            os.replace(made, path)
    return path


@contextmanager
def _zero_memories_left_out():
    """Let Amaranth write no initial contents for memories that start as zeros.

    It writes every initial bit on its own (12 s a MiB), and Yosys and the compiler carry each word
    on (34 s a MiB); a CXXRTL memory without contents starts as zeros anyway.
    """
    emit = rtlil.ModuleEmitter.emit_memory

    def emit_unless_zero(emitter, index, cell):
        if any(cell.init):
            emit(emitter, index, cell)

    rtlil.ModuleEmitter.emit_memory = emit_unless_zero
    try:
        yield
    finally:
        rtlil.ModuleEmitter.emit_memory = emit


def _rtlil(harness: Harness) -> str:
    ports = {"clk": (harness.clk, PortDirection.Input)}
    for port in harness.ports.values():
        direction = PortDirection.Input if port.is_input else PortDirection.Output
        ports[port.name] = (port.signal, direction)
    fragment = Fragment.get(harness, None)
    with _zero_memories_left_out():
        text, _names = rtlil.convert_fragment(fragment, ports, "top", emit_src=False)
    return text


def _script(waves: bool) -> str:
    return "\n".join([*PASSES, f"write_cxxrtl -O6 -g{4 if waves else 0}"])


def _cxx(text: str, script: str) -> str:
    # The one warning, of feedback wires, is what `is_single_pass` finds in the text.
    commands = f"read_rtlil <<rtlil\n{text}\nrtlil\n{script}\n"
    return _BuiltinYosys.run(["-q", "-"], commands, ignore_warnings=True)


def _without_comments(model: str) -> str:
    """The model without the attributes that Yosys writes as comments.

    So a code that gets a name more, anywhere, makes no other library of the same hardware.
    """
    return COMMENT.sub("", model)


def _member(name: str) -> str:
    """The member of the C++ model that a port became."""
    return "p_" + name.replace("_", "__")


def is_single_pass(model: str) -> bool:
    """Whether no combinational wires feed back, so that one evaluation is enough."""
    return "bool converged = true;" in model


def _table(harness: Harness, model: str) -> str:
    """The C++ that names the model's ports and memories to the shim."""
    index = {name: i for i, name in enumerate(harness.ports)}
    ports = " ".join(f"ports.push_back(port_of(top.{_member(name)}));" for name in harness.ports)
    memories = []
    for memory in harness.memories.values():
        members = [f"ports[{index[memory.ports[name].name]}]" for name in STORAGE_PORTS]
        fields = [*members, str(memory.word_bytes), str(memory.total_bytes), "nullptr"]
        memories.append(f"memories.push_back(Memory{{{', '.join(fields)}}});")
    return (
        f"#define TIDEGATE_PORTS {ports}\n"
        f"#define TIDEGATE_MEMORIES {' '.join(memories)}\n"
        f"#define TIDEGATE_SINGLE_PASS {str(is_single_pass(model)).lower()}\n"
        f"#define TIDEGATE_ADVANCE {int('void advance()' in model)}\n"
    )


def _compile(compiler: str, flags: list[str], table: str, model: str, output: Path):
    model_file, table_file = output.with_suffix(".cc"), output.with_suffix(".h")
    model_file.write_text(model)
    table_file.write_text(table)
    command = [
        compiler,
        *flags,
        f'-DTIDEGATE_MODEL="{model_file}"',
        f'-DTIDEGATE_TABLE="{table_file}"',
        str(SHIM),
        "-o",
        str(output),
    ]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if run.returncode:
        errors = [line for line in run.stderr.splitlines() if "error" in line]
        first = errors[0] if errors else "no message"
        raise EngineError(f"engine: {compiler} failed with {run.returncode}: {first}")


def _yosys_include() -> Path:
    return Path(str(_BuiltinYosys.data_dir())) / "include" / "backends" / "cxxrtl" / "runtime"


def build_library(
    harness: Harness,
    *,
    waves: bool,
    phases: Callable[[str], None],
    cache_dir: str | os.PathLike | None,
) -> Path:
    """The shared library of `harness`, from the cache or made now.

    Raises
    ------
    EngineError
        There is no C++ compiler, or it failed.
    """
    compiler = require_compiler()
    cache = cache_folder(cache_dir)
    yosys_version = ".".join(map(str, _BuiltinYosys.version()))
    with collector_paused():
        text = _rtlil(harness)
    script = _script(waves)
    cxx = _keep(
        cache / f"{_digest(text, script, yosys_version)}.cxx",
        lambda path: path.write_text(_cxx(text, script)),
    )
    model = _without_comments(split(add_advance(cxx.read_text())))
    table = _table(harness, model)
    in_words = not waves and runtime.serves(model)
    include = runtime.INCLUDE if in_words else _yosys_include()
    flags = [*FLAGS, *(["-DTIDEGATE_WAVES"] if waves else []), f"-I{include}", *_more_flags()]
    key = _digest(
        model,
        table,
        SHIM.read_text(),
        runtime.HEADER.read_text() if in_words else "",
        _compiler_version(compiler),
        shlex.join(flags),
        yosys_version,
    )
    library = cache / f"{key}.so"
    if not library.exists():
        phases("compile")
        _keep(library, lambda path: _compile(compiler, flags, table, model, path))
    return library
